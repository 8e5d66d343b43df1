// @ts-check
// What a trace says, in a shape that can be drawn sixty times a second. No DOM here.

import { computedMilliseconds } from "./hardware.js";
import { MAX_JOINED, displayWords, isPlain, wordAfter } from "./words.js";

export const NOTHING = 255;
/** @param {number} from @param {number} to @param {number} share */
export const mixed = (from, to, share) => from + (to - from) * share;
/** @param {string[]} labels */
const fromOne = (labels) => labels.map((label) => label.replace(/\d+$/, (number) => String(Number(number) + 1))); // a mask's, as all that is shown
/** Names of tokens that end a text. */
const END_SIGN = /^<(\/s|\|?(end|eos|eot|im_end)[^<>\s]*)>$/i;
/** Latent frames of a video in one row at most; more are wrapped into rows of about one length. A high stage has room for more rows. */
export const FRAMES_ACROSS = { high: 3, low: 4 };

/** Return why `trace` cannot be shown, or null. What else may be wrong with it the reader in Python finds. @param {any} trace */
export function problemOf(trace) {
  if (trace?.schema !== "draftscope-trace") return "This is not a Draftscope trace: its `schema` is not “draftscope-trace”.";
  if (String(trace.version).split(".")[0] !== "1") {
    return `This trace has version ${trace.version}; this page reads version 1. Record it again, or use a newer page.`;
  }
  return null;
}

/**
 * Return `address` if it is a picture inside the trace itself, else null: a trace never makes the page fetch anything.
 * @param {string | null | undefined} address @returns {string | null}
 */
export function safePicture(address) {
  return address && /^data:image\/(png|webp)[;,]/.test(address) ? address : null;
}

/** Cells of the positions: latent frames of a video side by side below their names, text in rows. */
class Grid {
  framesAcross = 1;
  columns = 1;
  rows = 1;
  /** Rows above a latent frame, for its name. */
  head = 0;
  /** @type {Map<number, number>} Positions by their cell in the drawing, counted row by row. */
  positionAt = new Map();

  /** @param {CanvasShape} canvas */
  constructor(canvas) {
    const { shape } = canvas;
    this.kind = canvas.kind;
    this.positions = shape.reduce((product, extent) => product * extent, 1);
    this.frames = shape.length === 3 ? shape[0] : 1;
    this.cellColumns = shape[shape.length - 1];
    this.cellRows = shape.at(-2) ?? 1;
    this.cellOf = canvas.order ?? null;
    /** @type {Int32Array | null} */
    this.positionOf = this.cellOf && new Int32Array(this.positions);
    for (const [position, cell] of this.cellOf?.entries() ?? []) if (this.positionOf) this.positionOf[cell] = position;
    this.arrange(FRAMES_ACROSS.low);
  }

  /** Lay the latent frames of a video out in rows of at most `framesAcross`. @param {number} framesAcross */
  arrange(framesAcross) {
    this.framesAcross = Math.ceil(this.frames / Math.ceil(this.frames / framesAcross));
    this.columns = this.framesAcross * (this.cellColumns + 1) - 1;
    this.head = this.frames > 1 ? Math.ceil(this.columns / 20) : 0;
    this.rows = Math.ceil(this.frames / this.framesAcross) * (this.cellRows + this.head);
    this.positionAt.clear();
    for (let position = 0; position < this.positions; position += 1) {
      const { x, y } = this.cell(position);
      this.positionAt.set(y * this.columns + x, position);
    }
  }

  /** Frame, row and column of a position, all counted from 0; what is shown counts from 1. @param {number} position */
  where(position) {
    const cell = this.cellOf ? this.cellOf[position] : position;
    const perFrame = this.cellColumns * this.cellRows;
    const within = cell % perFrame;
    return {
      frame: Math.floor(cell / perFrame),
      row: Math.floor(within / this.cellColumns),
      column: within % this.cellColumns,
    };
  }

  /** Column and row of a position in the drawing, in cells. @param {number} position */
  cell(position) {
    const { frame, row, column } = this.where(position);
    const { x, y } = this.corner(frame);
    return { x: x + column, y: y + row };
  }

  /** Column and row in the drawing where a latent frame starts, in cells; its name is drawn above. @param {number} frame */
  corner(frame) {
    return {
      x: (frame % this.framesAcross) * (this.cellColumns + 1),
      y: Math.floor(frame / this.framesAcross) * (this.cellRows + this.head) + this.head,
    };
  }

