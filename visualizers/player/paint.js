// Colours, small DOM helpers and the canvas every view draws on.

const SVG = "http://www.w3.org/2000/svg";
/** Pixels left of and below the axes of a view along the clock. */
const LEFT = 38;
const BOTTOM = 18;

/** Make an element. Text goes in as text, never as markup. */
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** Make an icon of one path in a box of 16 by 16. */
function icon(path, filled) {
  const svg = document.createElementNS(SVG, "svg");
  const shape = document.createElementNS(SVG, "path");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  shape.setAttribute("d", path);
  shape.setAttribute("fill", filled ? "currentColor" : "none");
  shape.setAttribute("stroke", filled ? "none" : "currentColor");
  shape.setAttribute("stroke-width", "2");
  svg.append(shape);
  return svg;
}

/** The text of a node, written only when it differs. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The colours in force: those of a light or of a dark page. */
class Theme {
  constructor(data) {
    this.data = data;
    this.fates = data.fates;
    this.glyphs = data.fates.map((fate) => new Path2D(fate.path));
    this.cividis = data.cividis.map(channelsOf);
    this.use(false);
  }

  use(dark) {
    this.dark = dark;
    this.surface = dark ? this.data.surfaces.dark : this.data.surfaces.light;
    this.fills = this.fates.map((fate) => (dark ? fate.dark : fate.light));
    this.inks = this.fates.map((fate) => (dark ? fate.inkOnDark : fate.inkOnLight));
  }

  /** Red, green and blue of a share in [0, 1] on the cividis map. */
  heat(share) {
    const place = Math.max(0, Math.min(1, share)) * (this.cividis.length - 1);
    const low = Math.min(this.cividis.length - 2, Math.floor(place));
    return this.cividis[low].map((channel, i) => Math.round(channel + (this.cividis[low + 1][i] - channel) * (place - low)));
  }

  heatCss(share) {
    return `rgb(${this.heat(share).join(" ")})`;
  }
}

function channelsOf(color) {
  return [1, 3, 5].map((start) => parseInt(color.slice(start, start + 2), 16));
}

/** Draw a glyph of 16 units in a box of `size` pixels. */
function drawGlyph(context, path, filled, x, y, size, color) {
  context.save();
  context.translate(x, y);
  context.scale(size / 16, size / 16);
  if (filled) {
    context.fillStyle = color;
    context.fill(path);
  } else {
    context.strokeStyle = color;
    context.lineWidth = 2.2;
    context.stroke(path);
  }
  context.restore();
}

/** Outline a box so that it shows on any ground: a dark line inside a light one. */
function drawOutline(context, x, y, width, height) {
  context.lineWidth = 4;
  context.strokeStyle = "#000000";
  context.strokeRect(x - 1, y - 1, width + 2, height + 2);
  context.lineWidth = 2;
  context.strokeStyle = "#ffffff";
  context.strokeRect(x - 1, y - 1, width + 2, height + 2);
}

const hatches = new Map();

/** The diagonal lines that mark what is not final, made once a colour. */
function hatch(context, color) {
  if (!hatches.has(color)) hatches.set(color, makeHatch(context, color));
  return hatches.get(color);
}

function makeHatch(context, color) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = color;
  pen.lineWidth = 1.2;
  pen.beginPath();
  for (const offset of [-6, 0, 6]) {
    pen.moveTo(offset - 1, 7);
    pen.lineTo(offset + 7, -1);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

/** Draw a line through points [x, y]. */
function drawLine(context, points, color, width = 2, dash = []) {
  context.strokeStyle = color;
  context.lineWidth = width;
  context.lineJoin = "round";
  context.setLineDash(dash);
  context.beginPath();
  for (const point of points) context.lineTo(...point);
  context.stroke();
  context.setLineDash([]);
}

/** Draw a disc, filled, outlined or both. */
function drawDot(context, [x, y], radius, fill, edge = null, width = 2) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  if (fill) {
    context.fillStyle = fill;
    context.fill();
  }
  if (!edge) return;
  context.strokeStyle = edge;
  context.lineWidth = width;
  context.stroke();
}

/** Draw within a box only. */
function drawWithin(context, [x, y, width, height], draw) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  draw();
  context.restore();
}

/** The spot {x, y, wide, tall, position} under a pointer, as `View.hit` returns it. */
function spotAt(spots, x, y) {
  const spot = spots.find((box) => x >= box.x && x < box.x + box.wide && y >= box.y && y < box.y + box.tall);
  return spot ? { position: spot.position, step: null } : null;
}

/** The last of the first `count` steps that has `name`, and whether it is the last of all. */
function lastWith(replay, count, name) {
  let index = count - 1;
  while (index >= 0 && !replay.steps[index][name]) index -= 1;
  return { index, step: replay.steps[index] ?? null, current: index >= 0 && index === count - 1 };
}

