// @ts-check
// This step, worked out: one acceptance test with its own numbers, next to the canvas. The draft, its verification, the decision in
// the method's formula, and what a rejected draft is replaced from.

import { bellsOf, drawBells, pathInWords, ratioColumns, residualColumns, thumb, thumbnail, topColumns } from "./bars.js";
import { make, makeButton, makeSlider, mark, setText, sized, term } from "./paint.js";
import { figure } from "./replay.js";
import { Moment, fill, ruleOf } from "./rules.js";
import { uniformDrawInWords, withUniformDraw } from "./uniform_draw.js";

const LONG_SHARE = 0.6;
/** The most instructive rejections are those whose uniform draw could well have decided the other way. */
const TELLING = { least: 0.3, most: 0.7 };
const NOT_RECORDED = "The likeliest tokens were not recorded.";
const NOT_KEPT = "The likeliest tokens are kept where a verdict counts.";
/** Kinds of entries to go to, with the label of the button, its key and its tooltip. @type {[string, string, string, string][]} */
export const NEXT = [
  ["rejection", "Next rejection", "r", "To the next draft that was rejected"],
  ["long", "Next long acceptance", "a", "To the next pass that accepted many drafts at once"],
  ["draft", "Next draft", "d", "To the next draft that was verified"],
];

/** The panel. One a player: it explains the lane that was last pointed at, else the last one. */
export class Worked {
  /** @type {any} */
  replay;
  /** @type {any} */
  scene;
  /** @type {any} */
  moment;
  /** @type {any} */
  offered;
  /** @type {any} */
  offeredAt;

  constructor(player) {
    this.player = player;
    this.key = "";
    this.where = make("p", { class: "ds-where" });
    this.parts = Object.fromEntries(["draft", "verify", "verdict", "left"].map((name) => [name, make("li", { class: `ds-part ds-part-${name}` })]));
    this.list = make("ol", { class: "ds-parts" }, ...Object.values(this.parts));
    this.goes = NEXT.map((next) => this.makeGo(next));
    const buttons = make("div", { class: "ds-goes", role: "group", "aria-label": "Go on to" }, ...this.goes);
    const body = make("div", { class: "ds-worked-body", tabindex: "0", role: "group", "aria-label": "The verdict in four steps" }, this.list);
    this.more = makeButton({ class: "ds-more", "aria-expanded": "false" }, () => this.open(!this.node.classList.contains("is-open")), "more");
    const head = make("header", { class: "ds-worked-head" }, make("h3", {}, "This step, worked out"), this.where, this.more);
    this.node = make("section", { class: "ds-worked", ...player.race.holding, "aria-label": "This step, worked out" }, head, body, buttons);
    this.makeCoin();
  }

  /** A button that goes on to a kind of moment. */
  makeGo([kind, label, key, title], names = null) {
    return makeButton({ class: names, title: `${title} (${key})`, "aria-keyshortcuts": key }, () => this.go(kind), label);
  }

  /** On a phone the panel is a strip with the verdict alone until it is opened. */
  open(open) {
    this.node.classList.toggle("is-open", open);
    this.more.setAttribute("aria-expanded", String(open));
    setText(this.more, open ? "less" : "more");
  }

  makeCoin() {
    this.slider = makeSlider({ class: "ds-draw", min: "0", max: "1", step: "0.001", "aria-label": "This step's numbers if the uniform draw had been" }, (value) => this.turn(value));
    const turnBack = () => {
      this.turn(null);
      this.slider.focus();
    };
    this.back = makeButton({ class: "ds-ask" }, turnBack, "as it was");
    this.formula = make("p", { class: "ds-formula" });
    this.says = make("p", { class: "ds-note" });
    this.then = make("p", { class: "ds-then", role: "status" });
    this.coin = make("div", { class: "ds-what-if" }, make("p", { class: "ds-note" }, make("span", {}, "This step's numbers if the uniform draw had been …"), " ", this.back), this.slider, this.then);
  }

  /** A word that shows its meaning when pointed at or focused; p, q and the residual have their bars' colour before them. */
  term(name, text = name) {
    const swatch = { p: "p", q: "q", residual: "left" }[name];
    const button = term(name, text);
    if (swatch) button.prepend(make("i", { class: `ds-swatch is-${swatch}`, "aria-hidden": "true" }));
    return button;
  }

  /** The entry to explain in a scene: of the chosen token, else what this pass shows best. */
  entryOf({ entry, position, step, count, replay }) {
    if (position !== null) return entry;
    if (!step?.deciding.length) return null;
    return { step: count - 1, entry: tellingEntry(replay, step) };
  }