  /** First position of every latent frame but the first; none where latent frames are not decoded one by one. */
  get frameEnds() {
    if (this.frames === 1) return [];
    const size = this.cellColumns * this.cellRows;
    const ends = Array.from({ length: this.frames - 1 }, (_, index) => size * (index + 1));
    const isContiguous = (/** @type {number} */ _end, /** @type {number} */ index) => Array.from({ length: size }, (_, at) => this.where(size * index + at).frame).every((frame, _, all) => frame === all[0]);
    return [...ends, this.positions].every(isContiguous) ? ends : [];
  }

  /** The position drawn at column x and row y, or null between frames and outside. @param {number} x @param {number} y @returns {number | null} */
  at(x, y) {
    if (x < 0 || x >= this.columns) return null;
    return this.positionAt.get(Math.floor(y) * this.columns + Math.floor(x)) ?? null;
  }
}

/** The canvas after some number of steps. */
export class State {
  /** @param {number} positions */
  constructor(positions) {
    this.steps = 0;
    this.finals = 0;
    this.token = new Int32Array(positions).fill(-1);
    this.fate = new Uint8Array(positions).fill(NOTHING);
    this.finalAt = new Int32Array(positions).fill(-1);
    this.lastAt = new Int32Array(positions).fill(-1);
    this.level = new Uint8Array(positions);
  }
}

/**
 * A trace with the present names of settings, of which older traces have others.
 * @template {TraceMeta} T @param {T} trace @param {RenamedSettings} renamed @returns {T}
 */
function withCurrentNames(trace, { methods, names }) {
  if (!methods.includes(trace.method)) return trace;
  const current = (/** @type {string} */ name) => (Object.hasOwn(names, name) ? names[name] : name);
  const config = Object.fromEntries(Object.entries(trace.config ?? {}).map(([name, value]) => [current(name), value]));
  const formula = (/** @type {string} */ text) => text.replace(/\bset (\w+)(?=\})/g, (_, name) => `set ${current(name)}`);
  const rules = Array.isArray(trace.rules) ? trace.rules.map((rule) => (typeof rule?.formula === "string" ? { ...rule, formula: formula(rule.formula) } : rule)) : trace.rules;
  return { ...trace, config, rules };
}

/** A trace under replay: steps arrive one by one or all at once, and `seek` gives the canvas after any of them. */
export class Replay {
  /** @type {any[]} */
  steps;
  /** End of every pass, by clock. @type {Record<string, number[]>} */
  ends;
  /** @type {number[]} */
  finalsBefore;
  /** @type {State} */
  latest;
  /** @type {State} */
  state;
  /** @type {number} */
  drafts;
  /** @type {{ step: number, entry: any }[][]} */
  history;
  /** @type {Set<string>} */
  measures;
  /** @type {Set<number>} */
  fatesSeen;
  /** @type {number} */
  widest;
  /** @type {boolean} */
  hasGraphs;
  /** @type {MaskRuns[]} */
  masks;

  /** @param {TraceMeta} meta @param {PlayerData} data */
  constructor(meta, { fates, renamedSettings }) {
    this.renamedSettings = renamedSettings;
    this.meta = withCurrentNames(meta, renamedSettings);
    this.grid = new Grid(meta.canvas);
    this.positions = this.grid.positions;
    this.vocabulary = meta.legend?.vocabulary ?? null;
    this.complete = false;
    this.revision = 0;
    /** @type {Machine | null} */
    this.machine = null;
    this.fates = fates;
    this.codeOf = new Map(fates.map((fate, code) => [fate.name, code]));
    this.restart();
  }

  restart() {
    this.revision += 1;
    this.steps = [];
    this.ends = { passes: [0], milliseconds: [0], computed: [0] };
    this.finalsBefore = [];
    this.latest = new State(this.positions);
    this.drafts = 0;
    this.history = Array.from({ length: this.positions }, () => []);
    this.measures = new Set();
    this.fatesSeen = new Set();
    this.widest = 0;
    this.hasGraphs = false;
    this.masks = [];
    this.state = new State(this.positions);
  }

  get length() {
    return this.steps.length;
  }

  /** Take the whole trace, which heals whatever was lost on the way. @param {TraceFile} trace */
  replace(trace) {
    this.meta = withCurrentNames(trace, this.renamedSettings);
    this.vocabulary = trace.legend?.vocabulary ?? null;
    this.restart();
    for (const step of trace.steps) this.append(step);
    const part = drafterPart(this.steps);
    this.steps.forEach(({ drafting }, index) => (this.ends.passes[index + 1] = this.ends.passes[index] + (drafting ? part : 1)));
    this.complete = true;
  }

