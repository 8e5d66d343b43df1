// @ts-check
// What the stage shows of a run: the position of every word or patch, and how each looks at any time of any pass. All of it follows
// from the trace, the size of the stage and the time, so that a reading of the clock always gives the same picture.

import { MIN_OTHER_SHARE, bellsOf, pathInWords, ratioRows, residualOf } from "./bars.js";
import { counted } from "./race.js";
import { figure, mixed } from "./replay.js";
import { Moment, ruleOf } from "./rules.js";
import { SIGN } from "./text.js";
import { JOINER, MAX_JOINED, arrangement, directionOf, displayWords, isPlain } from "./words.js";
import { isInstructive } from "./worked.js";

/** Milliseconds: before a pass starts, a draft and the wait after the last, the bar over a pixel, over a cell, after the pass, the end card. */
const PASS_TIMES = { lead: 120, draft: 40, arrive: 300, pixel: 1.4, cell: 14, rest: 240, card: 700 };
/** A run of more passes is played faster. */
const USUAL_PASSES = 24;
/** The parts of a verdict, in order. */
const VERDICT_TIMES = { grow: 560, look: 620, drop: 680, judge: 720, fall: 440, residual: 800, roll: 600, land: 440, hold: 700 };
/** Parts of these that only a uniform draw has. */
const UNIFORM_DRAW_PARTS = ["drop", "residual", "roll"];
/** How long a verdict takes, of that: the first one is read, then the race goes on; signs to the machine are passed over. */
const VERDICT_PACE = { first: 0.58, later: 0.1, sign: 0.06 };
/** How long a pass takes once a verdict was read, of what it took before. */
const AFTER_READING = 0.45;
/** The branches of a draft graph: how long they grow, are tested, and the accepted one takes on its way into the text. */
const BRANCH_TIMES = { grow: 500, judge: 700, join: 800 };
/** Factor on the time of drafts before the first verdict was read. */
const SLOW_START = 1.2;
const TRANSLUCENT = 0.4;
export const SIGN_SIZE = 0.89;
/** A bold word's width over that of the same word in usual letters. */
const BOLD_WIDTH = 1.06;
const MAX_STAGED = 4;
/** Pixels of a token at least that is a piece of a character. */
const MIN_BOX = 3;
const [RISE, SETTLE, FALL] = [260, 200, 420];
const LEFT_TO_RIGHT = ["drafted", "accepted", "resampled", "discarded", "bonus", "sampled", "prefilled", "unmasked", "fallback"];

export const progress = (time, from, to) => Math.max(0, Math.min(1, (time - from) / (to - from)));
export const slowing = (share) => 1 - (1 - share) ** 3;
export const swinging = (share) => (share < 0.5 ? 4 * share ** 3 : 1 - (2 - 2 * share) ** 3 / 2);
const sameToken = (one, other) => String(one) === String(other);

/** A token by itself: without the spaces around it, which are all that some have. */
function shownWord(replay, token, position, index) {
  return replay.wordAt(token, position, index + 1).replaceAll("\n", "↵").trim() || "␣";
}

/** A word as it is written: a sign to the machine smaller, a line break as an arrow. */
function writtenWord(word) {
  const [, spaces, bare] = /** @type {RegExpExecArray} */ (/^(\s*)(.*)$/s.exec(word));
  const breaks = word.includes("\n");
  return { text: `${bare.trimEnd()}${breaks ? "↵" : ""}`, sign: SIGN.test(bare), spaces, breaks };
}

/** Whether the stage can show a run: one that has not started, or one that records which tokens it set where. */
export function isStaged({ steps }) {
  return (!steps.length || steps.some(({ position }) => position.length > 0)) && steps.every(({ position, token }) => token.length === position.length);
}

/** Whether a text grows from left to right, so that every word follows the one before it; otherwise positions are fixed. Drafts after its end may be anywhere. */
export function growsInRow({ grid, meta, steps, fates, codeOf }) {
  const follows = ({ position, fate }) => position.every((at, entry) => (at === position[0] + entry || fate[entry] === codeOf.get("discarded")) && LEFT_TO_RIGHT.includes(fates[fate[entry]]?.name));
  return grid.kind === "text" && !(meta.canvas.block > 1) && steps.every(follows);
}

export class Script {
  /** @type {any} */
  replay;
  /** @type {(text: string) => number} */
  ruler;
  /** @type {any} */
  size;
  /** @type {number} */
  end;
  /** @type {any[]} */
  words;
  /** @type {Map<number, any>} */
  currentWord;
  /** @type {any[]} */
  passes;
  /** @type {boolean} */
  read;
  /** @type {boolean} */
  breaks;
  /** @type {string[]} */
  following;

