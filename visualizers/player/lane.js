// @ts-check
// One trace on the page: its report, its views, what is known about the chosen token, and a table of all passes.

import { PictureView } from "./canvases.js";
import { PassView, TimelineView } from "./charts.js";
import { ClipView } from "./clip.js";
import { MaskView } from "./mask.js";
import { icon, make, mark, setText, term } from "./paint.js";
import { NOTHING, Replay, State, figure, formatInteger } from "./replay.js";
import { TextView } from "./text.js";

const MAX_TABLE_ROWS = 2000;
const EARLIER_SHOWN = 3;
/** The text before a generated answer. */
const ANSWER_MARK = "####";

/** The chosen token in words and numbers. */
class Readout {
  constructor(theme) {
    this.theme = theme;
    this.hint = make("p", { class: "ds-hint" }, "Point at a token in any view, or move there with the arrow keys, to see what happened to it.");
    this.position = make("p", { class: "ds-place" });
    this.chip = make("span", { class: "ds-chip" });
    this.fate = make("span", {});
    this.token = make("p", { class: "ds-change" });
    this.before = make("p", { class: "ds-before" });
    this.numbers = make("dl", { class: "ds-numbers" });
    this.body = make("div", { class: "ds-story" }, this.position, make("p", { class: "ds-fate" }, this.chip, this.fate), this.token, this.before);
    this.node = make("section", { class: "ds-readout", "aria-label": "Chosen token" }, this.hint, this.body, this.numbers);
    this.body.hidden = this.numbers.hidden = true;
    this.key = "";
  }

  show(scene) {
    const { replay, position, entry, theme } = scene;
    const key = [position, entry?.step, entry?.entry, scene.pinned, theme.dark, replay.revision].join();
    if (key === this.key) return;
    this.key = key;
    const chosen = position !== null && position < replay.positions;
    this.hint.hidden = chosen;
    this.body.hidden = this.numbers.hidden = !chosen;
    if (!chosen) return;
    const step = entry ? replay.steps[entry.step] : null;
    this.showPlace(scene);
    this.showFate(scene, step);
    this.showBefore(scene);
    this.showNumbers(scene, step);
  }

  /** Outcomes at the position in earlier passes, the latest first. */
  showBefore({ replay, position, entry }) {
    const earlier = entry ? replay.history[position].filter(({ step }) => step < entry.step).slice(-EARLIER_SHOWN).reverse() : [];
    const words = earlier.map(({ step, entry: at }) => {
      const { fate, token } = replay.steps[step];
      return `${replay.fates[fate[at]].name} ${replay.tokenText(token[at], { position, index: step })} in pass ${step + 1}`;
    });
    setText(this.before, words.length ? `Before: ${words.join(", ")}` : "");
  }

  sentence() {
    if (this.body.hidden) return "no token chosen";
    return [this.position, this.fate, this.token].map((node) => node.textContent).filter(Boolean).join(". ");
  }

  showPlace({ replay, position, entry, pinned }) {
    const positionText = replay.grid.kind === "text" ? null : replay.placeText(position);
    const parts = [`Position ${position + 1}`, positionText, entry && `forward pass ${entry.step + 1}`, pinned && "pinned"];
    setText(this.position, parts.filter(Boolean).join(" · "));
  }

  showFate(scene, step) {
    const { replay, position, entry, theme } = scene;
    const code = step ? step.fate[entry.entry] : NOTHING;
    const fate = theme.fates[code];
    this.chip.replaceChildren(...(fate ? [icon(fate.path, fate.filled)] : []));
    theme.dress(this.chip, code);
    setText(this.fate, fate ? `${fate.name}: ${fate.meaning}` : "no forward pass has reached this position yet");
    mark(this.fate);
    const [token, draft] = [step?.token[entry.entry], step?.draft?.[entry.entry] ?? undefined];
    const [outcome, drafted] = [token, draft].map((each) => (each === undefined ? "" : replay.tokenText(each, { position, index: entry.step })));
    setText(this.token, outcome && `${drafted && drafted !== outcome ? `draft ${drafted} → ` : ""}token ${outcome}`);
  }

