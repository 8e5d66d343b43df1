// @ts-check
// Lesson 2: acceptance, draft length and cost of drafts against what they save.

import { bestLength, breakEven, expectedTokens, random, speedUp } from "./arithmetic.js";
import { clamp, counted, draw, make, percent, sized, slider } from "./core.js";

/** @typedef {import("./core.js").Lesson} Lesson */
/** @typedef {{ alpha: number, gamma: number, cost: number }} Setting */

const LONGEST = 16;
const PASSES = 5;
/** Uniform numbers that all settings share, so that only the setting changes what is drawn. */
const UNIFORMS = Array.from({ length: PASSES }, (_, pass) => {
  const chance = random(31 + 7 * pass);
  return Array.from({ length: LONGEST }, chance);
});

/** @param {Lesson} lesson */
export function passes({ figure, data, done, say }) {
  /** @type {Setting} */
  const state = { alpha: 0.8, gamma: 4, cost: 0.15 };
  let touched = false;
  /** @param {Partial<Setting>} change */
  const change = (change) => {
    Object.assign(state, change);
    touched = true;
    redraw();
  };
  const length = slider({ label: "Length γ", min: 1, max: LONGEST, step: 1, value: state.gamma, tone: "q", change: (gamma) => change({ gamma }) });
  const headline = make("p", { class: "headline" });
  const svg = draw("svg", { role: "img", "aria-labelledby": "passes-headline" });
  headline.id = "passes-headline";
  const box = make("div", { class: "drawing" }, svg);
  figure.append(
    make(
      "div",
      { class: "three" },
      slider({ label: "Acceptance α", min: 0, max: 1, step: 0.01, value: state.alpha, tone: "p", says: percent, change: (alpha) => change({ alpha }) }).node,
      length.node,
      slider({ label: "Draft cost", min: 0, max: 0.5, step: 0.01, value: state.cost, tone: "q", says: percent, change: (cost) => change({ cost }) }).node,
    ),
    headline,
    box,
  );
  /** @type {{ top: number, left: number, right: number }} */
  let plot = { top: Infinity, left: 0, right: 1 };
  const redraw = sized(box, (width, height) => {
    const words = inWords(state);
    headline.textContent = words;
    svg.innerHTML = paintPasses(state, width, height) + paintCosts(state, width, height);
    const curve = paintCurve(state, data.measured, width, height);
    svg.innerHTML += curve.markup;
    plot = curve;
    if (touched) say(words);
    if (touched && speedUp(state.alpha, state.gamma, state.cost) < 1) done();
  });
  const drag = (/** @type {PointerEvent} */ event) => {
    const { left, top } = svg.getBoundingClientRect();
    if (!event.buttons || event.clientY - top < plot.top) return;
    const share = (event.clientX - left - plot.left) / (plot.right - plot.left);
    const gamma = clamp(Math.round(1 + share * (LONGEST - 1)), 1, LONGEST);
    length.put(gamma);
    change({ gamma });
  };
  svg.addEventListener("pointerdown", drag);
  svg.addEventListener("pointermove", drag);
  return { redraw };
}

/** The answer to the lesson's question at a setting. @param {Setting} setting */
function inWords({ alpha, gamma, cost }) {
  const speed = speedUp(alpha, gamma, cost);
  const best = bestLength(alpha, cost, LONGEST);
  const [fastest, needed] = [speedUp(alpha, best, cost), breakEven(gamma, cost)];
  const now = speed >= 1 ? `${speed.toFixed(2)} times as fast` : `Drafting loses: ${(1 / speed).toFixed(2)} times slower`;
  const even = needed === null ? "No acceptance would make this length pay" : `This length pays above ${percent(needed)} acceptance`;
  if (fastest <= 1.005) return `${now}. ${even}, and no other length pays.`;
  return best === gamma ? `${now}, the most that any length gives. ${even}.` : `${now}; γ = ${best} would give ${fastest.toFixed(2)}. ${even}.`;
}

