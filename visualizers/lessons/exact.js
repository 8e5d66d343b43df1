// @ts-check
// Lesson 1: five words, two models. Accepted drafts and replacements add up to p, whatever q is.

import { acceptance, expectedNoise, experiment, output, overlap, random, residual, total, totalVariation, verify } from "./arithmetic.js";
import { calm, choices, clamp, colour, context, draw, find, make, percent, set, sized } from "./core.js";

/** @typedef {import("./core.js").Lesson} Lesson */
/** @typedef {import("./arithmetic.js").Rule} Rule */

const DRAWS = 10_000;
const LEAST = 0.001;
/** @type {[Rule, string][]} */
const LOSSY = [["always", "accept always"], ["refill", "replace from p"], ["greedy", "greedy"]];
/** @type {Record<string, string>} */
const WHY = {
  always: "Nothing is checked: the drafter's words come out.",
  refill: "The replacement comes from p itself, which gives likely words a second chance.",
  greedy: "Only the model's likeliest word may stay or follow: the others are never said.",
};
/** How often the expected noise a measured distance may be and still count as chance. */
const CHANCE = 4;

/** @param {Lesson} lesson */
export function exact({ root, figure, data, done, say }) {
  /** @type {{ words: string[], p: number[], q: number[], rule: Rule, seed: number, draws: number, falling: boolean }} */
  const state = { words: [], p: [], q: [], rule: "always", seed: 0, draws: 0, falling: false };
  const svg = draw("svg", { role: "group", "aria-label": "Bars of drafter and model, what comes out, and 10,000 draws" });
  const balls = /** @type {HTMLCanvasElement} */ (make("canvas", { class: "over", "aria-hidden": "true" }));
  const box = make("div", { class: "drawing" }, svg, balls);
  const go = make("button", { type: "button", class: "go" }, "Draw 10,000");
  const prompts = choices("Recorded after", data.places.map((/** @type {any} */ prompt, /** @type {number} */ index) => [index, `… ${prompt.sentence.split(" ").slice(-2).join(" ")}`]), 0, take);
  const why = make("p", { class: "small why" }, WHY[state.rule]);
  const variants = choices("Lossy variant", LOSSY, state.rule, (rule) => {
    state.rule = rule;
    why.textContent = WHY[rule];
    redraw();
  });
  figure.append(
    make("div", { class: "row" }, make("span", { class: "small roomy" }, "Recorded after"), prompts.node),
    box,
    make("div", { class: "row" }, go, make("span", { class: "small" }, "beside a lossy rule:"), variants.node, why),
  );

  /** @param {number} index */
  function take(index) {
    const { sentence, words, p, q } = data.places[index];
    Object.assign(state, { words, p: [...p], q: [...q] });
    find(root, ".sentence").textContent = `${sentence} …`;
    handles.build();
    redraw();
  }

  /** Set one bar; the others of its side are scaled. @param {"p" | "q"} side @param {number} token @param {number} value */
  function pull(side, token, value) {
    const bars = state[side];
    const next = clamp(value, LEAST, 1 - LEAST * (bars.length - 1));
    const others = total(bars) - bars[token];
    state[side] = bars.map((bar, index) => (index === token ? next : others > 1e-9 ? (bar * (1 - next)) / others : (1 - next) / (bars.length - 1)));
    redraw();
  }

  const handles = bars(svg, state, pull);
  const layout = { width: 0, height: 0 };
  const redraw = sized(box, (width, height) => {
    Object.assign(layout, { width, height });
    if (state.words.length === 0) return;
    const where = placesOf(width, height, state);
    handles.update(where);
    const results = state.draws ? measured(state) : null;
    handles.paint(paintOutput(where, state) + paintDraws(where, state, results));
    if (results && !state.falling) {
      say(`${DRAWS.toLocaleString("en")} draws. Exact: off by ${percent(results.exact.off)}, chance alone ${percent(results.noise)}. ${nameOf(state.rule)}: off by ${percent(results.lossy.off)}.`);
    }
  });

  go.addEventListener("click", () => {
    if (state.falling) return;
    state.seed += 1; // other draws at every press, the same ones at every visit
    /** @param {number} share */
    const shown = (share) => {
      Object.assign(state, { draws: Math.max(1, Math.round(DRAWS * share ** 3)), falling: share < 1 });
      redraw();
      if (share === 1) done();
    };
    if (calm()) shown(1);
    else fall(balls, () => placesOf(layout.width, layout.height, state), state, shown);
  });
  take(0);
  return { redraw };
}