  /** p, q, the accept probability and every number of the method, each with its label and unit. */
  showNumbers({ replay, entry, theme }, step) {
    const rows = [
      ["p, judging distribution", step?.p?.[entry.entry], "Probability of the draft under the distribution that verifies it"],
      ["q, drafting distribution", step?.q?.[entry.entry], "Probability of the draft under the distribution it was drawn from"],
      ["Acceptance probability", step?.acceptProb?.[entry.entry], "The draft is accepted when the uniform draw is below it"],
      ["Uniform draw", step?.coin?.[entry.entry], "The random number between 0 and 1 that is compared with the acceptance probability"],
    ];
    const order = Object.keys(theme.data.measures);
    for (const name of [...replay.measures].sort((a, b) => order.indexOf(a) - order.indexOf(b))) {
      const measure = theme.data.measures[name] ?? { label: name, meaning: "", unit: "" };
      rows.push([measure.label, step?.numbers[name]?.[entry.entry], measure.meaning, measure.unit]);
    }
    const known = rows.filter(([, value]) => value !== null && value !== undefined);
    this.numbers.hidden = known.length === 0;
    const items = known.map(([label, value, meaning, unit]) => {
      const number = make("dd", {}, figure(value), unit ? make("small", {}, ` ${unit}`) : null);
      return make("div", {}, make("dt", {}, meaning ? term(label, label, meaning) : label), number);
    });
    this.numbers.replaceChildren(...items);
  }
}

/** Every forward pass as a row of text, filled when it is opened. */
class PassTable {
  constructor() {
    this.body = make("tbody");
    const heads = ["Pass", "Call", "Positions", "Accepted", "Judged", "Final so far", "Mean acceptance probability", "Mean β", "Milliseconds"];
    const head = make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text))));
    this.note = make("p", { class: "ds-note" });
    this.scroller = make("div", { class: "ds-scroller", tabindex: "0", role: "region", "aria-label": "Table of forward passes" }, make("table", {}, head, this.body));
    this.node = make("details", { class: "ds-table", toggle: () => this.fill() }, make("summary", {}, "Table of forward passes"), this.scroller, this.note);
  }

  fill(replay = this.replay) {
    this.replay = replay;
    if (!this.node.open || !replay) return;
    const walk = new State(replay.positions);
    const cell = (value) => make("td", {}, value === null ? "" : String(value));
    const mean = (value) => (value === null ? null : value.toFixed(3));
    const rows = replay.steps.slice(0, MAX_TABLE_ROWS).map((step, index) => {
      replay.apply(walk, step);
      const span = step.position.length ? `${Math.min(...step.position) + 1} to ${Math.max(...step.position) + 1}` : "none";
      const call = `${step.call.role ?? ""} ${step.call.mode ?? ""}`.trim();
      const values = [index + 1, call, span, step.accepted, step.judged, walk.finals, mean(step.meanAcceptProb), mean(step.meanAgreement), step.milliseconds.toFixed(2)];
      return make("tr", {}, ...values.map(cell));
    });
    this.body.replaceChildren(...rows);
    setText(this.note, replay.length > rows.length ? `The first ${rows.length} of ${replay.length} forward passes.` : "");
  }
}

/** A trace with everything that shows it. */
export class Lane {
  /** @type {any} */
  theme;
  /** @type {() => void} */
  redraw;
  /** @type {Record<string, string | string[]>} */
  answers;
  /** @type {any} */
  report;
  /** @type {any} */
  scene;
  /** @type {boolean} */
  live;
  /** @type {string} */
  shape;
  /** @type {string} */
  label;

  /** `answers` has what is right for every prompt where that is known: a number, or a regular expression a line. */
  constructor(meta, theme, redraw, answers) {
    Object.assign(this, { theme, redraw, answers });
    this.running = true;
    this.replay = new Replay(meta, this.theme.data);
    const { grid } = this.replay;
    this.picture = new PictureView(grid, this.redraw);
    this.clip = new ClipView(grid, this.redraw);
    this.readout = new Readout(this.theme);
    this.table = new PassTable();
    this.text = new TextView();
    const cells = [this.text, this.picture];
    const [pass, timeline, attention] = [new PassView(), new TimelineView(), new MaskView(this.redraw)];
    this.views = [...cells, pass, attention, timeline]; // with a cursor on a token
    this.shown = [...this.views, this.clip];
    this.title = make("h2", {});
    this.subtitle = make("p", { class: "ds-subtitle" });
    this.time = make("span", {});
    const names = [[term("token", "tokens"), " final"], [term("pass", "forward passes")], [this.time]];
    this.figures = names.map(() => make("dd"));
    const totals = make("dl", { class: "ds-outcome" }, ...this.figures.map((value, index) => make("div", {}, make("dt", {}, ...names[index]), value)));
    this.verdict = make("p", { class: "ds-lead" });
    const head = make("header", { class: "ds-head" }, make("div", {}, this.title, this.subtitle), totals, this.verdict);
    const ground = make("div", { class: grid.frames > 1 ? "ds-cells is-video" : "ds-cells" }, this.clip.figure, ...cells.map(({ figure }) => figure));
    const side = make("div", { class: "ds-side" }, pass.figure, this.readout.node);
    this.node = make("section", { class: "ds-lane" }, head, ground, side, attention.figure, timeline.figure, this.table.node);
    this.picture.use(meta);
    this.clip.use(meta);
    for (const view of this.views) view.canvas.setAttribute("aria-valuemax", grid.positions - 1);
  }