  /**
   * `ruler` gives the width of a text; `size` gives where lines start and end, at `left` and `right`, and how many `lines` fit.
   * `breaks` is whether the other text has its line breaks; a text whose positions are fixed decides for itself.
   */
  constructor(replay, ruler, size, breaks = true) {
    Object.assign(this, { replay, ruler, size, breaks, end: replay.endIn(replay.latest), words: [], currentWord: new Map(), passes: [], read: false });
    this.isText = replay.grid.kind === "text";
    this.pace = Math.min(1, USUAL_PASSES / replay.length);
    this.cursor = { x: size.left, line: 0 };
    this.slots = this.isText ? (growsInRow(replay) ? null : this.textSlots()) : this.cells();
    replay.steps.forEach((step, index) => this.add(step, index));
    if (this.isText && this.slots && replay.complete) this.close();
    if (this.isText) this.arrange();
    if (replay.complete && this.passes.length) this.passes.at(-1).length += PASS_TIMES.card;
  }

  // Slots.

  /** A slot for every cell of the grid, visible from the start. */
  cells() {
    const { left, line: side } = this.size;
    return Array.from({ length: this.replay.positions }, (_, position) => {
      const { x, y } = this.replay.grid.cell(position);
      return { x: left + x * side, line: y, width: side, startPass: -1 };
    });
  }

  /** A slot for every token of a text, as wide as the widest token shown there, visible once a pass contains its block. */
  textSlots() {
    const { steps, positions, meta: { canvas: { block = 1, block_offset: offset = 0 } } } = this.replay;
    const blockOf = (position) => Math.floor((position + (offset ?? 0)) / (block || 1));
    const [widest, startPasses, words] = [Array(positions).fill(null), new Map(), this.replay.wordsIn(this.replay.latest)];
    steps.forEach(({ position, token, draft }, index) => position.forEach((at, entry) => {
      if (!startPasses.has(blockOf(at))) startPasses.set(blockOf(at), index);
      const shown = [token[entry], draft?.[entry] ?? null].map((each) => (each === null ? null : this.replay.wordAt(each, at, index + 1)));
      for (const each of [words[at], ...shown]) if (each !== null && this.written(each).width >= (widest[at] === null ? 0 : this.written(widest[at]).width)) widest[at] = each;
    }));
    const layOut = (breaks) => {
      let cursor = this.cursor;
      return widest.map((word, position) => {
        const written = this.written(word);
        const slot = this.flow(written, cursor, breaks);
        if (startPasses.has(blockOf(position)) && position < this.end) cursor = slot.next;
        return { ...slot, width: written.width, side: directionOf(word ?? ""), startPass: startPasses.get(blockOf(position)) ?? Infinity };
      });
    };
    const slots = layOut(true);
    this.breaks = slots[Math.min(this.end, positions) - 1]?.line < this.size.lines;
    return this.breaks ? slots : layOut(false); // as much of the text at once as can be
  }

  /** Compute the slots that the words of a text with fixed positions move to once it is final: one after the other, as in any text. */
  close() {
    const { last, shown, widths } = this.finalWords();
    let cursor = { x: this.size.left, line: 0 };
    last.forEach((word, position) => {
      if (!word) return;
      const { x, line, next } = this.flow({ ...this.written(shown[position]), width: widths[position] }, cursor, this.breaks);
      word.closed = { x, line, width: widths[position], side: word.side };
      cursor = next;
    });
    this.closedTop = Math.max(0, cursor.line - this.size.lines + 1);
  }

  /** Whether every line of the text is in sight at any time, and ends where the text has it end. */
  get fits() {
    return this.breaks && this.passes.every(({ top }) => top === 0);
  }

  /** A word as it is written, with its width; an open position for null. */
  written(word) {
    if (word === null || !this.isText) return { text: "", sign: false, spaces: " ", breaks: false, width: word === null ? this.ruler("mm") : this.size.line };
    const written = writtenWord(word);
    return { ...written, width: this.ruler(written.text) * (written.sign ? SIGN_SIZE : 1) };
  }

  /**
   * A token as it is written after the words before it. The box of a token that shows nothing alone is as wide as a dot, that of
   * the last of a character has what is left of its width.
   */
  writtenAt(token, position) {
    if (!this.isText) return this.written("");
    const before = [];
    for (let at = position - 1; before.length < MAX_JOINED && this.currentWord.has(at); at -= 1) before.unshift(this.currentWord.get(at));
    const texts = [...before.map((word) => this.replay.wordOf(word.token)), this.replay.wordOf(token)];
    const shown = displayWords(texts);
    const written = this.written(shown.at(-1));
    const joined = joinedWith(texts, shown, shown.length - 1);
    if (joined === shown.length - 1) return written;
    const [first, last] = [before[joined], before.at(-1)];
    const used = first.line === last.line ? last.x + last.width - first.x : last.width;
    return { ...written, width: Math.max(MIN_BOX, written.width - used) };
  }

