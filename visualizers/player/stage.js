// @ts-check
// The stage: a run drawn word by word or patch by patch from its script, with ordinary decoding on the same clock.

import { MIN_OTHER_SHARE, drawBells, drawTerms, small } from "./bars.js";
import { MIN_RULED_CELL, loaded } from "./canvases.js";
import { drawTile } from "./charts.js";
import { drawDot, drawLine, drawOutline, drawText, drawWithin, fillBox, make, makeSlider, paintPath, setText, sized } from "./paint.js";
import { SETTLE_MILLISECONDS, wantsStillness } from "./player.js";
import { AFTER_FINISH, counted } from "./race.js";
import { FRAMES_ACROSS, figure, formatInteger, mixed } from "./replay.js";
import { SIGN_SIZE, Script, branchesInWords, growsInRow, isStaged, progress, slowing, swinging } from "./script.js";
import { uniformDrawInWords, withUniformDraw } from "./uniform_draw.js";

/** By minimum width: letter size, lines, columns of bars and their label, and pixels below, for the bars and for branches. */
const STAGE_SHAPES = [
  { minWidth: 1050, wide: true, size: 28, line: 45, top: 22, left: 32, column: 84, gap: 46, label: 98, small: 15, below: 62, bars: 150, branches: 360 },
  { minWidth: 700, wide: true, size: 24, line: 39, top: 22, left: 32, column: 64, gap: 46, label: 98, small: 15, below: 62, bars: 150, branches: 360 },
  { minWidth: 0, wide: false, size: 18, line: 29, top: 14, left: 16, column: 42, gap: 16, label: 72, small: 12, below: 116, bars: 100, branches: 130 },
];
const CAPTION_WIDTH = 330;
const RATE_UNIT = "tokens a pass";
/** Pixels of the names of latent frames, and of the passes below a picture, which a stage has that is so high. */
const FRAME_NAMES = 14;
const PASSES_BELOW = 48;
const MIN_HEIGHT_WITH_PASSES = 520;
/** Two texts have two lanes: the pixels between them, of a lane's edge, heading and strip of passes, and below a close-up's bars. */
const LANES = {
  wide: { gap: 12, edge: 28, head: 54, strips: [58, 30], below: 44 },
  narrow: { gap: 8, edge: 14, head: 50, strips: [48, 22], below: 32 },
};
/** Letters of two lanes: the largest that fit both finished texts, in pixels, their line over their size, and of texts that still run. */
const LANE_LETTERS = { sizes: [96, 88, 82, 76, 70, 66, 62, 58, 55, 52, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27, 25, 23, 21, 19, 18, 17, 16, 15], line: 1.38, running: { wide: 26, narrow: 18 } };
/** The refused word above its correction, over the size of that. */
const REFUSED_SIZE = 0.46;
const CLIP_FRAME = 200;
/** Between two pictures of one size: minimum width of bars and caption, and the space next to it. */
const MIDDLE = { minWidth: 376, gap: 40 };
/** Letters and lines of a text that is filled in by blocks, of those of other texts, so that more of it is seen at once. */
const BLOCK_TEXT = 0.8;
/** How much larger the letters of a finished text are, if all of it can be seen at once then; of longer texts not measured. */
const LETTERS = { scales: [1.75, 1.6, 1.45, 1.3, 1.15], maxPositions: 200 };
/** Most of the stage's width and height that a picture takes, and the share of it that the other run's takes, so that the card has room below. */
const PICTURE_SHARES = { wide: [0.46, 1, 0.55], frames: [0.33, 1, 1], narrow: [0.45, 0.42, 1], clip: [0.68, 0.42, 1] };
/** From the top of a clip's latent frames to the clip between both runs: the caption is above it. */
const CAPTION_ABOVE_CLIP = 148;

export class Stage {
  /** @type {any} */
  lane;
  /** @type {any} */
  other;
  /** @type {any} */
  replay;
  /** @type {any} */
  script;
  /** @type {any} The other run's, where both texts have lanes. */
  otherScript;
  /** @type {string} */
  wordFont;
  /** Pixels that the upper lane's name takes, and where its figures begin. */
  nameWidth = 0;
  figuresLeft = 0;
  /** @type {WeakMap<any, boolean[][]>} */
  draftedByPass;
  /** @type {any} */
  size;
  /** @type {HTMLElement} */
  captionTitle;
  /** @type {HTMLElement} */
  captionNote;
  /** @type {any} */
  counterfactual;
  /** @type {any} */
  drawnFrame;
  /** @type {any} */
  adjustableVerdict;
  /** @type {any} */
  colors;
  /** @type {string} */
  font;
  /** @type {number} */
  requestTimer;

  constructor(player) {
    this.player = player;
    this.canvas = make("canvas", { role: "img", title: "Press a word or patch to see how it was decided", click: (event) => this.explain(event) });
    this.context = this.canvas.getContext("2d");
    [this.captionTitle, this.captionNote] = [make("strong", {}), make("span", {})];
    this.caption = make("p", { class: "ds-caption", "aria-hidden": "true" }, this.captionTitle, this.captionNote);
    this.card = make("dl", { class: "ds-card" });
    this.drawSlider = makeSlider({ class: "ds-draw-slider", min: "0", max: "1", step: "0.001", "aria-label": "What if the uniform draw had been", change: () => this.requestDecoding() }, (value) => this.setUniform(value));
    this.node = make("section", { class: "ds-stage", "aria-label": "The run, step by step" }, this.canvas, this.caption, this.card, this.drawSlider);
  }

  /** Show these lanes on the stage if it can, the last one first. Return whether it does. */
  use(lanes) {
    const alike = lanes.every(({ replay }) => replay.grid.kind === lanes.at(-1).replay.grid.kind);
    this.fits = [1, 2].includes(lanes.length) && alike && isStaged(lanes.at(-1).replay);
    this.shown = this.player.staged && this.fits;
    [this.lane, this.other] = this.shown ? [lanes.at(-1), lanes.length > 1 ? lanes[0] : null] : [];
    this.replay = this.lane?.replay;
    this.node.classList.toggle("is-text", this.replay?.grid.kind === "text");
    return this.shown;
  }

  /** Fit the canvas to its box, and write the script of the run for it. */
  fit() {
    const { node: { clientWidth: width, clientHeight: height }, replay } = this;
    this.script = null;
    this.stale = false; // whether passes came since
    if (!this.shown || !width) return;
    const shape = STAGE_SHAPES.find(({ minWidth }) => width >= minWidth) ?? STAGE_SHAPES[2];
    this.isText = replay.grid.kind === "text";
    const style = getComputedStyle(this.node);
    this.font = style.fontFamily;
    this.wordFont = this.isText ? style.getPropertyValue("--ds-words") || this.font : this.font;
    sized(this.canvas, width, height);
    const known = this.isText && replay.complete && !this.lane.live && Math.min(replay.positions, replay.endIn(replay.latest)) <= LETTERS.maxPositions;
    this.otherScript = null;
    if (this.laned) this.fitLanes(shape, width, height, known);
    else {
      for (const scale of [...(known ? LETTERS.scales : []), 1]) {
        const letters = { ...shape, size: shape.size * scale, line: shape.line * scale };
        this.size = { ...shape, width, height, right: width - shape.left, ...(this.isText ? this.textSize(letters, height) : this.pictureSize(shape, width, height)) };
        this.script = new Script(replay, this.ruler(this.size.size), this.size);
        if (this.script.fits) break;
      }
    }
    this.node.classList.toggle("is-laned", this.laned);
    this.node.style.setProperty("--ds-lower", `${this.laned ? height - this.size.lanes[0].height : 0}px`);
    this.node.style.setProperty("--ds-aside", `${this.size.aside}px`);
    this.node.classList.toggle("is-paired", Boolean(this.size.paired));
    this.fillCard();
  }

