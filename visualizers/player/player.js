// @ts-check
// The player: traces on one clock, one cursor, and the controls that move them.

import { PictureView } from "./canvases.js";
import { CLOCKS, Controls, USUAL_SPEED } from "./controls.js";
import { Lane } from "./lane.js";
import { Theme, icon, make, setText, term } from "./paint.js";
import { inDigits } from "./pass_cost.js";
import { Race } from "./race.js";
import { capital, problemOf } from "./replay.js";
import { Stage } from "./stage.js";
import { TextView } from "./text.js";
import { NEXT, Worked } from "./worked.js";

const STRIDES = { ArrowLeft: -1, ArrowRight: 1, ",": -1, ".": 1, PageUp: -10, PageDown: 10 };
export const SETTLE_MILLISECONDS = 300;
const mounted = new WeakMap();

class Player {
  /** @type {HTMLElement} */
  root;
  /** @type {(name: string, detail: object) => void} */
  emit;
  /** @type {boolean} */
  hash;
  /** @type {any} */
  data;
  /** @type {boolean} */
  staged;
  /** @type {boolean} */
  lessons;
  /** @type {boolean} */
  turns;
  /** @type {boolean} */
  wasConnected;
  /** @type {boolean} */
  lecturing;
  /** @type {any[]} */
  lanes;
  /** Name of the run in the address. @type {string} */
  called;
  /** @type {Race} */
  race;
  /** @type {Worked} */
  worked;
  /** @type {Stage} */
  stage;
  /** @type {Controls} */
  controls;
  /** @type {HTMLElement} */
  key;
  /** @type {HTMLElement} */
  message;
  /** @type {HTMLElement} */
  ground;
  /** @type {HTMLElement} */
  live;
  /** @type {AbortController} */
  stopListening;
  /** @type {MediaQueryList} */
  darkPage;
  /** @type {{ disconnect: () => void }[]} */
  observers;
  /** The timer before the position is said, and the drawing to come. @type {number | undefined} */
  settling;
  /** @type {number} */
  frame;
  /** The verdict that is shown, and the token that is pointed at. @type {any} */
  spotlight;
  /** @type {any} */
  moment;

  constructor(root, { emit = () => {}, data, hash = true, keys = root, staged = false, lessons = false }) {
    Object.assign(this, { root, emit, hash, data, staged, lessons, turns: staged });
    this.theme = new Theme(data);
    this.answers = {};
    this.clock = "passes";
    this.speed = USUAL_SPEED.passes;
    this.playing = this.guided = this.lecturing = false;
    this.until = Infinity;
    this.schedule = this.schedule.bind(this);
    this.forget();
    this.build();
    this.listen(keys);
    this.useTheme();
  }

  forget() {
    this.lanes = [];
    this.position = this.moment = this.spotlight = this.chosenLane = null;
    this.pinned = this.follow = false;
    this.now = 0;
    this.called = "";
    this.replaced = null; // the lane that another lane replaces for now, and the time of the replacement
  }

  build() {
    this.race = new Race(this);
    this.worked = new Worked(this);
    this.stage = new Stage(this);
    this.controls = new Controls(this);
    this.controls.useClock(this.clock, this.speed);
    this.key = make("ul", { class: "ds-key", "aria-label": "Key to the colours and glyphs" });
    this.message = make("p", { class: "ds-message", role: "status" });
    const [point, click] = [(event) => this.onPoint(event), (event) => this.onClick(event)];
    this.ground = make("div", { class: "ds-lanes", pointermove: point, pointerdown: point, click, ...this.race.holding });
    this.live = make("p", { class: "ds-sr", "aria-live": "polite" });
    this.root.classList.add("ds", "is-counted");
    this.root.setAttribute("role", "group");
    this.root.setAttribute("aria-label", "Trace player");
    const parts = [this.race, this.stage, this.controls].map(({ node }) => node);
    this.root.replaceChildren(this.message, ...parts, this.key, this.ground, this.worked.node, this.live);
    this.useStage(this.staged);
  }

  /** Show the run on the stage where that can be, or in every view. */
  useStage(staged) {
    this.staged = staged;
    this.race.node.hidden = !staged;
    this.controls.everyView.setAttribute("aria-pressed", String(!staged));
    this.refresh();
  }