  /** Take a step of a running decoder. Return whether it was new. */
  push(sequence, step) {
    if (!this.running || !this.replay.push(sequence, step)) return false;
    this.live = true; // it was seen as it ran, so its letters stay as large as they are
    if (step.frame) this.picture.add(sequence + 1, step.frame);
    return true;
  }

  /** Take the whole trace, of the canvas that was announced: the drawing stays where it is. */
  finish(trace, report) {
    this.report = report;
    this.replay.replace(trace);
    this.picture.use(trace);
    this.clip.use(trace);
    this.table.fill(this.replay);
    this.running = false;
  }

  describe(name, extra) {
    const { meta } = this.replay;
    setText(this.title, name);
    const prompt = meta.prompt && meta.canvas.kind !== "text" ? `“${meta.prompt}”` : null;
    setText(this.subtitle, [extra, meta.model?.title || meta.model?.id, prompt].filter(Boolean).join(" · "));
    this.label = [name, extra].filter(Boolean).join(", ");
    this.node.setAttribute("aria-label", this.label);
    this.readout.node.setAttribute("aria-label", `Chosen token, ${this.label}`);
    this.table.scroller.setAttribute("aria-label", `Table of forward passes, ${this.label}`);
  }

  /** Show and size the views that this trace has columns for. */
  fit() {
    for (const view of this.shown) view.figure.hidden = !view.supports(this.replay);
    for (const view of this.shown) view.fit(this.replay);
  }

  /**
   * Letters on a canvas make the browser lay out all that has changed on the page, so canvases come before anything that
   * changes it: paint all lanes, then write them. What is not `seen` is not drawn.
   */
  paint(scene, seen = true) {
    this.scene = scene;
    if (seen) for (const view of this.shown) if (view !== this.text) view.draw(scene);
  }

  write(seen = true) {
    const { replay, scene } = this;
    if (seen) this.text.draw(scene);
    const finals = replay.tokensIn(scene.state);
    const computed = scene.clock === "computed";
    const milliseconds = replay.ends[computed ? "computed" : "milliseconds"][scene.count];
    setText(this.time, computed ? "milliseconds, computed" : "milliseconds");
    this.node.classList.toggle("is-computed", computed);
    // A text that ended early is done with the tokens that it has; a run that was stopped is not.
    const total = replay.completed ? Math.max(1, finals, replay.meta.summary?.tokens ?? 0) : replay.positions;
    const texts = [[finals, ` / ${formatInteger(total)}`], [scene.count, ""], [milliseconds, ""]];
    this.figures.forEach((value, index) => {
      const [number, of] = [formatInteger(texts[index][0]), texts[index][1]];
      if (value.textContent !== number + of) value.replaceChildren(number, make("small", {}, of));
    });
    this.readout.show(scene);
    const words = this.readout.sentence();
    for (const { canvas, speaks } of this.views) {
      if (speaks || canvas.getAttribute("aria-valuetext") === words) continue;
      canvas.setAttribute("aria-valuenow", scene.position ?? 0);
      canvas.setAttribute("aria-valuetext", words);
    }
  }

  /** Error in the answer, once it is there and the right one is known; empty otherwise. */
  wrongInWords() {
    return this.replay.completed && this.scene.count === this.replay.length ? this.wrong : "";
  }

  /** Error in the answer of the whole run; empty if it is right or the right one is not known. */
  get wrong() {
    const { replay, answers } = this;
    const { prompt, output } = replay.meta;
    if (replay.grid.kind !== "text" || prompt === undefined || !Object.hasOwn(answers, prompt)) return "";
    const right = answers[prompt];
    if (Array.isArray(right)) {
      const lines = (output?.text ?? "").replace(/\n$/, "").split("\n");
      const wrong = Array.from({ length: Math.max(right.length, lines.length) }).findIndex((_, i) => !new RegExp(`^${right[i] ?? "$."}$`).test(lines[i] ?? ""));
      return wrong < 0 ? "" : `wrong in line ${wrong + 1}`;
    }
    const number = (text) => Number(text.trim().replaceAll(",", "") || NaN);
    const answer = output?.text?.split(ANSWER_MARK).slice(1).at(-1) ?? "";
    if (number(answer) === number(right)) return "";
    return answer.trim() ? `wrong: ${answer.trim()}, not ${right}` : `no answer, though ${right} is right`;
  }

  sentence() {
    const [tokens, passes, milliseconds] = this.figures.map(({ textContent }) => textContent);
    return `${this.title.textContent}: ${tokens} tokens final, ${passes} forward passes, ${milliseconds} ${this.time.textContent}`;
  }
}