  /** The slot of a word after `before`; one that does not fit starts a line, and so does what follows a line break. */
  flow({ text, sign, spaces, width, breaks: ends }, before, breaks = true, restWidth = 0) {
    const { left, right } = this.size;
    const gap = (spaces || sign || before.ends) && before.x > left ? this.ruler(" ") : 0;
    const rightLimit = gap || !/^[\p{Ll}\p{P}]/u.test(text) ? right : right + 0.8 * left; // what goes on with a word may use the margin
    const [x, line] = before.x > left && before.x + gap + width + (gap && width + restWidth < right - left ? restWidth : 0) > rightLimit ? [left, before.line + 1] : [before.x + gap, before.line];
    const next = ends && breaks ? { x: left, line: line + 1 } : { x: x + width + (sign ? this.ruler(" ") : 0), line, ends };
    return { x, line, next };
  }

  /** Width of what follows of the same word in the final text; 0 in a text without letters beyond ASCII, whose tokens are words as a rule. */
  restWidth(position) {
    this.following ??= this.isText ? this.replay.wordsIn(this.replay.latest).map((word) => word ?? " ") : [];
    if (this.following.every(isPlain)) return 0;
    return this.ruler(/^[^\s\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]*/u.exec(this.following.slice(position + 1).join(""))?.[0] ?? "");
  }

  put(token, position, before, more) {
    const written = this.writtenAt(token, position);
    const slot = this.slots ? this.slots[position] : this.flow(written, before, this.breaks, this.restWidth(position));
    const { text, sign } = written;
    const width = written.width * (more.instead ? BOLD_WIDTH : 1);
    this.words.push({ token, position, text, sign, ...slot, width, side: directionOf(text), before, solid: null, removal: null, verdict: null, ...more });
    this.currentWord.set(position, this.words.at(-1));
    return this.words.at(-1);
  }

  // Passes.

  /** A pass: drafts arrive that no pass before it left, and the bar crosses what it decided. */
  add(step, index) {
    const { passes, replay, size, pace } = this;
    const pass = { index, step, sweep: [], verdict: null, drafts: new Map(), names: [] };
    const known = this.slots ? step.deciding : [...step.position.keys()];
    const entries = known.filter((entry) => step.position[entry] < this.end).sort((a, b) => step.position[a] - step.position[b]);
    pass.names = entries.map((entry) => replay.fates[step.fate[entry]].name);
    const first = this.words.length;
    let time = (pass.sweepStart = this.arrive(pass, step, entries));
    if (this.isText && step.graph?.length > 1) time = this.grow(pass, step, time);
    if (!step.drafting) time = this.sweep(pass, step, entries, time);
    const touched = [...this.words.slice(first), ...pass.sweep.map(({ word }) => word)];
    pass.lowest = Math.max(passes.at(-1)?.lowest ?? 0, ...touched.map(({ line }) => line));
    if (pass.verdict && !passes.some(({ verdict }) => verdict)) this.pace *= AFTER_READING;
    passes.push(Object.assign(pass, { top: Math.max(0, pass.lowest - size.lines + 1), sweepEnd: time, length: time + PASS_TIMES.rest * pace }));
  }

  /** Add drafts that a drafter made or that no earlier pass left there. Return the time at which the bar starts. */
  arrive(pass, step, entries) {
    const slow = this.pace * (this.read || !this.isText || SIGN.test(this.replay.wordOf(step.draft?.[0])) ? 1 : SLOW_START);
    const waiting = [...this.currentWord.values()].findLast(({ solid }) => !solid);
    let [time, after] = [PASS_TIMES.lead * this.pace, waiting?.next ?? this.cursor];
    for (const entry of entries) {
      const drafted = step.drafting && this.replay.fates[step.fate[entry]].name === "drafted";
      const [position, draft] = [step.position[entry], drafted ? step.token[entry] : step.draft?.[entry]];
      if (draft === null || draft === undefined) continue;
      let word = this.currentWord.get(position);
      if (!word || !sameToken(word.token, draft)) {
        if (word) word.removal = { pass: pass.index, at: time, until: time + SETTLE };
        word = this.put(draft, position, drafted || pass.drafts.size ? after : this.cursor, { kind: "draft", firstPass: pass.index, from: time, fromDrafter: !drafted });
        time += (this.isText ? PASS_TIMES.draft : PASS_TIMES.draft / 4) * slow;
      }
      after = word.next;
      pass.drafts.set(entry, word);
    }
    return time > PASS_TIMES.lead * this.pace ? time + PASS_TIMES.arrive * slow : time;
  }

