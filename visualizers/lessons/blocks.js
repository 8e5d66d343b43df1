// @ts-check
// Lesson 4: a recorded S2D2 run, pass by pass, and what a threshold of confidence would have kept instead.

import { choices, counted, find, make, percent, sized, slider } from "./core.js";

/** @typedef {import("./core.js").Lesson} Lesson */
/**
 * One position of a pass: its word, the fate, how sure the filling was, and p after reading from the left.
 * @typedef {{ at: number, word: string, fate: string, draft: string, sure: number | null, p: number | null }} Cell
 * @typedef {{ name: string, prompt: string, words: string[], passes: { fills: boolean, cells: Cell[] }[], filling: number, other: string }} Run
 */

const STARTS = 0.5;
/** The word of a token that ends the text. */
const ENDS = "end";

/** @param {Lesson} lesson */
export function blocks({ root, figure, data, done, say }) {
  /** @type {Run[]} */
  const runs = data.runs;
  /** @type {{ run: Run, pass: number, threshold: number | null }} */
  const state = { run: runs[0], pass: 1, threshold: null };
  const [prompt, headline] = [make("p", { class: "small prompt" }), make("p", { class: "headline" })];
  const text = make("div", { class: "cells" });
  const box = make("div", { class: "drawing centred", role: "region", "aria-label": "The text", tabindex: 0 }, text);
  const scrub = slider({ label: "Pass", min: 1, max: 1, step: 1, value: 1, change: (pass) => turn({ pass, threshold: null }) });
  const keep = slider({ label: "Threshold: keep a word if its confidence is at least", min: STARTS, max: 1, step: 0.005, value: STARTS, tone: "q", says: (share) => `${(100 * share).toFixed(1)} %`, change: (threshold) => turn({ threshold }) });
  figure.append(
    make("div", { class: "row" }, choices("Recorded run", runs.map(({ name }, index) => [index, name]), 0, open).node),
    prompt, headline, box,
    make("div", { class: "two" }, scrub.node, keep.node),
  );

  /** @param {number} index */
  function open(index) {
    const run = runs[index];
    Object.assign(state, { run, pass: 1 + run.filling, threshold: null });
    prompt.textContent = `“${run.prompt}”`;
    scrub.input.max = String(run.passes.length);
    scrub.put(state.pass);
    keep.put(STARTS);
    redraw();
  }

  /** @param {Partial<typeof state>} change */
  function turn(change) {
    Object.assign(state, change);
    redraw();
    say(headline.textContent ?? "");
  }

  const redraw = sized(box, () => {
    const { run, pass, threshold } = state;
    text.classList.toggle("is-long", run.words.length > 14);
    const view = threshold === null ? viewOf(run, pass) : heldBy(run, threshold);
    headline.replaceChildren(...view.says);
    text.replaceChildren(...view.cells.flatMap(cellOf));
    if (threshold === null) scrub.put(pass);
    if (view.slipped === 0) {
      find(root, ".held").textContent = conclusion(run);
      done();
    }
  });
  open(0);
  return { redraw };
}

/** @typedef {{ word: string, look: string, up: number | null, down: number | null, was: string, spoken: string }} Shown */

/**
 * The text after a pass, as words that are final, filled, checked or still holes.
 * @param {Run} run @param {number} pass
 */