  /** Show the step that the stage shows in numbers, at the end of its pass, or hide them. Return whether they are shown. */
  showNumbers() {
    this.jump((this.clock === "passes" && this.stage.replay?.ends.passes.find((end) => end > this.now - 1e-6)) || this.now);
    return this.root.classList.toggle("is-numbers");
  }

  /** Show the stage alone, as large as the screen, for a lecture; or leave that. */
  lecture(on = !this.lecturing) {
    if (on === this.lecturing || (on && !this.stage.shown)) return;
    this.lecturing = on;
    this.root.classList.toggle("is-lecture", on);
    this.root.popover = on ? "manual" : null;
    if (on) this.root.showPopover();
    this.controls.lecture.setAttribute("aria-pressed", String(on));
    if (on) document.documentElement.requestFullscreen?.().catch(() => {}); // a browser may refuse: the window is filled then
    else if (document.fullscreenElement) document.exitFullscreen();
    this.refit();
  }

  listen(keys) {
    const { signal } = (this.stopListening = new AbortController());
    keys.addEventListener("keydown", (event) => this.onKey(event), { signal });
    document.addEventListener("keydown", (event) => this.onPageKey(event), { signal });
    document.addEventListener("fullscreenchange", () => document.fullscreenElement || this.lecture(false), { signal });
    document.fonts.addEventListener("loadingdone", () => this.refit(), { signal }); // letters have another width now
    this.darkPage = matchMedia("(prefers-color-scheme: dark)");
    this.darkPage.addEventListener("change", () => this.useTheme(), { signal });
    const body = new MutationObserver(() => this.useTheme());
    body.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    const size = new ResizeObserver(() => this.refit());
    const sight = new IntersectionObserver(([{ isIntersecting }]) => (this.seen = isIntersecting));
    for (const observer of [size, sight]) observer.observe(this.root);
    this.observers = [body, size, sight];
    this.root.addEventListener("focusin", ({ target }) => (this.race.paused = /** @type {Element} */ (target).matches(":focus-visible")), { signal });
    this.root.addEventListener("focusout", this.race.holding.pointerleave, { signal });
  }

  destroy() {
    this.pause();
    clearTimeout(this.settling);
    cancelAnimationFrame(this.frame);
    this.stopListening.abort();
    for (const observer of this.observers) observer.disconnect();
    this.root.replaceChildren();
    mounted.delete(this.root);
  }

  /** Inside Gradio the page sets whether it is dark; elsewhere the address or the reader's system does. */
  useTheme() {
    if (this.isRemoved()) return;
    const gradio = document.querySelector("gradio-app, .gradio-container");
    const { colorScheme } = document.documentElement.style;
    const dark = gradio ? document.body.classList.contains("dark") : colorScheme ? colorScheme === "dark" : this.darkPage.matches;
    this.theme.use(dark);
    this.root.classList.toggle("is-dark", dark);
    for (const [name, color] of Object.entries(this.theme.surface)) this.root.style.setProperty(`--ds-${name}`, color);
    this.showKey();
    this.schedule();
  }

  /** Whether the page dropped the root; then the listeners on the page go too. */
  isRemoved() {
    if (this.root.isConnected || !this.wasConnected) {
      this.wasConnected ||= this.root.isConnected;
      return false;
    }
    this.destroy();
    return true;
  }

  // Traces in.

  clear(called = "") {
    this.loading = null;
    this.pause();
    this.explore();
    this.race.leave(called);
    this.forget();
    this.called = called;
    this.refresh();
  }

  /** Announce a run in lane 0 or 1; `meta` is a trace without steps, output and summary. */
  begin(index, meta) {
    this.pause();
    this.lanes[index] = new Lane(meta, this.theme, this.schedule, this.answers);
    this.compute();
    this.follow = true;
    this.refresh();
  }

  /** Add step number `sequence`, from 0; `step.frame` may hold the picture so far, `step.words` text of ids that the legend lacks. */
  push(index, sequence, step) {
    const lane = this.lanes[index];
    if (!lane?.push(sequence, step)) return;
    const { widest, fatesSeen, masks } = lane.replay;
    const shape = [widest, fatesSeen.size, masks.length].join();
    if (shape !== lane.shape) {
      lane.shape = shape;
      this.refresh();
    } else if (lane === this.stage.lane) this.stage.stale = true;
    this.schedule();
  }

