// @ts-check
// The attention mask of the forward pass: which query sees which key.

import { View, drawOutline, drawText, fillBox, make, setText } from "./paint.js";

const MASK_CELL = 18;
const MASK_MARGIN = 7;
const LABEL_PIXELS = 7.5;
const FAINT = 0.3;

/**
 * A mask as a picture with labelled rows and columns, in words under it, and as a list for screen readers. In a pass
 * without one the last mask stays, faint, so that nothing jumps.
 */
export class MaskView extends View {
  speaks = true;
  supports = (/** @type {Replay} */ { masks }) => masks.length > 0;
  /** Height of the highest mask of the run, so that nothing moves while stepping. */
  heightFor = (/** @type {number} */ width, /** @type {Replay} */ { masks }) => Math.max(...masks.map((mask) => this.plan(mask, width).height));

  /** @param {() => void} redraw */
  constructor(redraw) {
    super("mask", "Attention mask of this call", "filled: the position of the row (query) may attend to that of the column (key)");
    this.redraw = redraw;
    /** @type {{ row: number, column: number } | null} */
    this.cell = null;
    /** @type {ShownMask | null} */
    this.mask = null;
    /** @type {MaskRuns | null} */
    this.source = null;
    this.canvas.setAttribute("aria-label", "Attention mask: cell cursor");
    this.rows = make("ul", { class: "ds-rows", tabindex: "0", "aria-label": "What every query sees" });
    this.list = make("details", { class: "ds-list", toggle: () => this.fill() }, make("summary", {}, "What every query sees"), this.rows);
    this.figure.append(this.words, this.list);
    for (const kind of ["pointermove", "pointerdown"]) this.canvas.addEventListener(kind, (/** @type {PointerEvent} */ event) => this.point(event));
    this.canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.move(event));
  }

  /** Layout of rows and columns, in pixels. Labels run along the left and, upright, along the top. @param {MaskRuns} mask @param {number} width */
  plan({ queries, keys }, width = this.width) {
    const longest = (/** @type {string[]} */ labels) => Math.max(...labels.map((label) => Math.min(label.length, 12)), 1) * LABEL_PIXELS + MASK_MARGIN;
    const [left, top] = [longest(queries) + 2, longest(keys)];
    const size = Math.max(2, Math.min(MASK_CELL, (width - left - 1) / keys.length));
    return { left, top, size, height: Math.ceil(top + size * queries.length + 2) };
  }

  /** Fill the list, while it is open. */
  fill() {
    const mask = this.list.open ? this.mask : null;
    this.rows.replaceChildren(...(mask?.queries.map((query, row) => make("li", {}, `${query} sees ${seenBy(mask, row)}`)) ?? []));
  }

  /** @param {Scene} scene */
  draw(scene) {
    if (this.unseen) return;
    const { steps } = scene.replay;
    const index = steps.findLastIndex(({ mask }, at) => at < scene.count && mask);
    const current = index >= 0 && index === scene.count - 1;
    this.use(steps[index]);
    this.canvas.style.opacity = current ? 1 : FAINT;
    super.draw(scene);
    const instead = index < 0 ? "No mask so far." : `No mask in this pass; the faint mask is that of forward pass ${index + 1}. `;
    setText(this.words, (current ? "" : instead) + (index < 0 ? "" : this.sentence()));
    const { queries, keys } = this.mask ?? { queries: [0], keys: [0] };
    const { row, column } = (this.mask && this.cell) ?? { row: 0, column: 0 };
    const state = { valuemax: queries.length * keys.length - 1, valuenow: row * keys.length + column, valuetext: this.words.textContent };
    for (const [name, value] of Object.entries(state)) this.canvas.setAttribute(`aria-${name}`, value);
  }

  /** Take the mask of a step; its runs are spelled out cell by cell only while it is shown. @param {Step | undefined} step */
  use(step) {
    const mask = step?.mask ?? null;
    if (mask === this.source) return;
    this.source = mask;
    const spelled = (/** @type {number[]} */ row) => row.flatMap((length, index) => Array(length).fill(index % 2 === 1));
    this.mask = mask && { ...mask, sees: mask.runs.map(spelled) };
    this.fill();
  }

  sentence() {
    if (!this.mask) return "";
    const { queries, keys, sees } = this.mask;
    const { row = Infinity, column = Infinity } = this.cell ?? {};
    if (row >= queries.length || column >= keys.length) return `${queries.length} ${queries.length === 1 ? "query" : "queries"} by ${keys.length} ${keys.length === 1 ? "key" : "keys"}. Point at a cell.`;
    return `Query ${queries[row]} ${sees[row][column] ? "sees" : "does not see"} key ${keys[column]}.`;
  }

  /** @param {Scene} scene @param {Context} context */
  paint({ theme }, context) {
    if (!this.mask) return;
    const { queries, keys, sees } = this.mask;
    const { left, top, size } = this.plan(this.mask);
    const gap = size >= 6 ? 1 : 0;
    fillBox(context, theme.surface.panel, left, top, size * keys.length, size * queries.length);
    context.fillStyle = theme.surface.accent;
    for (const [row, cells] of sees.entries()) {
      for (const [column, seen] of cells.entries()) if (seen) context.fillRect(left + column * size, top + row * size, size - gap, size - gap);
    }
    this.paintBorders(this.mask, theme, context, left, top, size);
    this.paintLabels(this.mask, theme, context, left, top, size);
    const { row = Infinity, column = Infinity } = this.cell ?? {};
    if (row < queries.length && column < keys.length) drawOutline(context, left + column * size, top + row * size, size - gap, size - gap);
  }

  /**
   * Lines where one kind of label ends and the next begins.
   * @param {MaskRuns} mask @param {Theme} theme @param {Context} context @param {number} left @param {number} top
   * @param {number} size
   */
  paintBorders(mask, theme, context, left, top, size) {
    const { queries, keys } = mask;
    context.fillStyle = theme.surface.muted;
    for (const border of bordersOf(keys)) context.fillRect(left + border * size - 1, top - 4, 1.5, size * queries.length + 4);
    for (const border of bordersOf(queries)) context.fillRect(left - 4, top + border * size - 1, size * keys.length + 4, 1.5);
  }

  /** @param {MaskRuns} mask @param {Theme} theme @param {Context} context @param {number} left @param {number} top @param {number} size */
  paintLabels(mask, theme, context, left, top, size) {
    const { queries, keys } = mask;
    const spacing = Math.ceil(11 / size);
    const { muted } = theme.surface;
    for (const row of labelled(queries, spacing)) drawText(context, muted, clipped(queries[row]), left - MASK_MARGIN, top + (row + 0.5) * size, "right");
    context.save();
    context.rotate(-Math.PI / 2);
    for (const column of labelled(keys, spacing)) drawText(context, muted, clipped(keys[column]), MASK_MARGIN - top, left + (column + 0.5) * size);
    context.restore();
  }

  /** @param {PointerEvent} event */
  point(event) {
    if (!this.mask) return;
    const box = this.canvas.getBoundingClientRect();
    const { left, top, size } = this.plan(this.mask);
    const [column, row] = [event.clientX - box.left - left, event.clientY - box.top - top].map((pixels) => Math.floor(pixels / size));
    const inside = row >= 0 && column >= 0 && row < this.mask.queries.length && column < this.mask.keys.length;
    this.cell = inside ? { row, column } : null;
    this.redraw();
  }

  /** @param {KeyboardEvent} event */
  move(event) {
    /** @type {Record<string, number[]>} */
    const strides = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const stride = strides[event.key];
    if (!stride || !this.mask) return;
    event.preventDefault();
    event.stopPropagation();
    const { row, column } = this.cell ?? { row: 0, column: 0 };
    const within = (/** @type {number} */ index, /** @type {number} */ count) => Math.max(0, Math.min(count - 1, index));
    const next = { row: within(row + stride[0], this.mask.queries.length), column: within(column + stride[1], this.mask.keys.length) };
    this.cell = this.cell ? next : { row: 0, column: 0 };
    this.redraw();
  }
}

