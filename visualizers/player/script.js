// What the stage shows of a run that drafts ahead: where every word stands, and how each looks at any time of any pass. All of
// it follows from the trace, the size of the stage and the time, so that a reading of the clock always gives the same picture.

/** Milliseconds: before a pass begins, a draft and the wait behind the last, the bar over a pixel, after the pass, the end card. */
const PASS_TIMES = { lead: 120, draft: 40, arrive: 300, pixel: 1.4, rest: 240, card: 700 };
/** The parts of a verdict, in order. */
const VERDICT_TIMES = { grow: 560, look: 620, drop: 680, judge: 720, fall: 440, residual: 800, roll: 600, land: 440, hold: 700 };
/** How long a verdict takes, of that: the first one on a word and the first close call are read, signs to the machine are not. */
const VERDICT_PACE = { first: 1, later: 0.5, sign: 0.2 };
/** So much slower are drafts until then. */
const SLOW_START = 2;
const TRANSLUCENT = 0.4;
const SIGN_SIZE = 0.89;
const MOST_STAGED = 4;
const STAGED = ["drafted", "accepted", "resampled", "discarded", "bonus", "sampled", "prefilled"];

const progress = (time, from, to) => Math.max(0, Math.min(1, (time - from) / (to - from)));
const mixed = (from, to, share) => from + (to - from) * share;
const slowing = (share) => 1 - (1 - share) ** 3;
const swinging = (share) => (share < 0.5 ? 4 * share ** 3 : 1 - (2 - 2 * share) ** 3 / 2);

/** Whether the stage can show a run: a text whose drafts follow one another and are judged by min(1, p / q). */
function isStaged(replay) {
  const { grid, meta, steps, fates } = replay;
  if (grid.kind !== "text" || meta.canvas.block > 1 || !steps.some(({ judged }) => judged)) return false;
  const inRow = ({ position, fate }) => position.every((at, entry) => at === position[0] + entry && STAGED.includes(fates[fate[entry]]?.name));
  return steps.every((step, index) => inRow(step) && step.judgedEntries.every((entry) => new Moment(replay, index, entry).ratioDecided));
}

class Script {
  /** `ruler` gives the width of a text; `size` says where lines begin and end, at `left` and `right`, and how many `lines` fit. */
  constructor(replay, ruler, size) {
    Object.assign(this, { replay, ruler, size, end: replay.endIn(replay.latest), words: [], pending: [], passes: [], read: 0 });
    this.cursor = { x: size.left, line: 0 };
    replay.steps.forEach((step, index) => this.add(step, index));
    if (replay.complete && this.passes.length) this.passes.at(-1).length += PASS_TIMES.card;
  }

  /** Put a token behind `before`; a word that does not fit begins a line. */
  put(token, before, more) {
    const word = this.replay.wordOf(token);
    const [, spaces, rest] = /^(\s*)(.*)$/s.exec(word);
    const [sign, { left, right }] = [SIGN.test(rest), this.size];
    const text = `${rest.trimEnd()}${word.includes("\n") ? "↵" : ""}`;
    const width = this.ruler(text) * (sign ? SIGN_SIZE : 1);
    const gap = (spaces || sign) && before.x > left ? this.ruler(" ") : 0;
    const [x, line] = gap && before.x + gap + width > right ? [left, before.line + 1] : [before.x + gap, before.line];
    const next = word.includes("\n") ? { x: left, line: line + 1 } : { x: x + width + (sign ? this.ruler(" ") : 0), line };
    this.words.push({ text, sign, width, x, line, before, next, ...more });
    return this.words.at(-1);
  }

  /** A pass: drafts arrive that no earlier pass of the drafter made, and the bar crosses them. */
  add(step, index) {
    const { passes, replay, size } = this;
    const name = (entry) => replay.fates[step.fate[entry]].name;
    const slow = this.read || SIGN.test(replay.wordOf(step.draft?.[0])) ? 1 : SLOW_START;
    const pass = { index, sweep: [], verdict: null, drafts: new Map() };
    const entries = [...step.position.keys()].filter((entry) => step.position[entry] < this.end);
    let [time, behind] = [PASS_TIMES.lead, this.pending.at(-1)?.next ?? this.cursor];
    for (const entry of entries) {
      const [position, made] = [step.position[entry], name(entry) === "drafted"];
      const draft = made ? step.token[entry] : step.draft?.[entry];
      if (!Number.isInteger(draft)) continue;
      const known = made ? null : this.pending.find((word) => word.position === position);
      const word = known ?? this.put(draft, made || pass.drafts.size ? behind : this.cursor, { kind: "draft", position, born: index, from: time });
      if (!known) time += PASS_TIMES.draft * slow;
      if (made) this.pending.push(word);
      behind = word.next;
      pass.drafts.set(entry, word);
    }
    pass.swept = time += time > PASS_TIMES.lead ? PASS_TIMES.arrive * slow : 0;
    if (entries.some((entry) => replay.fates[step.fate[entry]].final)) time = this.judge(pass, step, entries.map((entry) => [entry, name(entry)]), time);
    const own = this.words.filter((word) => word.born === index || word.pass === index);
    pass.lowest = Math.max(passes.at(-1)?.lowest ?? 0, ...own.map(({ line }) => line));
    passes.push(Object.assign(pass, { top: Math.max(0, pass.lowest - size.lines + 1), over: time, length: time + PASS_TIMES.rest }));
  }