  show(scene) {
    const entry = scene && this.entryOf(scene);
    const key = entry ? [scene.replay.revision, entry.step, entry.entry, scene.theme.dark, scene.pictures.readyAt(entry.step)].join() : String(scene?.position);
    if (this.replay === scene?.replay && key === this.key) return;
    Object.assign(this, { key, scene, replay: scene?.replay });
    this.moment = entry ? new Moment(scene.replay, entry.step, entry.entry) : null;
    this.list.hidden = !this.moment;
    this.sayWhere();
    if (!this.moment) return;
    this.rule = ruleOf(this.moment);
    this.turned = false;
    this.showDraft();
    this.showVerification(this.moment);
    this.showVerdict();
    this.showLeft(this.moment);
  }

  /** A button whose kind of moment a run does not have is marked as such. */
  offerGoes(replay) {
    const key = [replay?.revision, replay?.length].join();
    if (this.offered === replay && this.offeredAt === key) return;
    Object.assign(this, { offered: replay, offeredAt: key });
    NEXT.forEach(([kind, label], index) => {
      const none = !replay || !findNext(replay, kind, { index: -1, entry: -1 });
      this.goes[index].disabled = none;
      setText(this.goes[index], none ? `${label}: none in this run` : label);
    });
    this.player.controls.next.disabled = this.goes[0].disabled;
  }

  sayWhere() {
    const { moment, scene } = this;
    const none = scene?.position == null ? "step on by one pass, or choose a token" : `${scene.replay.placeText(scene.position)}: not reached yet`;
    setText(this.where, moment ? `${moment.replay.passName(moment.index)} · ${moment.replay.placeText(moment.position)}` : none);
  }

  fillPart(name, title, ...children) {
    const part = this.parts[name];
    part.hidden = children.length === 0;
    part.replaceChildren(...(part.hidden ? [] : [make("h4", {}, ...title), ...children.filter(Boolean)]));
  }

  showDraft() {
    const { moment } = this;
    const draft = moment.token("draft");
    const token = draft ?? moment.token("token");
    const words = draft === undefined ? this.withoutDraft() : [this.named(draft), this.origin()].filter(Boolean).join(", ");
    this.fillPart("draft", [draft === undefined ? "The token" : "The draft"], make("div", { class: "ds-line" }, this.picture(token, moment.index), make("p", {}, words)));
  }

  /** A picture of a token: its tile, or the patch in the picture at that moment. */
  picture(token, count) {
    const { pictures } = this.scene;
    const tile = thumbnail(pictures, token, 40);
    if (tile || token === undefined || this.replay.grid.kind === "text") return tile;
    return thumb(40, (context) => pictures.drawSpot(context, this.moment.position, count, 40));
  }

  /** Pass in which the draft was made, and its probability then. */
  origin() {
    const { moment } = this;
    if (moment.number("initial") === 1) return "an initial draft, not from the model";
    const q = moment.number("q");
    const isDraft = (earlier) => earlier.step < moment.index && ["drafted", "changed"].includes(this.replay.fateOf(earlier)?.name);
    const drafting = this.replay.history[moment.position].findLast(isDraft);
    const when = drafting ? `drafted in pass ${drafting.step + 1}` : "";
    return [when, q === undefined ? "" : `at q = ${figure(q)}`].filter(Boolean).join(" ");
  }

  /** A token in words, said to be a patch where it is one. */
  named(token) {
    const text = this.replay.tokenText(token, this.moment);
    return this.replay.grid.kind !== "text" && Number.isInteger(token) ? `Patch ${text}` : text;
  }

  withoutDraft() {
    const { moment } = this;
    const token = moment.token("token");
    const name = token === undefined ? "" : `${this.named(token)}: `;
    return `${name}${moment.fate?.meaning ?? ""}.`;
  }

  /** p over q; `moment` may contain a changed uniform draw. */
  showVerification(moment) {
    const { pictures, theme } = this.scene;
    const over = ["Verification: ", this.term("p"), " over ", this.term("q")];
    const bells = bellsOf(moment);
    const [p, q, token] = [moment.number("p"), moment.number("q"), moment.token("draft")];
    if (moment.likely) this.fillPart("verify", over, ratioColumns(moment, pictures, moment.likely));
    else if (bells) this.showBells(moment, bells, theme);
    else if (moment.top && q === undefined) this.fillPart("verify", ["What the model finds likely: ", this.term("confidence")], topColumns(moment, pictures));
    else if (p !== undefined && q !== undefined) this.fillPart("verify", over, ratioColumns(moment, pictures, [{ token, p, q }]), ...(moment.top ? [make("p", { class: "ds-note" }, "Likeliest by p"), topColumns(moment, pictures)] : [make("p", { class: "ds-note" }, moment.fate?.judged ? NOT_RECORDED : NOT_KEPT)]));
    else this.fillPart("verify", []);
  }

