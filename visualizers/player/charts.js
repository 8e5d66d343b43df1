// @ts-check
// The views along time: this forward pass in detail, and every forward pass as a row.

import { loaded } from "./canvases.js";
import { CLOCKS } from "./controls.js";
import { SMALL_FONT, View, drawGlyph, drawOutline, drawText, drawWithin, fillBox, hatch, make, setText, ticksUpTo } from "./paint.js";
import { NOTHING, State, weightOf } from "./replay.js";

const WORD_SLOT = { wide: 64, tall: 27 };
/** Pixels left of and below the axes of every forward pass. */
const [LEFT, BOTTOM] = [38, 18];
/** Pixels for the bar and the fate under a slot. */
const UNDER_SLOT = 24;
const BAR_NOTE = "bar = acceptance probability, tick = uniform draw";
const SMALLEST_WORD = 7;

/** Outcome of this forward pass, one slot per position: token, uniform draw against acceptance probability, outcome. */
export class PassView extends View {
  constructor() {
    super("pass", "This forward pass", BAR_NOTE);
  }

  /** Width and height of a slot without its bar and outcome, and the number of slots in a row. Words need longer slots than tiles. */
  slotSize(width, replay) {
    const widest = Math.max(1, Math.min(replay.widest, 128));
    const across = (side) => Math.max(1, Math.floor(width / side));
    if (replay.grid.kind === "text") return { ...WORD_SLOT, across: across(WORD_SLOT.wide), widest };
    const size = [44, 38, 32, 27, 23].find((side) => Math.ceil(widest / across(side)) <= 2) ?? 20;
    return { wide: size, tall: size, across: across(size), widest };
  }

  heightFor(width, replay) {
    const { tall, across, widest } = this.slotSize(width, replay);
    return Math.ceil(widest / across) * (tall + UNDER_SLOT);
  }

  paint(scene, context) {
    const { wide, tall, across } = this.slotSize(this.width, scene.replay);
    this.spots = [];
    if (!scene.step) return;
    const { call, position } = scene.step;
    const who = { draft: "draft model", target: "target model" }[call.role];
    const parts = [[who, call.mode?.replaceAll("_", " ")].filter(Boolean).join(", "), position.length ? BAR_NOTE : "no token touched"];
    setText(this.note, parts.join(" · "));
    for (const [entry, at] of position.entries()) {
      const [x, y] = [(entry % across) * wide, Math.floor(entry / across) * (tall + UNDER_SLOT)];
      if (y + tall + UNDER_SLOT > this.height + 1) break;
      this.spots.push({ x, y, wide, tall: tall + UNDER_SLOT, position: at });
      this.paintSlot(scene, context, entry, { x: x + 2, y: y + 2, wide: wide - 5, tall: tall - 5 });
      if (scene.position === at) drawOutline(context, x + 2, y + 2, wide - 5, tall - 5);
    }
  }

  paintSlot(scene, context, entry, { x, y, wide, tall }) {
    const { step, theme, pictures, replay } = scene;
    const code = step.fate[entry];
    const token = step.token[entry];
    const fate = theme.fates[code];
    fillBox(context, theme.surface.panel, x, y, wide, tall);
    const open = fate !== undefined && weightOf(fate) === 0;
    if (Number.isInteger(token) && !(open && pictures?.tiles) && !drawTile(context, pictures, token, x, y, wide)) {
      this.paintWord(scene, context, replay.vocabulary?.[token] === undefined ? String(token) : replay.wordAt(token, step.position[entry], scene.count), { x, y, wide, tall, struck: open });
    }
    if (fate?.pending) {
      fillBox(context, hatch(context, theme.dark ? "#ffffff90" : "#00000078"), x, y, wide, tall);
    }
    this.paintBar(scene, context, entry, x, y + tall + 3, wide);
    if (!fate) return;
    fillBox(context, theme.fills[code], x, y + tall + 8, wide, 12);
    drawGlyph(context, theme, code, x + (wide - 11) / 2, y + tall + 8.5, 11);
  }