/** @param {Rule} rule */
const nameOf = (rule) => LOSSY.find(([each]) => each === rule)?.[1] ?? rule;

/**
 * Draw both rules with the same seed and measure how far they are from p.
 * @param {{ p: number[], q: number[], rule: Rule, seed: number, draws: number }} state
 */
function measured({ p, q, rule, seed, draws }) {
  const noise = expectedNoise(p, draws);
  const [exact, lossy] = /** @type {Rule[]} */ (["exact", rule]).map((each) => {
    const { kept: accepted, replaced } = experiment(each, p, q, draws, seed);
    const shares = accepted.map((count, token) => (count + replaced[token]) / draws);
    return { kept: accepted, replaced, shares, off: totalVariation(shares, p), expected: totalVariation(output(each, p, q), p) };
  });
  return { noise, exact, lossy };
}

/**
 * Positions of all parts, in pixels.
 * @param {number} width @param {number} height @param {{ words: string[], p: number[], q: number[] }} state
 */
function placesOf(width, height, { words, p, q }) {
  const wide = width > 560;
  const [left, labels, gap] = [wide ? 172 : 4, wide ? 28 : 20, wide ? 14 : 40];
  const column = (width - left - 4) / words.length;
  const [head, foot] = wide ? [16, 20] : [24, 4];
  const tall = (height - labels - 2 * gap - foot - head) / 3;
  const base = [tall + head, 2 * tall + labels + gap + head, 3 * tall + labels + 2 * gap + head];
  const maximum = Math.max(0.42, ...p, ...q) * 1.04;
  const rows = wide ? [tall - 10, tall - 14, tall - 16] : [tall - 14, tall - 2, tall - 12];
  return {
    width, height, wide, left, column, base, tall, labels,
    bar: Math.min(52, column * 0.3),
    /** @param {number} token */
    x: (token) => left + (token + 0.5) * column,
    /** @param {number} row @param {number} share */
    high: (row, share) => (share / maximum) * rows[row],
    /** @param {number} y */
    share: (y) => ((base[0] - y) / rows[0]) * maximum,
  };
}
/** @typedef {ReturnType<typeof placesOf>} Places */

/**
 * The bars of both opinions, which are sliders, and a group for all else.
 * @param {SVGElement} svg @param {{ words: string[], p: number[], q: number[] }} state
 * @param {(side: "p" | "q", token: number, value: number) => void} pull
 */