function viewOf({ words, passes }, pass) {
  /** @type {Shown[]} */
  const cells = words.map(() => ({ word: "", look: "hole", up: null, down: null, was: "", spoken: "hole" }));
  passes.slice(0, pass).forEach(({ fills, cells: changed }, index) => {
    const now = index === pass - 1;
    for (const { at, word, fate, draft, sure, p } of changed) {
      if (at >= cells.length) continue;
      if (fate === "discarded") cells[at] = now ? { word: draft, look: "gone", up: null, down: p, was: "", spoken: `${draft}, dropped` } : { word: "", look: "hole", up: null, down: null, was: "", spoken: "hole" };
      else if (fills) cells[at] = { word, look: fate === "drafted" ? "draft" : "final", up: now ? sure : null, down: null, was: "", spoken: now && sure !== null ? `${word}, ${percent(sure)} sure` : word };
      else if (fate === "resampled") cells[at] = { word, look: now ? "fix" : "final", up: null, down: now ? p : null, was: now ? draft : "", spoken: now ? `${word} in place of ${draft}` : word };
      else cells[at] = { word, look: now ? "passed" : "final", up: null, down: now ? p : null, was: "", spoken: now && p !== null ? `${word}, ${percent(p)} from left to right` : word };
    }
  });
  const { fills, cells: changed } = passes[pass - 1];
  const passed = changed.filter(({ fate }) => fate === "accepted").length;
  const wrong = changed.find(({ fate }) => fate === "resampled");
  const says = fills
    ? [`Pass ${pass} of ${passes.length} fills ${counted(changed.filter(({ at }) => at < words.length).length, "hole")} at once.`]
    : [`Pass ${pass} of ${passes.length} checks from left to right: ${counted(passed, "word")} kept`, ...(wrong ? [", “", make("b", { class: "q" }, wrong.draft.trim()), "” replaced by “", make("b", { class: "p" }, wrong.word.trim()), "”."] : ["."])];
  return { cells, says, slipped: null, held: 0 };
}

/**
 * Cells of the filling with the most confident wrong word, and how many wrong words a threshold keeps and right ones it holds back.
 * @param {Run} run @param {number} threshold
 */
function heldBy({ words, passes, filling }, threshold) {
  const filled = new Map(passes[filling].cells.map((cell) => [cell.at, cell]));
  let [slipped, heldBack] = [0, 0];
  const before = viewOf({ name: "", prompt: "", other: "", words, passes, filling }, filling).cells;
  /** @type {Shown[]} */
  const cells = words.map((final, at) => {
    const cell = filled.get(at);
    if (!cell) return { ...before[at], look: before[at].look === "hole" ? "hole" : "final", up: null, down: null, was: "" };
    const [sure, right, passes] = [cell.sure ?? 0, cell.word === final, (cell.sure ?? 0) >= threshold];
    if (passes && !right) slipped += 1;
    if (!passes && right) heldBack += 1;
    const verdict = `${right ? "right" : "wrong"}, ${passes ? "kept" : "held back"}`;
    return { word: cell.word, look: passes ? (right ? "draft" : "draft slip") : "gone", up: sure, down: null, was: "", spoken: `${cell.word}, ${percent(sure)} sure, ${verdict}` };
  });
  const says = [make("b", { class: slipped ? "q" : "p" }, `${counted(slipped, "wrong word")} kept`), `, ${counted(heldBack, "right word")} held back.`];
  return { cells, says, slipped, held: heldBack };
}

/** The conclusion of the task. @param {Run} run */
function conclusion({ words, passes, filling, other }) {
  const wrong = passes[filling].cells.filter(({ at, word }) => at < words.length && word !== words[at]);
  const surest = Math.max(...wrong.map(({ sure }) => sure ?? 0));
  const wrote = other ? ` With a threshold of 50 % a recorded run wrote: “${other}”` : "";
  return `The model was ${percent(surest)} sure of a wrong word. Checking separated it from the right ones; confidence did not.${wrote}`;
}

/** @param {Shown} shown */
function cellOf({ word, look, up, down, was, spoken }) {
  const shown = word === ENDS ? "(end)" : word === "\n" ? "↵" : word.trim() || (look === "hole" ? "▢" : "␣");
  /** @param {string} name @param {number | null} share */
  const bar = (name, share) => {
    const node = make("i", { class: name, "data-part": name, "aria-hidden": "true", "data-share": share === null ? "" : String(Math.round(100 * share)) });
    node.style.setProperty("--share", String(share ?? 0));
    return node;
  };
  const node = make("div", { class: `cell is-${look.split(" ").join(" is-")}` }, bar("up", up), make("span", { "aria-hidden": "true" }, ...(was ? [make("s", { "data-part": "was" }, was.trim())] : []), shown), bar("down", down), make("span", { class: "sr" }, `${spoken}; `));
  return word === "\n" ? [node, make("div", { class: "break" })] : [node];
}