  finish(index, trace, report = null) {
    const problem = problemOf(trace);
    if (problem) return this.fail(problem);
    if (!this.lanes[index]) this.begin(index, trace);
    this.lanes[index].finish(trace, report);
    this.compute();
    this.refresh();
    this.settleSoon();
  }

  /** Show a finished trace in a lane. */
  show(index, trace, report = null) {
    this.lanes[index] = new Lane(trace, this.theme, this.schedule, this.answers);
    this.lanes[index].finish(trace, report);
    this.compute();
  }

  /** A model's short name, where it has one. */
  modelName({ model }) {
    return this.data.models[model?.id] ?? model?.title ?? model?.id ?? "";
  }

  /** The name of a run and the settings that give it, as traces/labels.py has them. */
  nameOf({ method, variant, config }) {
    const fits = ([known, values]) => known === method && Object.entries(values).every(([name, value]) => String(config?.[name] ?? value) === value);
    const [, values, name] = this.data.names.find(fits) ?? [method, {}, String(method)];
    return variant ? { name: variant, values: {} } : { name, values };
  }

  /**
   * Show finished traces, at the position named in the address or at the end. A `loop` starts at the beginning; with reduced
   * motion it pauses at `start`, else near the middle. `called` is the traces' name in the address, `reports` the report of
   * each trace, as analysis/run_report.py has it.
   */
  load(traces, { reports = [], loop = false, start = false, afresh = false, called = "" } = {}) {
    const problem = traces.map(problemOf).find(Boolean);
    if (problem) return this.fail(problem);
    this.clear(called);
    traces.forEach((trace, index) => this.show(index, trace, reports[index]));
    this.now = this.extent();
    const placed = this.hash && !afresh && this.restore();
    this.refresh();
    if (!loop || placed) return;
    const still = wantsStillness();
    this.now = still && !start ? this.race.still() : 0;
    if (!still) this.race.start();
  }

  /**
   * Show a scene of a tour on the stage: fetch the traces of `urls` and play from the end of pass `from`, or its part `since`,
   * to that of pass `to` (by default the last one), or its part `until`; `fates` marks the outcome of every draft. The host
   * shows the text about it.
   */
  async scene({ urls, called, from = 0, since = null, to = null, until = null, fates = false }) {
    const request = (this.request = Symbol("scene"));
    this.pause();
    this.race.chosen = -1; // of a pair that is still on its way
    const current = () => this.request === request && !this.isRemoved();
    const show = (traces) => {
      if (!current()) return;
      this.guided = false;
      this.load(traces, { afresh: true, called });
      this.request = request;
    };
    if (!(await this.fetched(urls, show)) || !current()) return;
    this.guide(true, fates);
    if (this.clock !== "passes") this.useClock("passes");
    const end = to === null ? this.extent() : this.stage.readingAt(to, until);
    this.set(wantsStillness() ? end : this.stage.readingAt(from, since));
    if (this.now >= end) return;
    this.until = end;
    this.play();
  }

  /** End a tour: what it showed stays, and all of it is the reader's to move. */
  explore() {
    this.request = null;
    if (!this.guided) return;
    this.guide(false);
    this.takeOver();
    this.emit("explored", {});
  }

  guide(guided, fates = false) {
    this.guided = guided;
    this.controls.overlay.checked = fates;
    this.root.classList.toggle("is-guided", guided);
    this.useStage(guided || this.staged);
  }

  /** Offer recorded pairs, see the race, and play the first one in a loop; pressing a button of the words `invite` is "invited". */
  offer(pairs, invite = "") {
    return this.race.offer(pairs, invite);
  }

  /** Fetch traces of this site, plain or gzipped, and pass them to `use`; a failure is reported. Return whether all went well. */
  async fetched(urls, use) {
    this.fetching = true;
    if (!this.present().length) this.refresh();
    try {
      use(await Promise.all(urls.map(fetchTrace)).finally(() => (this.fetching = false)));
      return true;
    } catch (error) {
      this.fail(`This trace could not be loaded: ${/** @type {Error} */ (error).message}`);
      return false;
    }
  }

  /** Say that something is on its way. */
  expect() {
    this.fetching = true;
    this.refresh();
  }