  showBells(moment, bells, theme) {
    const canvas = make("canvas", { class: "ds-bells", role: "img" });
    const [p, q] = ["log_density_target", "log_density_draft"].map((name) => moment.number(name));
    const words = `Means ${figure(bells.distance)} apart; widths ${figure(bells.draft)} (q) and ${figure(bells.target)} (p).`;
    const densities = p === undefined || q === undefined ? "" : ` Log densities of the draft: ${figure(q)} (q), ${figure(p)} (p).`;
    canvas.setAttribute("aria-label", words);
    this.fillPart("verify", ["Verification, last denoising step: ", this.term("p"), " over ", this.term("q")], canvas, make("p", { class: "ds-note" }, words, densities, " ", pathInWords(moment, true)));
    /** @type {[number, number]} */
    const size = [canvas.clientWidth || 300, 96];
    drawBells(sized(canvas, ...size), bells, theme, moment.redrawn && bells.token !== undefined, size);
  }

  showVerdict() {
    const { moment, rule } = this;
    const drawDecided = moment.drawDecided;
    const title = drawDecided ? ["The verdict, by a ", this.term("uniform", "uniform draw")] : ["The verdict"];
    if (!rule) return this.fillPart("verdict", title, make("p", {}, waitingInWords(moment)));
    this.coin.hidden = !drawDecided;
    setText(this.says, String(rule.says ?? ""));
    mark(this.says);
    this.fillPart("verdict", title, this.formula, this.says, this.coin);
    if (drawDecided) this.slider.style.setProperty("--ds-bar", `${100 * Math.min(1, moment.number("accept_prob"))}%`);
    this.turn(null);
  }

  /** Set the uniform draw to `value`, or back to the recorded one. */
  turn(value) {
    const { moment, rule } = this;
    if (!moment || !rule) return;
    const recorded = moment.step.coin?.[moment.entry];
    const supposed = new Moment(moment.replay, moment.index, moment.entry);
    if (value !== null) Object.assign(supposed, { coin: value, verdict: value < moment.number("accept_prob") ? "accepted" : "rejected" });
    this.writeFormula(fill(rule, supposed) ?? rule.pieces);
    if (!moment.drawDecided) return;
    if (value !== null || this.turned) {
      this.showVerification(supposed);
      this.showLeft(supposed);
    }
    this.turned = value !== null;
    if (value === null) this.slider.value = recorded;
    this.slider.setAttribute("aria-valuetext", this.formula.textContent);
    this.back.hidden = value === null;
    setText(this.then, value === null ? "" : uniformDrawInWords(moment, withUniformDraw(moment, value)));
  }

  writeFormula(pieces) {
    const nodes = pieces.flatMap(({ text, name }) => (name ? [make("b", {}, text)] : text.split("; ").flatMap((part, index) => (index ? [make("br"), part] : [part]))));
    this.formula.replaceChildren(...nodes);
  }

  /** The residual of p over q, and what was drawn from it; `moment` may contain a changed uniform draw. */
  showLeft(moment) {
    const { rule } = this;
    const [after, tries] = [moment.token("token"), moment.number("tries")];
    const { redrawn } = moment;
    const instead = redrawn && after !== undefined ? make("div", { class: "ds-line" }, this.picture(after, moment.index + 1), make("p", {}, `${INSTEAD[rule?.redrawn] ?? "The replacement"}: ${moment.replay.tokenText(after, moment)}`)) : null;
    const title = ["The ", this.term("residual"), ", max(0, p − q)"];
    const bars = moment.likely && !["likeliest", "judge"].includes(rule?.redrawn) && moment.drawDecided ? residualColumns(moment, this.scene.pictures) : null;
    const notDrawn = redrawn ? null : make("p", { class: "ds-note" }, notDrawnInWords(moment));
    if (bars?.children.length) this.fillPart("left", [...title, ", scaled to 100 %"], notDrawn, bars);
    else if (instead) this.fillPart("left", rule?.redrawn === "residual" ? title : ["The replacement"], instead, tries && make("p", { class: "ds-note" }, `Drawn from the target until one fell into the residual: ${tries} ${tries === 1 ? "try" : "tries"}.`));
    else this.fillPart("left", title, ...(moment.fate?.name === "resampled" ? [notDrawn] : []));
  }

