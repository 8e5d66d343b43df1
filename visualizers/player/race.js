// @ts-check
// Recorded pairs that play by themselves, over and over, until the reader takes over; and what happens, in one sentence.

import { make, makeButton, mark, setText } from "./paint.js";
import { capital, formatInteger } from "./replay.js";
import { unitOf } from "./script.js";
import { isInstructive } from "./worked.js";

const REST_SECONDS = { start: 0.9, finish: 3, end: 2.5 };
const RACE_SECONDS = 8;
export const AFTER_FINISH = { times: 3, seconds: 10 };  // so much faster, and faster still where that would take longer

/** Line of text above the lanes, and the loop of recorded pairs. */
export class Race {
  /** Listeners that pause the loop while the pointer is over a part of it. */
  holding = { pointerenter: () => (this.paused = true), pointerleave: () => (this.paused = false) };

  constructor(player) {
    this.player = player;
    this.looping = this.paused = false;
    this.pairs = [];
    this.restSeconds = this.chosenAt = 0;
    this.sentence = make("strong", {});
    this.truth = make("span", {});
    const explain = () => {
      player.takeOver();
      this.explain(this.reason.hidden);
    };
    this.why = makeButton({ class: "ds-ask", "aria-expanded": "false" }, explain, "why?");
    this.back = makeButton({ class: "ds-ask", hidden: true, "aria-keyshortcuts": "Escape" }, () => player.takeBack(), "Back to the run");
    this.because = make("span", {});
    const learn = makeButton({ class: "ds-ask", hidden: !player.lessons }, () => player.emit("taught", { lesson: "exact" }), "Try it yourself: the lesson");
    this.reason = make("p", { class: "ds-reason", hidden: true }, this.because, " ", learn);
    this.chips = make("div", { class: "ds-races", role: "group", "aria-label": "Recorded pairs" });
    this.promptLine = make("p", { class: "ds-asked" });
    const line = make("p", { class: "ds-say", "aria-live": "off" }, this.sentence, " ", this.truth, " ", this.why, this.back);
    this.invite = makeButton({ class: "ds-invite", hidden: true }, () => player.emit("invited", {}));
    const choose = make("div", { class: "ds-choose" }, this.chips, this.invite, this.promptLine);
    this.node = make("div", { class: "ds-race" }, line, this.reason, choose);
  }

  /** Offer pairs to choose from: `name`, `urls` or, where the page has them, `traces`, the reports of the runs, `reports`, and what the address calls it. */
  offer(pairs, invite = "") {
    this.pairs = pairs;
    const [, lead, last] = /** @type {RegExpExecArray} */ (/^(.*?)(\S*)$/s.exec(invite)); // where room is short, its last word is shown alone
    this.invite.replaceChildren(make("span", {}, lead), last);
    this.invite.hidden = !invite;
    this.chips.replaceChildren(...pairs.map(({ name }, index) => makeButton({ "aria-pressed": "false" }, () => this.choose(index, true), name)));
    return this.choose(0);
  }

  /** Fetch a pair and play it; the first one starts where the address says, if it does. */
  async choose(index, byUser = false) {
    const { player } = this;
    const pair = this.pairs[index];
    this.chosen = index;
    if (byUser) this.chosenAt = performance.now(); // what was requested earlier is not shown any more
    const show = (traces) => {
      if (this.chosen !== index || player.isRemoved()) return;
      player.load(traces, { reports: pair.reports, loop: true, afresh: byUser, called: pair.called });
      if (byUser) player.emit("chosen", { index });
    };
    if (pair.traces) show(pair.traces);
    else await player.fetched(pair.urls, show);
  }

  /** Another run is shown: the pair that the address calls so, or none. */
  leave(called) {
    this.looping = false;
    this.chosen = called ? this.pairs.findIndex((pair) => pair.called === called) : -1;
    this.pair = this.pairs[this.chosen] ?? null;
    this.restSeconds = 0;
    [...this.chips.children].forEach((chip, index) => chip.setAttribute("aria-pressed", String(index === this.chosen)));
    this.explain(false);
  }

  start() {
    const { player } = this;
    this.looping = true;
    player.speed = this.finish() / RACE_SECONDS; // where the stage has no speed of its own
    player.play();
  }