  /** Fetch traces and show them, unless something else is shown by then or requested. */
  loadUrl(urls, options) {
    const request = (this.loading = Symbol("load"));
    return this.fetched([urls].flat(), (traces) => this.loading === request && this.load(traces, options));
  }

  fail(problem) {
    this.problem = problem;
    this.refresh();
    this.problem = null;
    this.emit("failed", { problem });
  }

  /** Go to the position in the address. Return whether it named a position. */
  restore() {
    const { step, ms, clock, token, on } = draftscopeAddress.position();
    if (Object.hasOwn(CLOCKS, clock)) this.useClock(clock, on);
    const wanted = Number.parseFloat(this.clock === "passes" ? step : ms);
    if (Number.isFinite(wanted)) this.now = Math.max(0, Math.min(this.extent(), this.readingOf(wanted)));
    const position = Number.parseInt(token, 10);
    if (position >= 0) Object.assign(this, { position, pinned: true });
    return Number.isFinite(wanted);
  }

  /** Show what follows from a changed uniform draw, `coin`: the run decoded with it from its `url`, or `title` and `text` that give the reason why there is none yet. */
  async showCounterfactual({ coin, url, title, text }) {
    const { stage: { activeCounterfactual, lane }, now } = this;
    if (!activeCounterfactual || (url && activeCounterfactual.uniform !== coin)) return;
    if (!url) {
      activeCounterfactual.message = `${title} ${text}`;
      return this.schedule();
    }
    await this.fetched([url], ([trace]) => {
      if (this.stage.activeCounterfactual !== activeCounterfactual) return;
      this.replaced ??= { lane, now };
      this.show(this.lanes.length - 1, trace);
      this.refresh();
      this.set(this.stage.replay.ends[this.clock][activeCounterfactual.moment.index + Number(wantsStillness())]);
      this.draw();
      this.race.back.focus({ preventScroll: true });
      if (!wantsStillness()) this.play();
    });
  }

  /** Show the run again whose uniform draw was changed. */
  takeBack() {
    const { lane, now } = this.replaced;
    this.lanes[this.lanes.length - 1] = lane;
    this.replaced = null;
    this.refresh();
    this.jump(now);
    this.controls.play.focus({ preventScroll: true });
  }

  // The clock.

  /** The clock's time at a position in the last run, in the form of addresses: passes, or milliseconds. */
  readingOf(time) {
    return this.clock === "passes" ? (this.present().at(-1)?.replay.readingAt(time) ?? 0) : time;
  }

  extent() {
    return Math.max(0, ...this.present().map(({ replay }) => replay.extent(this.clock)));
  }

  /** Time at which following ends: the end of what is running, so that a finished lane rewinds and races along; else the end. */
  newest() {
    const running = this.present().filter((lane) => lane.running);
    return running.length ? Math.max(...running.map(({ replay }) => replay.extent(this.clock))) : this.extent();
  }

  present() {
    return this.lanes.filter(Boolean);
  }

  /** The scale of the time axes: the longest run, with room to grow while one is running. */
  scale() {
    const longest = this.extent();
    if (!this.present().some(({ running }) => running)) return Math.max(longest, 1e-9);
    let room = this.clock === "passes" ? 32 : 250;
    while (room < longest) room *= 1.5;
    return Math.round(room);
  }

  set(now) {
    this.race.looping = this.follow = false;
    this.until = Infinity;
    this.now = Math.max(0, Math.min(this.extent(), now));
    this.moment = this.stage.counterfactual = null;
    this.schedule();
  }

  /** Go to a time of the clock that the reader chose. */
  jump(now) {
    this.pause();
    this.set(now);
    this.follow = this.now === this.extent() && this.present().some(({ running }) => running);
    this.settleSoon();
  }

  /** Go `count` moments on, a moment being the end of a forward pass in any lane. */
  stride(count) {
    const ends = [...new Set(this.present().flatMap(({ replay }) => replay.ends[this.clock]))].sort((a, b) => a - b);
    if (ends.length === 0) return;
    const upcoming = ends.findIndex((end) => end > this.now + 1e-6);
    const current = (upcoming < 0 ? ends.length : upcoming) - 1;
    this.jump(ends[Math.max(0, Math.min(ends.length - 1, current + count))]);
  }