  /** Whether two texts have lanes, one above the other. */
  get laned() {
    return this.isText && Boolean(this.other);
  }

  /** How much larger letters are in a lecture, which is read from afar. */
  enlarged(width, height) {
    return this.player.lecturing && width >= 1000 ? Math.min(1.6, height / 600) : 1;
  }

  /** Give both texts a lane, and the largest letters with which both fit once they are finished. */
  fitLanes(shape, width, height, known) {
    const large = this.enlarged(width, height);
    const plain = LANES[shape.wide ? "wide" : "narrow"];
    const [gap, edge, head, below] = [plain.gap, plain.edge, plain.head, plain.below].map((pixels) => Math.round(pixels * large));
    const strips = plain.strips.map((pixels) => Math.round(pixels * large));
    const grown = Object.fromEntries(["column", "gap", "label", "small"].map((name) => [name, shape[name] * large]));
    const upper = Math.round((height - gap + strips[0] - strips[1]) / 2);
    const lanes = [{ top: 0, height: upper, strip: strips[0] }, { top: upper + gap, height: height - upper - gap, strip: strips[1] }];
    const room = upper - head - strips[0] - 6;
    const sizes = known && this.other.replay.complete ? LANE_LETTERS.sizes : [LANE_LETTERS.running[shape.wide ? "wide" : "narrow"]];
    for (const size of sizes) {
      const line = Math.round(size * LANE_LETTERS.line);
      const lines = Math.max(1, Math.floor(room / line));
      this.size = { ...shape, ...grown, large, width, height, size, line, lines, lanes, head, edge, left: edge, right: width - edge, aside: edge, top: head, base: height - below, ceiling: lanes[1].top };
      this.script = new Script(this.replay, this.ruler(size), this.size);
      this.otherScript = new Script(this.other.replay, this.ruler(size), this.size, this.script.breaks);
      if (this.script.fits && this.otherScript.fits) break;
    }
  }

  /** How large the letters of a text are, and how many lines of it there are above the bars, if it needs any. */
  textSize({ size, line, top, left, bars, branches, below }, height) {
    const { replay } = this;
    const small = growsInRow(replay) ? 1 : BLOCK_TEXT;
    const base = height - below;
    const needed = replay.hasGraphs ? branches : replay.fatesSeen.has(replay.codeOf.get("resampled")) ? bars : 96 - below;
    const lines = Math.max(2, Math.floor((base - top - needed) / (line * small)));
    return { size: size * small, line: line * small, base, lines, aside: left };
  }

  /** The size of a picture's cells; the bars are next to it, between two pictures of one size, or below where the stage is narrow. */
  pictureSize({ minWidth, wide, top, left, small }, width, height) {
    const { grid } = this.replay;
    const { picture } = this.other ?? {};
    const between = Boolean(picture) && minWidth === STAGE_SHAPES[0].minWidth;
    const isHigh = between && height >= MIN_HEIGHT_WITH_PASSES;
    for (const replay of [this.replay, this.other?.replay]) replay?.grid.arrange(isHigh ? FRAMES_ACROSS.high : FRAMES_ACROSS.low);
    const paired = between && grid.frames === 1;
    const half = 0.5 - left / width - (MIDDLE.minWidth / 2 + MIDDLE.gap) / width;
    const [across, down, otherShare] = between ? [half, 1, 1] : PICTURE_SHARES[wide ? (grid.frames > 1 && picture ? "frames" : "wide") : grid.frames > 1 && !picture ? "clip" : "narrow"];
    const stacked = minWidth < STAGE_SHAPES[0].minWidth; // the name over the tokens per pass
    const large = this.enlarged(width, height);
    const upper = top + (stacked ? 44 : 34 * large) + (grid.frames > 1 ? FRAME_NAMES : 0);
    const foot = wide ? 30 * large + (height < MIN_HEIGHT_WITH_PASSES ? 0 : PASSES_BELOW) : 2.4 * small;
    const line = Math.max(1, Math.floor(Math.min((across * width) / grid.columns, (down * (height - upper) - foot) / grid.rows)));
    const pictureBox = { width: line * grid.columns, height: line * grid.rows };
    if (picture) Object.assign(picture, { width: otherShare * pictureBox.width, height: otherShare * pictureBox.height });
    const corner = { top: paired ? Math.max(upper, (height - pictureBox.height - foot + upper) / 2) : upper, aside: wide ? left + pictureBox.width + MIDDLE.gap : left };
    const bars = between ? { column: 44, gap: 16, thumbnail: 36 } : wide ? { column: 56, gap: 30, thumbnail: 36 } : { column: 38, gap: 18, thumbnail: 28 };
    return { line, pictureBox, paired, stacked, foot, large, base: height - (wide ? 76 : 126), lines: grid.rows, ceiling: corner.top + (!wide ? pictureBox.height + 48 : 128), ...corner, ...bars };
  }

  /** A function that gives the width of a text in letters of a size. */
  ruler(size) {
    const known = new Map();
    this.context.font = `${size}px ${this.wordFont}`;
    return (text) => known.get(text) ?? known.set(text, this.context.measureText(text).width).get(text);
  }

  /** The clock after `count` passes, or at a part of the last of them: "swept", when all its drafts are shown, or a part of its verdict. */
  readingAt(count, part) {
    const pass = part && this.script?.passes[count - 1];
    const time = part === "swept" ? pass?.sweepStart : pass?.verdict?.times[part];
    return this.player.readingOf(time === undefined ? count : count - 1 + (time - 1) / pass.length); // before the next part begins
  }

  /**
   * Number of finished passes, and the time in the next one in milliseconds; 0 where reduced motion is requested, unless a tour points
   * at a time within a pass.
   */
  progressAt(now) {
    const { replay, script, player } = this;
    const done = replay.stepsAt(player.clock, now);
    const within = done < replay.length ? replay.partAt(player.clock, now) : 0;
    return [done, (wantsStillness() && !player.guided) || !(within > 1e-6) ? 0 : within * script.passes[done].length];
  }

  /** The clock `seconds` after `now` at the stage's own speed; null where it has none: on other clocks, and after the end of its run. */
  timeAfter(now, seconds) {
    const { passes } = (this.shown && this.player.clock === "passes" && this.script) || { passes: [] };
    let [at, left] = [now, 1000 * seconds];
    for (let done = this.replay?.stepsAt("passes", now); done < passes.length; done += 1) {
      const [start, end] = this.replay.ends.passes.slice(done);
      const pace = (end - start) / passes[done].length;
      if (left * pace < end - at) return at + left * pace;
      [at, left] = [end, left - (end - at) / pace];
    }
    return at > now ? at : null;
  }

  /** Frame at a time of the clock, with the changed uniform draw, if there is one. */
  frame(now) {
    const { activeCounterfactual, script } = this;
    if (!activeCounterfactual) return script.frame(...this.progressAt(now));
    const { uniform, moment } = activeCounterfactual;
    const { times } = script.passes[moment.index].verdict;
    const stays = uniform < moment.number("accept_prob");
    const frame = script.frame(moment.index, stays ? times.judge - 60 : times.fall - 1, uniform);
    return { ...frame, caption: [stays ? "Below p: accepted." : "Above p: rejected.", uniformDrawInWords(moment, withUniformDraw(moment, uniform))] };
  }