  /** Let the bar cross the drafts as far as they are judged, and end with a verdict where one is rejected. */
  judge(pass, step, entries, began) {
    let time = began;
    for (const [entry, name] of entries) {
      const word = pass.drafts.get(entry) ?? this.put(step.token[entry], this.cursor, { born: pass.index, from: time });
      Object.assign(word, { pass: pass.index, kind: { accepted: "accepted", resampled: "rejected", discarded: "dropped" }[name] ?? "placed" });
      if (word.kind === "dropped") continue;
      const until = time + (word.width + this.ruler(" ")) * PASS_TIMES.pixel;
      pass.sweep.push({ word, from: time, until });
      word.at = mixed(time, until, 0.6);
      [time, this.cursor] = [until, word.next];
      if (word.kind === "rejected") time = this.reject(pass, word, entry, until);
    }
    const dropped = [...pass.drafts.values()].filter(({ kind }) => kind === "dropped");
    dropped.forEach((word, order) => (word.falls = (pass.verdict?.times.fall ?? time) + 26 * order));
    this.pending = [];
    return time;
  }

  reject(pass, word, entry, began) {
    const moment = new Moment(this.replay, pass.index, entry);
    const reading = isTelling(this.replay, moment.step, entry) ? 2 : 1; // `read` is 1 from the first verdict on a word on, 2 from the first close call on
    const pace = VERDICT_PACE[word.sign ? "sign" : reading > this.read ? "first" : "later"];
    if (!word.sign) this.read = Math.max(this.read, reading);
    const times = {};
    let time = began + 40;
    for (const [name, length] of Object.entries(VERDICT_TIMES)) [times[name], time] = [time, time + length * pace];
    const columns = stagedColumns(moment);
    const verdict = { pass, moment, word, times, columns, pick: columns.findIndex(({ token }) => token === moment.token("token")) };
    verdict.drawn = this.put(moment.token("token"), word.before, { kind: "drawn", born: pass.index, pass: pass.index, from: times.land - 60, verdict });
    this.cursor = verdict.drawn.next;
    word.verdict = pass.verdict = verdict;
    return time;
  }

  /** What stands on the stage once `done` passes are over and the next one is at `time`; another `coin` may be supposed. */
  frame(done, time, coin) {
    const [now, last] = [this.passes[done], this.passes[done - 1]];
    const at = (pass) => (pass < done ? Infinity : pass === done ? time : -Infinity);
    const begun = now?.verdict && time >= now.verdict.times.grow;
    const faded = last?.verdict && !begun ? { ...verdictAt(last.verdict, Infinity, coin), alpha: 1 - progress(time, 0, 350) } : null;
    const ended = !now ? 1 : done === this.passes.length - 1 ? progress(time, now.over, now.length) : 0;
    return {
      done,
      words: this.words.map((word) => lookOf(word, at)).filter(Boolean),
      verdict: begun ? verdictAt(now.verdict, time, coin) : faded?.alpha ? faded : null,
      bar: now?.sweep.length ? barAt(now, time) : null,
      top: mixed(last?.top ?? 0, (now ?? last).top, swinging(progress(time, 0, 250))),
      ended: this.replay.complete ? ended : 0,
      caption: now && time > 0 ? captionOf(now, time) : last ? captionOf(last, Infinity) : ["", ""],
    };
  }
}

/** The draft, what replaced it, the likeliest others and the rest, as {token, text, p, q, share of the residual}. */
function stagedColumns(moment) {
  const { left, total } = residualOf(moment);
  const draft = moment.token("draft");
  const rows = ratioRows(moment, moment.likely ?? [{ token: draft, p: moment.number("p"), q: moment.number("q") }], MOST_STAGED);
  const shares = rows.map((row) => (left.find(({ token }) => token === row.token)?.share ?? 0) / total || 0);
  const rest = Math.max(0, 1 - shares.reduce((sum, share) => sum + share, 0));
  const text = (token) => (token === null ? "others" : moment.replay.wordOf(token).trim().replaceAll("\n", "↵") || "␣");
  const columns = rows.map((row, index) => ({ ...row, text: text(row.token), share: row.token === null ? rest : shares[index] }));
  const rank = ({ token }) => (token === draft ? 0 : token === null ? 2 : 1);
  return columns.filter(({ mark, p, q }) => mark || Math.max(p, q) >= LEAST_REST).sort((a, b) => rank(a) - rank(b) || b.p - a.p);
}