  /** Use another clock; `on` names the hardware in the address. */
  useClock(clock, on = "") {
    if (on) this.controls.hardware.read(on);
    if (clock === this.clock) return;
    const leader = this.present().find(({ replay }) => replay.stepsAt(this.clock, this.now) < replay.length) ?? this.present()[0];
    const atEnd = this.now >= this.extent();
    const count = leader?.replay.stepsAt(this.clock, this.now) ?? 0;
    this.pause();
    this.clock = clock;
    this.root.classList.toggle("is-counted", clock === "passes"); // the stage itself counts passes
    this.compute();
    this.speed = USUAL_SPEED[clock];
    this.controls.useClock(clock, this.speed);
    this.now = atEnd ? this.extent() : (leader?.replay.ends[clock][count] ?? 0);
    this.cursorMoved();
  }

  /** Put the traces that are there on the clock of other hardware, where that is shown. */
  compute() {
    if (this.clock === "computed") this.controls.hardware.use(this.present().map(({ replay }) => replay));
  }

  toggle() {
    if (this.playing) this.takeOver();
    else if (this.present().length) {
      if (this.now >= this.extent()) this.now = 0;
      if (this.now >= this.until) this.until = Infinity;
      this.race.looping = false;
      this.play();
    }
  }

  /** Stop where we are because the reader wants to look. */
  takeOver() {
    this.race.looping = false;
    this.pause();
    this.settleSoon();
  }

  play() {
    this.playing = true;
    this.follow = false;
    this.moment = null;
    this.last = performance.now();
    this.controls.useClock(this.clock, this.speed);
    cancelAnimationFrame(this.frame); // or every run that is chosen while another plays would be drawn once more a frame
    this.frame = requestAnimationFrame((time) => this.tick(time));
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.schedule();
  }

  tick(time) {
    if (!this.playing || this.isRemoved()) return;
    const seconds = Math.min(0.25, Math.max(0, time - this.last) / 1000);
    this.last = time;
    const { looping } = this.race;
    if (looping && this.seen) this.now = this.race.advance(seconds);
    else if (!looping) this.now = Math.min(this.extent(), this.until, this.stage.timeAfter(this.now, seconds) ?? this.now + seconds * this.speed * (this.clock === "passes" ? 1 : 1000));
    if (!looping && this.now >= Math.min(this.extent(), this.until)) {
      this.pause();
      this.settleSoon();
    }
    this.draw();
    if (this.playing) this.frame = requestAnimationFrame((next) => this.tick(next));
  }