  draw() {
    if (!this.shown || !this.script) return;
    const { context, size, player } = this;
    const frame = (this.drawnFrame = this.frame(player.now));
    this.colors = player.theme.surface;
    context.globalAlpha = 1;
    context.clearRect(0, 0, size.width, size.height);
    if (this.laned) for (const lane of size.lanes) this.drawCard(lane);
    if (this.laned && frame.verdict?.verdict.brief && player.playing) frame.verdict = null; // the race goes on
    frame.layout = frame.verdict && this.barLayout(frame.verdict.verdict, frame);
    for (const mask of frame.masks) this.drawMask(mask, frame);
    if (!this.isText) this.drawPicture(frame);
    if (frame.bar) this.drawBar(frame);
    frame.branched = frame.branches && !frame.ended ? frame.branches : null;
    if (frame.branched && !this.laned) this.drawBranches(frame.branched, frame);
    if (this.laned) {
      for (const appearance of frame.words) if (appearance.landed === 1 || !appearance.word.verdict) this.drawWord(appearance, frame);
      this.drawOtherLane();
      if (frame.branched) this.drawBranches(frame.branched, frame);
      if (frame.verdict) this.drawCloseUp(frame);
      for (const appearance of frame.words) if (appearance.landed < 1 && appearance.word.verdict) this.drawWord(appearance, frame);
      this.drawMeters(frame);
    } else {
      if (frame.verdict) this.drawVerdict(frame.verdict, frame.layout);
      if (this.isText) for (const appearance of frame.words) this.drawWord(appearance, frame);
      this.drawCounts(frame);
    }
    this.drawChosen(frame);
    this.showCaption(frame);
  }

  /** Show in numbers how the word or patch under the pointer was decided. */
  explain({ offsetX: x, offsetY: y }) {
    const { size: { line }, drawnFrame, lane, player } = this;
    const spans = (start, length, at) => at >= start && at < start + length;
    const appearance = drawnFrame?.words.find(({ word }) => {
      const [left, upper] = this.cornerOf(word, drawnFrame);
      return spans(left, word.width, x) && spans(upper, line, y);
    });
    if (!appearance) return;
    if (player.reading) player.controls.numbers.click();
    Object.assign(player, { position: appearance.word.position, pinned: true, chosenLane: lane });
    player.cursorMoved();
    player.draw();
    player.worked.node.scrollIntoView({ block: "nearest" });
  }

  /** Outline what the numbers explain. */
  drawChosen(frame) {
    const { words } = frame;
    const { position } = this.lane.scene;
    const chosen = this.player.reading || position === null ? null : words.find(({ word }) => word.position === position);
    if (chosen) drawOutline(this.context, ...this.cornerOf(chosen.word, frame), chosen.word.width, this.isText ? this.size.size * 1.24 : this.size.line);
  }

  lineTop(line, top) {
    return this.size.top + (line - top) * this.size.line;
  }

  /** Upper left corner of a word or patch; a text with fixed positions closes up at its end. @returns {[number, number]} */
  cornerOf({ x, line, closed }, { top, ended }) {
    if (!closed || !ended) return [x, this.lineTop(line, top)];
    return [mixed(x, closed.x, ended), mixed(this.lineTop(line, top), this.lineTop(closed.line, this.script.closedTop), ended)];
  }

  /** Left and right edge of a word, or of all tokens whose character it shows. */
  edgesOf({ word, first = word }, frame) {
    const edges = [word, first].map((each) => [this.cornerOf(each, frame)[0], each.closed ? mixed(each.width, each.closed.width, frame.ended) : each.width]);
    return [Math.min(...edges.map(([x]) => x)), Math.max(...edges.map(([x, width]) => x + width))];
  }

  /** Write in letters of a size, bold where it is negative. */
  write(color, text, x, y, align, size, font = this.font) {
    drawText(this.context, color, text, x, y, align, `${size < 0 ? "600 " : ""}${Math.abs(size)}px ${font}`);
  }

  /** The ground of a lane. */
  drawCard({ top, height }, edge = this.colors.line, width = 1) {
    const { context, colors, size } = this;
    context.beginPath();
    context.roundRect(width / 2, top + width / 2, size.width - width, height - width, 14);
    paintPath(context, colors.background, edge, width);
  }

  /** The other run's text in its lane, at the same time of the clock. */
  drawOtherLane() {
    const { context, size, other, otherScript, player } = this;
    const { replay } = other;
    const done = replay.stepsAt(player.clock, player.now);
    const within = done < replay.length && !wantsStillness() ? replay.partAt(player.clock, player.now) : 0;
    const frame = otherScript.frame(done, within > 1e-6 ? within * otherScript.passes[done].length : 0);
    context.save();
    context.translate(0, size.lanes[1].top);
    for (const mask of frame.masks) this.drawMask(mask, frame);
    for (const appearance of frame.words) this.drawWord(appearance, frame, otherScript);
    context.restore();
  }

  /** The verdict over the other lane, with what leads there from the word; it goes when the word is decided. */
  drawCloseUp(frame) {
    const { context, colors, size } = this;
    const { verdict } = frame;
    const { word } = verdict.verdict;
    const lane = size.lanes[1];
    const shown = swinging(verdict.alpha);
    const [x, y] = this.cornerOf(word, frame);
    const bottom = y + size.size * 1.3;
    context.save();
    context.globalAlpha = shown;
    context.beginPath();
    for (const point of [[x - 3, bottom], [x + word.width + 3, bottom], [size.width - 14, lane.top + 1], [14, lane.top + 1]]) context.lineTo(point[0], point[1]);
    context.globalAlpha = 0.07 * shown;
    paintPath(context, colors.text, null);
    context.globalAlpha = shown;
    fillBox(context, colors.text, x - 3, bottom, word.width + 6, 2);
    this.drawCard(lane, colors.text, 2);
    context.restore();
    this.drawVerdict(verdict, frame.layout);
  }

  /** The head and the foot of both lanes: names, tokens per pass, and a block for each pass with its tokens. */
  drawMeters(frame) {
    const { lane, other, size, player } = this;
    const names = this.laneNames();
    frame.counts = [];
    for (const [index, each] of [lane, other].entries()) {
      const passes = index ? each.replay.stepsAt(player.clock, player.now) : frame.passed;
      const hidden = 1 - (index && swinging(Math.max(frame.verdict?.alpha ?? 0, frame.branched?.alpha ?? 0)));
      frame.counts.unshift(countInWords(each, passes));
      if (hidden < 0.02) continue;
      this.context.globalAlpha = hidden;
      this.drawMeter(each, size.lanes[index], passes, names[index], frame.counts[0]);
      this.drawPasses(each, size.lanes[index], passes);
    }
    this.context.globalAlpha = 1;
  }

  /** Both lanes' names: one model decodes twice, unless it is not one. */
  laneNames() {
    const lanes = [this.lane, this.other].filter(Boolean);
    const models = lanes.map(({ replay }) => this.player.modelName(replay.meta));
    const names = lanes.map(({ title }) => title.textContent.replace(/^(Ordinary|Speculative) decoding$/, (_, kind) => kind.toLowerCase()));
    return names.map((name, index) => `${index && models[0] === models[1] ? "the same model" : models[index].split(",")[0]}, ${name}`);
  }

