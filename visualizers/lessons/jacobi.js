// @ts-check
// Lesson 3: a recorded picture that a model drafts for itself, with coupled and with independent drafts.

import { choices, clamp, colour, context, find, make, percent, sized, slider } from "./core.js";

/** @typedef {import("./core.js").Lesson} Lesson */
/**
 * A run: a string for each pass, with a letter for each piece. d drafted first, c drawn again, k kept, a accepted,
 * r replaced, b bonus, s sampled, - final before, . open.
 * @typedef {{ passes: string[], frames: string[], average: [number, number] | null }} Run
 * @typedef {"on" | "off"} Coupling
 */

const FINAL = "arbs";
const PENDING = "dck";

/** @param {Lesson} lesson */
export function jacobi({ root, figure, data, done, say }) {
  /** @type {Record<Coupling, Run>} */
  const runs = data.runs;
  const side = /** @type {number} */ (data.side);
  const longest = Math.max(...Object.values(runs).map(({ passes }) => passes.length));
  /** @type {{ coupling: Coupling, pass: number }} */
  const state = { coupling: "on", pass: 12 };
  const ended = new Set();
  const pictures = new Map(Object.values(runs).map((run) => [run, run.frames.map((src) => Object.assign(new Image(), { src, onload: () => redraw() }))]));
  const picture = /** @type {HTMLCanvasElement} */ (make("canvas", { role: "img" }));
  const strip = /** @type {HTMLCanvasElement} */ (make("canvas", { role: "img" }));
  const [left, right] = [make("div", { class: "drawing" }, picture), make("div", { class: "drawing strip" }, strip)];
  const headline = make("p", { class: "headline" });
  const scrub = slider({ label: "Pass", min: 1, max: longest, step: 1, value: state.pass, change: (pass) => turn({ pass }) });
  figure.append(
    make("div", { class: "row" }, make("span", { class: "small" }, "Coupling"), choices("Coupling", [["on", "on"], ["off", "off"]], state.coupling, (coupling) => turn({ coupling: /** @type {Coupling} */ (coupling) })).node),
    headline,
    make("div", { class: "pair" }, left, right),
    scrub.node,
  );
  find(root, ".saved").textContent = savedBy(runs);

  /** @param {Partial<typeof state>} change */
  function turn(change) {
    Object.assign(state, change);
    const last = runs[state.coupling].passes.length;
    state.pass = clamp(state.pass, 1, last);
    if (state.pass === last) ended.add(state.coupling);
    redraw();
    say(headline.textContent ?? "");
    if (ended.size === 2) done();
  }

  const redraw = sized(right, (width, height) => {
    const run = runs[state.coupling];
    const other = runs[state.coupling === "on" ? "off" : "on"];
    const counts = countOf(run, state.pass);
    const words = `Pass ${state.pass} of ${run.passes.length}: ${counts.final} of ${side * side} pieces are final, ${counts.share === null ? "no guess is left" : `${percent(counts.share)} of the guesses were drawn again`}.`;
    headline.textContent = words;
    scrub.put(state.pass);
    paintStrip(strip, run, other, state.pass, longest, width, height);
    const box = left.getBoundingClientRect();
    paintPicture(picture, pictures.get(run)?.[state.pass - 1], run.passes[state.pass - 1], side, box.width, box.height);
    strip.setAttribute("aria-label", `Churn of all passes; the other run took ${other.passes.length}. ${words}`);
    picture.setAttribute("aria-label", `The picture after pass ${state.pass}.`);
  });

  /** @param {PointerEvent} event */
  const point = (event) => {
    const box = strip.getBoundingClientRect();
    turn({ pass: 1 + Math.floor(((event.clientX - box.left) / box.width) * longest) });
  };
  strip.addEventListener("pointermove", point);
  strip.addEventListener("pointerdown", point);
  return { redraw };
}

/** @param {Record<Coupling, Run>} runs */
function savedBy({ on, off }) {
  const [with_, without] = [on.passes.length, off.passes.length];
  const here = `${with_} passes with coupling, ${without} without, where ordinary decoding takes ${on.passes[0].length}.`;
  if (!on.average || !off.average) return here;
  const [one, two] = [on.average, off.average].map(([mean, error]) => `${mean.toFixed(1)} ± ${error.toFixed(1)}`);
  return `${here} On average over several pictures: ${one} and ${two}.`;
}