  /** Move the bar across what the pass decided, then remove the drafts that it rejected. */
  sweep(pass, step, entries, start) {
    let time = start;
    /** @type {any[][]} */
    const [rejected, dropped] = [[], []];
    for (const entry of entries) {
      const [position, name] = [step.position[entry], this.replay.fates[step.fate[entry]].name];
      const before = this.currentWord.get(position);
      if (name === "discarded") {
        if (before && !before.solid) dropped.push(before);
        continue;
      }
      const failed = ["resampled", "rejected"].includes(name) && before;
      const word = failed ? before : this.decide(pass, step, entry, time);
      const until = time + (this.isText ? (word.width + this.ruler(" ")) * PASS_TIMES.pixel : PASS_TIMES.cell) * this.pace;
      pass.sweep.push({ word, from: time, until });
      word.crossed = mixed(time, until, 0.6);
      if (word.solid?.pass === pass.index) word.solid.at = Math.min(word.solid.at, word.crossed);
      [time, this.cursor] = [until, word.next];
      if (failed) rejected.push([word, entry, name]);
    }
    if (pass.branches) time = this.settle(pass, time);
    for (const [word, entry, name] of rejected) time = this.reject(pass, word, entry, name, time);
    dropped.forEach((word, order) => {
      const fallStart = (pass.verdict?.times.fall ?? time) + (26 * this.pace * order) / Math.max(1, dropped.length / 12);
      Object.assign(word, { kind: "dropped", removal: { pass: pass.index, at: fallStart, until: fallStart + FALL } });
      this.currentWord.delete(word.position);
    });
    return time;
  }

  /** Add the branches of a draft graph, each a set of drafts that the pass verifies together. */
  grow(pass, { graph, signals, position, draft, token }, start) {
    const draftAt = (entry) => draft?.[entry] ?? token[entry];
    const final = (at) => (this.currentWord.get(at)?.solid ? this.currentWord.get(at).text : "");
    const line = (at) => [final(at - 1), shownWord(this.replay, draftAt(position.indexOf(at)), at, pass.index), final(at + 1)];
    const used = [];
    const nodes = graph.map((node, index) => {
      const level = node.positions.length;
      used[level] = (used[level] ?? -1) + 1;
      return { ...node, level, row: used[level], lines: [...node.positions].sort((a, b) => a - b).map(line), best: index === signals.winner };
    });
    const length = BRANCH_TIMES.grow * this.pace;
    const first = nodes.find(({ best }) => best)?.positions;
    pass.branches = { nodes, levels: used.length - 1, rows: Math.max(...Object.values(used)) + 1, grow: start, seen: start + length, into: first?.length ? this.slots?.[Math.min(...first)] : null };
    return start + length;
  }

  /** Test the branches once the bar has crossed them; the drafts of the accepted one turn solid as it reaches the text. */
  settle(pass, start) {
    const judge = start + BRANCH_TIMES.judge * this.pace;
    const join = judge + (pass.branches.into ? BRANCH_TIMES.join * this.pace : 0);
    Object.assign(pass.branches, { crossed: start, judge, join });
    for (const { word } of pass.sweep) if (word.kind === "accepted" && word.solid.pass === pass.index) word.solid.at = join;
    return join;
  }

  /** The result of a pass at a position without rejecting a draft: a word that turns solid, stays as it was, or another one. */
  decide({ index }, step, entry, time) {
    const [position, token, fate] = [step.position[entry], step.token[entry], this.replay.fates[step.fate[entry]]];
    const before = this.currentWord.get(position);
    const solid = fate.final ? { pass: index, at: Infinity } : null;
    if (before && sameToken(before.token, token)) {
      if (solid && !before.solid) Object.assign(before, { solid, kind: fate.name === "accepted" ? "accepted" : "placed" });
      return before;
    }
    if (before) Object.assign(before, { kind: "changed", removal: { pass: index, at: time, until: time + SETTLE, struck: before.solid ? time : undefined } });
    const kind = !fate.final ? "draft" : before?.solid ? "drawn" : "placed";
    return this.put(token, position, this.cursor, { kind, firstPass: index, from: time, solid: solid && { pass: index, at: -Infinity } });
  }

  /** A rejected draft is struck out and replaced, with its decision where that can be read. Return the time at which that ends. */
  reject(pass, word, entry, name, start) {
    const moment = new Moment(this.replay, pass.index, entry);
    const instructive = isInstructive(this.replay, moment.step, entry);
    const read = !pass.verdict && (this.isText ? name === "resampled" : instructive);
    const columns = read ? stagedColumns(moment) : [];
    const [bells, terms] = read ? [bellsOf(moment), moment.step.paths?.[entry]?.log_ratio ?? []] : [null, []];
    word.kind = "rejected";
    this.currentWord.delete(word.position);
    if (!columns.length && !bells && !terms.length) return this.strike(pass, word, name === "resampled" ? moment.token("token") : null, start);
    const brief = this.read || word.sign;
    const pace = VERDICT_PACE[word.sign ? "sign" : brief ? "later" : "first"];
    this.read ||= !word.sign;
    const times = {};
    let time = start + 40;
    for (const [part, length] of Object.entries(VERDICT_TIMES)) {
      times[part] = time;
      if (moment.ratioDecided || !UNIFORM_DRAW_PARTS.includes(part)) time += length * pace;
    }
    const verdict = { pass, moment, word, brief, times, columns, bells, terms, pick: columns.findIndex(({ token }) => token === moment.token("token")) };
    word.removal = { pass: pass.index, at: times.fall, until: Math.max(times.residual, times.fall + FALL * pace), struck: times.judge + 40 };
    verdict.replacement = this.put(moment.token("token"), word.position, word.before, { kind: "drawn", firstPass: pass.index, from: times.land - 60, solid: { pass: pass.index, at: -Infinity }, verdict, instead: word.text });
    this.cursor = verdict.replacement.next;
    pass.verdict = verdict;
    return time;
  }