  /**
   * Take step number `sequence` of a running decoder; they come in order, and a repeated one is ignored.
   * @param {number} sequence @param {TraceStep} step
   */
  push(sequence, step) {
    if (sequence !== this.length) return false;
    if (step.words) this.vocabulary = { ...this.vocabulary, ...step.words };
    this.append(step);
    return true;
  }

  /** @param {TraceStep} source */
  append(source) {
    const step = this.read(source);
    const index = this.steps.push(step) - 1;
    this.ends.passes.push(index + 1);
    this.ends.milliseconds.push(this.ends.milliseconds[index] + step.milliseconds);
    this.finalsBefore.push(this.latest.finals);
    this.apply(this.latest, step);
    this.drafts += Number(step.drafting);
    if (this.machine) this.compute(step, index, this.machine);
    this.widest = Math.max(this.widest, step.position.length);
    for (const entry of step.deciding) this.history[step.position[entry]].push({ step: index, entry });
    for (const code of step.fate) this.fatesSeen.add(code);
    for (const name of Object.keys(step.numbers)) this.measures.add(name);
    if (step.mask) this.keepMask(step.mask);
    this.hasGraphs ||= (step.graph?.length ?? 0) > 1;
  }

  /** Put the ends of all passes, of those to come too, on the clock of other hardware. @param {Machine} machine */
  useMachine(machine) {
    this.machine = machine;
    this.ends.computed = [0];
    this.steps.forEach((step, index) => this.compute(step, index, machine));
    this.revision += 1;
  }

  /** @param {Step} step @param {number} index @param {Machine} machine */
  compute(step, index, machine) {
    this.ends.computed.push(this.ends.computed[index] + computedMilliseconds(step, this.finalsBefore[index], machine, this));
  }

  /** Whether tokens are vectors. */
  get continuous() {
    return this.steps.some(({ token }) => token.some(Array.isArray));
  }

  /** Whether classifier-free guidance doubles the rows. */
  get guided() {
    return ![1, null, undefined].includes(this.meta.config?.guidance);
  }

  /** Keep one mask of every size, for views that must find room for all of them. @param {MaskRuns} mask */
  keepMask(mask) {
    const size = (/** @type {MaskRuns} */ mask) => `${mask.queries.length} ${mask.keys.length}`;
    if (!this.masks.some((one) => size(one) === size(mask))) this.masks.push(mask);
  }

  /** Turn a step of the trace into columns ready to draw. @param {TraceStep} source @returns {Step} */
  read(source) {
    const { mask, ...fields } = { call: {}, position: [], token: [], fate: [], numbers: {}, signals: {}, ...source };
    const columns = {
      ...fields,
      drafting: fields.call.role === "draft",
      milliseconds: Object.values(fields.call.milliseconds ?? {}).reduce((sum, value) => sum + value, 0),
      fate: fields.fate.map((name) => this.codeOf.get(name) ?? NOTHING),
      acceptProb: fields.accept_prob ?? null,
      mask: mask?.runs.some(([unseen, seen]) => unseen || seen !== mask.keys.length) ? { ...mask, queries: fromOne(mask.queries), keys: fromOne(mask.keys) } : null, // else all is seen
      likely: fields.likely?.map((tokens) => tokens?.map(([token, p, q]) => ({ token, p, q })) ?? null),
      graph: fields.graph?.map((node) => ({ ...node, acceptedUnder: node.vouched_by ?? [] })),
    };
    const judgedEntries = [...columns.fate.keys()].filter((entry) => this.fates[columns.fate[entry]]?.judged);
    return {
      ...columns,
      deciding: this.decidingEntries(columns),
      meanAgreement: meanOf(agreementOf(columns)),
      meanAcceptProb: meanOf(columns.acceptProb),
      accepted: columns.fate.filter((code) => this.fates[code]?.name === "accepted").length,
      judgedEntries,
      judged: judgedEntries.length,
      evaluated: columns.fate.filter((code) => this.fates[code]?.evaluated).length,
    };
  }

  /**
   * The entries that give the value of their position. Where several rows of a call contain one position, a final token
   * outweighs a draft and a draft an open position; among equals the last counts, as in traces.replay.
   * @param {Pick<Step, "position" | "fate">} step
   */
  decidingEntries({ position, fate }) {
    const entries = [...position.keys()].filter((entry) => fate[entry] in this.fates);
    if (new Set(position).size === position.length) return entries;
    const best = new Map();
    for (const entry of entries) {
      const rival = best.get(position[entry]);
      const weight = (/** @type {number} */ each) => weightOf(this.fates[fate[each]]);
      if (rival === undefined || weight(entry) >= weight(rival)) best.set(position[entry], entry);
    }
    return [...best.values()];
  }