  drawMeter(lane, { top }, passes, name, count) {
    const { colors, context, size: { left, right, wide, large } } = this;
    const rate = rateOf(lane, passes);
    const [base, big, letters] = [top + (wide ? 32 * large : 20), wide ? -30 * large : -22, (wide ? 13 : 12) * large];
    const unit = RATE_UNIT;
    const color = lane === this.lane ? colors.accent : colors.text;
    this.write(colors.text, name, left, base - (wide ? 4 : 3), "left", (wide ? -15 : -13) * large);
    if (lane === this.lane) this.nameWidth = context.measureText(name).width;
    this.write(colors.muted, unit, right, base, "right", letters);
    const edge = right - context.measureText(unit).width - 7;
    this.write(color, rate, edge, base - (wide ? 5 : 3), "right", big);
    const before = edge - context.measureText(rate).width - 14;
    if (lane === this.lane) this.figuresLeft = before - context.measureText(count).width;
    this.write(colors.muted, count, wide ? before : left, wide ? base : top + 40, wide ? "right" : "left", letters);
  }

  /** A block for each pass so far, as wide as it took on the clock, with a plate for each of its tokens. */
  drawPasses({ replay }, { top, height, left = this.size.left, right = this.size.right, strip = this.size.lanes[0].strip }, passes) {
    const { context, colors, size: { large = 1 }, player } = this;
    const extent = player.scale();
    const floor = top + height - 14;
    const ends = replay.ends[player.clock];
    const now = wantsStillness() && !player.guided ? ends[passes] : player.now;
    const x = (time) => left + ((right - left) * Math.min(time, extent)) / extent;
    const maxTokens = Math.max(4, ...[this.replay, this.other?.replay ?? this.replay].flatMap((each) => this.draftedTokens(each)).map(({ length }) => length));
    const pitch = Math.min(7 * large, (strip - 22) / maxTokens);
    const seam = Math.min(1.2, pitch / 4);
    fillBox(context, colors.line, left, floor + 6, right - left, 1);
    replay.steps.slice(0, Math.min(replay.length, passes + 1)).forEach((step, index) => {
      const [from, until] = [x(ends[index]), x(Math.min(now, ends[index + 1]))];
      if (until <= from) return;
      const wide = Math.max(1, until - from - Math.min(1.5, (until - from) / 4));
      fillBox(context, step.drafting ? colors.emphasis : colors.accent, from, floor, wide, 5);
      if (index >= passes) return;
      this.draftedTokens(replay)[index].forEach((drafted, index) => fillBox(context, drafted ? colors.emphasis : colors.accent, from, floor - 1 - (index + 1) * pitch, wide, pitch - seam));
    });
  }

  /** For every pass the tokens that it made final: whether each had been drafted. */
  draftedTokens(replay) {
    this.draftedByPass ??= new WeakMap();
    const known = this.draftedByPass.get(replay);
    if (known?.length === replay.length) return known;
    const end = replay.endIn(replay.latest);
    const drafted = replay.steps.map(({ deciding, fate, position }) => deciding
      .filter((entry) => replay.fates[fate[entry]].final && position[entry] <= end)
      .map((entry) => replay.fates[fate[entry]].name === "accepted"));
    this.draftedByPass.set(replay, drafted);
    return drafted;
  }

  /** Corner and scale of a word or patch: in its slot, or on its way there from the bar that it was drawn from. */
  drawnCorner({ word, down, landed }, { top, ended, layout }) {
    const [x, lineY] = this.cornerOf(word, { top, ended });
    const y = lineY + down;
    if (landed === 1 || !word.verdict || !layout) return [x, y, 1];
    const { columns, pick, moment } = word.verdict;
    const { share, p } = columns[pick] ?? { share: 0, p: 0 };
    const [from, above] = [layout.x(Math.max(0, pick)) - word.width / 2, layout.base - layout.unit * (moment.ratioDecided ? share : p) - 2 * this.size.size];
    return [mixed(from, x, landed), mixed(above, y, landed) - 24 * Math.sin(Math.PI * landed), mixed(0.5, 1, landed)];
  }

  /** An open position: a quiet line under the words to come, or a cell of the grid. */
  drawMask({ slot: { x, line, width, next }, alpha }, { top }) {
    const { context, colors, size } = this;
    const y = this.lineTop(line, top);
    context.globalAlpha = alpha * progress(line, top - 1, top);
    if (next) return fillBox(context, colors.line, x + 1, y + size.size * 0.2, Math.max(3, width - 2), size.size * 0.95);
    if (width < MIN_RULED_CELL) return fillBox(context, colors.background, x, y, width, width);
    Object.assign(context, { strokeStyle: colors.line, lineWidth: 1 });
    context.strokeRect(x + 0.5, y + 0.5, width - 1, width - 1);
  }

  /** A patch as it appears in the pictures of the trace; a draft that no pass has drawn yet as its token alone. */
  drawPatch(appearance, frame) {
    const { context, colors, size, lane: { picture } } = this;
    const { word, alpha, struck, fresh, left } = appearance;
    const [x, y, scale] = this.drawnCorner(appearance, frame);
    const side = size.line * scale * (word.kind === "rejected" ? 1 - 0.5 * left : 1);
    const inset = (size.line - side) / 2;
    context.save();
    context.globalAlpha = alpha;
    context.translate(x + inset, y + inset);
    const drawn = !(word.fromDrafter && word.firstPass === frame.done) && picture.drawSpot(context, word.position, Math.max(frame.done, word.firstPass + 1), side);
    if (!drawn && !drawTile(context, picture, word.token, 0, 0, side)) fillBox(context, colors.muted, 0, 0, side, side);
    context.globalAlpha = Math.max(struck, Number(fresh)) * (1 - left);
    Object.assign(context, { strokeStyle: colors.emphasis, lineWidth: 2.5 });
    if (struck || fresh) context.strokeRect(1, 1, side - 2, side - 2);
    if (struck) drawLine(context, [[2, side - 2], [mixed(2, side - 2, struck), mixed(side - 2, 2, struck)]], colors.emphasis, 2.5);
    context.restore();
  }

  drawWord(appearance, frame, script = this.script) {
    const { context, colors, size } = this;
    const { word, kind, alpha, struck, landed, fresh } = appearance;
    const [x, y, grown] = this.drawnCorner(appearance, frame);
    const scale = grown * (word.sign ? SIGN_SIZE : 1);
    const seen = (line, top) => progress(line, top - 1, top);
    const { closed, leftward } = word;
    context.globalAlpha = alpha * mixed(seen(word.line, frame.top), closed ? seen(closed.line, script.closedTop) : 1, closed ? frame.ended : 0);
    const [left, right] = this.edgesOf(appearance, frame).map((edge) => edge - this.cornerOf(word, frame)[0] + x);
    const middle = y + size.size * 0.62;
    const drafted = kind === "draft" || struck > 0;
    const color = drafted ? colors.emphasis : word.sign ? colors.muted : kind === "drawn" ? colors.accent : colors.text;
    const pen = (text, at, side) => this.write(color, text, at, middle, side, size.size * scale * (kind === "drawn" && word.instead ? -1 : 1), this.wordFont);
    context.direction = leftward ? "rtl" : "ltr";
    if (appearance.cursive) drawWithin(context, [left, y - size.line, right - left, 3 * size.line], () => pen(appearance.cursive.text, right + appearance.cursive.offset * scale, "right"));
    else pen(appearance.text ?? word.text, leftward ? right : left, leftward ? "right" : "left");
    context.direction = "inherit";
    if (struck > 0) fillBox(context, colors.emphasis, left, middle, (right - left) * struck, 2.5);
    if (fresh && !word.instead) fillBox(context, colors.accent, x, y + size.size * 1.22, word.width * landed, 2.5);
    if (kind === "accepted" && word.solid && !word.sign) {
      context.globalAlpha *= 0.7 * (appearance.share ?? 1);
      fillBox(context, colors.emphasis, left, y + size.size * 1.14, right - left, Math.max(1.5, size.size * 0.05));
    }
    if (word.instead && landed === 1) this.drawRefused(word, x, y);
  }

