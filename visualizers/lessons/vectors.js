// @ts-check
// Lesson 5: recorded drafts that are vectors; the ratios of their denoising steps add up to the verdict.

import { density, logWeights } from "./arithmetic.js";
import { choices, clamp, draw, find, make, percent, sized, slider } from "./core.js";

/** @typedef {import("./core.js").Lesson} Lesson */
/**
 * A verified draft: log p / q of each denoising step, the last step along the line between both means (q's is at 0),
 * and the uniform number that decided.
 * @typedef {{ at: number, ratios: number[], uniform: number, accepted: boolean, distance: number, p: number, q: number, draft: number }} Draft
 */

/** @param {Lesson} lesson */
export function vectors({ root, figure, data, done, say }) {
  /** @type {Draft[]} */
  const drafts = data.drafts;
  const steps = drafts[0].ratios.length;
  const state = { draft: drafts[0], step: 0 };
  const ended = new Set();
  const headline = make("p", { class: "headline" });
  const [bells, sums] = ["The last denoising step as two bell curves", "The sum of all steps"].map((label) => draw("svg", { role: "img", "aria-label": label }));
  const [above, below] = [make("div", { class: "drawing bells" }, bells), make("div", { class: "drawing sums" }, sums)];
  const scrub = slider({ label: "Denoising steps added up", min: 0, max: steps, step: 1, value: 0, tone: "p", says: (step) => `${step} of ${steps}`, change: (step) => turn({ step }) });
  const pick = slider({ label: "Draft", min: 1, max: drafts.length, step: 1, value: 1, tone: "q", says: (index) => `${index} of ${drafts.length}`, change: (index) => turn({ draft: drafts[index - 1], step: 0 }) });
  const examples = choices("Drafts", data.examples.map((/** @type {number} */ index, /** @type {number} */ order) => [index, `draft ${"ABC"[order]}`]), data.examples[0], (index) => {
    pick.put(index + 1);
    turn({ draft: drafts[index], step: 0 });
  });
  figure.append(make("div", { class: "row" }, examples.node), headline, above, below, make("div", { class: "two" }, pick.node, scrub.node));
  find(root, ".counts").textContent = `In this run ${drafts.filter(({ accepted }) => accepted).length} of ${drafts.length} verified drafts were accepted. No threshold decided, only w: the output follows the model’s own distribution.`;

  /** @param {Partial<typeof state>} change */
  function turn(change) {
    Object.assign(state, change);
    examples.put(drafts.indexOf(state.draft));
    if (state.step === steps) ended.add(state.draft.accepted);
    redraw();
    say(headline.textContent ?? "");
    if (ended.size === 2) done();
  }

  const redraw = sized(below, (width, height) => {
    const { draft, step } = state;
    const words = inSentence(draft, step);
    headline.textContent = words;
    scrub.put(step);
    sums.innerHTML = paintSums(draft, step, width, height);
    const box = above.getBoundingClientRect();
    bells.innerHTML = paintBells(draft, box.width, box.height);
    sums.setAttribute("aria-label", `log w after ${step} of ${steps} steps. ${words}`);
    const ratio = density(draft.draft, draft.distance, draft.p) / density(draft.draft, 0, draft.q);
    bells.setAttribute("aria-label", `Last denoising step along the line between the means: they are ${(draft.distance / draft.p).toFixed(2)} widths apart, and p over q of the draft is ${ratio.toFixed(2)} on it.`);
  });
  turn({ draft: drafts[data.examples[0]], step: 0 });
  pick.put(data.examples[0] + 1);
  return { redraw };
}

/** @param {Draft} draft @param {number} step */
function inSentence({ ratios, uniform, accepted }, step) {
  const weight = Math.exp(logWeights(ratios)[step]);
  if (step === 0) return "Nothing is added up yet: w = 1. Move “Denoising steps added up”.";
  if (step < ratios.length) return `After ${step} of ${ratios.length} steps w = ${weight.toFixed(2)}.`;
  return `w = ${weight.toFixed(3)}, and the uniform number is ${uniform.toFixed(3)}, ${accepted ? "below: accepted" : "not below: rejected"}.`;
}