  explain(shown) {
    this.reason.hidden = !shown;
    this.why.setAttribute("aria-expanded", String(shown));
  }

  /** Time at which the first lane finishes. */
  finish() {
    const { player } = this;
    return Math.min(...player.present().map(({ replay }) => replay.extent(player.clock)));
  }

  /** The position of a race that may not move: the middle, or the end of the pass next to it with an instructive rejection. */
  still() {
    const { clock, lanes } = this.player;
    const { replay } = lanes.at(-1);
    const middle = Math.floor(this.finish() / 2);
    const ends = replay.ends[clock].slice(1).filter((_, index) => replay.steps[index].judgedEntries.some((entry) => isInstructive(replay, replay.steps[index], entry)));
    return ends.sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle))[0] ?? middle;
  }

  /** The reading of the clock after `seconds` more of the loop: with rests at its start, the finish and its end. */
  advance(seconds) {
    const { now, speed } = this.player;
    if (this.paused) return now;
    if (this.restSeconds > 0) {
      this.restSeconds -= seconds;
      return now;
    }
    const [finish, end] = [this.finish(), this.player.extent()];
    if (now >= end) {
      this.restSeconds = REST_SECONDS.start;
      return 0;
    }
    const after = Math.max(speed * AFTER_FINISH.times, (end - finish) / AFTER_FINISH.seconds);
    const next = this.player.stage.timeAfter(now, seconds) ?? now + seconds * (now < finish ? speed : after);
    if (now < finish && next >= finish) this.restSeconds = REST_SECONDS.finish;
    else if (next >= end) this.restSeconds = REST_SECONDS.end;
    else return next;
    return now < finish ? finish : end;
  }

  /** Describe what the last lane does, and at the end of a run what it took. */
  describe(lanes) {
    const lane = lanes.at(-1);
    if (!lane?.scene) return;
    const several = lanes.length > 2 ? `${lanes.length} runs on one clock.` : ""; // each lane has its own verdict
    const finished = several ? null : finishInWords(lanes);
    const counterfactual = this.player.stage.counterfactualInWords;
    const text = counterfactual || several || (finished ?? headlineOf(lane.replay));
    if (text !== this.sentence.textContent) {
      setText(this.sentence, text);
      mark(this.sentence);
    }
    this.back.hidden = !this.player.replaced;
    const { fidelity, truth, reason } = (finished && !counterfactual && lane.report) || {};
    setText(this.truth, truth ? `${capital(fidelity)}:` : "");
    setText(this.because, reason ?? "");
    this.why.hidden = !truth;
    if (!truth) this.explain(false);
    const { prompt, model } = lane.replay.meta;
    const prompted = prompt ? `“${prompt}”` : (model?.title ?? "");
    const { fidelity: recordedFidelity } = this.pair?.reports?.at(-1) ?? {};
    setText(this.promptLine, this.pairs.length ? (recordedFidelity ? `recorded, ${recordedFidelity}` : "") : prompted); // a host that offers pairs has the prompt in its form
  }
}

/** Describe in one sentence what a run does. */
function headlineOf(replay) {
  if (replay.meta.sums) return "Counts over many passes: nothing to play, the figures draw them.";
  const units = `${unitOf(replay)}${unitOf(replay) === "patch" ? "es" : "s"}`;
  if (replay.steps.some(({ judged }) => judged)) return `Draft several ${units}, verify them in one pass.`;
  const maxRevealed = Math.max(0, ...replay.steps.map(({ fate }) => fate.filter((code) => replay.fates[code]?.final).length));
  return maxRevealed > 1 ? `Reveal several ${units} in one pass.` : `One ${unitOf(replay)} a pass, the ordinary way.`;
}

/** Once one of two whole runs is over: what the second gained. Null before. */
function finishInWords([first, second]) {
  const headline = second?.report?.headline;
  if (!headline || ![first, second].some(({ scene, replay }) => scene?.count === replay.length)) return null;
  const wrong = second.wrongInWords();
  return wrong ? `${headline.slice(0, -1)}, but the answer is ${wrong}.` : headline;
}

export function counted(count, what) {
  return `${formatInteger(count)} ${what}${count === 1 ? "" : /(s|ch)$/.test(what) ? "es" : "s"}`;
}