  paintWord({ theme }, context, text, { x, y, wide, tall, struck }) {
    const word = text.replaceAll("\n", "↵").trim();
    drawWithin(context, [x, y, wide, tall], () => {
      context.font = SMALL_FONT;
      const fits = Math.min(11, (11 * (wide - 4)) / context.measureText(word).width);
      const font = `${Math.max(SMALLEST_WORD, fits)}px system-ui, sans-serif`;
      drawText(context, struck ? theme.surface.muted : theme.surface.text, word, x + (fits < 11 ? 2 : 3), y + tall / 2, "left", font);
      if (struck) context.fillRect(x + 2, y + tall / 2, Math.min(wide - 4, context.measureText(word).width + 2), 1.2);
    });
  }

  paintBar({ step, theme }, context, entry, x, y, side) {
    const acceptProb = step.acceptProb?.[entry];
    if (!Number.isFinite(acceptProb)) return;
    fillBox(context, theme.surface.line, x, y, side, 3);
    fillBox(context, theme.surface.muted, x, y, side * Math.min(1, acceptProb), 3);
    const coin = step.coin?.[entry];
    if (!Number.isFinite(coin)) return;
    fillBox(context, theme.surface.text, x + side * coin - 0.75, y - 2, 1.5, 7);
  }
}

/** Draw the tile of a token. Return whether there was one. */
export function drawTile(context, pictures, token, x, y, side) {
  const sheet = pictures?.sheet;
  const tile = sheet?.placeOf ? sheet.placeOf.get(token) : token;
  if (tile === undefined || !loaded(sheet?.image)) return false;
  const { image, size, columns } = sheet;
  context.imageSmoothingEnabled = false;
  context.drawImage(image, (tile % columns) * size, Math.floor(tile / columns) * size, size, size, x, y, side, side);
  return true;
}

/** Every forward pass as a row of positions: what stayed, what changed, what became final. Time runs down. */
export class TimelineView extends View {
  heightFor = () => 300; // in every lane, so that a row means the same moment in two of them

  constructor() {
    super("timeline", "Every forward pass");
    this.rows = make("canvas");
    this.key = "";
    this.drawn = 0;
    this.walk = new State(0);
  }

  plot() {
    return { x: LEFT, y: 2, width: Math.max(1, this.width - LEFT - 2), height: this.height - BOTTOM - 2 };
  }

  paint(scene, context) {
    this.scene = scene;
    const lines = scene.replay.grid.frameEnds.length ? " · lines: where latent frames end" : "";
    setText(this.note, `across: position · down: ${CLOCKS[scene.clock].toLowerCase()} · click to go there${lines}`);
    const { x, y, width, height } = this.plot();
    const pixels = (length) => Math.max(1, Math.round(length * this.ratio));
    this.render(scene, pixels(width), pixels(height));
    const now = Math.min(1, scene.replay.ends[scene.clock][scene.count] / scene.extent) || 0;
    fillBox(context, scene.theme.surface.panel, x, y, width, height);
    const cut = Math.round(now * this.rows.height);
    const part = (top, size) => {
      if (size > 0) context.drawImage(this.rows, 0, top, this.rows.width, size, x, y + top / this.ratio, width, size / this.ratio);
    };
    part(0, cut);
    context.globalAlpha = 0.28;
    part(cut, this.rows.height - cut);
    context.globalAlpha = 1;
    this.paintAxes(scene, context);
    this.paintCursor(scene, context, y + now * height);
  }

  /** Keep all rows drawn in a canvas of their own; redo it when size, clock, colours or extent change. */
  render(scene, width, height) {
    const { replay, clock, extent, theme } = scene;
    const key = [width, height, clock, extent, theme.dark, replay.revision].join();
    if (key !== this.key) {
      this.key = key;
      this.rows.width = width;
      this.rows.height = height;
      this.drawn = 0;
      this.walk = new State(replay.positions);
    }
    const pen = this.rows.getContext("2d");
    const band = { across: width / replay.positions, top: 0, height: 0 };
    for (; this.drawn < replay.length; this.drawn += 1) {
      const [start, end] = [this.drawn, this.drawn + 1].map((count) => Math.round((replay.ends[clock][count] / extent) * height));
      Object.assign(band, { top: start, height: Math.max(1, end - start) });
      this.drawSettled(pen, theme, band);
      this.drawRow(pen, theme, replay.steps[this.drawn], band);
      replay.apply(this.walk, replay.steps[this.drawn]);
    }
  }

