// @ts-check
// The two curves that a verdict rests on: speed-up by acceptance, with the rate that breaks even, and by batch.
// A plot fills its frame: lines are stretched with it, words and points stand on it in their own size.

import { svgElement } from "./curves.js";

const PERCENT = [0, 0.25, 0.5, 0.75, 1];
const BATCH_TICKS = [1, 4, 16, 64, 256, 1024];
const STEPS = [0.25, 0.5, 1, 2, 5, 10, 20, 50, 100];

/** A plot in per cent of its frame. `x` maps to 0 to 100; `line` and `band` are points, `mark` an upright line. */
function plot(make, { x, ticks, line, band, here, label, mark, worth, speeds, words }) {
  const [lowest, highest] = [Math.min(0.85, ...speeds), Math.max(1.15, ...speeds)];
  const bottom = Math.max(0, lowest - 0.08 * (highest - lowest));
  const top = highest + 0.1 * (highest - lowest);
  const y = (speed) => (100 * (top - speed)) / (top - bottom);
  const path = (points) => `M${points.map(([at, speed]) => `${x(at)} ${y(speed)}`).join("L")}`;
  const step = STEPS.find((each) => (top - bottom) / each <= 5) ?? 200;
  const levels = Array.from({ length: Math.floor(top / step) + 1 }, (_, index) => step * index).filter((each) => each >= bottom);
  const at = (kind, left, up, text = "") => make("span", { class: kind, style: `left: ${left}%; top: ${up}%` }, text);
  const drawing = svgElement("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none" },
    svgElement("path", { class: "loss", d: `M0 ${y(1)}H100V100H0Z` }),
    ...levels.filter((each) => each !== 1).map((each) => svgElement("path", { class: "level", d: `M0 ${y(each)}H100` })),
    svgElement("path", { class: "band", d: band(y) }),
    svgElement("path", { class: "one", d: `M0 ${y(1)}H100` }),
    svgElement("path", { class: "worth", d: `M0 ${y(worth)}H100` }),
    ...(mark ? [svgElement("path", { class: "mark", d: `M${x(mark.at)} ${mark.whole ? 0 : y(1)}V100` })] : []),
    svgElement("path", { class: "line", d: path(line) }));
  const [left, up] = [x(here[0]), y(here[1])];
  const side = left > 85 ? "left" : left < 15 ? "right" : "over";
  return make("div", { class: "plot", role: "img", "aria-label": words }, drawing,
    ...levels.map((each) => at("level", 0, y(each), `${each}×`)),
    ...ticks.map(([value, text]) => at("tick", x(value), 100, text)),
    ...(mark ? [at(`mark ${mark.side}`, x(mark.at), mark.whole ? 0 : y(1), mark.text)] : []),
    at("dot", left, up), at(`here ${side}`, left, up, label));
}

function byAcceptance(make, { rates, low, high, even, here, label, worth }) {
  const x = (rate) => 100 * rate;
  const percent = (rate) => `${Math.round(100 * rate)}%`;
  const text = even === null ? "" : `breaks even at ${percent(even)}`;
  return plot(make, {
    x, line: rates, here, label, worth, speeds: rates.map(([, speed]) => speed),
    ticks: PERCENT.map((rate) => [rate, percent(rate)]),
    band: () => `M${x(low)} 0H${x(high)}V100H${x(low)}Z`,
    mark: even === null ? null : { at: even, text, side: even > 0.6 ? "above" : "below" }, // where the curve is not
    words: `${label} with ${percent(here[0])} of drafts accepted; ${text || "no rate breaks even"}.`,
  });
}

function byBatch(make, { batches, turn, here, label, worth }) {
  const x = (batch) => (100 * Math.log(batch)) / Math.log(1024);
  const band = (y) => `M${batches.map(([batch, , , high]) => `${x(batch)} ${y(high)}`).join("L")}L${batches.map(([batch, , low]) => `${x(batch)} ${y(low)}`).reverse().join("L")}Z`;
  return plot(make, {
    x, band, here, label, worth, line: batches, speeds: batches.flatMap(([, ...speeds]) => speeds),
    ticks: BATCH_TICKS.map((batch) => [batch, batch.toLocaleString("en")]),
    mark: turn && turn.batch <= 1024 ? { at: turn.batch, text: turn.text, whole: true, side: turn.batch >= 32 ? "left" : "right" } : null,
    words: `${label} at batch ${here[0]}${turn ? `; ${turn.text}` : ""}.`,
  });
}

/** Show both; without a value nothing. `make` makes an element of a tag, attributes and children. @param {Element} container */
export function showReasons(container, make, value) {
  const one = (title, about, drawing) => make("figure", { "data-no-terms": "" }, make("figcaption", {}, make("strong", {}, title), ` ${about}`), drawing);
  container.replaceChildren(...(value?.rates ? [
    one("By acceptance;", `dashed: worth it from ${value.worth}×`, byAcceptance(make, { ...value, here: [value.acceptance, value.speed] })),
    one("By batch", "at this acceptance", byBatch(make, { ...value, here: [value.batch, value.speed] })),
  ] : []));
}