/** The keys that a query sees, runs of one kind as “first to last”. @param {ShownMask} mask @param {number} row */
function seenBy({ keys, sees }, row) {
  const starts = new Set(bordersOf(keys));
  /** @type {{ start: number, end: number }[]} */
  const runs = [];
  sees[row].forEach((seen, column) => {
    if (!seen) return;
    const last = runs.at(-1);
    if (last && last.end === column - 1 && !starts.has(column)) last.end = column;
    else runs.push({ start: column, end: column });
  });
  return runs.map(({ start, end }) => (start === end ? keys[start] : `${keys[start]} to ${keys[end]}`)).join(", ") || "nothing";
}

/** Indices at which the part of a label before its number changes. @param {string[]} labels */
function bordersOf(labels) {
  const kind = (/** @type {string} */ label) => label.replace(/\d+$/, "");
  return labels.flatMap((label, index) => (index > 0 && kind(label) !== kind(labels[index - 1]) ? [index] : []));
}

/** Indices of the labels that find room: the first of every kind, then every few. @param {string[]} labels @param {number} spacing */
function labelled(labels, spacing) {
  const starts = [0, ...bordersOf(labels)];
  return starts.flatMap((start, index) => {
    const end = starts[index + 1] ?? labels.length;
    const indices = [];
    for (let row = start; row < end; row += spacing) if (row === start || end - row >= spacing || index + 1 === starts.length) indices.push(row);
    return indices;
  });
}

/** @param {string} label */
function clipped(label) {
  return label.length > 12 ? `${label.slice(0, 11)}…` : label;
}