  /**
   * Go to the next moment of a kind after the one that is shown, from the start again when there is none. Out of a race
   * that plays by itself, and of patches on the stage, the next rejection is an instructive one, where there is one.
   */
  go(kind) {
    const lane = this.player.subject();
    if (!lane) return;
    const { replay } = lane;
    const { race, stage, reading, clock, now } = this.player;
    const [done, time] = reading ? stage.progressAt(now) : [];
    const shown = reading ? { index: time > 0 ? done : done - 1, entry: Infinity } : { index: replay.stepsAt(clock, now) - 1, entry: -1 };
    const from = !reading && this.moment?.replay === replay ? this.moment : shown;
    const telling = kind === "rejection" && (race.looping || (reading && !stage.isText)) ? findNext(replay, "telling", from) : null;
    const next = telling ?? findNext(replay, kind, from);
    if (next) this.player.showVerdictAt(lane, next);
    else setText(this.player.live, `There is no ${kind === "long" ? "long acceptance" : kind} in this run.`);
  }
}

const INSTEAD = {
  residual: "Drawn from it",
  judge: "Drawn from p",
  likeliest: "The most likely token under p replaces it",
};

/** Why no token was drawn from the residual. */
function notDrawnInWords({ verdict, fate }) {
  if (verdict !== "accepted" && fate.name === "rejected") return "Nothing is drawn from here: the position is open again.";
  if (verdict === "rejected") return "With this draw a token is sampled from here. Which one is unknown: the run sampled none.";
  return verdict === "accepted" ? "With this draw nothing is sampled from here: the draft is accepted." : "Not needed here: the draft was accepted.";
}

/** Describe what an entry without a rule waits for. */
function waitingInWords({ fate }) {
  if (fate?.pending) return "No verdict yet: a later pass verifies this draft.";
  if (fate?.name === "discarded") return "No verdict: a draft before it was rejected, so this one was dropped.";
  return fate?.final ? "No draft was verified here: the token is final." : `No verdict: ${fate?.meaning ?? "nothing is known"}.`;
}

/** The entry of a step that says most: the first draft that failed, else the closest call, else the first one. */
function tellingEntry(replay, step) {
  const names = (entry) => replay.fates[step.fate[entry]];
  const judged = step.judgedEntries;
  const rejected = judged.filter((entry) => names(entry).name !== "accepted");
  const failed = rejected.find((entry) => isInstructive(replay, step, entry)) ?? rejected[0];
  const acceptProb = (entry) => step.acceptProb?.[entry] ?? 1;
  const closest = judged.reduce((best, entry) => (best === null || acceptProb(entry) < acceptProb(best) ? entry : best), null);
  return failed ?? closest ?? step.deciding.find((entry) => names(entry)?.final) ?? step.deciding[0];
}

/** Whether a draft was rejected by a uniform draw that could well have decided the other way; an initial draft is not the model's own. */
export function isInstructive(replay, step, entry) {
  const acceptProb = step.acceptProb?.[entry] ?? NaN;
  const rejected = replay.fates[step.fate[entry]]?.name !== "accepted";
  return rejected && acceptProb >= TELLING.least && acceptProb <= TELLING.most && step.numbers.initial?.[entry] !== 1;
}

/** The next {index, entry} of a kind after a moment; null where a run has none. */
function findNext(replay, kind, { index, entry }) {
  const longest = Math.max(...replay.steps.map(({ accepted }) => accepted));
  const long = Math.max(2, Math.ceil(LONG_SHARE * longest));
  const isAccepted = (step, each) => replay.fates[step.fate[each]]?.name === "accepted";
  const fits = (step, each) => kind === "draft" || (kind === "telling" ? isInstructive(replay, step, each) : !isAccepted(step, each));
  for (let ahead = 0; ahead <= replay.length; ahead += 1) {
    const at = (Math.max(0, index) + ahead) % replay.length;
    const step = replay.steps[at];
    if (!step) return null;
    if (kind === "long") {
      if (at !== index && step.accepted >= long) return { index: at, entry: step.judgedEntries.findLast((each) => isAccepted(step, each)) };
      continue;
    }
    const next = step.judgedEntries.find((each) => fits(step, each) && (ahead > 0 || index < 0 || each > entry));
    if (next !== undefined) return { index: at, entry: next };
  }
  return null;
}
