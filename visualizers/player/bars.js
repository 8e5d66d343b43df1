// @ts-check
// The distributions of an acceptance test: p over q as columns with the uniform draw in the draft's column, the residual, the likeliest
// tokens, and for vectors two bell curves.

import { drawTile } from "./charts.js";
import { drawDot, drawLine, drawText, fillBox, make, sized } from "./paint.js";
import { figure } from "./replay.js";
import { signed } from "./rules.js";

const MAX_COLUMNS = 5;
/** The probability of tokens not shown from which they get a column. */
export const MIN_OTHER_SHARE = 0.005;
const TILE_PIXELS = 16;

/** A picture that `draw(context)` draws in a square, or null if it returns false. */
export function thumb(side, draw) {
  const tile = make("canvas", { class: "ds-thumb", style: `width: ${side}px; height: ${side}px`, "aria-hidden": "true" });
  return draw(sized(tile, side, side)) ? tile : null;
}

/** A token as a picture of itself, or null. */
export function thumbnail(pictures, token, side) {
  return Number.isInteger(token) ? thumb(side, (context) => drawTile(context, pictures, token, 0, 0, side)) : null;
}

/** A number above a column, which is narrow: one below `least` is not written out. */
export function small(value, minimum) {
  return value > 0 && value < minimum ? `< ${minimum}` : figure(value, 2);
}

/** Tokens next to each other, to one scale, which the bar of all other tokens may exceed; `parts` are {kind, from, to}, a `ball` is drawn at a height, all probabilities. */
function columns(moment, pictures, rows) {
  const maximum = Math.max(1e-12, ...rows.flatMap(({ token, parts }) => (token === null && rows.length > 1 ? [] : parts.map(({ to }) => to))));
  const percent = (value) => `${Math.min(100, (100 * value) / maximum)}%`;
  const items = rows.map(({ token, parts, ball, number, heard, mark }) => {
    const bars = parts.map(({ kind, from = 0, to }) => make("i", { class: `is-${kind}`, style: `bottom: ${percent(from)}; height: ${percent(to - from)}` }));
    const coin = Number.isFinite(ball) ? make("b", { class: "ds-ball", style: `bottom: ${percent(ball)}` }) : null;
    const text = token === null ? "rest" : moment.replay.tokenText(token, moment);
    const name = make("span", { class: "ds-column-name", title: text }, thumbnail(pictures, token, TILE_PIXELS), make("span", {}, text.replace(/^“ ?| ?”$/g, "") || text));
    const flag = mark ? make("small", { class: "ds-mark" }, mark) : null;
    const figures = make("small", { class: "ds-column-figure" }, number, heard ? make("span", { class: "ds-sr" }, heard) : null);
    const cut = token === null && parts.some(({ to }) => to > maximum) ? " is-cut" : "";
    return make("li", { class: (mark ? `is-${mark}` : "") + cut }, name, flag, figures, make("div", { class: "ds-column", "aria-hidden": "true" }, ...bars, coin));
  });
  return make("ol", { class: "ds-columns" }, ...items);
}

/**
 * The draft, what replaced it and the likeliest tokens by either distribution, at most `most`, as {token, p, q, mark}; the others
 * together, without a token, keep the totals.
 */
export function ratioRows(moment, likely, maxColumns = MAX_COLUMNS) {
  const [draft, sampled] = [moment.token("draft"), moment.token("token")];
  const mark = (token) => (token === draft ? "draft" : moment.redrawn && token === sampled ? "drawn" : null);
  const weight = ({ token, p, q }) => (mark(token) ? Infinity : Math.max(p, q));
  const best = [...likely].sort((a, b) => weight(b) - weight(a)).slice(0, maxColumns).sort((a, b) => b.p - a.p || b.q - a.q);
  const [p, q] = ["p", "q"].map((name) => Math.max(0, 1 - best.reduce((sum, each) => sum + each[name], 0)));
  const others = likely.length > 1 && Math.max(p, q) > MIN_OTHER_SHARE ? [{ token: null, p, q }] : [];
  return [...best, ...others].map((row) => ({ ...row, mark: mark(row.token) }));
}

/** p outlined over q. In the draft's column, the part of q above p is what a uniform draw rejects; the draw u is marked at height u * q. */
export function ratioColumns(moment, pictures, likely) {
  const rows = ratioRows(moment, likely).map(({ token, p, q, mark }) => {
    const judged = mark === "draft" && moment.ratioDecided;
    const parts = [{ kind: "q", to: judged ? Math.min(p, q) : q }, ...(judged && q > p ? [{ kind: "over", from: p, to: q }] : []), { kind: "p", to: p }];
    return { token, parts, ball: judged ? moment.number("coin") * q : null, number: small(p, 0.001), heard: ` is p, q is ${figure(q, 2)}`, mark };
  });
  return columns(moment, pictures, rows);
}

/** The first of `rows`, and the one of a token. */
function withToken(rows, token) {
  const shown = rows.slice(0, MAX_COLUMNS);
  const ofToken = rows.find((row) => row.token === token);
  if (ofToken && !shown.includes(ofToken)) shown.splice(-1, 1, ofToken);
  return shown;
}

/** Most likely tokens, with the token that was taken marked. */
export function topColumns(moment, pictures) {
  const sampled = moment.token("token");
  const rows = moment.top.map(([token, p]) => ({ token, parts: [{ kind: "p", to: p }], number: small(p, 0.001), mark: token === sampled ? "taken" : null }));
  return columns(moment, pictures, withToken(rows, sampled));
}

