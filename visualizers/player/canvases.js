// @ts-check
// The view laid out like the canvas itself: the picture so far.

import { SMALL_FONT, View, album, drawGlyph, drawOutline, drawText, drawWithin, fillBox, hatch, make, paintPath } from "./paint.js";
import { NOTHING } from "./replay.js";

/** Pixels that the name of a frame takes. */
const NAME_HEIGHT = 14;
/** Pixels below which a name would be cut: the lines of frames below the first then have none. */
const MIN_NAMED = 11;
/** Cells below this size get no lines between them, which would be all that is seen. */
export const MIN_RULED_CELL = 8;

/** The picture so far: tiles of the tokens, drafts dimmed and hatched, and on request the outcome of each. */
export class PictureView extends View {
  supports = (/** @type {Replay} */ { grid }) => grid.kind !== "text";
  heightFor = (/** @type {number} */ width) => (width * this.grid.rows) / this.grid.columns;
  /** Frame names are drawn in cells that stay free above a frame; where these are small, the first line needs more. */
  topFor = (/** @type {number} */ width) => (this.grid.head ? Math.max(0, Math.ceil(NAME_HEIGHT - (this.grid.head * width) / this.grid.columns)) : 0);

  /** @param {Replay["grid"]} grid @param {() => void} redraw */
  constructor(grid, redraw) {
    super("picture", "Picture so far", "hatched = still a draft");
    this.grid = grid;
    this.canvas.setAttribute("aria-label", "Picture so far: token cursor");
    this.laid = new Int32Array(grid.positions);
    this.tiles = this.sheet = this.picture = null;
    this.tilePixels = 1;
    /** Pictures of the canvas after a number of steps, in their order. @type {{ step: number, image: HTMLImageElement | null }[]} */
    this.frames = [];
    this.open = album(redraw);
  }

  get cellSize() {
    return this.width / this.grid.columns;
  }

  /** @param {number} x @param {number} y */
  hit(x, y) {
    const position = this.grid.at(x / this.cellSize, y / this.cellSize);
    return position === null ? null : { position, step: null };
  }

  /** @param {number} position @returns {[number, number, number, number]} */
  box(position) {
    const { x, y } = this.grid.cell(position);
    return [x * this.cellSize, y * this.cellSize, this.cellSize, this.cellSize];
  }

  /** @param {Scene} scene @param {Context} context */
  paintGround(scene, context) {
    for (let frame = 0; frame < this.grid.frames; frame += 1) {
      const [x, y, width, height] = this.frameBox(frame);
      fillBox(context, scene.theme.surface.panel, x, y, width, height);
      if (this.grid.frames > 1 && !scene.unnamed) this.paintName(scene, context, frame);
    }
  }

  /**
   * Left, top, width and height of a latent frame; of a canvas without them, of all of it.
   * @param {number} frame @returns {[number, number, number, number]}
   */
  frameBox(frame) {
    const { x, y } = this.grid.corner(frame);
    const side = this.cellSize;
    return [x * side, y * side, this.grid.cellColumns * side, this.grid.cellRows * side];
  }

  /** @param {Scene} scene @param {Context} context @param {number} frame */
  paintName(scene, context, frame) {
    const [x, y, width] = this.frameBox(frame);
    const tall = this.grid.head * this.cellSize + (y <= this.grid.head * this.cellSize ? this.top : 0);
    if (tall < MIN_NAMED) return;
    const name = scene.replay.frameName(frame);
    context.font = SMALL_FONT;
    const text = context.measureText(name).width > width ? name.replace(/^\D+/, "") : name;
    drawWithin(context, [x, y - tall, width, tall], () => drawText(context, scene.theme.surface.muted, text, x, y - Math.min(tall, 20) / 2));
  }

  /** @param {Scene} scene @param {Context} context */
  paintCursor(scene, context) {
    if (scene.position !== null && scene.position < this.grid.positions) drawOutline(context, ...this.box(scene.position));
  }

  /** @param {TraceMeta} trace */
  use(trace) {
    const legend = trace.legend ?? {};
    this.tiles = legend.tiles ? { ...legend.tiles, image: this.open(legend.tiles.png) } : null;
    this.frames = (legend.frames ?? []).map(({ step, image }) => ({ step, image: this.open(image) }));
    this.picture = this.open(trace.output?.image);
    const patches = legend.patches ? { ...legend.patches, image: this.open(legend.patches.image), placeOf: new Map((legend.patches.ids ?? []).map((/** @type {number} */ id, /** @type {number} */ tile) => [id, tile])) } : null;
    this.sheet = this.tiles ?? patches; // pictures of single tokens
    this.tilePixels = Math.max(1, Math.min(16, this.tiles?.size ?? 1));
    this.mosaic = make("canvas");
    this.laid.fill(-1);
  }

  /** Take the picture that a running decoder drew after `step` forward passes. @param {number} step @param {string} address */
  add(step, address) {
    this.frames.push({ step, image: this.open(address) });
    this.frames.sort((a, b) => a.step - b.step);
  }

