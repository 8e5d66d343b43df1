// @ts-check
// Colours, small DOM helpers and the canvas every view draws on.

import { safePicture } from "./replay.js";

/** The glossary of the page: a term with its meaning, and the marking of terms in what is said. */
export const { term, mark } = globalThis.draftscopeTerms;

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = ["svg", "path"];
export const SMALL_FONT = "11px system-ui, sans-serif";

/**
 * Make an element. Text goes in as text, never as markup; a function listens to the event that its attribute names.
 * @param {string} tag @param {Record<string, any>} attributes @param {(Node | string | null)[]} children @returns {any}
 */
export function make(tag, attributes = {}, ...children) {
  const node = SVG_TAGS.includes(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/**
 * Make a button that calls `click`.
 * @param {Record<string, any>} attributes @param {(event: any) => void} click @param {(Node | string | null)[]} children
 * @returns {any}
 */
export function makeButton(attributes, click, ...children) {
  return make("button", { type: "button", ...attributes, click }, ...children);
}

/**
 * Make a slider that calls `input` with its new value.
 * @param {Record<string, any>} attributes @param {(value: number) => void} input @returns {any}
 */
export function makeSlider(attributes, input) {
  return make("input", { type: "range", ...attributes, input: (/** @type {any} */ { target }) => input(Number(target.value)) });
}

/** Make an icon of one path in a box of 16 by 16. @param {string} path @param {boolean} filled */
export function icon(path, filled) {
  const [fill, stroke] = filled ? ["currentColor", "none"] : ["none", "currentColor"];
  return make("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, make("path", { d: path, fill, stroke, "stroke-width": "2" }));
}

/** Write the text of a node where it differs. @param {Node} node @param {string} text */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The colours in force: those of a light or of a dark page. */
export class Theme {
  /** @type {Surface} */
  surface;
  /** @type {string[]} */
  fills;
  /** @type {string[]} */
  inks;

  /** @param {PlayerData} data */
  constructor(data) {
    this.data = data;
    this.fates = data.fates;
    this.glyphs = data.fates.map((fate) => new Path2D(fate.path));
    this.use(false);
  }

  /** @param {boolean} dark */
  use(dark) {
    this.dark = dark;
    this.surface = dark ? this.data.surfaces.dark : this.data.surfaces.light;
    this.fills = this.fates.map((fate) => (dark ? fate.dark : fate.light));
    this.inks = this.fates.map((fate) => (dark ? fate.inkOnDark : fate.inkOnLight));
  }

  /** Colour a node as a fate, given by its code; without one as what is around it. @param {HTMLElement} node @param {number} code */
  dress(node, code) {
    node.style.background = this.fills[code] ?? "";
    node.style.color = this.inks[code] ?? "";
  }
}

/** Canvas pixels a CSS pixel. */
function pixelRatio() {
  return Math.min(3, globalThis.devicePixelRatio || 1);
}

/**
 * Give a canvas a size in CSS pixels, and return its context scaled to them.
 * @param {HTMLCanvasElement} canvas @param {number} width @param {number} height
 */
export function sized(canvas, width, height) {
  const ratio = pixelRatio();
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const context = /** @type {Context} */ (canvas.getContext("2d"));
  context.scale(ratio, ratio);
  return context;
}

/**
 * @param {Context} context @param {string | CanvasGradient | CanvasPattern} color @param {number} x @param {number} y
 * @param {number} width @param {number} height
 */
export function fillBox(context, color, x, y, width, height) {
  context.fillStyle = color;
  context.fillRect(x, y, width, height);
}

/**
 * Write a line of text with its middle at `y`.
 * @param {Context} context @param {string} color @param {string} text @param {number} x @param {number} y
 * @param {CanvasTextAlign} align @param {string} font
 */
export function drawText(context, color, text, x, y, align = "left", font = SMALL_FONT) {
  Object.assign(context, { fillStyle: color, font, textAlign: align, textBaseline: "middle" });
  context.fillText(text, x, y);
}

/**
 * Fill and outline a path with the colours given; without a path, the current one.
 * @param {Context} context @param {string | CanvasPattern | false | null} fill @param {string | false | null} edge
 * @param {number} width @param {Path2D | null} path
 */
export function paintPath(context, fill, edge = null, width = 2, path = null) {
  if (fill) {
    context.fillStyle = fill;
    if (path) context.fill(path);
    else context.fill();
  }
  if (!edge) return;
  Object.assign(context, { strokeStyle: edge, lineWidth: width });
  if (path) context.stroke(path);
  else context.stroke();
}

/**
 * @param {Context} context @param {number[]} center @param {number} radius @param {string | null} fill
 * @param {string | null} edge @param {number} width
 */
export function drawDot(context, [x, y], radius, fill, edge = null, width = 2) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  paintPath(context, fill, edge, width);
}

/**
 * Draw the glyph of a fate in a box of `size` pixels.
 * @param {Context} context @param {Theme} theme @param {number} code @param {number} x @param {number} y @param {number} size
 * @param {string} color
 */
export function drawGlyph(context, theme, code, x, y, size, color = theme.inks[code]) {
  const { filled } = theme.fates[code];
  context.save();
  context.translate(x, y);
  context.scale(size / 16, size / 16);
  paintPath(context, filled && color, !filled && color, 2.2, theme.glyphs[code]);
  context.restore();
}

/**
 * Outline a box so that it shows on any ground: a light line inside a dark one.
 * @param {Context} context @param {number} x @param {number} y @param {number} width @param {number} height
 */
export function drawOutline(context, x, y, width, height) {
  for (const [strokeStyle, lineWidth] of [["#000000", 4], ["#ffffff", 2]]) {
    Object.assign(context, { strokeStyle, lineWidth });
    context.strokeRect(x - 1, y - 1, width + 2, height + 2);
  }
}

const hatches = new Map();

/** The diagonal lines that mark what is not final, made once a colour. @param {Context} context @param {string} color */
export function hatch(context, color) {
  if (hatches.has(color)) return hatches.get(color);
  const tile = make("canvas", { width: 6, height: 6 });
  const pen = tile.getContext("2d");
  const lines = [-6, 0, 6].map((offset) => `M${offset - 1} 7L${offset + 7} -1`);
  paintPath(pen, null, color, 1.2, new Path2D(lines.join("")));
  hatches.set(color, context.createPattern(tile, "repeat"));
  return hatches.get(color);
}

/**
 * Draw a line through points [x, y].
 * @param {Context} context @param {number[][]} points @param {string} color @param {number} width @param {number[]} dash
 */
export function drawLine(context, points, color, width = 2, dash = []) {
  context.lineJoin = "round";
  context.setLineDash(dash);
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  paintPath(context, null, color, width);
  context.setLineDash([]);
}

/** Draw within a box only. @param {Context} context @param {number[]} box @param {() => void} draw */
export function drawWithin(context, [x, y, width, height], draw) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  draw();
  context.restore();
}

/**
 * A function that opens the pictures of a trace as images, the same one when it is asked again, so that nothing flickers.
 * @param {() => void} ready
 */
export function album(ready) {
  const opened = new Map();
  return (/** @type {string | null | undefined} */ address) => {
    const src = safePicture(address);
    if (src && !opened.has(src)) opened.set(src, Object.assign(new Image(), { onload: ready, src }));
    return opened.get(src) ?? null;
  };
}

/** Round tick values from 0 to `extent`, at least `least` apart. @param {number} extent @param {number} maxTicks @param {number} minStep */
export function ticksUpTo(extent, maxTicks, minStep) {
  if (!(extent > 0)) return [0];
  const rough = Math.max(minStep, extent / maxTicks);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const ticks = [];
  for (let index = 0; index * step <= extent * 1.0001; index += 1) ticks.push(index * step);
  return ticks;
}

/**
 * A titled canvas that can be pointed at, unless it has the role of an image. A view overrides `heightFor` and `paint`,
 * `supports` where it needs columns that a trace may lack, and keeps the `spots` that it painted, or overrides `hit`.
 * Sizes are in CSS pixels.
 */
export class View {
  /** @type {{ position: number, x: number, y: number, wide: number, tall: number }[]} */
  spots = [];
  ratio = 0;
  speaks = false;
  /** @type {(replay: any) => boolean} */
  supports = () => true;
  /** Pixels above what is drawn, for letters that would be cut off there. */
  /** @type {(width: number) => number} */
  topFor = () => 0;

  /** @param {string} name @param {string} title @param {string} note @param {string} role @param {string} tag */
  constructor(name, title, note = "", role = "slider", tag = "canvas") {
    const pointed = role === "slider" ? { tabindex: "0", "aria-valuemin": "0" } : {};
    this.canvas = make(tag, { role, "aria-label": role === "slider" ? `${title}: token cursor` : title, ...pointed });
    this.note = make("span", { class: "ds-note" }, note);
    const heading = make("figcaption", {}, make("span", { class: "ds-title" }, title), this.note);
    this.words = make("p", { class: "ds-words" });
    this.figure = make("figure", { class: `ds-view ds-${name}` }, heading, this.canvas);
    this.context = this.canvas.getContext?.("2d");
    this.width = this.height = this.top = 0;
  }

  /** Fit the canvas to the width it is given. @param {Replay} replay */
  fit(replay) {
    const width = Math.floor(this.figure.clientWidth);
    const height = Math.round(/** @type {any} */ (this).heightFor(width, replay));
    const top = this.topFor(width);
    const ratio = pixelRatio();
    if (width === this.width && height === this.height && ratio === this.ratio) return;
    Object.assign(this, { width, height, top, ratio });
    this.canvas.style.height = `${height + top}px`;
    sized(this.canvas, width, height + top);
  }

  get unseen() {
    return this.figure.hidden || this.width === 0;
  }

  /** @param {Scene} scene */
  draw(scene) {
    if (this.unseen) return;
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.context.clearRect(0, 0, this.width, this.height + this.top);
    this.context.translate(0, this.top);
    /** @type {any} */ (this).paint(scene, this.context);
  }

  /**
   * Position and step under a pointer at (x, y), the step null for "now"; null for nowhere.
   * @param {number} x @param {number} y @param {any} [_target] @returns {{ position: number, step: number | null } | null}
   */
  hit(x, y, _target) {
    const spot = this.spots.find((box) => x >= box.x && x < box.x + box.wide && y >= box.y && y < box.y + box.tall);
    return spot ? { position: spot.position, step: null } : null;
  }
}
