// What the stage shows of a run that drafts ahead: where every word stands, and how each looks at any time of any pass. All of
// it follows from the trace, the size of the stage and the time, so that a reading of the clock always gives the same picture.

/** Milliseconds: before a pass begins, a draft and the wait behind the last, the bar over a pixel, and after the pass. */
const PASS_TIMES = { lead: 120, draft: 40, arrive: 300, pixel: 1.4, rest: 130 };
/** So much slower until the first verdict on a word. */
const SLOW_START = 2;
/** The parts of a verdict, in order. What happens in each is said in `lookOf`, `verdictAt` and `captionOf`. */
const VERDICT_TIMES = { grow: 560, look: 620, drop: 680, judge: 720, fall: 440, residual: 800, roll: 600, land: 440, hold: 700 };
/** How long a verdict takes, of that: the first of a word and the first close call are read, signs to the machine are not. */
const VERDICT_PACE = { first: 1, later: 0.5, sign: 0.2 };
const CARD_MILLISECONDS = 700;
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
  /** `ruler` gives the width of a text; `size` has the letters' `size`, `left`, `right`, `line` and how many `lines` fit. */
  constructor(replay, ruler, size) {
    Object.assign(this, { replay, ruler, size });
    this.end = replay.endIn(replay.latest);
    this.cursor = { x: size.left, line: 0 };
    this.words = [];
    this.pending = [];
    this.passes = [];
    this.read = { word: false, close: false };
    replay.steps.forEach((step, index) => this.add(step, index));
    if (replay.complete && this.passes.length) this.passes.at(-1).length += CARD_MILLISECONDS;
  }

  /** Put a token behind `before`; a word that does not fit begins a line. */
  put(token, before, more) {
    const [, spaces, text] = /^(\s*)(.*)$/s.exec(this.replay.wordOf(token));
    const sign = SIGN.test(text);
    const shown = text.replaceAll("\n", "↵") || "↵".repeat(spaces.split("\n").length - 1);
    const width = this.ruler(shown) * (sign ? SIGN_SIZE : 1);
    const { left, right } = this.size;
    const gap = (spaces || sign) && before.x > left ? this.ruler(" ") : 0;
    const breaks = gap > 0 && before.x + gap + width > right;
    const [x, line] = breaks ? [left, before.line + 1] : [before.x + gap, before.line];
    const word = { text: shown, sign, width, x, line, before, next: { x: x + width + (sign ? this.ruler(" ") / 2 : 0), line }, ...more };
    this.words.push(word);
    return word;
  }

  add(step, index) {
    const { passes, replay, size } = this;
    const pass = { index, sweep: [], drafts: 0, words: [], verdict: null };
    const entries = [...step.position.keys()].filter((entry) => step.position[entry] < this.end);
    const slow = this.read.word || SIGN.test(replay.wordOf(step.draft?.[0] ?? -1)) ? 1 : SLOW_START;
    let time = PASS_TIMES.lead;
    let behind = this.pending.at(-1)?.next ?? this.cursor;
    const drafts = new Map();
    for (const entry of entries) {
      const [position, drafted] = [step.position[entry], replay.fates[step.fate[entry]].name === "drafted"];
      const draft = drafted ? step.token[entry] : step.draft?.[entry];
      if (!Number.isInteger(draft)) continue;
      const known = drafted ? null : this.pending.find((word) => word.position === position);
      const word = known ?? this.put(draft, drafted || drafts.size ? behind : this.cursor, { position, born: index, from: time });
      if (!known) time += PASS_TIMES.draft * slow;
      if (drafted) this.pending.push(word);
      behind = word.next;
      drafts.set(entry, word);
    }
    pass.drafts = drafts.size;
    if (time > PASS_TIMES.lead) time += PASS_TIMES.arrive * slow;
    pass.swept = time;
    if (entries.some((entry) => replay.fates[step.fate[entry]].final)) time = this.judge(pass, step, entries, drafts, time);
    pass.words = this.words.filter((word) => word.born === index || word.pass === index);
    const lowest = Math.max(passes.at(-1)?.lowest ?? 0, this.cursor.line, ...pass.words.map(({ line }) => line));
    Object.assign(pass, { lowest, top: Math.max(0, lowest - size.lines + 1), over: time, length: time + PASS_TIMES.rest });
    passes.push(pass);
  }

  /** Let the bar cross the drafts as far as they are judged, and end with a verdict where one is rejected. */
  judge(pass, step, entries, drafts, began) {
    const { index } = pass;
    let time = began;
    const cross = (word) => {
      const until = time + (word.width + this.ruler(" ")) * PASS_TIMES.pixel;
      pass.sweep.push({ word, from: time, until });
      word.at = mixed(time, until, 0.6);
      time = until;
    };
    for (const entry of entries) {
      const name = this.replay.fates[step.fate[entry]].name;
      const word = drafts.get(entry) ?? this.put(step.token[entry], this.cursor, { position: step.position[entry], born: index, from: time });
      const kind = { accepted: "accepted", resampled: "rejected", discarded: "dropped" }[name] ?? "placed";
      Object.assign(word, { kind, pass: index });
      if (kind === "dropped") continue;
      cross(word);
      this.cursor = word.next;
      if (kind !== "rejected") continue;
      time = this.reject(pass, word, entry, time);
      this.cursor = pass.verdict.drawn.next;
    }
    const fall = pass.verdict?.times.fall ?? time;
    [...drafts.values()].filter(({ kind }) => kind === "dropped").forEach((word, order) => (word.falls = fall + 26 * order));
    this.pending = [];
    return time;
  }

  reject(pass, word, entry, began) {
    const { replay, read } = this;
    const moment = new Moment(replay, pass.index, entry);
    const close = isTelling(replay, moment.step, entry);
    const first = !word.sign && (!read.word || (close && !read.close));
    const pace = VERDICT_PACE[word.sign ? "sign" : first ? "first" : "later"];
    if (!word.sign) Object.assign(read, { word: true, close: read.close || close });
    let time = began + 40;
    const times = {};
    for (const [name, length] of Object.entries(VERDICT_TIMES)) [times[name], time] = [time, time + length * pace];
    const drawn = this.put(moment.token("token"), word.before, { position: word.position, born: pass.index, pass: pass.index, from: times.land - 60, kind: "drawn" });
    const columns = stagedColumns(moment);
    pass.verdict = { pass, moment, word, drawn, times, columns, pick: columns.findIndex(({ token }) => token === moment.token("token")) };
    word.verdict = drawn.verdict = pass.verdict;
    return time;
  }

  /** What stands on the stage once `done` passes are over and the next one is at `time`; another `coin` may be supposed. */
  frame(done, time, coin = null) {
    const [now, last] = [this.passes[done], this.passes[done - 1]];
    const words = this.words.map((word) => lookOf(word, (pass) => (pass < done ? Infinity : pass === done ? time : -Infinity))).filter(Boolean);
    const current = now?.verdict && time >= now.verdict.times.grow ? now.verdict : null;
    const faded = last?.verdict && !current ? 1 - progress(time, 0, 350) : 0;
    const verdict = current ? verdictAt(current, time, coin) : faded > 0 ? { ...verdictAt(last.verdict, Infinity, coin), alpha: faded } : null;
    const top = mixed(last?.top ?? 0, (now ?? last)?.top ?? 0, now ? swinging(progress(time, 0, 250)) : 1);
    const ended = this.replay.complete ? (now ? (done === this.passes.length - 1 ? progress(time, now.over, now.length) : 0) : 1) : 0;
    return { done, words, verdict, bar: now ? barAt(now, time) : null, top, ended, caption: captionOf(now ?? null, last ?? null, time) };
  }
}