  /** The canvas after `count` steps. The result is shared: read it before the next call. @param {number} count */
  seek(count) {
    const wanted = Math.max(0, Math.min(this.length, count));
    if (this.state.steps > wanted) this.state = new State(this.positions);
    while (this.state.steps < wanted) this.apply(this.state, this.steps[this.state.steps]);
    return this.state;
  }

  /** @param {State} state @param {Step} step */
  apply(state, step) {
    const index = state.steps;
    for (const entry of step.deciding) {
      const position = step.position[entry];
      const fate = this.fates[step.fate[entry]];
      const token = step.token[entry];
      state.finals += Number(fate.final) - Number(state.finalAt[position] >= 0);
      state.finalAt[position] = fate.final ? index : -1;
      state.fate[position] = step.fate[entry];
      state.lastAt[position] = index;
      state.level[position] = step.numbers.level?.[entry] ?? 0;
      state.token[position] = weightOf(fate) === 0 || token === undefined ? -1 : typeof token === "number" ? token : 0;
    }
    state.steps += 1;
  }

  /** How many of the first `count` steps were passes of the target. @param {number} count */
  targetPasses(count) {
    return this.drafts ? this.steps.slice(0, count).filter(({ drafting }) => !drafting).length : count;
  }

  /** Which pass a step is: of the target or of the drafter, where there is one. @param {number} index */
  passName(index) {
    const { drafting } = this.steps[index];
    const [until, all] = [this.targetPasses(index + 1), this.targetPasses(this.length)];
    if (!this.drafts) return `pass ${until} of ${all}`;
    return drafting ? `drafter's pass ${index + 1 - until} of ${this.length - all}` : `target pass ${until} of ${all}`;
  }

  /** The number of steps that have ended at time `now` of the clock. @param {string} clock @param {number} now */
  stepsAt(clock, now) {
    return countWhile(this.ends[clock], (end) => end <= now + 1e-6) - 1;
  }

  /** The fraction of the next pass that has been played by then; after the last pass, the excess time. @param {string} clock @param {number} now */
  partAt(clock, now) {
    const [ends, done] = [this.ends[clock], this.stepsAt(clock, now)];
    return (now - ends[done]) / ((ends[done + 1] ?? ends[done] + 1) - ends[done]);
  }

  /** The time on the clock of passes after `passes` passes, with a fraction of the next. @param {number} passes */
  readingAt(passes) {
    const [ends, done] = [this.ends.passes, Math.min(Math.floor(passes), this.length)];
    return mixed(ends[done], ends[done + 1] ?? ends[done] + 1, passes - done);
  }

  /** @param {string} clock */
  extent(clock) {
    return this.ends[clock][this.length];
  }

  /** The last thing that happened at `position` within the first `count` steps, or null. @param {number} position @param {number} count */
  entryAt(position, count) {
    const history = this.history[position] ?? [];
    return history[countWhile(history, ({ step }) => step < count) - 1] ?? null;
  }

  /** @param {{ step: number, entry: number } | null} moment */
  fateOf(moment) {
    return moment ? this.fates[this.steps[moment.step].fate[moment.entry]] : undefined;
  }

  /** The text of a token by the legend, which may be a piece of a character. @param {Token} token */
  wordOf(token) {
    return this.vocabulary?.[Number(token)] ?? `#${token} `;
  }

  /** Text that each position shows, null where no token is known. @param {State} state */
  wordsIn(state) {
    return displayWords(Array.from(state.token, (token) => (token < 0 ? null : this.wordOf(token))));
  }

  /**
   * Text that a token shows at a position after `count` steps: the characters that it completes, or its bytes.
   * @param {Token} token @param {number} position @param {number} count @returns {string}
   */
  wordAt(token, position, count) {
    const text = this.wordOf(token);
    if (this.grid.kind !== "text" || isPlain(text)) return text;
    const before = [];
    for (let at = position - 1; at >= 0 && before.length < MAX_JOINED; at -= 1) {
      const entry = this.entryAt(at, count);
      const fate = this.fateOf(entry);
      const other = entry && fate && weightOf(fate) ? this.steps[entry.step].token[entry.entry] : undefined;
      if (typeof other !== "number") break;
      before.unshift(this.wordOf(other));
    }
    return wordAfter(before, text);
  }

  /** How many frames of the clip were given, before the first that is decoded. */
  get givenFrames() {
    return this.meta.output?.given ?? 0;
  }

  /** Frames of the clip for one latent frame; 0 where the clip is not shared out evenly. As `traces.video` has it. */
  get framesEach() {
    const each = ((this.meta.output?.video ?? []).length - this.givenFrames) / this.grid.frames;
    return this.grid.frames > 1 && Number.isInteger(each) ? each : 0;
  }