  /** Announce the position and write it to the address, once the reader has stopped moving. */
  settleSoon() {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      const [lead, inPasses] = [this.present().at(-1)?.replay, this.clock === "passes"];
      if (!lead || this.playing || this.isRemoved() || this.present().some(({ running }) => running)) return;
      setText(this.live, [this.controls.words, ...((this.stage.shown && this.stage.drawnFrame?.caption) || []), ...this.present().map((lane) => lane.sentence())].join(". "));
      const now = this.replaced?.now ?? this.now; // the address names a run as it was
      const passes = lead.stepsAt(this.clock, now) + (this.stage.shown ? lead.partAt(this.clock, now) : 0);
      const reading = { step: inPasses ? Math.round(passes * 100) / 100 : null, ms: inPasses ? null : Math.round(now * 10) / 10 };
      const on = (this.clock === "computed" && this.controls.hardware.written) || "";
      if (this.hash && !this.guided && this.root.checkVisibility()) {
        draftscopeAddress.setPosition({ ...reading, clock: this.clock, on: on || null, token: this.pinned ? this.position : null }, this.called);
      }
      this.emit("settled", { clock: this.clock, now: this.now, on });
    }, SETTLE_MILLISECONDS);
  }

  // The reader.

  viewOf(target) {
    for (const lane of this.present()) {
      const view = lane.views.find(({ canvas }) => canvas.contains(target));
      if (view) return { lane, view };
    }
    return {};
  }

  spotOf(event) {
    const { lane, view } = this.viewOf(event.target);
    if (!view) return null;
    const box = view.canvas.getBoundingClientRect();
    const spot = view.hit(event.clientX - box.left, event.clientY - box.top - (view.top ?? 0), event.target);
    return spot && { ...spot, lane };
  }

  onPoint(event) {
    const touching = event.type === "pointerdown" && event.pointerType !== "mouse";
    if (this.pinned && !touching) return;
    const spot = this.spotOf(event);
    if (!spot) return;
    this.position = spot.position;
    this.chosenLane = spot.lane;
    this.moment = spot.step === null ? null : { lane: spot.lane, step: spot.step };
    this.schedule();
  }

  onClick(event) {
    const spot = this.spotOf(event);
    if (!spot) return;
    this.chosenLane = spot.lane;
    if (spot.goTo !== undefined) {
      this.jump(spot.lane.replay.ends[this.clock][spot.goTo]);
      if (!this.pinned) this.position = spot.position;
    } else if (event.pointerType !== "touch") {
      this.pinned = !(this.pinned && this.position === spot.position);
      this.position = spot.position;
      this.settleSoon();
    }
    this.schedule();
  }

  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || this.present().length === 0) return;
    const { target, key } = event;
    if (target.closest?.("select, textarea, input:not(.ds-slider, [type=checkbox]), [contenteditable]")) return;
    const go = NEXT.find(([, , letter]) => letter === key);
    if (go) return this.worked.go(go[0]);
    if (key === "l" || key === "L") return this.lecture();
    const { lane, view } = this.viewOf(target);
    if (view) this.chosenLane = lane;
    const handled = (view && this.moveCursor(lane, view, key)) || this.steer(key, target);
    if (handled) event.preventDefault();
  }

  /** Keys pressed outside: a lecture begins where nothing has the focus, and takes every key while it lasts. */
  onPageKey(event) {
    const { target, key } = event;
    if (event.defaultPrevented || this.isRemoved() || this.root.contains(target)) return;
    const begins = key.toLowerCase() === "l" && target === document.body && this.hash && this.stage.shown && this.root.checkVisibility();
    if (this.lecturing || begins) this.onKey(event);
  }

  /** Arrow keys in a view choose a token. */
  moveCursor({ replay }, view, key) {
    const { grid } = replay;
    if (view instanceof TextView && this.position !== null && (key === "ArrowUp" || key === "ArrowDown")) {
      this.position = view.neighbour(this.position, key === "ArrowDown") ?? this.position;
      return this.cursorMoved();
    }
    const line = view instanceof PictureView ? grid.cellColumns : 1;
    const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -line, ArrowDown: line }[key];
    if (key === "Enter" && this.position !== null) this.pinned = !this.pinned;
    else if (move === undefined) return false;
    else {
      const cell = grid.cellOf && line > 1 ? grid.cellOf[this.position ?? 0] : (this.position ?? 0);
      const next = this.position === null ? 0 : cell + move;
      if (next < 0 || next >= grid.positions) return true;
      this.position = grid.positionOf && line > 1 ? grid.positionOf[next] : next;
    }
    return this.cursorMoved();
  }

  /** The lane that the panel explains: the one that was last pointed at, else the last one. */
  subject() {
    const lanes = this.present();
    return lanes.includes(this.chosenLane) ? this.chosenLane : lanes.at(-1);
  }

  /** Whether the stage alone is read, without the numbers. */
  get reading() {
    return this.stage.shown && !this.root.classList.contains("is-numbers");
  }

  /** Go to a decision, on the stage to its uniform draw, and deselect the token that was chosen. */
  showVerdictAt(lane, { index, entry }) {
    const staged = this.reading && this.clock === "passes" && !wantsStillness();
    this.jump(staged ? this.stage.readingAt(index + 1, "fall") : lane.replay.ends[this.clock][index + 1]);
    this.position = null;
    this.pinned = false;
    this.chosenLane = lane;
    this.spotlight = { lane, step: index, entry };
    this.schedule();
  }

  /** Go to the end of pass `step` of a lane, and choose a position, or none. */
  showPosition(index, step, position = null) {
    const lane = this.present()[index];
    if (!lane) return;
    this.jump(lane.replay.ends[this.clock][step + 1]);
    Object.assign(this, { position, pinned: position !== null, chosenLane: lane, spotlight: null });
    this.schedule();
  }

  cursorMoved() {
    this.moment = null;
    this.schedule();
    this.settleSoon();
    return true;
  }

  steer(key, target) {
    const pressing = target.closest?.("button, [role=button], summary, input[type=checkbox]");
    if (key in STRIDES) this.stride(STRIDES[key]);
    else if (key === "Home") this.jump(0);
    else if (key === "End") this.jump(Infinity);
    else if (key === " " && !pressing) this.toggle();
    else if (key === "Escape" && this.lecturing) this.lecture(false);
    else if (key === "Escape" && this.replaced) this.takeBack();
    else if (key === "Escape" && this.position !== null) {
      this.position = null;
      this.pinned = false;
      return this.cursorMoved();
    } else return false;
    return true;
  }

  // Out to the page.

  /** Bring everything but the drawing up to date: which views there are, names, the key, the empty state. */
  refresh() {
    const lanes = this.present();
    const empty = lanes.length === 0;
    this.root.classList.toggle("is-empty", empty);
    this.root.classList.toggle("is-single", lanes.length === 1);
    this.root.classList.toggle("is-double", lanes.length === 2);
    this.root.classList.toggle("is-many", lanes.length > 2);
    this.message.hidden = !(empty || this.problem);
    this.message.classList.toggle("is-problem", Boolean(this.problem));
    setText(this.message, this.problem ?? (empty ? this.fetching ? "Loading …" : "Nothing to show yet. Start a run, or open a recorded trace: every forward pass will appear here." : ""));
    const nodes = lanes.map(({ node }) => node);
    if (nodes.some((node, index) => this.ground.children[index] !== node) || this.ground.children.length !== nodes.length) this.ground.replaceChildren(...nodes);
    this.root.classList.toggle("is-staged", this.stage.use(lanes));
    this.controls.everyView.hidden = !(this.turns && this.stage.fits);
    this.nameLanes(lanes);
    this.race.chips.hidden = this.race.pairs.length < 2;
    const running = lanes.some((lane) => lane.running); // the chips stay where they are, but a press would end what runs
    for (const chip of this.race.chips.children) /** @type {HTMLButtonElement} */ (chip).disabled = running;
    this.showKey();
    this.refit();
  }

  refit() {
    for (const lane of this.present()) lane.fit();
    this.stage.fit();
    this.schedule();
  }

  /** Name every lane, and add what sets it apart from others of its name, as traces/labels.py does. */
  nameLanes(lanes) {
    const named = lanes.map(({ replay: { meta } }) => this.nameOf(meta));
    const differences = lanes.map(({ replay: { meta } }, index) => {
      const settings = Object.entries(meta.config ?? {}).filter(([name]) => !(name in named[index].values));
      return [...settings.map(([name, value]) => [name, `${name} ${value}`]), ["the model", meta.model?.title || meta.model?.id], ["the seed", `seed ${meta.seed ?? "unknown"}`]];
    });
    lanes.forEach((lane, index) => {
      const alike = differences.filter((_, other) => named[other].name === named[index].name).map(Object.fromEntries);
      const differing = differences[index].filter(([name, words]) => alike.some((other) => (other[name] ?? words) !== words));
      lane.describe(`${this.replaced && lane === lanes.at(-1) ? "What if: " : ""}${named[index].name}`, differing.map(([, words]) => words).join(", "));
    });
  }

  showKey() {
    const seen = new Set(this.present().flatMap(({ replay }) => [...replay.fatesSeen]));
    const items = this.theme.fates.map((fate, code) => {
      if (!seen.has(code)) return null;
      const chip = make("span", { class: "ds-chip" }, icon(fate.path, fate.filled));
      this.theme.dress(chip, code);
      const name = capital(fate.name);
      return make("li", {}, chip, term(fate.name, fate.name, `${name}: ${fate.meaning}.`));
    });
    this.key.replaceChildren(...items.filter(Boolean));
    this.key.hidden = seen.size === 0;
  }

  schedule() {
    if (this.playing || this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      if (!this.isRemoved()) this.draw();
    });
  }

  draw() {
    if (this.stage.stale) this.stage.fit();
    if (this.follow) this.now = this.newest();
    const extent = this.scale();
    const seen = !this.stage.shown;
    for (const lane of this.present()) lane.paint(this.sceneOf(lane, extent), seen);
    for (const lane of this.present()) lane.write(seen);
    const [first, ...others] = this.present();
    for (const lane of this.present()) this.judge(lane, others.includes(lane) ? first : null);
    this.worked.offerGoes(this.subject()?.replay);
    if (!this.reading || !this.playing) this.worked.show(this.subject()?.scene);
    this.stage.draw();
    if (this.staged) this.race.describe(this.present());
    const words = this.present().map((lane) => lane.sentence());
    const drafted = this.present().some(({ replay }) => replay.drafts);
    this.controls.show({ playing: this.playing, now: this.now, extent: this.extent(), words, drafted });
    this.emit("moved", { counts: this.present().map(({ replay }) => replay.stepsAt(this.clock, this.now)), position: this.position });
  }

  sceneOf(lane, extent) {
    const { replay } = lane;
    const { clock, theme, spotlight } = this;
    const count = replay.stepsAt(clock, this.now);
    const spot = this.position === null && spotlight?.lane === lane && spotlight.step === count - 1 ? spotlight : null;
    const position = spot ? replay.steps[spot.step].position[spot.entry] : this.position;
    const until = this.moment?.lane === lane ? this.moment.step + 1 : count;
    return {
      replay,
      count,
      clock,
      extent,
      position,
      theme,
      state: replay.seek(count),
      step: replay.steps[count - 1] ?? null,
      entry: spot ?? (position === null ? null : replay.entryAt(position, until)),
      pinned: this.pinned,
      overlay: this.controls.overlay.checked,
      pictures: lane.picture,
    };
  }

  /** At the end of the runs, report whether an answer is wrong, and what the run gained over the first. */
  judge(lane, first) {
    const wrong = lane.wrongInWords();
    const over = first && !this.replaced && [first, lane].every(({ replay }) => replay.complete && replay.stepsAt(this.clock, this.now) === replay.length);
    setText(lane.verdict, [wrong && `The answer is ${wrong}.`, over && this.comparison(first, lane)].filter(Boolean).join(" "));
  }

  comparison(first, { report, replay }) {
    if ([first.replay, replay].some(({ meta }) => !meta.summary?.complete)) return "Not compared: a run was stopped.";
    const each = (run) => run.extent("computed") / run.tokensIn(run.latest);
    const ratio = each(first.replay) / each(replay);
    const computed = this.clock === "computed" && Number.isFinite(ratio) ? `Computed for ${this.controls.hardware.machine.device.name}: ${inDigits(ratio)} times as fast.` : "";
    return [report?.lead, report?.truth && `${capital(report.fidelity)}: ${report.truth}.`, computed].filter(Boolean).join(" ");
  }

  /** State of what is drawn now, for scripts and tests. */
  snapshot() {
    return {
      clock: this.clock,
      now: this.now,
      playing: this.playing,
      position: this.position,
      lanes: this.present().map(({ replay }) => {
        const count = replay.stepsAt(this.clock, this.now);
        const state = replay.seek(count);
        return { steps: count, finals: state.finals, tokens: [...state.token], fates: [...state.fate].map((code) => replay.fates[code]?.name ?? null) };
      }),
    };
  }
}