  /** The refused word small and struck above its correction. */
  drawRefused({ instead, width }, x, y) {
    const { context, colors, size: { size } } = this;
    const small = Math.max(11, size * REFUSED_SIZE);
    const [middle, height] = [x + width / 2, y + size * 0.02];
    this.write(colors.emphasis, instead, middle, height, "center", small, this.wordFont);
    const half = context.measureText(instead).width / 2;
    fillBox(context, colors.emphasis, middle - half - 1, height, 2 * half + 2, Math.max(1.2, small * 0.07));
  }

  drawBar({ bar: { x, alpha, from, line }, top }) {
    const { context, colors, size } = this;
    const [y, height, reach] = [this.lineTop(line, top) - 5, (this.isText ? size.size * 1.24 : size.line) + 10, Math.sign(x - from) * Math.min(Math.abs(x - from), 170)];
    const light = (gradient, stops, left, upper, wide, tall) => {
      stops.forEach((stop, index) => gradient.addColorStop(index, colors.accent + stop));
      fillBox(context, gradient, left, upper, wide, tall);
    };
    context.globalAlpha = alpha;
    light(context.createLinearGradient(x - reach - 0.01, 0, x, 0), ["00", "48"], x - reach, y, reach, height);
    light(context.createRadialGradient(x, y + height / 2, 0, x, y + height / 2, height), ["38", "00"], x - height, y - height / 2, 2 * height, 2 * height);
    fillBox(context, colors.accent, x - 1.75, y - 3, 3.5, height + 6);
  }

  /** The branches of a draft graph, a column a level, over the other lane: all light up, those that fail fade, the best one goes into the text. */
  drawBranches({ branches: { nodes, levels, rows, into }, alpha, lit, judged, joined }, { words, top }) {
    const { context, colors, size: { left, right, wide, base, bars, lanes, ...size } } = this;
    if (this.laned) {
      context.globalAlpha = swinging(alpha);
      this.drawCard(lanes[1], colors.text, 2);
    }
    const start = wide ? left + CAPTION_WIDTH + 40 : left;
    const below = this.laned ? lanes[1].top + (wide ? 0 : 44) : this.lineTop(1 + Math.max(...words.map(({ word }) => word.line)), top);
    const floor = this.laned ? lanes[1].top + lanes[1].height - 8 : base;
    const free = (this.laned ? floor - below : Math.max(bars, base - below)) - 16;
    const [pitch, tall] = [Math.min(280, (right - start) / levels), Math.max(24, Math.min(180, free / rows))];
    const upper = floor - Math.min(free, rows * tall);
    const [across, down, small] = [pitch - (wide ? 20 : 8), tall - 8, Math.max(size.small, Math.min(22, pitch / 11, tall / 3))];
    const at = ({ level, row }) => [start + (level - 1) * pitch, upper + row * tall];
    for (const node of nodes.filter(({ level }) => level > 0)) {
      const [{ lines, accepted, best }, [x, y]] = [node, at(node)];
      context.globalAlpha = alpha * judged;
      for (const other of node.acceptedUnder.map((index) => nodes[index]).filter(({ level }) => level === node.level - 1 && level > 0)) {
        drawLine(context, [[x - (pitch - across), at(other)[1] + down / 2], [x, y + down / 2]], colors.accent);
      }
      context.globalAlpha = alpha * (accepted ? 1 : 1 - 0.75 * judged);
      fillBox(context, colors.background, x, y, across, down);
      context.globalAlpha *= mixed(0.25 * Math.min(1, 2 * lit), accepted ? 0.35 : 0, judged);
      fillBox(context, colors.accent, x, y, across, down);
      context.globalAlpha = alpha * (accepted ? 1 : 1 - 0.75 * judged);
      Object.assign(context, { strokeStyle: best && judged ? colors.emphasis : accepted && judged ? colors.accent : colors.line, lineWidth: best && judged ? 3 : 1.5 });
      context.strokeRect(x, y, across, down);
      const letters = Math.min(small, down / (1.45 * lines.length));
      drawWithin(context, [x, y, across, down], () => lines.forEach(([textBefore, draft, textAfter], line) => {
        const [middle, row] = [x + across / 2, y + down / 2 + (line - (lines.length - 1) / 2) * Math.min(1.6 * letters, down / lines.length)];
        this.write(colors.text, draft, middle, row, "center", -letters);
        const half = context.measureText(draft).width / 2;
        if (!accepted) fillBox(context, colors.emphasis, middle - half, row, 2 * half * judged, 2.5);
        this.write(colors.muted, textBefore, middle - half - 8, row, "right", letters);
        this.write(colors.muted, textAfter, middle + half + 8, row, "left", letters);
      }));
      if (!best || !into || joined === 0 || joined === 1) continue;
      context.globalAlpha = Math.sin(Math.PI * joined);
      this.write(colors.emphasis, lines.map(([, draft]) => draft).join(" … "), mixed(x + 10, into.x, joined), mixed(y, this.lineTop(into.line, top), joined) + small, "left", -small * 1.2);
    }
  }

  /** Position of the bars of a verdict: the middle of each column, the base, the height of a probability of 1, the word above. */
  barLayout({ columns, word, pass }, { top }) {
    const { column, gap, base, width, wide, size, label, line, aside, ceiling } = this.size;
    const barsWidth = columns.length * (column + gap) - gap;
    if (this.laned) return this.barLayoutInLane(barsWidth);
    if (!this.isText) {
      const left = wide ? aside + label : Math.max(label + 8, (width - barsWidth) / 2);
      const x = (index) => left + index * (column + gap) + column / 2;
      return { x, base, unit: Math.min(260, base - ceiling), left, right: left + barsWidth, turned: false, above: [word.x + line, this.lineTop(word.line, top) + line / 2] };
    }
    const wanted = word.x + word.width / 2 - column / 2;
    const turned = wide && wanted + barsWidth > width - 40;
    const left = turned ? Math.min(wanted + column, width - label) - barsWidth : Math.max(label, Math.min(wanted, width - barsWidth - 16));
    const x = (index) => left + (turned ? columns.length - 1 - index : index) * (column + gap) + column / 2;
    const unit = Math.min(wide ? 320 : 190, base - this.lineTop(pass.lowest, pass.top) - size * 1.3 - (wide ? 22 : 14));
    return { x, base, unit, left, right: left + barsWidth, turned, above: [word.x + word.width / 2, this.lineTop(word.line, top) + size * 1.35] };
  }

  /** The position of the bars of a verdict in the close-up: at the right of its caption, or below where it is narrow. */
  barLayoutInLane(barsWidth) {
    const { column, gap, base, wide, label, left: edge, right: end, lanes: [, { top }] } = this.size;
    const [from, until] = wide ? [edge + (end - edge) * 0.38 + label, end - 16] : [edge + label - 8, end];
    const share = Math.min(1, (until - from) / barsWidth);
    const left = wide ? Math.max(from, (from + until - barsWidth * share) / 2) : from;
    const x = (index) => left + (index * (column + gap) + column / 2) * share;
    return { x, base, share, unit: Math.max(40, base - top - (wide ? 52 : 104)), left, right: left + barsWidth * share, turned: false, above: [x(0), top + (wide ? 22 : 88)] };
  }

