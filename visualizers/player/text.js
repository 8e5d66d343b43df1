// @ts-check
// Text so far, made for reading: the prompt, then one chip a token, wrapped where the words wrap.

import { View, make, setText } from "./paint.js";
import { NOTHING, weightOf } from "./replay.js";

/** Names of tokens that are signs to the machine, not words. */
export const SIGN = /^(<(?!0x)[^<>\s]{1,32}>|\[[A-Z]{1,16}\])$/;

const BREAK = "\u200b";
/**
 * How a token that this pass did not touch tells its fate: the usual ones by a quiet line, the others by their glyph.
 * @type {Record<string, string>}
 */
const LINES = { accepted: "solid", unmasked: "dashed", sampled: "none", prefilled: "none" };

/**
 * A token of the text: the gap before it, what it shows, what follows it, and the classes and colours that were set last.
 * @typedef {{ gap: HTMLElement, span: HTMLElement, tail: HTMLElement, look: string }} Chip
 */

/** The text as spans: instead of a canvas a view that is laid out by the browser. */
export class TextView extends View {
  supports = (/** @type {Replay} */ { grid }) => grid.kind === "text";

  constructor() {
    super("text", "Text so far", "", "slider", "div");
    Object.assign(this.canvas, { className: "ds-tokens", dir: "auto" });
    this.prompt = make("div", { class: "ds-prompt", dir: "auto", tabindex: "0", role: "group", "aria-label": "Prompt of this run" });
    this.canvas.before(this.prompt);
    /** @type {Chip[]} */
    this.chips = [];
  }

  /** @param {Replay} replay */
  fit(replay) {
    if (this.figure.hidden) return;
    const { prompt, canvas } = replay.meta;
    setText(this.prompt, prompt ?? "");
    this.prompt.hidden = !prompt;
    const marks = ["line = masked", "dots = still a draft", "colour = this pass", "frame = under verification", "struck = dropped", replay.measures.has("level") ? "small number = how deep the draft was" : null, (canvas.block ?? 1) > 1 ? "│ = next block" : null];
    setText(this.note, marks.filter(Boolean).join(" · "));
    if (this.chips.length === 0) this.build(canvas);
  }

  /** @param {CanvasShape} canvas */
  build({ shape, block: length, block_offset: offset }) {
    const block = length ?? 1;
    const shift = offset ?? 0;
    /** @type {HTMLElement[]} */
    const nodes = [];
    this.chips = Array.from({ length: shape[0] }, (_, position) => {
      const starts = block > 1 && position > 0 && (position + shift) % block === 0;
      if (starts) nodes.push(make("span", { class: "ds-border", title: `block ${Math.floor((position + shift) / block)} begins` }));
      const chip = { gap: make("span", {}), span: make("span", { "data-position": position }), tail: make("span", {}), look: "" };
      nodes.push(chip.gap, chip.span, chip.tail);
      return chip;
    });
    this.canvas.replaceChildren(...nodes);
  }

  /** @param {number} _x @param {number} _y @param {any} target */
  hit(_x, _y, target) {
    const position = target?.dataset?.position;
    return position === undefined ? null : { position: Number(position), step: null };
  }

  /** The position one line up or down, at about the same horizontal offset. @param {number} position @param {boolean} down */
  neighbour(position, down) {
    const from = this.chips[position].span.getBoundingClientRect();
    const middle = (from.left + from.right) / 2;
    /** @type {{ other: number, far: number[] } | null} */
    let best = null;
    for (const [other, { span }] of this.chips.entries()) {
      const box = span.getBoundingClientRect();
      const below = (box.top + box.bottom - from.top - from.bottom) / 2;
      if ((down ? below : -below) < from.height / 2) continue;
      const far = [Math.abs(below), Math.abs((box.left + box.right) / 2 - middle)];
      if (!best || far[0] < best.far[0] - 4 || (Math.abs(far[0] - best.far[0]) <= 4 && far[1] < best.far[1])) best = { other, far };
    }
    return best?.other ?? null;
  }