/** The last step: both bells, what they share, and the draft. @param {Draft} draft @param {number} width @param {number} height */
function paintBells({ distance, p, q, draft }, width, height) {
  const base = height - 22;
  const widest = Math.max(p, q);
  const [low, high] = [Math.min(-3.2 * widest, draft - widest), Math.max(distance + 3.2 * widest, draft + widest)];
  const x = (/** @type {number} */ at) => ((at - low) / (high - low)) * width;
  const top = Math.max(density(0, 0, p), density(0, 0, q));
  const y = (/** @type {number} */ tall) => base - (tall / top) * (base - 22);
  const points = Array.from({ length: 121 }, (_, index) => low + (index / 120) * (high - low));
  const path = (/** @type {(at: number) => number} */ tall) => points.map((at, index) => `${index ? "L" : "M"}${x(at).toFixed(1)} ${y(tall(at)).toFixed(1)}`).join("");
  const [ofP, ofQ] = [(/** @type {number} */ at) => density(at, distance, p), (/** @type {number} */ at) => density(at, 0, q)];
  const shared = path((at) => Math.min(ofP(at), ofQ(at)));
  const at = x(draft);
  const [tallP, tallQ] = [y(ofP(draft)), y(ofQ(draft))];
  let markup = `<path class="shared" data-part="shared" d="${shared}L${x(high)} ${base}L${x(low)} ${base}Z"/><path class="axis" d="M0 ${base}H${width}"/>`;
  markup += `<path class="bell-q" data-part="q" d="${path(ofQ)}"/><path class="bell-p" data-part="p" d="${path(ofP)}"/>`;
  markup += `<path class="tick" d="M${at} ${base}V${Math.min(tallP, tallQ)}"/><circle class="dot-q" data-part="q" cx="${at}" cy="${tallQ}" r="5"/><circle class="dot-p" data-part="p" cx="${at}" cy="${tallP}" r="5"/>`;
  markup += `<text x="${clamp(at, 20, width - 20)}" y="${base + 16}" text-anchor="middle">draft</text>`;
  markup += `<text class="head" x="0" y="14">${width > 480 ? "The last step, along the line between the means" : "The last step"}</text>`;
  markup += `<text class="is-q strong" x="${x(-1.25 * q) - 8}" y="${y(ofQ(-1.25 * q)) - 4}" text-anchor="end">q</text><text class="is-p strong" x="${x(distance + 1.25 * p) + 8}" y="${y(ofP(distance + 1.25 * p)) - 4}">p</text>`;
  return markup;
}

/** Bars of every step, and their sum. @param {Draft} draft @param {number} step @param {number} width @param {number} height */
function paintSums({ ratios, uniform, accepted }, step, width, height) {
  const weights = logWeights(ratios);
  const level = Math.log(uniform);
  const [left, right, top, bottom] = [44, width - 8, 30, height - 24];
  const lowest = Math.min(level, ...weights, ...ratios) * 1.12 - 0.05;
  const highest = Math.max(0.15, ...ratios) * 1.1;
  const y = (/** @type {number} */ value) => top + ((highest - value) / (highest - lowest)) * (bottom - top);
  const slot = (right - left) / ratios.length;
  let markup = `<text class="head" x="0" y="14">log p / q of each step, and their sum</text><path class="axis" d="M${left} ${y(0)}H${right}"/><text class="soft" x="${left - 8}" y="${y(0) + 4}" text-anchor="end">w = 1</text>`;
  for (const mark of [0.5, 0.25, 0.1, 0.03]) if (Math.log(mark) > lowest && Math.abs(y(Math.log(mark)) - y(level)) > 9) markup += `<text class="soft" x="${left - 8}" y="${y(Math.log(mark)) + 4}" text-anchor="end">${mark}</text>`;
  markup += `<path class="level" data-part="level" d="M${left} ${y(level)}H${right}"/><text class="strong" x="${left + 4}" y="${y(level) + (y(level) > bottom - 18 ? -6 : 15)}">uniform number ${uniform.toFixed(2)}</text>`;
  ratios.forEach((ratio, index) => {
    const known = index < step;
    markup += `<rect data-part="${ratio < 0 ? "down" : "up"}" class="${ratio < 0 ? "fill-q" : "fill-p"}" opacity="${known ? 1 : 0.16}" x="${left + index * slot + 2}" y="${Math.min(y(0), y(ratio))}" width="${slot - 4}" height="${Math.max(1.5, Math.abs(y(ratio) - y(0)))}" rx="1.5"/>`;
  });
  const line = weights.slice(0, step + 1).map((weight, index) => `${index ? "L" : "M"}${left + index * slot} ${y(weight)}`).join("");
  const end = weights[step];
  markup += `<path class="sum" data-part="sum" d="${line}"/><circle class="end" cx="${left + step * slot}" cy="${y(end)}" r="5.5"/>`;
  if (step === ratios.length) markup += `<text class="strong ${accepted ? "is-p" : "is-q"}" x="${right - 10}" y="${y(end) + (accepted ? -12 : 22)}" text-anchor="end">${accepted ? "✓ accepted" : "✗ rejected"} at w = ${percent(Math.exp(end))}</text>`;
  for (const number of [1, 5, 10, 15, 20]) if (number <= ratios.length) markup += `<text class="soft" x="${left + (number - 0.5) * slot}" y="${height - 4}" text-anchor="middle">${number === 1 ? "step 1" : number}</text>`;
  return markup;
}
