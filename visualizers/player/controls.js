// @ts-check
// What the reader operates above the lanes.

import { Hardware } from "./hardware.js";
import { icon, make, makeButton, makeSlider, setText } from "./paint.js";
import { formatInteger } from "./replay.js";
import { NEXT } from "./worked.js";

const ICONS = {
  first: "M3 3h2v10h-2zM13 3v10l-7-5z",
  back: "M11 3v10l-7-5z",
  play: "M4 2.5v11l9-5.5z",
  pause: "M4 3h3v10h-3zM9 3h3v10h-3z",
  forward: "M5 3v10l7-5z",
  last: "M11 3h2v10h-2zM3 3v10l7-5z",
};
const SPEEDS = {
  passes: [[2, "2 a second"], [5, "5 a second"], [10, "10 a second"], [20, "20 a second"], [60, "60 a second"]],
  milliseconds: [[0.05, "1/20 of real time"], [0.1, "1/10 of real time"], [0.25, "1/4 of real time"], [0.5, "half real time"], [1, "real time"], [4, "4 × real time"]],
};
SPEEDS.computed = SPEEDS.milliseconds;
export const USUAL_SPEED = { passes: 10, milliseconds: 0.25, computed: 0.25 };
export const CLOCKS = { passes: "Forward passes", milliseconds: "Milliseconds, measured", computed: "Milliseconds, computed" };

/** The buttons, the slider and the choices above the lanes. */
export class Controls {
  constructor(player) {
    const button = (name, label, act) => makeButton({ "aria-label": label, title: label }, act, icon(ICONS[name], true));
    this.play = makeButton({ class: "ds-play" }, () => player.toggle());
    showPlay(this.play, false);
    const buttons = make(
      "div",
      { class: "ds-buttons", role: "group", "aria-label": "Transport" },
      button("first", "First", () => player.jump(0)),
      button("back", "One pass back", () => player.stride(-1)),
      this.play,
      button("forward", "One pass on", () => player.stride(1)),
      button("last", "Last", () => player.jump(Infinity)),
    );
    const slide = (value) => player.jump(player.clock === "passes" && !player.stage.shown ? Math.round(value) : value);
    this.slider = makeSlider({ class: "ds-slider", min: "0", max: "0", step: "any", value: "0", "aria-label": "Position on the clock" }, slide);
    const clocks = Object.entries(CLOCKS).map(([value, name]) => make("option", { value }, name));
    this.clock = make("select", { class: "ds-clock", "aria-label": "Clock", change: () => player.useClock(this.clock.value) }, ...clocks);
    this.amount = make("span", {});
    this.reading = make("p", { class: "ds-reading" }, this.clock, this.amount);
    const turn = () => {
      player.useStage(!player.staged);
      this.everyView.focus();
    };
    const open = () => this.numbers.setAttribute("aria-pressed", String(player.showNumbers()));
    this.numbers = makeButton({ class: "ds-tell", "aria-pressed": "false", title: "Show this step in numbers" }, open, "Numbers");
    this.next = player.worked.makeGo(NEXT[0], "ds-tell ds-next");
    this.lecture = makeButton({ class: "ds-tell ds-lecturing", "aria-pressed": "false", "aria-keyshortcuts": "L", title: "The stage alone, in large letters (L); Escape leaves" }, () => player.lecture(), "Lecture");
    this.everyView = makeButton({ class: "ds-whole", "aria-pressed": "false" }, turn, "Every view");
    this.speed = make("select", { change: () => (player.speed = Number(this.speed.value)) });
    this.overlay = make("input", { type: "checkbox", change: () => player.schedule() });
    const overlay = make("label", { class: "ds-overlay" }, this.overlay, "Mark the outcome of each token");
    const compute = () => ["passes", "computed"].forEach((clock) => player.useClock(clock)); // stays at the pass that is shown
    this.hardware = new Hardware(player.data.hardware, compute);
    this.node = make(
      "div",
      { class: "ds-controls" },
      make("div", { class: "ds-transport" }, buttons, this.slider, this.reading, this.next, this.numbers, this.lecture, this.everyView),
      make("div", { class: "ds-choices" }, make("label", { class: "ds-speed" }, "Speed ", this.speed), overlay),
      this.hardware.node,
    );
  }

  useClock(clock, speed) {
    const near = ([value]) => Math.abs(Math.log(value / speed));
    const nearest = SPEEDS[clock].reduce((best, option) => (near(option) < near(best) ? option : best));
    this.speed.replaceChildren(...SPEEDS[clock].map((option) => make("option", { value: option[0], selected: option === nearest }, option[1])));
    this.clock.value = clock;
    this.hardware.node.hidden = clock !== "computed";
  }

  show({ playing, now, extent, words, drafted }) {
    showPlay(this.play, playing);
    this.slider.max = extent;
    this.slider.value = now;
    setText(this.clock.options[0], drafted ? "Target passes" : CLOCKS.passes);
    this.clock.title = drafted ? "A drafter's pass counts as the part of a target pass that it takes" : "";
    setText(this.amount, `${formatInteger(Math.floor(now))} of ${formatInteger(Math.floor(extent))}`);
    this.slider.setAttribute("aria-valuetext", [this.words, ...words].join(". "));
  }

  /** The reading of the clock, in words. */
  get words() {
    return `${this.clock.selectedOptions[0].text} ${this.amount.textContent}`;
  }
}

/** Say on a button that a press plays, or pauses. */
export function showPlay(button, playing, what = "") {
  const label = `${playing ? "Pause" : "Play"}${what}`;
  if (button.title === label) return;
  button.title = label;
  button.setAttribute("aria-label", label);
  button.replaceChildren(icon(ICONS[playing ? "pause" : "play"], true));
}