  /** @param {Scene} scene */
  draw(scene) {
    if (this.figure.hidden) return;
    const { state, replay } = scene;
    const moment = momentOf(scene);
    const over = replay.complete && scene.count === replay.length;
    const end = replay.endIn(state);
    const words = replay.wordsIn(state);
    this.chips.forEach((chip, position) => {
      const token = state.token[position];
      const final = state.finalAt[position] >= 0;
      const unknown = final ? "· " : null; // coarse traces have no ids
      const text = words[position] ?? unknown;
      const lost = token < 0 && moment.lost.has(position) ? replay.wordAt(moment.lost.get(position), position, scene.count) : null;
      const joined = token >= 0 && words[position]?.trim() === "" && replay.wordOf(token).trim() !== "";
      this.write(chip, text ?? lost, joined);
      this.dress(chip, scene, position, { text, lost, final, ended: position > end, over, framed: moment.framed });
    });
  }

  /**
   * Put the token's text into its chip. Spaces before a word come before the chip, so that lines may break there; after it
   * comes a line break, or a position where the line may break. A token that is `joined` with a later one has nothing to show.
   * @param {Chip} chip @param {string | null} text @param {boolean} joined
   */
  write({ gap, span, tail }, text, joined) {
    const [, spaces, word] = /** @type {RegExpExecArray} */ (/^( *)(.*)$/s.exec(text ?? "·"));
    setText(gap, word || joined ? spaces : "");
    setText(span, word ? word.replaceAll("\n", "↵") : joined ? "" : "␣".repeat(spaces.length));
    setText(tail, text === null ? BREAK : text.includes("\n") ? "\n" : "");
  }

  /**
   * Class and colours of a chip; nothing is touched when it looks as before.
   * @param {Chip} chip @param {Scene} scene @param {number} position
   * @param {{ text: string | null, lost: string | null, final: boolean, ended: boolean, over: boolean, framed: Set<number> }} shown
   */
  dress(chip, scene, position, { text, lost, final, ended, over, framed }) {
    const { state, theme } = scene;
    const code = state.fate[position];
    const now = state.lastAt[position] === scene.count - 1 && scene.count > 0;
    const names = ["ds-token", text === null ? "is-open" : final ? "is-final" : "is-draft"];
    if (over && text === null) names.push("is-unused");
    if (lost !== null) names.push("is-lost");
    if (SIGN.test(text ?? "")) names.push("is-sign");
    if (ended) names.push("is-behind");
    if (scene.position === position) names.push("is-cursor");
    if (framed.has(position)) names.push("is-framed");
    if (framed.has(position) && !framed.has(position - 1)) names.push("is-framed-first");
    if (framed.has(position) && !framed.has(position + 1)) names.push("is-framed-last");
    const colored = code !== NOTHING && !ended && (scene.overlay || now);
    // Next to the glyph alone: a small number after a bare token would read as a power.
    const depth = colored && final && state.level[position] > 0 ? state.level[position] : "";
    const look = `${names.join(" ")} ${code} ${colored} ${theme.dark} ${depth}`;
    if (chip.look === look) return;
    chip.look = look;
    const { span, gap } = chip;
    gap.className = framed.has(position) && framed.has(position - 1) ? "ds-gap is-framed" : "ds-gap";
    span.className = names.join(" ");
    const fate = ended ? undefined : theme.fates[code];
    span.dataset.glyph = (fate && (colored || (final && !(fate.name in LINES))) ? fate.glyph : "") + depth;
    theme.dress(span, colored ? code : NOTHING);
    span.style.setProperty("--ds-fate", theme.fills[code] ?? "transparent");
    span.style.setProperty("--ds-line-style", final && fate && !colored ? (LINES[fate.name] ?? "solid") : "none");
  }
}

/** Effect of this forward pass on the text: which drafts it dropped, and which run of positions it tested. @param {Scene} scene */
function momentOf({ step, replay }) {
  const lost = new Map();
  const framed = new Set();
  if (!step) return { lost, framed };
  const tested = step.fate.some((code) => replay.fates[code]?.judged);
  for (const entry of step.deciding) {
    const position = step.position[entry];
    const fate = replay.fates[step.fate[entry]];
    if (weightOf(fate) === 0) lost.set(position, step.draft?.[entry] ?? step.token[entry]);
    if (!tested && fate.pending) framed.add(position);
  }
  // Where rows disagree, a position may be tested in one and hold another draft in the row that was kept.
  if (tested) for (const [entry, code] of step.fate.entries()) if (replay.fates[code]?.judged) framed.add(step.position[entry]);
  // While drafting, the frame is the span that will be tested: the first run of open positions.
  const { span, verify } = step.signals;
  if (tested || !Number.isFinite(span)) return { lost, framed };
  return { lost, framed: new Set([...framed].sort((a, b) => a - b).slice(0, verify === 0 ? 0 : span)) };
}