  /** The last denoising step of draft and target as bells, and below them the terms of all its steps: what is known of both. */
  drawBells({ verdict: { bells, terms, moment }, alpha, grown, chosen }, { base, unit }) {
    const { context, size: { aside, small }, player } = this;
    const [room, tall, font] = [this.laned ? 520 : Math.min(520, this.captionBox().room), bells ? (terms.length ? 0.75 : 1) * unit : 0, `${Math.min(13, small)}px ${this.font}`];
    context.save();
    context.globalAlpha = alpha * grown;
    context.translate(aside, base - unit);
    if (bells) drawBells(context, bells, player.theme, chosen > 0.5, [room, tall], font);
    context.translate(0, tall + 6);
    if (terms.length) drawTerms(context, terms, player.theme, moment.number("path_log_ratio_highest") !== undefined, [room, bells ? 0.25 * unit + 14 : unit], font);
    context.restore();
  }

  drawVerdict(verdict, layout) {
    if (verdict.verdict.bells || verdict.verdict.terms.length) return this.drawBells(verdict, layout);
    const { context, colors, size } = this;
    const { grown, labelsShown, separated } = verdict;
    const { columns } = verdict.verdict;
    const { x, base, unit, left, right, turned, above } = layout;
    const pen = (share) => (context.globalAlpha = verdict.alpha * share);
    const [{ p, q }, stays] = [columns[0], mixed(1, 0.28, separated)];
    pen(grown * (1 - separated) * 0.8);
    drawLine(context, [above, [x(0), base - unit * Math.max(p, q) * grown - 6]], colors.muted, 1.5, [2, 5]);
    pen(0.5 * grown);
    fillBox(context, colors.muted, left - 8, base, right - left + 16, 1.5);
    columns.forEach((_, index) => this.drawColumn(verdict, layout, index, stays, pen));
    pen(labelsShown * stays);
    const [edge, end] = turned ? [right + 9, "left"] : [left - 9, "right"];
    const lift = Math.abs(q - p) * unit < 18 ? (q > p ? -9 : 9) : 0; // so that the two do not overlap
    this.write(colors.emphasis, `q ${small(q, 0.001)}`, edge, base - unit * q + lift, end, -size.small);
    this.write(colors.accent, `p ${small(p, 0.001)}`, edge, base - unit * p - lift - (p * unit < 9 ? 7 : 0), end, -size.small);
    this.drawBall(verdict, layout, pen);
  }

  /** p outlined over q, separated for the draft; where p exceeds q, the excess moves down and is scaled to 100 %. */
  drawColumn({ verdict: { columns, pick }, grown, labelsShown, chosen, separated, scaled }, { x, base, unit, share: narrowed = 1 }, index, stays, pen) {
    const { context, colors, size } = this;
    const { p, q, share, text, token } = columns[index];
    const wide = size.column * narrowed;
    const [from, judged, late] = [x(index) - wide / 2, index ? 0 : labelsShown, index * 0.06];
    const [low, high] = [unit * q * slowing(progress(grown, late, 0.7 + late)), unit * p * slowing(progress(grown, 0.2 + late, 0.76 + late))];
    pen(0.4 * stays * (1 - judged));
    fillBox(context, colors.emphasis, from, base - low, wide, low);
    pen(0.4 * stays * judged);
    fillBox(context, colors.emphasis, from, base - low, wide, Math.max(0, low - high));
    fillBox(context, colors.accent, from, base - Math.min(low, high), wide, Math.min(low, high));
    pen(index === pick ? 0.4 * chosen : 0);
    fillBox(context, colors.accent, from, base - high, wide, high);
    pen(stays);
    if (high > 0.5) drawLine(context, [[from - 3, base], [from - 3, base - high], [from + wide + 3, base - high], [from + wide + 3, base]], colors.accent, 2.5);
    if (separated > 0 && share > 0) {
      const part = mixed(Math.max(0, p - q), share, scaled);
      const [tall, inside] = [Math.max(unit * part, 1.5), unit * part > 34];
      pen(Math.min(1, 3 * separated));
      fillBox(context, colors.emphasis, from, mixed(base - unit * p, base - tall, separated), wide, tall);
      pen(progress(separated, 0.6, 1));
      if (share >= MIN_OTHER_SHARE) this.write(inside ? colors.background : colors.text, `${Math.round(100 * part)} %`, x(index), base - tall + (inside ? 20 : -11), "center", -size.small);
    }
    pen(slowing(grown));
    const bold = index === 0 || (index === pick && Math.max(separated, chosen) > 0.5);
    const { thumbnail: side } = size;
    if (index === pick && chosen) this.write(colors.accent, `p ${small(p, 0.001)}`, x(index), base - unit * Math.max(p, q) - 12, "center", -size.small);
    if (!this.isText && drawTile(context, this.lane.picture, token, x(index) - side / 2, base + 8, side)) {
      Object.assign(context, { strokeStyle: index ? colors.accent : colors.emphasis, lineWidth: 2.5 });
      if (bold) context.strokeRect(x(index) - side / 2 - 1, base + 7, side + 2, side + 2);
    } else this.write(bold ? colors.text : colors.muted, text, x(index), base + (size.wide ? 18 : 15), "center", size.small * (bold ? -1.1 : 1.1), this.wordFont);
  }

  /** The uniform draw falls as a ball on the draft's bar, to its share of q; above p it rolls on to the residual. */
  drawBall({ verdict: { columns, pick, moment }, uniform, ballShown, dropped, sunk, rolled, judged, ring }, { x, base, unit, above }, pen) {
    if (!moment.ratioDecided) return;
    const { context, colors, size } = this;
    const radius = size.wide ? 11 : 9;
    const [tall, low] = [unit * columns[0].q, base - radius - 1];
    const landing = base - uniform * tall;
    const high = low - unit * (columns[pick]?.share ?? 0);
    const fallen = sunk > 0 ? mixed(landing, low, sunk) : mixed(above[1], landing, dropped);
    const [at, y] = [mixed(mixed(above[0], x(0), dropped), x(Math.max(0, pick)), rolled), mixed(fallen, high, rolled) - 4 * (34 + 0.3 * (low - high)) * rolled * (1 - rolled)];
    const color = !judged ? colors.text : uniform < moment.number("accept_prob") ? colors.accent : colors.emphasis;
    pen(0.5);
    if (sunk > 0) drawDot(context, [x(0), landing], radius - 3, null, colors.text, 1.5);
    pen(ballShown);
    drawDot(context, [at, y], radius, color, colors.background, 2.5);
    pen(0.8 * (1 - ring));
    if (ring > 0 && ring < 1) drawDot(context, [at, y], radius + 22 * ring, null, color, 3);
  }

  /** How far the run is, and the other one. */
  drawCounts(frame) {
    const { passed, ended } = frame;
    const { context, colors, size, other, player, isText } = this;
    const { height, wide, left, right, top, pictureBox, small } = size;
    context.globalAlpha = isText ? 1 - ended : 1;
    const { large = 1 } = size;
    const low = isText ? height - (wide ? 22 : 14) : top + pictureBox.height + (wide ? 20 * large : 16);
    frame.counts = [countInWords(this.lane, passed)];
    this.write(colors.accent, frame.counts[0], isText ? right : left, low, isText ? "right" : "left", wide ? (isText ? -18 : -16 * large) : -small);
    context.globalAlpha = 1;
    if (isText) return;
    this.drawPictureMeter(this.lane, { left, right: left + pictureBox.width, top: top + pictureBox.height }, passed, this.lane.title.textContent);
    if (!other) return;
    const passes = other.replay.stepsAt(player.clock, player.now);
    frame.counts.unshift(countInWords(other, passes));
    this.drawOther(frame.counts[0]);
    this.drawPictureMeter(other, { left: right - other.picture.width, right, top: top + other.picture.height }, passes, this.laneNames()[1]);
  }