/** How a word looks; `at` gives the time within a pass: none before it, without end after it. Null while it is not there. */
function lookOf(word, at) {
  const { kind, verdict, falls } = word;
  const judged = at(word.pass ?? Infinity);
  const here = slowing(progress(at(word.born), word.from, word.from + 260));
  const solid = ["placed", "drawn"].includes(kind) ? 1 : kind === "dropped" ? 0 : progress(judged, word.at - 70, word.at + 130);
  const fallen = kind === "rejected" ? progress(judged, verdict.times.fall, verdict.times.residual) ** 2 : kind === "dropped" ? progress(judged, falls, falls + 420) : 0;
  const alpha = here * mixed(TRANSLUCENT, 1, solid) * (1 - fallen);
  if (alpha < 0.004) return null;
  const look = { word, kind, alpha, down: 9 * (1 - here) + (kind === "rejected" ? 120 : 16) * fallen, struck: 0, landed: 1, fresh: false };
  if (kind === "rejected") look.struck = slowing(progress(judged, verdict.times.judge + 40, verdict.times.judge + 300));
  if (kind === "drawn") Object.assign(look, { landed: swinging(progress(judged, word.from, verdict.times.hold)), fresh: at(word.pass + 1) < 250 });
  return look;
}

/** A verdict at a time: how far its bars have grown, are told apart and turned into the residual, and how far the ball is. */
function verdictAt(verdict, time, coin = verdict.moment.number("coin")) {
  const { grow, look, drop, judge, fall, residual, roll, land } = verdict.times;
  const [fallen, share] = [mixed(fall, residual, 0.3), progress(time, drop, judge - 60)];
  return {
    ...{ verdict, coin, alpha: progress(time, grow, grow + 160), grown: progress(time, grow, look), told: progress(time, look - 100, look + 300) },
    apart: swinging(progress(time, fallen, mixed(residual, roll, 0.35))),
    scaled: swinging(progress(time, mixed(residual, roll, 0.4), roll)),
    dropped: share < 0.62 ? (share / 0.62) ** 2 : 1 - Math.sin((Math.PI * (share - 0.62)) / 0.38) * 0.09 * (1 - share),
    ...{ seen: progress(time, drop - 120, drop), judged: time > judge - 120, ring: progress(time, judge - 60, judge + 420) },
    ...{ sunk: progress(time, fallen, roll) ** 2, rolled: progress(time, roll, land - 40) },
  };
}

/** Where the light bar stands, or null. */
function barAt({ sweep, swept }, time) {
  const end = sweep.at(-1).until;
  const { word, from, until } = sweep.find((each) => time <= each.until) ?? sweep.at(-1);
  const alpha = progress(time, swept - 160, swept) * (1 - progress(time, end + 20, end + 240));
  const first = sweep.find((each) => each.word.line === word.line).word;
  return alpha ? { alpha, x: mixed(word.x - 4, word.x + word.width + 4, progress(time, from, until)), line: word.line, from: first.x - 4 } : null;
}

/** What a pass does at a time, in a few words, and a note below them. */
function captionOf({ sweep, drafts: { size: drafts }, swept, over, verdict }, time) {
  if (verdict && time >= verdict.times.grow) return verdictCaption(verdict, time);
  if (!sweep.length) return ["The drafter proposes a word.", ""];
  if (!drafts) return ["One pass of the model, without a draft: one word.", ""];
  if (time < swept) return [`${counted(drafts, "draft")} at once.`, "not verified yet"];
  if (time < over) return [`One pass of the model verifies ${drafts > 1 ? "them all" : "it"}.`, ""];
  return [`${sweep.filter(({ word }) => word.kind === "accepted").length} of ${counted(drafts, "draft")} accepted in one pass.`, ""];
}

function verdictCaption({ times, moment, word, drawn }, time) {
  const formula = ruleOf(moment).pieces.map(({ text }) => text).join("");
  const [chance, outcome] = formula.split("; ");
  if (time < times.drop) return [`How likely is “${word.text}”?`, `q = ${figure(moment.number("q"))}, drafter; p = ${figure(moment.number("p"))}, target`];
  if (time < times.judge) return ["A coin decides: accept with probability p / q.", chance];
  if (time < times.residual) return ["The coin fell above p: rejected.", outcome ?? ""];
  if (time < times.land) return ["Redrawn from where p exceeds q.", "the residual, max(0, p − q), scaled to 100 %"];
  return [`“${drawn.text}” is drawn from the residual.`, formula];
}