/** @param {Run} run @param {number} pass */
function countOf({ passes }, pass) {
  const row = [...passes[pass - 1]];
  const [again, unchanged] = ["c", "k"].map((fate) => row.filter((each) => each === fate).length);
  const final = row.filter((fate) => fate === "-" || FINAL.includes(fate)).length;
  return { final, share: again + unchanged ? again / (again + unchanged) : null };
}

/**
 * Passes across, pieces down.
 * @param {HTMLCanvasElement} canvas @param {Run} run @param {Run} other @param {number} pass @param {number} longest
 * @param {number} width @param {number} height
 */
function paintStrip(canvas, run, other, pass, longest, width, height) {
  const pen = context(canvas, width, height);
  const [low, pieces] = [height - 20, run.passes[0].length];
  const [wide, tall] = [width / longest, low / pieces];
  /** @type {Record<string, string>} */
  const tones = { d: colour("q-soft"), c: colour("q"), k: colour("q-pale"), a: colour("p"), r: colour("p"), b: colour("p"), s: colour("p"), "-": colour("line") };
  run.passes.forEach((row, index) => {
    pen.globalAlpha = index < pass ? 1 : 0.22;
    [...row].forEach((fate, piece) => {
      if (!tones[fate]) return;
      pen.fillStyle = tones[fate];
      pen.fillRect(index * wide, piece * tall, wide - 1, Math.max(1, tall - 0.4));
    });
  });
  pen.globalAlpha = 1;
  pen.strokeStyle = colour("soft");
  pen.lineWidth = 1.5;
  pen.setLineDash([5, 4]);
  pen.beginPath();
  other.passes.forEach((row, index) => {
    const front = [...row].filter((fate) => fate === "-" || FINAL.includes(fate)).length;
    pen.lineTo((index + 1) * wide, front * tall);
  });
  pen.stroke();
  pen.setLineDash([]);
  const longer = other.passes.length > run.passes.length;
  pen.fillStyle = colour("soft");
  pen.font = "12px system-ui, sans-serif";
  pen.textAlign = longer ? "right" : "left";
  pen.fillText(`the other run: ${other.passes.length} passes`, longer ? width - 2 : 4, longer ? 14 : low - 8);
  pen.strokeStyle = colour("ink");
  pen.lineWidth = 2;
  pen.strokeRect((pass - 1) * wide, 1, wide - 1, low - 2);
  pen.fillStyle = colour("soft");
  pen.font = "12px system-ui, sans-serif";
  for (let number = 1; number <= longest; number = number === 1 ? 10 : number + 10) {
    pen.textAlign = number === 1 ? "left" : "center";
    pen.fillText(number === 1 ? "pass 1" : String(number), number === 1 ? 0 : Math.min((number - 0.5) * wide, width - 8), height - 4);
  }
}

/**
 * The picture of a pass, its guesses tinted, what became final framed.
 * @param {HTMLCanvasElement} canvas @param {HTMLImageElement | undefined} image @param {string} row @param {number} side
 * @param {number} width @param {number} height
 */
function paintPicture(canvas, image, row, side, width, height) {
  const pen = context(canvas, width, height);
  const size = Math.min(width, height);
  const [x, y, cell] = [(width - size) / 2, (height - size) / 2, size / side];
  pen.imageSmoothingQuality = "high";
  if (image?.complete) pen.drawImage(image, x, y, size, size);
  [...row].forEach((fate, piece) => {
    const [left, top] = [x + (piece % side) * cell, y + Math.floor(piece / side) * cell];
    if (PENDING.includes(fate)) {
      pen.globalAlpha = fate === "k" ? 0.3 : 0.62;
      pen.fillStyle = colour(fate === "k" ? "q-pale" : "q");
      pen.fillRect(left, top, cell - 0.5, cell - 0.5);
    } else if (FINAL.includes(fate)) {
      pen.globalAlpha = 1;
      pen.strokeStyle = colour("p");
      pen.lineWidth = 2.5;
      pen.strokeRect(left + 1, top + 1, cell - 2, cell - 2);
    }
    pen.globalAlpha = 1;
  });
}