  /** Above a picture its run's name and tokens per pass, below it the passes. */
  drawPictureMeter(lane, { left, right, top: under }, passes, name) {
    const { colors, context, size: { top, stacked, foot, large }, replay: { grid } } = this;
    const row = top - (grid.frames > 1 ? FRAME_NAMES : 0) - (stacked ? 14 : 18 * large);
    const rate = rateOf(lane, passes);
    const names = [[-13 * large, name], [-13 * large, lane.title.textContent], [-12, lane.title.textContent]];
    context.font = `${12 * large}px ${this.font}`;
    const unit = context.measureText(RATE_UNIT).width;
    const start = Math.min(left, right - unit - 46 * large);
    const room = right - start - (stacked ? 0 : unit + 60 * large);
    const [letters, shown] = names.find(([letters, text]) => {
      context.font = `600 ${-letters}px ${this.font}`;
      return context.measureText(text).width <= room;
    }) ?? names[names.length - 1];
    this.write(colors.text, shown, start, stacked ? row - 21 : row, "left", letters);
    const [edge, side] = stacked ? [start, "left"] : [right - unit - 7, "right"];
    this.write(lane === this.lane ? colors.accent : colors.text, rate, edge, row - 1, side, stacked ? -22 : -26 * large);
    this.write(colors.muted, RATE_UNIT, stacked ? start + context.measureText(rate).width + 7 : right, row + 3, side, 12 * large);
    if (foot > PASSES_BELOW) this.drawPasses(lane, { top: under + 30 * large, height: PASSES_BELOW, left, right, strip: PASSES_BELOW }, passes);
  }

  /** All patches, under the name of the run and those of a clip's latent frames, and the clip. */
  drawPicture(frame) {
    const { replay, other } = this;
    const named = replay.grid.frames > 1;
    for (const appearance of frame.words) this.drawPatch(appearance, frame);
    if (this.lane.scene.overlay) this.drawFates();
    if (named) this.drawClip(frame);
    else if (other && !frame.verdict) this.drawProgress(frame.ended);
    this.context.globalAlpha = 1;
    if (named) this.drawFrames();
  }

  /** The report of each patch, last. */
  drawFates() {
    const { context, size: { left, top, pictureBox }, lane: { picture, scene } } = this;
    context.save();
    context.translate(left, top);
    Object.assign(picture, pictureBox).paintFates(scene, context);
    context.restore();
  }

  drawFrames() {
    const { colors, size: { left, top, line, wide }, replay } = this;
    for (let frame = 0; frame < replay.grid.frames; frame += 1) {
      const { x, y } = replay.grid.corner(frame);
      const name = replay.frameName(frame);
      this.write(colors.muted, frame === 0 && wide ? name : name.replace(/^\D+/, ""), left + x * line, top + y * line - 8, "left", 12);
    }
  }

  /** How many tokens both runs have by now, over the clock, where no verdict is shown. */
  drawProgress(ended) {
    const { context, colors, size: { aside, base, ceiling, small }, other, lane, player } = this;
    const { room } = this.captionBox();
    const [wide, tall, extent] = [room - 50, Math.min(260, base - ceiling), Math.max(player.now, player.race.finish())];
    context.globalAlpha = 1 - ended;
    fillBox(context, colors.line, aside, base, room, 1.5);
    for (const [{ replay }, color] of [[other, colors.muted], [lane, colors.accent]]) {
      const ends = replay.ends[player.clock].slice(0, replay.stepsAt(player.clock, player.now) + 1);
      const finals = ends.map((_, index) => replay.finalsBefore[index] ?? replay.latest.finals);
      const points = ends.map((end, index) => [aside + (wide * end) / extent, base - (tall * finals[index]) / replay.positions]);
      drawLine(context, points, color, 3, replay === lane.replay ? [] : [6, 5]);
      drawDot(context, points.at(-1), 5, color);
      this.write(color, formatInteger(finals.at(-1)), points.at(-1)[0] + 12, points.at(-1)[1], "left", -small);
    }
    this.write(colors.muted, "tokens so far", aside, base + 18, "left", small);
  }

  /** The clip as far as it is decided, where no acceptance test is shown; it grows at the end of the run. */
  drawClip({ done, ended, verdict }) {
    const { context, size: { top, pictureBox, height, wide, aside, base, large }, lane: { clip, scene }, replay } = this;
    const decided = clip.decidedIn(scene);
    const image = clip.frames[Math.floor(this.elapsed(done) / CLIP_FRAME) % Math.max(1, decided)];
    if (!decided || !loaded(image)) return;
    const upper = wide ? mixed(top + CAPTION_ABOVE_CLIP * large, top, ended) : top + pictureBox.height + 52;
    const side = Math.min(280 * large, this.captionBox().room, (wide ? mixed(height - 30, height - 136, ended) : base) - upper);
    context.globalAlpha = 1 - (verdict?.alpha ?? 0);
    context.imageSmoothingEnabled = true;
    context.drawImage(image, aside, upper, (side * replay.grid.cellColumns) / replay.grid.cellRows, side);
    context.globalAlpha = 1;
  }

  /** Milliseconds of the run that have been played; after its end, those during which the rest of the clock runs. */
  elapsed(done) {
    const { script: { passes }, replay, player } = this;
    const before = passes.slice(0, done).reduce((sum, { length }) => sum + length, 0);
    const end = replay.extent(player.clock);
    return before + (done < replay.length ? this.progressAt(player.now)[1] : (1000 * AFTER_FINISH.seconds * (player.now - end)) / (player.extent() - end || 1));
  }

  /** The other picture, with its count below. */
  drawOther(count) {
    const { context, colors, size: { top, right, small, wide, pictureBox, large }, other: { picture, scene } } = this;
    const [x, y] = [right - picture.width, top];
    context.save();
    context.translate(x, y);
    picture.paint({ ...scene, position: null, unnamed: true }, context);
    picture.coverOpen(scene, context);
    context.restore();
    this.write(colors.text, count, wide ? x : right, wide ? y + picture.height + 20 * large : y + pictureBox.height + 32, wide ? "left" : "right", wide ? -16 * large : -small);
  }

  /** Position and width of the caption: next to the bars of a text, where there is more room; above those of a picture. */
  captionBox(layout) {
    const { wide, width, height, left, aside, base, top, paired } = this.size;
    if (this.laned) return this.captionInLane(layout);
    if (!wide) return { x: left, y: this.isText ? base + 25 : height - 84, room: width - 2 * left };
    if (!this.isText) return { x: aside, y: top - 4, room: Math.min(paired ? Infinity : CAPTION_WIDTH, width - left - aside - (this.other?.picture.width ?? 0) - MIDDLE.gap) };
    if (!layout) return { x: aside, y: base - 96, room: CAPTION_WIDTH };
    const [roomBefore, roomAfter] = layout.turned ? [layout.left - 40, 0] : [layout.left - 110, width - layout.right - 40];
    const room = Math.min(CAPTION_WIDTH, Math.max(roomBefore - left, roomAfter - 16));
    return { x: roomAfter - 16 < room ? roomBefore - room : width - roomAfter, y: base - 96, room };
  }