/** A list that is filled only while it is open. */
class FoldedList {
  constructor(title, label, lines) {
    this.lines = lines;
    this.rows = make("ul", { class: "ds-rows", tabindex: "0", "aria-label": label });
    this.node = make("details", { class: "ds-list" }, make("summary", {}, title), this.rows);
    this.node.addEventListener("toggle", () => this.fill());
  }

  fill() {
    this.rows.replaceChildren(...(this.node.open ? this.lines() : []).map((line) => make("li", {}, line)));
  }
}

/** Pictures of a trace as images, the same one when it is asked for again, so that nothing flickers. */
class Album {
  constructor(ready) {
    this.ready = ready;
    this.opened = new Map();
  }

  open(address) {
    const source = safePicture(address);
    if (source && !this.opened.has(source)) {
      const image = new Image();
      image.onload = this.ready;
      image.src = source;
      this.opened.set(source, image);
    }
    return this.opened.get(source) ?? null;
  }
}

/** Round tick values from 0 to `extent`, at least `least` apart. */
function ticksUpTo(extent, most, least) {
  if (!(extent > 0)) return [0];
  const rough = Math.max(least, extent / most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const ticks = [];
  for (let index = 0; index * step <= extent * 1.0001; index += 1) ticks.push(index * step);
  return ticks;
}

/**
 * A titled canvas that can be pointed at. A view overrides `heightFor`, `paint` and `hit`, and `supports` where it needs
 * columns that a trace may lack. Sizes are in CSS pixels.
 */
class View {
  constructor(name, title, note) {
    this.name = name;
    this.canvas = make("canvas", { tabindex: "0", role: "slider", "aria-label": `${title}: token cursor`, "aria-valuemin": "0" });
    this.note = make("span", { class: "ds-note" }, note ?? "");
    this.heading = make("figcaption", {}, make("span", { class: "ds-title" }, title), this.note);
    this.figure = make("figure", { class: `ds-view ds-${name}` }, this.heading, this.canvas);
    this.context = this.canvas.getContext("2d");
    this.width = this.height = this.top = 0;
  }

  supports() {
    return true;
  }

  heightFor(width) {
    return width;
  }

  /** Pixels above what is drawn, for letters that would be cut off there. */
  topFor() {
    return 0;
  }

  /** Fit the canvas to the width it is given. Return whether anything changed. */
  fit(replay) {
    const width = Math.floor(this.figure.clientWidth);
    const height = Math.round(this.heightFor(width, replay));
    const top = this.topFor(width);
    const ratio = Math.min(3, globalThis.devicePixelRatio || 1);
    if (width === this.width && height === this.height && ratio === this.ratio) return false;
    Object.assign(this, { width, height, top, ratio });
    this.canvas.style.height = `${height + top}px`;
    this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.canvas.height = Math.max(1, Math.round((height + top) * ratio));
    return true;
  }

  draw(scene) {
    if (this.figure.hidden || this.width === 0) return;
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.context.clearRect(0, 0, this.width, this.height + this.top);
    this.context.translate(0, this.top);
    this.paint(scene, this.context);
  }

  /** Where a pointer at (x, y) points: {position, step} with step null for "now"; null for nowhere. */
  hit() {
    return null;
  }

  /** Draw labels of an axis in the quiet colour. */
  label(context, scene, text, x, y, align) {
    context.fillStyle = scene.theme.surface.muted;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = align;
    context.textBaseline = "middle";
    context.fillText(text, x, y);
  }
}

/** A view along the clock. A subclass has `plot`, the box of its axes, and keeps the `scene`. */
class ClockView extends View {
  plot(below = BOTTOM) {
    return { x: LEFT, y: 8, width: Math.max(1, this.width - LEFT - 8), height: this.height - below - 12 };
  }

  /** Pixels from the left of a reading of the clock. */
  across(time) {
    const { x, width } = this.plot();
    return x + (time / this.scene.extent) * width;
  }

  paintClock(scene, context, y) {
    const { width } = this.plot();
    for (const tick of ticksUpTo(scene.extent, width > 300 ? 8 : 4, scene.clock === "passes" ? 1 : 0)) {
      const align = tick === 0 ? "left" : tick / scene.extent > 0.95 ? "right" : "center";
      this.label(context, scene, tick.toLocaleString("en"), this.across(tick), y, align);
    }
  }

  /** The line at the present moment. */
  paintNow({ replay, clock, count, theme }, context, below) {
    const { y, height } = this.plot();
    context.fillStyle = theme.surface.text;
    context.fillRect(this.across(replay.ends[clock][count]) - 0.75, y - 4, 1.5, height + below);
  }

  hit(x) {
    const plot = this.plot();
    const { replay, clock, extent, position } = this.scene ?? {};
    if (!replay || x < plot.x || x > plot.x + plot.width) return null;
    const step = replay.stepsAt(clock, ((x - plot.x) / plot.width) * extent);
    return { position: position ?? null, step: step < replay.length ? step : null, goTo: Math.min(step + 1, replay.length) };
  }
}