/**
 * Residual max(0, p - q), the largest first, and its sum over all tokens: their total variation where that is
 * recorded, else the sum over the tokens that are.
 */
export function residualOf(moment) {
  const left = (moment.likely ?? []).map(({ token, p, q }) => ({ token, share: Math.max(0, p - q) })).filter(({ share }) => share > 0);
  left.sort((a, b) => b.share - a.share || a.token - b.token);
  const known = left.reduce((sum, { share }) => sum + share, 0);
  return { left, total: Math.max(known, moment.number("residual_mass") ?? moment.number("tv") ?? 0) };
}

/** The residual scaled to 100 %, with the token that was drawn from it marked. */
export function residualColumns(moment, pictures) {
  const drawn = moment.redrawn ? moment.token("token") : null;
  const { left, total } = residualOf(moment);
  const rows = withToken(left, drawn).map(({ token, share }) => ({ token, parts: [{ kind: "left", to: share / total }], number: `${small((100 * share) / total, 0.1)} %`, mark: token === drawn ? "drawn" : null }));
  return columns(moment, pictures, rows);
}

/** The last denoising step of draft and target as bell curves along the line between their means; null without numbers. */
export function bellsOf(moment) {
  const names = ["last_std", "last_std_draft", "last_mean_distance", "last_place", "last_place_token"];
  const [target, draft, distance, distanceToMean, token] = names.map((name) => moment.number(name));
  return target > 0 && draft > 0 && distance >= 0 && distanceToMean !== undefined ? { target, draft, distance, place: distanceToMean, token } : null;
}

/** Terms of log w in words where all denoising steps decide, in full or for the stage; empty if they are not known. */
export function pathInWords(moment, full) {
  const [path, highest] = ["path_log_ratio", "path_log_ratio_highest"].map((name) => moment.number(name));
  if (path === undefined || highest === undefined) return "";
  if (!full) return `log w = ${signed(path)} − ${signed(highest)}, over all steps`;
  return `All denoising steps decide: log w is their summed log ratio, ${signed(path)}, less its highest value on the way, ${signed(highest)}.`;
}

/** Draw log p / q of each denoising step as a bar from the sum before the step to the sum after it, and the highest sum before the last step, where it counts, as a dot. */
export function drawTerms(context, terms, { surface }, dotted, [wide, tall], font) {
  const sums = [0];
  for (const term of terms) sums.push(sums.at(-1) + term);
  const [low, high] = [Math.min(...sums), Math.max(...sums)];
  const [slot, y] = [wide / terms.length, (value) => (tall * (high - value)) / (high - low || 1)];
  fillBox(context, surface.line, 0, y(0), wide, 1);
  terms.forEach((term, step) => fillBox(context, term < 0 ? surface.emphasis : surface.accent, step * slot, y(Math.max(sums[step], sums[step + 1])), slot - 2, Math.max(2, Math.abs(y(0) - y(term)))));
  const highest = sums.indexOf(Math.max(...sums.slice(0, -1)));
  if (dotted) drawDot(context, [highest * slot, y(sums[highest])], 4, surface.text);
  drawText(context, surface.muted, "log p / q, summed over the denoising steps", 0, tall + 12, "left", font);
}

/** Draw the curves in a box: q around 0, p around the distance of the means, the draft and its replacement as marks, at the edge when outside the box. */
export function drawBells(context, { target, draft, distance, place: distanceToMean, token }, { surface }, replaced, [wide, tall], font) {
  const base = tall - 20;
  const marks = [0, distance, distanceToMean];
  const [low, high] = [Math.min(...marks) - 3 * Math.max(draft, target), Math.max(...marks) + 3 * Math.max(draft, target)];
  const x = (value) => ((Math.max(low, Math.min(high, value)) - low) / (high - low)) * wide;
  const bell = (mean, std, color, dash) => {
    const points = Array.from({ length: wide + 1 }, (_, at) => {
      const value = low + (at / wide) * (high - low);
      const height = Math.exp(-(((value - mean) / std) ** 2) / 2) * Math.min(draft, target) / std;
      return [at, base - (tall - 30) * height];
    });
    drawLine(context, points, color, 2, dash);
  };
  fillBox(context, surface.line, 0, base, wide, 1);
  bell(0, draft, surface.muted, [5, 4]);
  bell(distance, target, surface.accent, []);
  drawText(context, surface.muted, "q", x(-draft), 16, "right", font);
  drawText(context, surface.accent, "p", x(distance + target), 16, "left", font);
  const occupied = [];
  const mark = (at, label, color, ...ends) => {
    fillBox(context, color, x(at) - 1, base - 14, 2, 18);
    const { width } = context.measureText(label);
    const free = occupied.flatMap(([from, until]) => [from - width - 4, until + 4]);
    const starts = [...ends.map((end) => x(at) + { left: 3, center: -width / 2, right: -3 - width }[end]), ...free];
    const fits = (start) => start >= 0 && start + width <= wide && occupied.every(([from, until]) => start > until || start + width < from);
    const start = starts.find(fits) ?? (occupied.length ? null : starts[0]);
    if (start === null) return; // a narrow panel has room for one name
    occupied.push([start, start + width]);
    drawText(context, color, label, start, tall - 8, "left", font);
  };
  const beyond = token > high ? "resampled →" : "← resampled";
  if (replaced) mark(token, token >= low && token <= high ? "resampled" : beyond, surface.emphasis, ...(token < distanceToMean ? ["right", "left"] : ["left", "right"]));
  mark(distanceToMean, "draft", surface.text, "center", "left", "right");
}