  /** Left edge and width in whole pixels of the positions from `first` up to, not including, `end`. */
  span({ across }, first, end) {
    const left = Math.round(first * across);
    return [left, Math.max(1, Math.round(end * across) - left)];
  }

  /** Shade the positions that were final before this row, so that the frontier can be followed. */
  drawSettled(pen, theme, band) {
    pen.fillStyle = theme.surface.line;
    const final = this.walk.finalAt;
    for (let first = 0; first < final.length; first += 1) {
      if (final[first] < 0) continue;
      let end = first;
      while (end < final.length && final[end] >= 0) end += 1;
      const [left, width] = this.span(band, first, end);
      pen.fillRect(left, band.top, width, band.height);
      first = end;
    }
  }

  drawRow(pen, theme, { position, fate }, band) {
    const roomy = band.across >= 4 && band.height >= 4;
    for (let entry = 0; entry < position.length; entry += 1) {
      const code = fate[entry];
      if (code === NOTHING) continue;
      const first = entry;
      while (!roomy && fate[entry + 1] === code && position[entry + 1] === position[entry] + 1) entry += 1;
      const [left, width] = this.span(band, position[first], position[entry] + 1);
      fillBox(pen, theme.fills[code], left, band.top, width - Number(roomy), band.height - Number(roomy));
      if (roomy) this.drawMark(pen, theme, code, left, band.top, width - 1, band.height - 1);
    }
  }

  /** The glyph where there is room for it; in smaller cells a hole for an open glyph. */
  drawMark(pen, theme, code, left, top, width, height) {
    const { filled, path } = theme.fates[code];
    const size = Math.min(16, width, height);
    if (size >= 9) drawGlyph(pen, theme, code, left + (width - size) / 2, top + (height - size) / 2, size);
    else if (!filled && path.endsWith("z")) {
      fillBox(pen, theme.surface.panel, left + Math.round(width / 3), top + Math.round(height / 3), Math.ceil(width / 3), Math.ceil(height / 3));
    }
  }

  paintAxes(scene, context) {
    const { x, y, width, height } = this.plot();
    const { muted } = scene.theme.surface;
    for (const tick of ticksUpTo(scene.extent, 5, scene.clock === "passes" ? 1 : 0)) {
      drawText(context, muted, tick.toLocaleString("en"), x - 6, y + Math.max(5, (tick / scene.extent) * height), "right");
    }
    const positions = scene.replay.positions;
    for (const tick of ticksUpTo(positions, width > 300 ? 8 : 4, 1).map((number) => Math.max(1, number))) {
      drawText(context, muted, String(tick), x + ((tick - 0.5) / positions) * width, y + height + 10, tick / positions > 0.97 ? "right" : "center");
    }
    context.fillStyle = scene.theme.surface.text;
    for (const end of scene.replay.grid.frameEnds) context.fillRect(Math.round(x + (end / positions) * width), y, 1, height);
  }

  paintCursor(scene, context, line) {
    const { x, y, width, height } = this.plot();
    fillBox(context, scene.theme.surface.text, x - 4, line - 0.75, width + 6, 1.5);
    if (scene.position === null || scene.position >= scene.replay.positions) return;
    const across = width / scene.replay.positions;
    const left = x + scene.position * across;
    const column = Math.max(1.5, across);
    context.globalAlpha = 0.16;
    context.fillRect(left, y, column, height);
    context.globalAlpha = 1;
    const moment = scene.entry;
    if (!moment) return;
    const ends = scene.replay.ends[scene.clock];
    const top = y + (ends[moment.step] / scene.extent) * height;
    const tall = ((ends[moment.step + 1] - ends[moment.step]) / scene.extent) * height;
    drawOutline(context, left, top, column, Math.max(2, tall));
  }

  hit(x, y) {
    const plot = this.plot();
    const { replay, clock, extent } = this.scene ?? {};
    if (!replay || x < plot.x || x >= plot.x + plot.width || y < plot.y || y >= plot.y + plot.height) return null;
    const position = Math.min(replay.positions - 1, Math.floor(((x - plot.x) / plot.width) * replay.positions));
    const time = ((y - plot.y) / plot.height) * extent;
    const step = replay.stepsAt(clock, time);
    return { position, step: step < replay.length ? step : null, goTo: Math.min(step + 1, replay.length) };
  }
}