/** Whether the drawing is wide, and the heights at which its second and third part begin, in pixels. @param {number} width @param {number} height */
function parts(width, height) {
  const wide = width > 560;
  return { wide, bars: height * (wide ? 0.36 : 0.34), curve: height * (wide ? 0.6 : 0.58) };
}

/** Passes as rows of drafts. @param {Setting} setting @param {number} width @param {number} height */
function paintPasses({ alpha, gamma }, width, height) {
  const { wide, bars } = parts(width, height);
  const size = Math.min((bars - 44) / PASSES - 4, (width - (wide ? 190 : 36)) / (LONGEST + 1) - 4, 36);
  let markup = `<text class="head" y="14">${PASSES} passes</text><text class="soft" x="${wide ? 84 : 66}" y="14">${wide ? "with the same random numbers at every setting" : ""}</text>`;
  UNIFORMS.forEach((row, pass) => {
    const y = 26 + pass * (size + 4);
    const failed = row.slice(0, gamma).findIndex((uniform) => uniform >= alpha);
    const accepted = failed < 0 ? gamma : failed;
    for (let index = 0; index <= gamma; index += 1) {
      const x = index * (size + 4);
      if (index === accepted) {
        markup += `<rect data-part="own" class="fill-p" x="${x}" y="${y}" width="${size}" height="${size}" rx="4"/>`;
        if (failed >= 0) markup += `<path class="cross" d="M${x + size * 0.3} ${y + size * 0.3}l${size * 0.4} ${size * 0.4}m0 ${-size * 0.4}l${-size * 0.4} ${size * 0.4}"/>`;
      } else if (index < accepted) {
        markup += `<rect data-part="kept" class="fill-q" x="${x}" y="${y}" width="${size}" height="${size}" rx="4"/>`;
      } else if (index < gamma) {
        markup += `<rect class="unused" x="${x + 0.75}" y="${y + 0.75}" width="${size - 1.5}" height="${size - 1.5}" rx="4"/>`;
      }
    }
    markup += `<text class="strong" x="${(gamma + 1) * (size + 4) + 6}" y="${y + size / 2 + 5}">${accepted + 1}</text>`;
  });
  const mean = expectedTokens(alpha, gamma).toFixed(2);
  const big = wide ? `<text class="big" x="${width}" y="64" text-anchor="end">${mean}</text>` : `<text class="strong" x="${width}" y="14" text-anchor="end">${mean} tokens a pass</text>`;
  return markup + big + (wide ? `<text class="soft" x="${width}" y="86" text-anchor="end">tokens a pass on average,</text><text class="soft" x="${width}" y="103" text-anchor="end">at most ${gamma + 1}</text>` : "");
}

/** Cost of the tokens of a pass, with drafts and without. @param {Setting} setting @param {number} width @param {number} height */
function paintCosts({ alpha, gamma, cost }, width, height) {
  const { wide, bars } = parts(width, height);
  const [mean, costs] = [expectedTokens(alpha, gamma), 1 + gamma * cost];
  const unit = (width - (wide ? 130 : 0)) / Math.max(costs, mean, 2);
  const tall = wide ? clamp(height * 0.04, 12, 24) : 12;
  const [first, second] = [bars + 22, bars + 22 + tall + 26];
  let markup = `<text y="${first - 6}"><tspan class="strong">With drafts:</tspan> one pass and ${counted(gamma, "draft")}</text>`;
  markup += `<g data-part="bars"><rect class="fill-p" y="${first}" width="${unit - 2}" height="${tall}" rx="3"/>`;
  for (let draft = 0; draft < gamma; draft += 1) markup += `<rect class="fill-q" x="${unit * (1 + draft * cost)}" y="${first}" width="${Math.max(1, unit * cost - 1.5)}" height="${tall}" rx="2"/>`;
  for (let pass = 0; pass < mean; pass += 1) markup += `<rect class="fill-p" x="${pass * unit}" y="${second}" width="${Math.max(1, unit * Math.min(1, mean - pass) - 2)}" height="${tall}" rx="3"/>`;
  const speed = speedUp(alpha, gamma, cost);
  const [x, y, tone] = speed >= 1 ? [unit * costs + 10, first, "is-p"] : [unit * mean + 10, second, "is-q"];
  const text = speed >= 1 ? `${speed.toFixed(2)}× faster` : `${(1 / speed).toFixed(2)}× slower`;
  return `${markup}</g><text y="${second - 6}"><tspan class="strong">Without:</tspan> ${mean.toFixed(2)} passes for the same tokens</text><text class="strong ${tone}" x="${Math.min(x, width - 92)}" y="${y + tall - 2}">${text}</text>`;
}

