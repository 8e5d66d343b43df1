// @ts-check
// The clip decoded from the latent frames of a video, as far as it is decided, with its own slider.

import { loaded } from "./canvases.js";
import { showPlay } from "./controls.js";
import { View, album, drawOutline, fillBox, make, makeButton, makeSlider, setText } from "./paint.js";

/** How long a clip takes, where each of its frames can stay for a time between these. */
const [CLIP_MILLISECONDS, SHORTEST_FRAME, LONGEST_FRAME] = [2400, 100, 240];
const WIDEST_CLIP = 280;

/** One frame of the clip. The chosen token is framed in every frame that its latent frame covers. */
export class ClipView extends View {
  supports = () => this.frames.length > 0;
  heightFor = (width) => (Math.min(width, WIDEST_CLIP) * this.grid.cellRows) / this.grid.cellColumns;

  constructor(grid, redraw) {
    super("clip", "Clip", "plays as far as it is decided", "img");
    this.grid = grid;
    this.redraw = redraw;
    this.frames = [];
    this.open = album(redraw);
    this.slider = makeSlider({ class: "ds-scrubber", min: "1", max: "1", step: "1", value: "1", "aria-label": "Frame of the clip" }, (value) => this.go(value - 1));
    this.play = makeButton({}, () => this.toggle());
    this.reading = make("span", { class: "ds-note" });
    this.figure.append(make("div", { class: "ds-clip-controls" }, this.play, this.slider, this.reading));
    this.number = 0;
    showPlay(this.play, false, " the clip");
  }

  use(trace) {
    this.frames = (this.grid.kind === "video" ? (trace.output?.video ?? []) : []).map(this.open);
    this.slider.max = Math.max(1, this.frames.length);
    this.go(Math.min(this.number, Math.max(0, this.frames.length - 1)));
  }

  go(number) {
    this.number = number;
    this.slider.value = number + 1;
    this.redraw();
  }

  toggle() {
    clearInterval(this.timer);
    this.timer = this.timer ? null : setInterval(() => this.tick(), Math.min(Math.max(CLIP_MILLISECONDS / this.frames.length, SHORTEST_FRAME), LONGEST_FRAME));
    showPlay(this.play, Boolean(this.timer), " the clip");
  }

  tick() {
    if (!this.canvas.isConnected) return this.toggle();
    this.number = (this.number + 1) % (this.decided || this.frames.length);
    this.slider.value = this.number + 1;
    if (this.scene) this.draw(this.scene);  // nothing else changes
  }

  /** How many frames are decided: the given ones, and those of the latent frames that are final, from the first on. */
  decidedIn({ state, replay }) {
    const open = [...state.finalAt.keys()].filter((position) => state.finalAt[position] < 0);
    const ready = Math.min(this.grid.frames, ...open.map((position) => this.grid.where(position).frame));
    return ready === this.grid.frames ? this.frames.length : replay.givenFrames + replay.framesEach * ready;
  }

  paint(scene, context) {
    const width = Math.min(this.width, WIDEST_CLIP);
    this.scene = scene;
    this.decided = this.decidedIn(scene);
    const isDecoded = this.number < this.decided;
    const state = this.number < scene.replay.givenFrames ? ", given" : isDecoded ? "" : ", not decided yet";
    const words = `frame ${this.number + 1} of ${this.frames.length}${state}`;
    setText(this.reading, words);
    this.slider.setAttribute("aria-valuetext", words);
    this.canvas.setAttribute("aria-label", `Clip, ${words}`);
    fillBox(context, scene.theme.surface.panel, 0, 0, width, this.height);
    if (isDecoded && loaded(this.frames[this.number])) {
      context.imageSmoothingEnabled = true;
      context.drawImage(this.frames[this.number], 0, 0, width, this.height);
    }
    this.paintPatch(scene, context, width);
  }

  paintPatch({ position, replay }, context, width) {
    if (position === null || position >= this.grid.positions || !replay.framesEach) return;
    const { frame, row, column } = this.grid.where(position);
    if (Math.floor((this.number - replay.givenFrames) / replay.framesEach) !== frame) return;
    const [across, down] = [width / this.grid.cellColumns, this.height / this.grid.cellRows];
    drawOutline(context, column * across, row * down, across, down);
  }
}