  /** Position and width of the caption of two lanes: in the close-up, or at the head of the upper lane between its name and its figures. */
  captionInLane(close) {
    const { left, right, wide, large, lanes: [, { top }] } = this.size;
    if (close) return { x: left, y: top + (wide ? 22 : 14), room: (right - left) * (wide ? 0.36 : 1) };
    const name = wide ? this.nameWidth + 28 * large : 0;
    return { x: left + name, y: 18 * large, room: wide ? Math.max(0, this.figuresLeft - left - name - 20 * large) : 0 };
  }

  /** Caption, card and the position of the ball, and all of it in words. */
  showCaption(frame) {
    const { verdict, ended, caption, layout, done } = frame;
    const { size, player, replay, isText } = this;
    const judging = Boolean(this.laned && layout && verdict.verdict.pass.index === Math.ceil(done + this.progressAt(player.now)[1] / 1e6) - 1);
    const close = judging || Boolean(this.laned && frame.branched);
    setText(this.captionTitle, caption[0]);
    setText(this.captionNote, judging && !this.activeCounterfactual && verdict.verdict.moment.ratioDecided ? this.verdictInWords(verdict) : caption[1]);
    const { x, y, room } = this.captionBox(this.laned ? close : layout);
    const lift = isText && size.wide && !this.laned ? "min(0px, 100px - 100%)" : "0px"; // one of many lines ends above the counts
    this.caption.classList.toggle("is-close", close);
    Object.assign(this.caption.style, { transform: `translate(${Math.round(x)}px, calc(${y}px + ${lift}))`, width: `${room}px` });
    this.caption.style.visibility = ended || (this.laned && !close && room < 160) ? "hidden" : "";
    this.caption.style.opacity = judging ? verdict.alpha : close ? frame.branched.alpha : 1;
    Object.assign(this.card.style, { opacity: ended, visibility: ended ? "" : "hidden" });
    const branches = frame.branches && !ended ? branchesInWords(frame.branches.branches) : "";
    const label = `Pass ${Math.min(replay.length, Math.ceil(done + this.progressAt(player.now)[1] / 1e6))} of ${replay.length}. ${[...caption, branches].filter(Boolean).join(" ")} ${isText ? `The text so far: ${replay.textIn(replay.seek(done)).trim()}` : `${formatInteger(replay.tokensIn(replay.seek(done)))} of ${formatInteger(replay.positions)} tokens are final.`}`;
    if (this.canvas.ariaLabel !== label) this.canvas.setAttribute("aria-label", label);
    this.adjustableVerdict = verdict?.ballShown === 1 && verdict.verdict.moment.ratioDecided && verdict.alpha === 1 ? verdict : null;
    this.drawSlider.hidden = !this.adjustableVerdict;
    if (!this.adjustableVerdict) return;
    const tall = layout.unit * verdict.verdict.columns[0].q;
    Object.assign(this.drawSlider.style, { left: `${layout.x(0) - 22}px`, top: `${layout.base - tall - 11}px`, height: `${tall + 22}px` });
    this.drawSlider.value = verdict.uniform;
    this.drawSlider.setAttribute("aria-valuetext", `uniform draw ${figure(verdict.uniform)}: ${caption.join(" ")}`);
  }

  /** Describe in a sentence or two what a verdict has shown by now. */
  verdictInWords({ verdict: { moment, word, replacement }, ballShown, judged, separated }) {
    const [p, q, uniform, chance] = ["p", "q", "coin", "accept_prob"].map((name) => figure(moment.number(name), 2));
    const first = `Drafted “${word.text}” at q = ${q}; the model gives it p = ${p}.`;
    if (!ballShown) return first;
    if (!this.size.wide && separated <= 0.5) return `Its chance is p / q = ${chance}${judged ? `; the draw was ${uniform}` : ""}.`;
    if (separated > 0.5) return `“${replacement.text}” comes from what the model wants more than the drafter, p − q.`;
    return `${first} It stays with chance p / q = ${chance}${judged ? `; the draw was ${uniform}` : ""}.`;
  }

  /** Fill the card at the end: passes compared with the other run, and whether the output is exact. */
  fillCard() {
    const { lane, replay, other, player } = this;
    const complete = replay.completed && (!other || other.replay.completed);
    const counterfactual = [[formatInteger(replay.length - replay.drafts), "passes"]];
    const facts = !complete ? [] : player.replaced ? counterfactual : (lane.report?.card ?? []);
    const shown = lane.wrong ? [...facts.filter(([fact]) => fact !== "Exact"), ["Wrong", lane.wrong.replace(/^wrong:? /, "")]] : facts;
    this.card.replaceChildren(...shown.map(([fact, about]) => make("div", {}, make("dt", {}, about), make("dd", {}, fact))));
  }

  /** Change the uniform draw in the pass that is shown, until the clock moves. */
  setUniform(uniform) {
    const { player, adjustableVerdict } = this;
    this.counterfactual = { now: player.now, moment: adjustableVerdict.verdict.moment, uniform, message: "What if the ball had fallen here?" };
    player.takeOver();
    player.schedule();
  }

  /** Have the host decode what follows once the slider is released, if the decision differs and there is a host. */
  requestDecoding() {
    clearTimeout(this.requestTimer);
    this.requestTimer = setTimeout(() => {
      const { activeCounterfactual, player, replay } = this;
      if (!activeCounterfactual || player.guided) return;
      const { moment, uniform } = activeCounterfactual;
      if (!withUniformDraw(moment, uniform).turned) return;
      const { url } = replay.meta;
      activeCounterfactual.message = url ? "Decoding what follows …" : "The model is not here. What follows is from this run's own random numbers.";
      if (url) player.emit("supposed", { trace: url, step: moment.index, entry: moment.entry, coin: uniform });
      player.schedule();
    }, SETTLE_MILLISECONDS);
  }

  /** The changed uniform draw of the pass that is shown; null once the clock moved. */
  get activeCounterfactual() {
    const { shown, counterfactual, player, replay } = this;
    return shown && counterfactual?.now === player.now && counterfactual.moment.replay === replay ? counterfactual : null;
  }

  /** Source of the tokens after a changed draw; if none was changed, the hint that one can be. */
  get counterfactualInWords() {
    const { activeCounterfactual, replay, player: { replaced } } = this;
    if (activeCounterfactual) return activeCounterfactual.message;
    if (!replaced) return !this.shown || this.drawSlider.hidden || this.player.playing ? "" : "Drag the ball to see what would follow.";
    const [passCount, recordedCount] = [replay, replaced.lane.replay].map(({ length, drafts }) => length - drafts);
    return `What if, decoded live: ${counted(passCount, replay.drafts ? "target pass" : "pass")}${!replay.completed ? ", then stopped" : passCount === recordedCount ? ", as before" : ` instead of ${recordedCount}`}.`;
  }
}

/** Tokens per target pass so far. */
function rateOf({ replay }, passes) {
  const targetPasses = replay.targetPasses(passes);
  return targetPasses ? (replay.tokensIn(replay.seek(passes)) / targetPasses).toFixed(1) : "–";
}

/** How far a run is, and at its end whether it was stopped, or its answer is wrong. */
function countInWords({ replay, wrong }, passes) {
  const finished = replay.complete && passes === replay.length;
  const sign = !finished ? "" : !replay.completed ? "stopped: " : wrong ? `✗ ${wrong} · ` : "✓ ";
  const target = replay.targetPasses(passes);
  const drafting = passes - target;
  const passesText = counted(target, replay.drafts ? "target pass" : "pass") + (replay.drafts && !finished ? ` (drafter: ${drafting})` : ""); // then the card reports that
  return `${sign}${counted(replay.tokensIn(replay.seek(passes)), "token")} in ${passesText}`;
}