  /** A draft that is rejected without a caption; `token` replaces it, if there is one. */
  strike(pass, word, token, time) {
    const pace = this.pace * (this.isText ? 1 : 0.5);
    word.removal = { pass: pass.index, at: time + SETTLE * pace, until: time + (SETTLE + FALL) * pace, struck: time };
    if (token !== null) this.cursor = this.put(token, word.position, word.before, { kind: "drawn", firstPass: pass.index, from: time + SETTLE * pace, solid: { pass: pass.index, at: -Infinity }, instead: word.text }).next;
    return time + (SETTLE + FALL) * pace;
  }

  /** Words, bars and caption that the stage shows after `done` passes and `time` milliseconds of the next; `uniform` replaces the recorded uniform draw. */
  frame(done, time, uniform) {
    const [now, last] = [this.passes[done], this.passes[done - 1]];
    const at = (pass) => (pass < done ? Infinity : pass === done ? time : -Infinity);
    const started = now?.verdict && time >= now.verdict.times.grow;
    const faded = last?.verdict && !started ? { ...verdictAt(last.verdict, Infinity, uniform), alpha: 1 - progress(time, 0, 350) } : null;
    const ended = !now ? 1 : done === this.passes.length - 1 ? progress(time, now.sweepEnd, now.length) : 0;
    const words = this.words.map((word) => this.appearanceOf(word, at)).filter(Boolean);
    if (this.isText) this.join(words);
    return {
      done,
      passed: done + Number(time >= (now?.sweepEnd ?? Infinity)),
      words,
      masks: this.masksAt(words, at),
      verdict: started ? verdictAt(now.verdict, time, uniform) : faded?.alpha ? faded : null,
      branches: now?.branches ? branchesAt(now.branches, time) : last?.branches && time < 300 ? { ...branchesAt(last.branches, Infinity), alpha: 1 - progress(time, 0, 300) } : null,
      bar: now?.sweep.length ? barAt(now, time) : null,
      top: mixed(last?.top ?? 0, (now ?? last)?.top ?? 0, swinging(progress(time, 0, 250))),
      ended: this.replay.complete ? ended : 0,
      caption: now && time > 0 ? captionOf(this, now, time) : last ? captionOf(this, last, Infinity) : ["", now ? "" : "Waiting for the first forward pass."],
    };
  }

  /** Set what each word shows next to its neighbours: a character of several tokens is drawn by the last, from the slot of the first. */
  join(appearances) {
    const at = new Map();
    for (const appearance of appearances) if (appearance.share > 0.5 && !appearance.struck && appearance.share >= (at.get(appearance.word.position)?.share ?? 0)) at.set(appearance.word.position, appearance);
    const chosen = Array.from({ length: 1 + Math.max(-1, ...at.keys()) }, (_, position) => at.get(position) ?? null);
    const texts = chosen.map((appearance) => appearance && this.replay.wordOf(appearance.word.token));
    if (texts.every(isPlain)) return;
    const shown = displayWords(texts);
    chosen.forEach((appearance, position) => {
      if (!appearance) return;
      const line = ({ word }) => word.line;
      Object.assign(appearance, { text: writtenWord(shown[position]).text, cursive: cursiveForm(onLine(shown, chosen, line, position), position, this.ruler) });
      const first = chosen[joinedWith(texts, shown, position)];
      if (first !== appearance && first.word.line === appearance.word.line) appearance.first = first.word;
    });
  }

  /** Place the words of each line next to each other, in visual order if some run from right to left. */
  arrange() {
    const { words, slots } = this;
    if (!slots) this.tighten();
    const closed = words.map((word) => word.closed).filter(Boolean);
    if ([...words, ...(slots ?? [])].some(({ side }) => side === "left")) for (const each of [[...words, ...(slots ?? [])], closed]) this.turn(each);
  }

  turn(words) {
    const { left, right } = this.size;
    const base = directionOf(this.replay.textIn(this.replay.latest));
    const lines = new Map();
    for (const each of words) lines.set(each.line, [...(lines.get(each.line) ?? []), each]);
    for (const line of lines.values()) {
      const position = arrangement(line.filter(({ removal }) => !removal), left, right, base);
      for (const [word, slot] of line.map((word) => [word, position(word.x, word.width)])) Object.assign(word, slot);
    }
  }