/**
 * The speed-up by draft length.
 * @param {Setting} setting @param {[number, number][]} measured @param {number} width @param {number} height
 */
function paintCurve({ alpha, gamma, cost }, measured, width, height) {
  const { wide, curve } = parts(width, height);
  const [top, bottom, left, right] = [curve + 30, height - 26, 34, width - 34];
  const best = bestLength(alpha, cost, LONGEST);
  const fastest = speedUp(alpha, best, cost);
  const maximum = Math.max(2, fastest * 1.08);
  const x = (/** @type {number} */ length) => left + ((length - 1) / (LONGEST - 1)) * (right - left);
  const y = (/** @type {number} */ speed) => bottom - (bottom - top) * (speed / maximum);
  const path = (/** @type {number} */ rate) => Array.from({ length: 4 * LONGEST - 3 }, (_, step) => 1 + step / 4)
    .map((length, step) => `${step ? "L" : "M"}${x(length).toFixed(1)} ${y(speedUp(rate, length, cost)).toFixed(1)}`).join("");
  let markup = `<clipPath id="plot"><rect x="0" y="${top - 8}" width="${width}" height="${bottom - top + 10}"/></clipPath>`;
  markup += `<g data-part="loss"><rect class="loss" x="${left}" y="${y(1)}" width="${right - left}" height="${bottom - y(1)}"/><path class="edge" d="M${left} ${y(1)}H${right}"/><text class="is-q" x="${right - 6}" y="${bottom - 7}" text-anchor="end">slower than without drafts</text></g>`;
  for (let speed = 1; speed < maximum; speed += Math.ceil(maximum / 5)) markup += `<text class="soft" x="${left - 8}" y="${y(speed) + 4}" text-anchor="end">${speed}×</text>`;
  for (const rate of [0.5, 0.7, 0.9]) {
    if (Math.abs(rate - alpha) < 0.05) continue;
    markup += `<path class="other" clip-path="url(#plot)" d="${path(rate)}"/>`;
    if (speedUp(rate, LONGEST, cost) < maximum) markup += `<text class="soft small" x="${right + 4}" y="${y(speedUp(rate, LONGEST, cost)) + 4}">α ${rate}</text>`;
  }
  markup += `<path class="curve" d="${path(alpha)}"/><g data-part="rings">`;
  for (const [length, speed] of measured) markup += `<circle class="ring" cx="${x(length)}" cy="${y(speed)}" r="4"/>`;
  const last = measured[measured.length - 1];
  if (wide && last) markup += `<text class="soft small" x="${x(last[0]) + 10}" y="${y(last[1]) + 4}">measured: SmolLM2, 40 prompts</text>`;
  markup += "</g>";
  for (const length of [1, 4, 8, 12, 16]) markup += `<text class="soft" x="${x(length)}" y="${bottom + 18}" text-anchor="middle">${length === 1 ? "γ = 1" : length}</text>`;
  const anchor = best < 3 ? "start" : best > 13 ? "end" : "middle";
  markup += `<path class="tick" d="M${x(best)} ${y(fastest) - 12}v-7"/><text class="strong" x="${x(best)}" y="${y(fastest) - 23}" text-anchor="${anchor}">best: γ = ${best}, ${fastest.toFixed(2)}×</text>`;
  markup += `<circle class="point" cx="${x(gamma)}" cy="${y(speedUp(alpha, gamma, cost))}" r="8"/>`;
  return { markup, top: curve, left, right };
}