/** The draft, what replaced it and the likeliest others as {token, p, q, share of the residual}; the rest keeps the totals. */
function stagedColumns(moment) {
  const [draft, token] = [moment.token("draft"), moment.token("token")];
  const { left, total } = residualOf(moment);
  const share = (each) => (left.find((one) => one.token === each)?.share ?? 0) / total || 0;
  const rows = ratioRows(moment, moment.likely ?? [{ token: draft, p: moment.number("p"), q: moment.number("q") }], MOST_STAGED);
  const known = rows.filter((row) => row.token !== null);
  const rest = Math.max(0, 1 - known.reduce((sum, row) => sum + share(row.token), 0));
  const columns = rows.map((row) => ({ ...row, share: row.token === null ? rest : share(row.token), text: row.token === null ? "others" : moment.replay.wordOf(row.token).trim().replaceAll("\n", "↵") || "␣" }));
  const rank = (row) => (row.token === draft ? 0 : row.token === null ? 2 : 1);
  const worth = (row) => row.token === draft || row.token === token || Math.max(row.p, row.q) >= LEAST_REST;
  return columns.filter(worth).sort((a, b) => rank(a) - rank(b) || b.p - a.p);
}

/** How a word looks; `at` gives the time within a pass: none before it, without end after it. Null while it is not there. */
function lookOf(word, at) {
  const [here, judged] = [at(word.born), at(word.pass ?? Infinity)];
  const arrived = slowing(progress(here, word.from, word.from + 260));
  if (arrived === 0) return null;
  const look = { word, kind: word.kind ?? "draft", alpha: arrived, down: 9 * (1 - arrived), struck: 0, landed: 1, fresh: 0 };
  const solid = progress(judged, word.at - 70, word.at + 130);
  const times = word.verdict?.times;
  if (look.kind === "accepted") look.alpha *= mixed(TRANSLUCENT, 1, solid);
  else if (look.kind === "draft") look.alpha *= TRANSLUCENT;
  else if (look.kind === "dropped") {
    const gone = progress(judged, word.falls, word.falls + 420);
    Object.assign(look, { alpha: look.alpha * TRANSLUCENT * (1 - gone), down: look.down + 16 * gone });
  } else if (look.kind === "rejected") {
    const gone = progress(judged, times.fall, times.residual) ** 2;
    look.struck = slowing(progress(judged, times.judge + 40, times.judge + 300));
    Object.assign(look, { alpha: look.alpha * mixed(TRANSLUCENT, 0.95, solid) * (1 - gone), down: look.down + 120 * gone });
  } else if (look.kind === "drawn") {
    look.landed = swinging(progress(judged, word.from, times.hold));
    look.fresh = judged === Infinity ? 1 - progress(at(word.pass + 1), 0, 500) : 1;
  }
  return look.alpha > 0.004 ? look : null;
}