  /** The last word at each position, what it shows, and its width: a character of several tokens is as wide as it is alone, and so is each of its tokens to an equal part. */
  finalWords() {
    const last = Array.from({ length: 1 + Math.max(-1, ...this.currentWord.keys()) }, (_, position) => this.currentWord.get(position) ?? null);
    const texts = last.map((word) => word && this.replay.wordOf(word.token));
    const shown = displayWords(texts);
    const widths = shown.map((text, position) => (text === null ? 0 : this.written(text).width * (last[position]?.instead ? BOLD_WIDTH : 1)));
    if (!texts.every(isPlain)) shown.forEach((text, position) => {
      if (!text?.trim()) return;
      const first = joinedWith(texts, shown, position);
      const width = cursiveForm(onLine(shown, last, ({ line }) => line, position), position, this.ruler)?.width ?? this.written(text).width;
      if (last[first].line === last[position].line) widths.fill(Math.max(width / (position + 1 - first), MIN_BOX), first, position + 1);
    });
    return { last, texts, shown, widths };
  }

  /** Close the gaps that words left when they joined. */
  tighten() {
    const { last, texts, widths } = this.finalWords();
    if (texts.every(isPlain)) return;
    const moved = new Map(); // by line, how far what follows moves
    const before = last.map((word, position) => {
      if (!word) return null;
      const shift = moved.get(word.line) ?? 0;
      moved.set(word.line, shift + widths[position] - word.width);
      return { line: word.line, shift };
    });
    for (const word of this.words) {
      const { line, shift } = before[word.position] ?? { line: -1, shift: 0 };
      if (line === word.line) word.x += shift;
    }
    last.forEach((word, position) => word && Object.assign(word, { width: widths[position] }));
  }

  /** Open positions and their opacity, which is 0 where a word covers them. */
  masksAt(words, at) {
    const cover = new Map();
    for (const { word, share } of words) cover.set(word.position, Math.max(share, cover.get(word.position) ?? 0));
    const mask = (slot, position) => ({ slot, alpha: (slot.startPass < 0 ? 1 : progress(at(slot.startPass), 0, RISE)) * (1 - (cover.get(position) ?? 0)) });
    return (this.slots ?? []).map(mask).filter(({ alpha }, position) => alpha > 0.004 && position < this.end);
  }

  /** How a word looks; `at` gives the time within a pass: none before it, without end after it. Null while it is not there. */
  appearanceOf(word, at) {
    const { kind, verdict, solid, removal, pace = this.pace } = word;
    const here = slowing(progress(at(word.firstPass), word.from, word.from + RISE * pace));
    const left = removal ? progress(at(removal.pass), removal.at, removal.until) ** 2 : 0;
    if (here * (1 - left) < 0.01) return null;
    const firm = solid ? (solid.at === -Infinity ? 1 : progress(at(solid.pass), solid.at - 70 * pace, solid.at + 130 * pace)) : 0;
    const share = here * (1 - left);
    const appearance = { word, kind, share, alpha: share * mixed(TRANSLUCENT, 1, firm), left, down: 9 * (1 - here) + (kind === "rejected" ? 120 : 16) * left, struck: 0, landed: 1, fresh: false };
    if (removal?.struck !== undefined) appearance.struck = slowing(progress(at(removal.pass), removal.struck, removal.struck + RISE * pace));
    if (kind === "drawn") Object.assign(appearance, { landed: verdict ? swinging(progress(at(word.firstPass), word.from, verdict.times.hold)) : here, fresh: at(word.firstPass + 1) < 250 });
    return appearance;
  }
}

/** Index of the first token of the character that the token at `index` completes; `index` itself if its token is a whole character. */
function joinedWith(texts, shown, index) {
  let first = index;
  if (shown[index]?.trim()) while (first > 0 && shown[first - 1]?.trim() === "" && texts[first - 1].trim()) first -= 1;
  return first;
}

/** Texts that words show, with null for those on other lines than the one at `position`. */
function onLine(shown, words, lineOf, position) {
  return shown.map((text, other) => (words[other] && lineOf(words[other]) === lineOf(words[position]) ? text : null));
}

/** How a token is drawn whose letters join those of its neighbours: of the text of all, what is seen between `offset` and `offset` + `width` from its right. */
function cursiveForm(shown, position, ruler) {
  const [text, isShown] = [shown[position] ?? "", (each) => each === null || each];
  const before = text.startsWith(JOINER) ? shown.slice(0, position).findLast(isShown) : "";
  const after = text.endsWith(JOINER) ? shown.slice(position + 1).find(isShown) : "";
  if (!before && !after) return null;
  const [first, middle, last] = [before, text, after].map((each) => (each ?? "").replace(/^\u200d|\u200d$/g, ""))
    .map((each, part) => (part === 0 ? /\S*$/.exec(each)?.[0] : part === 1 ? each.trim() : /^\S*/.exec(each)?.[0]));
  const width = ruler(first + middle + last);
  const [offset, end] = [first ? width - ruler(JOINER + middle + last) : 0, last ? width - ruler(JOINER + last) : width];
  return { text: first + middle + last, offset, width: end - offset };
}