function bars(svg, state, pull) {
  const backdrop = draw("g", {});
  const group = draw("g", {});
  svg.append(draw("defs", {}, hatching("hatch", "q"), hatching("hatch-lossy", "ink")), backdrop, group);
  /** @type {{ side: "p" | "q", token: number, node: SVGElement, parts: SVGElement[] }[]} */
  let all = [];
  /** @type {Places | null} */
  let where = null;

  function build() {
    all = state.words.flatMap((word, token) => /** @type {("p" | "q")[]} */ (["q", "p"]).map((side) => {
      const parts = [draw("rect", { fill: "transparent" }), draw("rect", { rx: 3, class: `fill-${side}` }), draw("circle", { r: 6, class: `knob stroke-${side}` }), draw("text", { "text-anchor": "middle", class: "number" })];
      const node = draw("g", { class: "handle", "data-part": side, tabindex: 0, role: "slider", "aria-label": `${side === "q" ? "Drafter, q" : "Model, p"}: ${word}`, "aria-valuemin": 0, "aria-valuemax": 100, "aria-orientation": "vertical" }, ...parts);
      node.addEventListener("keydown", (event) => step(event, side, token));
      node.addEventListener("pointerdown", (event) => drag(event, side, token));
      return { side, token, node, parts };
    }));
    group.replaceChildren(...all.map(({ node }) => node));
  }

  /** @param {KeyboardEvent} event @param {"p" | "q"} side @param {number} token */
  function step(event, side, token) {
    const change = { ArrowUp: 0.01, ArrowRight: 0.01, ArrowDown: -0.01, ArrowLeft: -0.01, PageUp: 0.1, PageDown: -0.1, Home: -1, End: 1 }[event.key];
    if (change === undefined) return;
    event.preventDefault();
    pull(side, token, state[side][token] + change);
  }

  /** @param {PointerEvent} event @param {"p" | "q"} side @param {number} token */
  function drag(event, side, token) {
    const node = /** @type {SVGElement} */ (event.currentTarget);
    node.setPointerCapture(event.pointerId);
    node.focus({ preventScroll: true });
    event.preventDefault();
    const move = (/** @type {PointerEvent} */ { clientY }) => {
      if (where) pull(side, token, where.share(clientY - svg.getBoundingClientRect().top));
    };
    const up = () => { node.removeEventListener("pointermove", move); };
    node.addEventListener("pointermove", move);
    for (const end of ["pointerup", "pointercancel"]) node.addEventListener(end, up, { once: true });
  }

  /** @param {Places} next */
  function update(next) {
    where = next;
    for (const { side, token, node, parts: [reach, bar, knob, number] } of all) {
      const share = state[side][token];
      const x = next.x(token) + (side === "q" ? -next.bar - 1.5 : 1.5);
      const [high, base] = [next.high(0, share), next.base[0]];
      set(node, { "aria-valuenow": Math.round(100 * share), "aria-valuetext": percent(share) });
      set(reach, { x: x - 2, y: base - next.tall, width: next.bar + 4, height: next.tall + 8 });
      set(bar, { x, y: base - high, width: next.bar, height: Math.max(1, high) });
      set(knob, { cx: x + next.bar / 2, cy: base - high });
      set(number, { x: x + next.bar / 2, y: base - high - 10 });
      number.textContent = String(Math.round(100 * share));
    }
  }
  return { build, update, paint: (/** @type {string} */ markup) => { backdrop.innerHTML = markup; } };
}