/** A verdict at a time: how far its bars have grown, what is told apart in them, and where the ball is on its way. */
function verdictAt(verdict, time, coin) {
  const { times, moment } = verdict;
  const fallen = times.fall + 0.3 * (times.residual - times.fall);
  const share = progress(time, times.drop, times.judge - 60);
  return {
    verdict,
    alpha: progress(time, times.grow, times.grow + 160),
    grown: progress(time, times.grow, times.look),
    told: progress(time, times.look - 100, times.look + 300),
    apart: swinging(progress(time, fallen, mixed(times.residual, times.roll, 0.35))),
    scaled: swinging(progress(time, mixed(times.residual, times.roll, 0.4), times.roll)),
    coin: coin ?? moment.number("coin"),
    dropped: share < 0.62 ? (share / 0.62) ** 2 : 1 - Math.sin((Math.PI * (share - 0.62)) / 0.38) * 0.09 * (1 - share),
    sunk: progress(time, fallen, times.roll) ** 2,
    rolled: progress(time, times.roll, times.land - 40),
    seen: progress(time, times.drop - 120, times.drop),
    judged: time > times.judge - 120,
    ring: progress(time, times.judge - 60, times.judge + 420),
  };
}

/** Where the light bar stands, or null. */
function barAt({ sweep, swept }, time) {
  if (!sweep.length) return null;
  const end = sweep.at(-1).until;
  const alpha = progress(time, swept - 160, swept) * (1 - progress(time, end + 20, end + 240));
  const { word, from, until } = sweep.find((each) => time <= each.until) ?? sweep.at(-1);
  const first = sweep.find((each) => each.word.line === word.line).word;
  return alpha ? { alpha, x: mixed(word.x - 4, word.x + word.width + 4, progress(time, from, until)), line: word.line, from: first.x - 4 } : null;
}

/** What a pass does at a time, in a few words, and a note below them; of the last pass where none is under way. */
function captionOf(now, last, time) {
  const passed = now && time > 0 ? null : last;
  const pass = passed ?? now;
  const [at, verdict] = [passed ? Infinity : time, pass?.verdict];
  if (!pass || (pass.index === 0 && at === 0)) return ["", ""];
  if (verdict && at >= verdict.times.grow) return verdictCaption(verdict, at);
  const model = "One pass of the model";
  if (!pass.sweep.length) return ["The drafter proposes a word.", ""];
  if (!pass.drafts) return [`${model}, without a draft: one word.`, ""];
  if (at < pass.swept) return [`${counted(pass.drafts, "draft")} at once.`, "not verified yet"];
  const kept = pass.sweep.filter(({ word }) => word.kind === "accepted").length;
  return at > pass.over ? [`${kept} of ${counted(pass.drafts, "draft")} accepted in one pass.`, ""] : [`${model} verifies ${pass.drafts > 1 ? "them all" : "it"}.`, ""];
}

function verdictCaption({ times, moment, drawn }, at) {
  const [draft, p, q] = [moment.replay.tokenText(moment.token("draft")).replace("“ ", "“"), figure(moment.number("p")), figure(moment.number("q"))];
  const formula = (ruleOf(moment)?.pieces ?? []).map(({ text }) => text).join("");
  if (at < times.drop) return [`How likely is ${draft}?`, `q = ${q}, drafter; p = ${p}, target`];
  if (at < times.judge) return [`A coin decides: accept with probability p / q.`, formula.split(";")[0]];
  if (at < times.residual) return [`The coin fell above p: rejected.`, formula.split("; ")[1] ?? ""];
  if (at < times.land) return ["Redrawn from where p exceeds q.", "the residual, max(0, p − q), scaled to 100 %"];
  return [`“${drawn.text}” is drawn from the residual.`, formula];
}