  /** @param {Scene} scene @param {Context} context */
  paint(scene, context) {
    const { state, replay } = scene;
    this.paintGround(scene, context);
    const picture = this.wholePicture(scene);
    if (picture) {
      context.imageSmoothingEnabled = picture.naturalWidth > this.width;
      this.drawWhole(context, picture);
      this.coverOpen(scene, context);
    } else if (loaded(this.tiles?.image)) {
      this.layTiles(state);
      context.imageSmoothingEnabled = false;
      context.drawImage(this.mosaic, 0, 0, this.width, this.height);
    }
    if (scene.overlay || !(picture || this.tiles)) this.paintFates(scene, context);
    else this.markDrafts(scene, context);
    if (replay.length === 0) drawText(context, scene.theme.surface.muted, "waiting for the first forward pass", this.width / 2, this.height / 2, "center");
    this.paintCursor(scene, context);
  }

  /** Which of the pictures around a step can be drawn by now. @param {number} step */
  readyAt(step) {
    const frame = (/** @type {number} */ count) => this.frames.findLast((one) => one.step <= count)?.image;
    return [this.sheet?.image, frame(step), frame(step + 1)].map((image) => Number(loaded(image))).join("");
  }

  /**
   * Draw the patch of a position after `count` steps, cut out of the picture at that step. Return whether there is one.
   * @param {Context} context @param {number} position @param {number} count @param {number} side
   */
  drawSpot(context, position, count, side) {
    const image = this.frames.findLast(({ step }) => step <= count)?.image;
    if (this.tiles || !image || !loaded(image)) return false;
    const { frame, row, column } = this.grid.where(position);
    const [wide, tall] = [image.naturalWidth / this.grid.frames / this.grid.cellColumns, image.naturalHeight / this.grid.cellRows];
    context.imageSmoothingEnabled = false;
    context.drawImage(image, (frame * this.grid.cellColumns + column) * wide, row * tall, wide, tall, 0, 0, side, side);
    return true;
  }

  /**
   * Draw a picture of the whole canvas; of a video, its latent frames stand side by side.
   * @param {Context} context @param {HTMLImageElement} picture
   */
  drawWhole(context, picture) {
    const { frames } = this.grid;
    for (let frame = 0; frame < frames; frame += 1) {
      const wide = picture.naturalWidth / frames;
      context.drawImage(picture, frame * wide, 0, wide, picture.naturalHeight, ...this.frameBox(frame));
    }
  }

  /**
   * The picture to show as it is: the finished one at the end, else the last frame recorded so far.
   * @param {Scene} scene @returns {HTMLImageElement | null}
   */
  wholePicture({ state, replay }) {
    if (replay.complete && state.steps === replay.length && this.grid.frames === 1 && loaded(this.picture)) return this.picture;
    if (this.tiles) return null;
    const frame = this.frames.findLast(({ step }) => step <= state.steps);
    return frame && loaded(frame.image) ? frame.image : null;
  }

  /** Bring the mosaic up to date, touching only the cells whose token changed. @param {ReplayState} state */
  layTiles(state) {
    const pen = this.mosaic.getContext("2d");
    const { image, size, columns } = this.tiles;
    const side = this.tilePixels;
    const [width, height] = [this.grid.columns * side, this.grid.rows * side];
    if (this.mosaic.width !== width || this.mosaic.height !== height) { // arranged otherwise, or new
      Object.assign(this.mosaic, { width, height });
      this.laid.fill(-1);
    }
    for (const [position, token] of state.token.entries()) {
      if (token === this.laid[position]) continue;
      const { x, y } = this.grid.cell(position);
      if (token < 0) pen.clearRect(x * side, y * side, side, side);
      else {
        const [left, top] = [(token % columns) * size, Math.floor(token / columns) * size];
        pen.drawImage(image, left, top, size, size, x * side, y * side, side, side);
      }
      this.laid[position] = token;
    }
  }

  /** A quiet grid over the open positions, where the picture shows some filler. @param {Scene} scene @param {Context} context */
  coverOpen({ state, theme }, context) {
    context.beginPath();
    for (const [position, token] of state.token.entries()) if (token < 0) context.rect(...this.box(position));
    if (this.cellSize < MIN_RULED_CELL) paintPath(context, theme.surface.background);
    else paintPath(context, theme.surface.panel, theme.surface.line, 1);
  }

  /** @param {Scene} scene @param {Context} context */
  markDrafts({ state, theme }, context) {
    context.beginPath();
    for (const [position, token] of state.token.entries()) if (token >= 0 && state.finalAt[position] < 0) context.rect(...this.box(position));
    for (const fill of [`${theme.surface.panel}99`, hatch(context, theme.dark ? "#ffffffb0" : "#000000a0")]) paintPath(context, fill);
  }

  /** @param {Scene} scene @param {Context} context */
  paintFates({ state, theme }, context) {
    const size = this.cellSize;
    const glyph = Math.min(16, size * 0.62);
    const inset = (size - glyph) / 2;
    for (const [position, code] of state.fate.entries()) {
      if (code === NOTHING) continue;
      fillBox(context, `${theme.fills[code]}be`, ...this.box(position));
      if (size < 9) continue;
      const [x, y] = this.box(position).map((edge) => edge + inset);
      fillBox(context, theme.fills[code], x - 1, y - 1, glyph + 2, glyph + 2); // on the picture itself it could not be read
      drawGlyph(context, theme, code, x, y, glyph);
    }
  }
}

/** @param {HTMLImageElement | null | undefined} image */
export function loaded(image) {
  return Boolean(image?.complete && image.naturalWidth > 0);
}