  /** @param {number} frame */
  frameName(frame) {
    const [each, start] = [this.framesEach, this.givenFrames];
    if (each === 0) return `latent frame ${frame + 1}`;
    return each === 1 ? `frame ${start + frame + 1}` : `frames ${start + each * frame + 1} to ${start + each * (frame + 1)}`;
  }

  /** @param {number} position */
  placeText(position) {
    if (this.grid.kind === "text") return `position ${position + 1}`;
    const { frame, row, column } = this.grid.where(position);
    return `${this.grid.frames > 1 ? `${this.frameName(frame)}, ` : ""}row ${row + 1}, column ${column + 1}`;
  }

  /** The position of the first final token that ends the text; what follows it is padding. Infinity without one. @param {State} state */
  endIn(state) {
    const end = this.grid.kind === "text" ? state.token.findIndex((token, position) => state.finalAt[position] >= 0 && END_SIGN.test(this.vocabulary?.[token] ?? "")) : -1;
    return end < 0 ? Infinity : end;
  }

  /** The final tokens as they are read, without the padding. @param {State} state */
  textIn(state) {
    const end = this.endIn(state);
    const texts = Array.from(state.token, (token, position) => (state.finalAt[position] >= 0 && position < end ? this.wordOf(token) : null));
    return displayWords(texts).join("");
  }

  /** How many tokens are final, without the padding. @param {State} state */
  tokensIn(state) {
    const end = this.endIn(state);
    return end === Infinity ? state.finals : state.finalAt.filter((step, position) => step >= 0 && position <= end).length;
  }

  /** Whether the run is complete and was not stopped. */
  get completed() {
    return this.complete && this.meta.summary?.complete !== false;
  }

  /**
   * A token in words: what it shows at the position of a moment, or its number.
   * @param {Token | null | undefined} token @param {{ position: number, index: number }} moment @returns {string}
   */
  tokenText(token, { position, index }) {
    if (token === null || token === undefined) return "none";
    if (Array.isArray(token)) return `(${token.slice(0, 3).map((value) => figure(value)).join(", ")}${token.length > 3 ? ", …" : ""})`;
    if (this.vocabulary?.[token] === undefined) return `#${token}`;
    return `“${this.wordAt(token, position, index + 1).replaceAll("\n", "↵")}”`;
  }
}

/**
 * How many of `items` fulfil a test that holds up to some of them and not beyond.
 * @template T @param {T[]} items @param {(item: T) => boolean} holds
 */
function countWhile(items, holds) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(items[middle])) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** How much a fate says about what a position holds: a final token, a draft, or that it is open. @param {FateStyle} fate */
export function weightOf(fate) {
  return fate.final ? 2 : fate.pending ? 1 : 0;
}

/** 1 - TV per entry, where the draft came from the model: an initial guess has no distribution to agree with. @param {Pick<Step, "numbers">} step */
function agreementOf(step) {
  const distance = step.numbers.tv;
  if (!distance) return null;
  return distance.map((value, entry) => (value === null || step.numbers.initial?.[entry] === 1 ? null : 1 - value));
}

/**
 * Length of a drafter's pass on the clock of passes: its mean time over that of the fastest target pass, which is about an ordinary one; 1 where none was timed.
 * @param {Step[]} steps
 */
function drafterPart(steps) {
  const [draft, target] = [true, false].map((drafter) => steps.filter(({ drafting }) => drafting === drafter).map(({ milliseconds }) => milliseconds));
  const part = (meanOf(draft) ?? 0) / Math.min(...target);
  return part > 0 && part < Infinity ? part : 1;
}

/** @param {Column | null} values */
function meanOf(values) {
  const known = /** @type {number[]} */ ((values ?? []).filter((value) => Number.isFinite(value)));
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

/** @param {string} text */
export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A number rounded to an integer, thousands set apart. @param {number} value */
export function formatInteger(value) {
  return Math.round(value).toLocaleString("en");
}

/**
 * A number for reading: three figures, or as many as it is given, thousands set apart, very small ones as powers of ten.
 * @param {number} value @param {number} digits
 */
export function figure(value, digits = 3) {
  if (Number.isInteger(value) || Math.abs(value) >= 1000) return formatInteger(value);
  if (Math.abs(value) < 1e-4) {
    const [mantissa, power] = value.toExponential(1).split("e-");
    return `${mantissa} × 10⁻${[...power].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]).join("")}`;
  }
  return String(Number(value.toPrecision(digits)));
}