/** The draft, what replaced it, the likeliest others and the rest, as {token, text, p, q, share of the residual}; none where p and q are not known. */
function stagedColumns(moment) {
  const { left, total } = residualOf(moment);
  const [draft, p, q] = [moment.token("draft"), moment.number("p"), moment.number("q")];
  if (!moment.likely && (p === undefined || q === undefined)) return [];
  const rows = ratioRows(moment, moment.likely ?? [{ token: draft, p, q }], MAX_STAGED);
  const shares = rows.map((row) => (left.find(({ token }) => token === row.token)?.share ?? 0) / total || 0);
  const otherShare = Math.max(0, 1 - shares.reduce((sum, share) => sum + share, 0));
  const text = (token) => (token === null ? "others" : shownWord(moment.replay, token, moment.position, moment.index));
  const columns = rows.map((row, index) => ({ ...row, text: text(row.token), share: row.token === null ? otherShare : shares[index] }));
  const rank = ({ token }) => (token === draft ? 0 : token === null ? 2 : 1);
  return columns.filter(({ mark, p, q }) => mark || Math.max(p, q) >= MIN_OTHER_SHARE).sort((a, b) => rank(a) - rank(b) || b.p - a.p);
}

/** An acceptance test at a time: how far its bars have grown, are separated and turned into the residual, and how far the ball is. */
function verdictAt(verdict, time, uniform = verdict.moment.number("coin")) {
  const { grow, look, drop, judge, fall, residual, roll, land } = verdict.times;
  const common = { verdict, uniform, alpha: progress(time, grow, grow + Math.min(160, (drop - grow) / 2)), grown: progress(time, grow, look), judged: time > judge - Math.min(120, (judge - drop) / 5) };
  const plain = { ...common, labelsShown: 0, chosen: progress(time, judge - 60, judge + 300), separated: 0, scaled: 0, dropped: 0, ballShown: 0, ring: 0, sunk: 0, rolled: 0 };
  if (!verdict.moment.ratioDecided) return plain;
  const [fallen, share] = [mixed(fall, residual, 0.3), progress(time, drop, judge - 60)];
  return {
    ...{ ...common, labelsShown: progress(time, look - 100, look + 300), chosen: 0 },
    separated: swinging(progress(time, fallen, mixed(residual, roll, 0.35))),
    scaled: swinging(progress(time, mixed(residual, roll, 0.4), roll)),
    dropped: share < 0.62 ? (share / 0.62) ** 2 : 1 - Math.sin((Math.PI * (share - 0.62)) / 0.38) * 0.09 * (1 - share),
    ...{ ballShown: progress(time, drop - 120, drop), ring: progress(time, judge - 60, judge + 420) },
    ...{ sunk: progress(time, fallen, roll) ** 2, rolled: progress(time, roll, land - 40) },
  };
}

/** The branches of a pass at a time: how far they have grown, are tested, and the accepted one has moved. */
function branchesAt(branches, time) {
  const { grow, seen, crossed, judge, join } = branches;
  return { branches, alpha: progress(time, grow, seen), lit: progress(time, seen, crossed), judged: progress(time, crossed, judge), joined: swinging(progress(time, judge, join)) };
}

/** Position and opacity of the light bar, or null. */
function barAt({ sweep, sweepStart }, time) {
  const end = sweep.at(-1).until;
  const { word, from, until } = sweep.find((each) => time <= each.until) ?? sweep.at(-1);
  const alpha = progress(time, sweepStart - 160, sweepStart) * (1 - progress(time, end + 20, end + 240));
  const first = sweep.find((each) => each.word.line === word.line).word;
  /** @returns {[number, number]} */
  const edges = ({ x, width, leftward }) => (leftward ? [x + width + 4, x - 4] : [x - 4, x + width + 4]);
  return alpha ? { alpha, x: mixed(...edges(word), progress(time, from, until)), line: word.line, from: edges(first)[0] } : null;
}

/** Noun for one token. */
export function unitOf({ grid, steps }) {
  if (grid.kind === "text") return "word";
  return steps.some(({ token }) => Array.isArray(token[0])) ? "vector" : "patch";
}

