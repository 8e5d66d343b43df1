// @ts-check
// A verdict in the method's own formula, filled with this token's numbers. Formulas are data of the trace: names in braces,
// written out and never computed. traces/explanations.py documents their syntax.

import { figure } from "./replay.js";

/** Fate -> what a formula writes for it. @type {Record<string, string>} */
const VERDICTS = {
  accepted: "accepted", resampled: "rejected", rejected: "rejected", kept: "stays a draft", changed: "drafted again", drafted: "a draft so far",
  discarded: "dropped", unmasked: "revealed", fallback: "revealed", edited: "replaced",
};
const TOKENS = ["draft", "token", "best"];
const SETTING = "set ";
/** Name in a formula -> column of a step. @type {Record<string, "p" | "q" | "acceptProb" | "coin">} */
const COLUMNS = { p: "p", q: "q", accept_prob: "acceptProb", coin: "coin" };
const MAX_DIGITS = 9;
const SETTLED = ["accepted", "resampled", "rejected"];
/** For traces without a rule: the usual decision where the recorded numbers follow it, and what holds for every uniform draw. */
const USUAL = {
  fates: SETTLED,
  formula: "min(1, {p} / {q}) = {accept_prob}; uniform draw {coin} {coin ? accept_prob} {accept_prob}: {fate}",
  says: "A draft is accepted with probability min(1, p / q): the more q exceeds p, the less often.",
};
const ANY = { fates: SETTLED, formula: "accepted with probability {accept_prob}; uniform draw {coin} {coin ? accept_prob} {accept_prob}: {fate}" };
const SAME_PROBABILITY = 1e-3;

/** One entry of one step, the subject of a rule. `coin` and `verdict` may replace what happened. */
export class Moment {
  /** @type {any} */
  replay;
  /** @type {number} */
  index;
  /** @type {number} */
  entry;
  /** @type {any} */
  step;
  /** @type {number | undefined} */
  coin;
  /** @type {string | undefined} */
  verdict;

  /** @param {Replay} replay @param {number} index @param {number} entry */
  constructor(replay, index, entry) {
    Object.assign(this, { replay, index, entry, step: replay.steps[index] });
    this.position = this.step.position[entry];
    this.fate = replay.fates[this.step.fate[entry]] ?? null;
    this.likely = this.step.likely?.[entry] ?? null;
    this.top = this.step.top?.[entry] ?? null;
  }

  /** A number of the entry, or undefined. @param {string} name @returns {number | undefined} */
  number(name) {
    if (name === "coin" && this.coin !== undefined) return this.coin;
    const named = Object.hasOwn(COLUMNS, name) ? this.step[COLUMNS[name]] : Object.hasOwn(this.step.numbers, name) ? this.step.numbers[name] : null;
    const value = name === "peak" ? (this.likely?.[0].p ?? this.top?.[0]?.[1]) : named?.[this.entry];
    return Number.isFinite(value) ? value : undefined;
  }

  /** The token that a word of a formula refers to, or undefined. @param {string} name @returns {Token | undefined} */
  token(name) {
    const { draft, token } = this.step;
    return { draft: draft?.[this.entry], token: token[this.entry], best: this.likely?.[0].token ?? this.top?.[0]?.[0] }[name] ?? undefined;
  }

  /** The value of a name in a formula; undefined where the trace does not give it. @param {string} name @returns {any} */
  value(name) {
    if (name === "fate") return this.verdict ?? VERDICTS[this.fate?.name] ?? this.fate?.name;
    if (name.startsWith(SETTING)) return this.replay.meta.config?.[name.slice(SETTING.length)];
    return TOKENS.includes(name) ? this.token(name) : this.number(name);
  }

  /** Whether another token was drawn to replace the draft; a changed draw draws none that was recorded. */
  get redrawn() {
    return this.fate?.name === "resampled" && this.verdict !== "accepted";
  }

  /** Whether a uniform draw decided here by min(1, p / q), so that it can be shown as a share of q. */
  get ratioDecided() {
    const [p, q] = [this.number("p"), this.number("q")];
    const acceptProb = this.number("accept_prob");
    if (!this.drawDecided || p === undefined || q === undefined || acceptProb === undefined) return false;
    return q > 0 && Math.abs(Math.min(1, p / q) - acceptProb) < SAME_PROBABILITY;
  }

  /** Whether a uniform draw decided here. */
  get drawDecided() {
    return this.number("coin") !== undefined && this.number("accept_prob") !== undefined && SETTLED.includes(this.fate?.name);
  }
}

/** A number to three decimals, with a minus sign where it is negative. @param {number} value */
export function signed(value) {
  return value.toFixed(3).replace("-", "−");
}

/**
 * The precision of each number, so that two that differ do not look the same next to a comparison sign.
 * @param {{ names: string[] }[]} blanks @param {Moment} moment
 */
function digitsOf(blanks, moment) {
  const digits = new Map();
  for (const { names } of blanks) {
    const [one, other] = names.map((name) => moment.value(name));
    if (names.length < 2 || TOKENS.includes(names[0]) || one === other) continue;
    let enough = 3;
    while (enough < MAX_DIGITS && figure(one, enough) === figure(other, enough)) enough += 1;
    for (const name of names) digits.set(name, Math.max(enough, digits.get(name) ?? 3));
  }
  return digits;
}

/**
 * A formula filled in, with the present name of the uniform draw in those of older traces, as pieces {text, name}; null where the entry lacks one of its names.
 * @param {Rule} rule @param {Moment} moment @returns {Piece[] | null}
 */
export function fill(rule, moment) {
  const texts = rule.formula.replace("coin {coin}", "uniform draw {coin}").split(/\{([^{}]*)\}/);
  const parts = texts.map((text, index) => (index % 2 ? { names: text.split("?").map((name) => name.trim()) } : { text }));
  const blanks = parts.filter((part) => part.names !== undefined);
  if (blanks.some(({ names }) => names.some((name) => moment.value(name) === undefined))) return null;
  const digits = digitsOf(blanks, moment);
  const write = (/** @type {string} */ name) => {
    const value = moment.value(name);
    if (TOKENS.includes(name)) return moment.replay.tokenText(value, moment);
    return typeof value === "number" ? figure(value, digits.get(name)).replace("-", "−") : String(value);
  };
  const sign = (/** @type {string[]} */ [one, other]) => {
    const [a, b] = [moment.value(one), moment.value(other)];
    if (TOKENS.includes(one)) return String(a) === String(b) ? "=" : "≠";
    return a < b ? "<" : "≥";
  };
  let before = "";
  return parts.map(({ text, names }) => {
    if (!names) return { text: (before = text) };
    if (names.length > 1) return { text: sign(names), name: "sign" };
    const written = write(names[0]);
    return { text: /[+−/] $/.test(before) && written.startsWith("−") ? `(${written})` : written, name: names[0] };
  });
}

/**
 * The rule that decides an entry with its formula filled in; null where none is known.
 * @param {Moment} moment @returns {(Rule & { pieces: Piece[] }) | null}
 */
export function ruleOf(moment) {
  const recorded = Array.isArray(moment.replay.meta.rules) ? moment.replay.meta.rules : [];
  for (const rule of [...recorded, ...(moment.ratioDecided ? [USUAL] : []), ANY]) {
    if (!Array.isArray(rule?.fates) || typeof rule.formula !== "string" || !rule.fates.includes(moment.fate?.name)) continue;
    const pieces = fill(rule, moment);
    if (pieces) return { ...rule, pieces };
  }
  return null;
}