export function wantsStillness() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** Fetch a trace from this site; gzip is known by its first two bytes, whatever the server says. */
async function fetchTrace(url) {
  const target = new URL(url, location.href);
  if (target.protocol !== "blob:" && target.origin !== location.origin) throw new Error("it is on another site");
  const response = await fetch(target);
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  const bytes = new Uint8Array(await response.arrayBuffer());
  const zipped = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const stream = new Blob([bytes]).stream();
  const text = await new Response(zipped ? stream.pipeThrough(new DecompressionStream("gzip")) : stream).text();
  return { ...JSON.parse(text), url };
}

/**
 * Put a player into `root`, replacing one that is there, and return it. A host calls its methods `load`, `loadUrl`, `offer`, `scene`,
 * `explore`, `begin`, `push`, `finish`, `fetched`, `showCounterfactual`, `set`, `showPosition`, `useClock`, `toggle`, `pause`, `clear`, `snapshot` and `destroy`,
 * and may set `answers`: the right answer of every prompt whose answer it knows.
 *
 * Options: `data` is what visualizers.player.data() returns; `emit(name, detail)` hears "moved" at every drawing, "settled", "chosen", "supposed", "invited",
 * "explored" and "failed"; `hash: false` leaves the address alone; `keys` is the element whose key presses count, by default the root;
 * `staged: true` starts with the stage instead of every view, `lessons: true` offers lessons, whose names "taught" has.
 */
export function mount(root, options) {
  mounted.get(root)?.destroy();
  const player = new Player(root, options);
  mounted.set(root, player);
  return player;
}