/** @param {string} id @param {string} tone */
function hatching(id, tone) {
  return draw("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, draw("rect", { width: 2.4, height: 6, class: `fill-${tone}`, opacity: 0.55 }));
}

/** Text of a drawing, safe as markup. @param {string} text */
const escaped = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

/** @param {Places} where @param {number} row @param {string} head @param {[string, string][]} lines */
function heading({ wide, base, tall }, row, head, lines) {
  const top = base[row] - tall;
  if (!wide) {
    const text = lines.map(([line, tone]) => `<tspan class="${tone}" dx="6">${escaped(line)}</tspan>`);
    const [first, second] = lines.length > 2 ? ["", text.join("")] : [text.join(""), ""];
    return `<text x="0" y="${top - (second ? 18 : 4)}" class="head">${escaped(head)}${first}</text>` + (second && `<text x="-6" y="${top - 2}" class="head">${second}</text>`);
  }
  const text = lines.map(([line, tone], number) => `<text x="0" y="${top + 38 + 18 * number}" class="${tone}">${escaped(line)}</text>`).join("");
  return `<text x="0" y="${top + 18}" class="head">${escaped(head)}</text>${text}`;
}

/** @param {Places} where @param {number} row @param {number} x @param {number} width @param {number} share */
function line(where, row, x, width, share) {
  const y = where.base[row] - where.high(row, share);
  return `<path data-part="line" class="line" d="M${x - 6} ${y}h${width + 12}"/>`;
}

/** The words, and what comes out in theory. @param {Places} where @param {{ words: string[], p: number[], q: number[] }} state */
function paintOutput(where, { words, p, q }) {
  const [accepted, missing, alpha] = [overlap(p, q), residual(p, q), acceptance(p, q)];
  const { base, bar, high, x, wide } = where;
  const width = 2 * bar + 3;
  let markup = heading(where, 0, "Opinions", wide ? [["drag a bar, or use", "soft"], ["the arrow keys", "soft"]] : [["drag a bar", "soft"]]);
  markup += heading(where, 1, "What comes out", [[`${percent(alpha)} accepted`, "is-q"], [`${percent(1 - alpha)} drawn anew`, "is-p"]]);
  words.forEach((word, token) => {
    const [left, low] = [x(token) - width / 2, high(1, accepted[token])];
    const [lost, added] = [high(1, q[token] - accepted[token]), high(1, missing[token])];
    markup += `<text class="word" x="${x(token)}" y="${base[0] + (wide ? 24 : 18)}" text-anchor="middle">${escaped(/[^\W_]/u.test(word) ? word : `“${word}”`)}</text>`;
    markup += `<rect data-part="min" class="fill-q" x="${left}" y="${base[1] - low}" width="${width}" height="${low}"/>`;
    if (lost > 0.5) markup += `<rect data-part="lost" class="lost" fill="url(#hatch)" x="${left}" y="${base[1] - low - lost}" width="${width}" height="${lost}"/>`;
    if (added > 0.5) markup += `<rect data-part="rest" class="fill-p" x="${left}" y="${base[1] - low - added}" width="${width}" height="${added}"/>`;
    markup += line(where, 1, left, width, p[token]);
  });
  return `${markup}<path class="axis" d="M${where.left} ${base[1]}H${where.width}M${where.left} ${base[0]}H${where.width}"/>`;
}

/**
 * The outputs of 10,000 drafts by the exact rule and by a lossy one.
 * @param {Places} where @param {{ words: string[], p: number[], rule: Rule, draws: number }} state
 * @param {ReturnType<typeof measured> | null} results
 */
function paintDraws(where, { words, p, rule, draws }, results) {
  const { base, bar, high, x, wide } = where;
  let markup = `<path class="axis" d="M${where.left} ${base[2]}H${where.width}"/>`;
  if (!results) {
    markup += heading(where, 2, "10,000 draws", [["not drawn yet", "soft"]]);
  } else {
    const { exact, lossy, noise } = results;
    const close = exact.off < CHANCE * noise;
    const missed = lossy.off >= CHANCE * noise;
    const verdict = missed ? `${Math.round(lossy.off / noise)} times chance` : "here within chance";
    markup += heading(where, 2, `${draws.toLocaleString("en")} draws`, wide
      ? [[`exact: off by ${percent(exact.off)}`, "is-p strong"], [`${close ? "✓ " : ""}chance alone: ${percent(noise)}`, "soft"], [`${nameOf(rule)}:`, "strong"], [`off by ${percent(lossy.off)}`, "strong"], [`${missed ? "✗ " : ""}${verdict}`, "soft"]]
      : [[`exact ${percent(exact.off)} off${close ? " ✓" : ""}`, "is-p strong"], [`chance ${percent(noise)}`, "soft"], [`▨ lossy ${percent(lossy.off)} off`, "strong"]]);
  }
  words.forEach((_, token) => {
    const left = x(token) - bar - 1.5;
    if (results) {
      const { exact, lossy } = results;
      const [low, more] = [high(2, exact.kept[token] / draws), high(2, exact.replaced[token] / draws)];
      const other = high(2, lossy.shares[token]);
      markup += `<rect class="fill-q" x="${left}" y="${base[2] - low}" width="${bar}" height="${low}"/><rect class="fill-p" x="${left}" y="${base[2] - low - more}" width="${bar}" height="${more}"/>`;
      const foot = base[2] + 15;
      if (wide) markup += `<text class="foot" x="${left + bar / 2}" y="${foot}" text-anchor="middle">exact</text><text class="foot" x="${left + 1.5 * bar + 3}" y="${foot}" text-anchor="middle">lossy</text>`;
      markup += `<rect class="lossy" fill="url(#hatch-lossy)" x="${left + bar + 3}" y="${base[2] - other}" width="${bar}" height="${other}"/>`;
      const miss = lossy.shares[token] - p[token];
      if (Math.abs(miss) > 0.015) {
        const y = Math.min(base[2] - high(2, Math.max(p[token], lossy.shares[token])) - 5, base[2] - 12);
        markup += `<text class="miss" x="${left + 1.5 * bar + 3}" y="${y}" text-anchor="middle">${miss > 0 ? "+" : "−"}${Math.round(100 * Math.abs(miss))}</text>`;
      }
    }
    markup += line(where, 2, left, 2 * bar + 3, p[token]);
  });
  return markup;
}

const SECONDS = 2.4;
const BALLS = 150;

/**
 * Let drafts fall: straight down where they stay, over to their replacement where they do not.
 * @param {HTMLCanvasElement} canvas @param {() => Places} placed @param {{ p: number[], q: number[], seed: number }} state
 * @param {(share: number) => void} shown takes the share of the time that has passed
 */
function fall(canvas, placed, { p, q, seed }, shown) {
  const chance = random(seed);
  const balls = Array.from({ length: BALLS }, (_, number) => {
    const verdict = verify("exact", p, q, chance);
    return { ...verdict, starts: ((number / BALLS) ** 0.7) * (SECONDS - 0.9), high: chance(), aside: chance() - 0.5 };
  });
  const [orange, blue] = [colour("q"), colour("p")];
  /** @type {number | null} */
  let begun = null;
  /** @param {number} now */
  const frame = (now) => {
    begun ??= now;
    const time = (now - begun) / 1000;
    const where = placed();
    const pen = context(canvas, where.width, where.height);
    for (const ball of balls) {
      const at = (time - ball.starts) / 0.9;
      if (at < 0 || at > 1) continue;
      const [first, second, third] = [ease(at / 0.4), ease((at - 0.4) / 0.25), ease((at - 0.65) / 0.35)];
      const from = where.x(ball.draft) - where.bar / 2;
      const width = 2 * where.bar;
      const [judged, ends] = [where.x(ball.draft) + 0.8 * ball.aside * width, where.x(ball.token) - where.bar / 2 + 0.6 * ball.aside * where.bar];
      const x = from + (judged - from) * first + (ends - judged) * (ball.accepted ? third : second);
      const top = where.base[0] - where.high(0, q[ball.draft]) * ball.high;
      const gate = where.base[1] - where.high(1, Math.min(p[ball.draft], q[ball.draft])) * ball.high;
      const bounce = ball.accepted ? 0 : 24 * Math.sin(second * Math.PI);
      const y = top + (gate - top) * first - bounce + (where.base[2] - gate) * third;
      pen.fillStyle = ball.accepted || at < 0.42 ? orange : blue;
      pen.beginPath();
      pen.arc(x, y, 3.5, 0, 2 * Math.PI);
      pen.fill();
    }
    const share = clamp(time / SECONDS);
    if (share === 1) context(canvas, where.width, where.height);
    shown(share);
    if (share < 1) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}

/** @param {number} share */
function ease(share) {
  const within = clamp(share);
  return within < 0.5 ? 4 * within ** 3 : 1 - (2 - 2 * within) ** 3 / 2;
}