/** Caption and note that describe what a pass does at a time. */
function captionOf({ replay }, pass, time) {
  const { names, drafts: { size: drafts }, sweepStart, sweepEnd, verdict, step } = pass;
  if (verdict && time >= verdict.times.grow) return verdictCaption(verdict, time);
  const unit = unitOf(replay);
  const count = (...wanted) => names.filter((name) => wanted.includes(name)).length;
  const [accepted, judged] = [count("accepted"), count("accepted", "resampled", "rejected")];
  if (step.drafting) return [`The drafter proposes ${names.length > 1 ? counted(names.length, unit) : `a ${unit}`}.`, ""];
  if (judged && time < sweepStart) return [`${counted(drafts, "draft")} at once.`, "not verified yet"];
  if (pass.branches && time < sweepEnd) return branchCaption(pass.branches, time);
  if (judged && time < sweepEnd) return [`One pass verifies ${drafts > 1 ? "them all" : "it"}.`, ""];
  if (!judged) return revealCaption({ unit, count, names, replay, step });
  const [unchanged, changed] = [count("kept"), count("changed")];
  const note = unchanged + changed ? `after them ${counted(unchanged, "draft")} kept, ${changed} drawn again` : "";
  return [`${accepted} of ${counted(judged + count("discarded"), "draft")} accepted in one pass.`, note];
}

/** Every branch of drafts in words: its outcome, and under which others it was accepted. */
export function branchesInWords({ nodes }) {
  const label = ({ lines }) => (lines.length ? `“${lines.map(([, draft]) => draft).join(" … ")}”` : "the text alone");
  const fate = ({ accepted, best }) => (best ? "kept" : accepted ? "accepted" : "rejected");
  const under = ({ acceptedUnder: others }) => (others.length ? `, accepted under ${others.map((other) => label(nodes[other])).join(" and ")}` : "");
  return nodes.filter(({ level }) => level > 0).map((node) => `${label(node)}: ${fate(node)}${under(node)}.`).join(" ");
}

function branchCaption({ nodes, crossed, judge }, time) {
  const tried = nodes.filter(({ level }) => level > 0);
  if (time < crossed) return [`One pass tries ${tried.length} branches of drafts at once.`, ""];
  const accepted = tried.filter(({ accepted }) => accepted).length;
  if (time < judge) return [`${accepted} of ${counted(tried.length, "branch")} accepted.`, ""];
  return nodes.some(({ best, level }) => best && level > 0) ? ["The deepest one accepted goes into the text.", ""] : ["None goes into the text.", ""];
}

/** Caption of a pass that verified nothing: it drafted, revealed what it was sure of, or wrote one token the ordinary way. */
function revealCaption({ unit, count, names, replay, step }) {
  const [drafted, revealed, edited] = [count("drafted"), count("unmasked", "fallback"), count("edited")];
  if (revealed + drafted + edited === 0) return names.length ? [`One pass without a draft: one ${unit}.`, ""] : ["One pass, and nothing changed.", ""];
  const route = routeInWords(step.signals);
  if (revealed + edited === 0) return [`One pass drafts ${counted(drafted, unit)}.`, route || (replay.fatesSeen.has(replay.codeOf.get("accepted")) ? "not verified yet" : "")];
  const open = drafted ? [`${drafted} not sure enough yet`] : [];
  const surest = count("fallback") && !count("unmasked") ? ["none was sure enough, so the surest one"] : [];
  const repaired = edited ? [`${counted(edited, unit)} replaced`] : [];
  const among = step.signals.open > 1 || drafted ? ` of ${counted(revealed + drafted, unit)}` : ` ${unit}${revealed === 1 ? "" : "s"}`;
  return [`One pass reveals ${revealed}${among}.`, [...surest, ...open, ...repaired, ...(route ? [route] : [])].join("; ")];
}

/** Number of drafts that the router expects to be accepted, and whether it has them verified; empty if it decided nothing. */
function routeInWords({ span, expected_accepted: expected, verify }) {
  if (!Number.isFinite(expected) || !Number.isFinite(verify)) return "";
  return `${figure(expected)} of ${span} expected to be accepted: ${verify ? "to be verified" : "not verified"}`;
}

function verdictCaption({ times, moment, word, replacement, bells, terms }, time) {
  const formula = ruleOf(moment)?.pieces.map(({ text }) => text).join("") ?? "";
  const [chance, outcome] = formula.split("; ");
  const unit = unitOf(moment.replay);
  const [draft, replacementText] = word.text ? [`“${word.text}”`, `“${replacement.text}”`] : [`this ${unit}`, `Another ${unit}`];
  const likely = bells ? "by the last denoising step" : terms.length ? "by all denoising steps" : moment.ratioDecided ? "" : `drafted at q = ${figure(moment.number("q"))}, verified at p = ${figure(moment.number("p"))}`; // else the bars show p and q
  if (time < Math.min(times.drop, times.judge)) return [`How likely is ${draft}?`, likely];
  if (!moment.ratioDecided) return time < times.land ? ["Draft rejected.", formula] : [`${replacementText} replaces it.`, pathInWords(moment, false)];
  if (time < times.judge) return ["A uniform draw decides by p / q.", chance];
  if (time < times.residual) return ["The draw fell above p: rejected.", outcome ?? ""];
  if (time < times.land) return ["Redrawn from where p exceeds q.", "the residual, max(0, p − q)"];
  return [`${replacementText} is drawn from the residual.`, ""];
}
