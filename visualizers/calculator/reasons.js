// @ts-check
// The two curves that a verdict rests on: speed-up by acceptance, with the rate that breaks even, and by batch.
// A plot fills its frame: lines are stretched with it, words and points stand on it in their own size.

const PERCENT = [0, 0.25, 0.5, 0.75, 1];
const BATCHES = [1, 4, 16, 64, 256, 1024];
const STEPS = [0.25, 0.5, 1, 2, 5, 10, 20, 50, 100];

/** @param {string} tag @param {Record<string, string | number>} attributes @param {Element[]} children */
function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/** A plot in per cent of its frame. `x` maps to 0 to 100; `line` and `band` are points, `mark` an upright line. */
function plot(made, { x, ticks, line, band, here, label, mark, worth, speeds, words }) {
  const [least, most] = [Math.min(0.85, ...speeds), Math.max(1.15, ...speeds)];
  const bottom = Math.max(0, least - 0.08 * (most - least));
  const top = most + 0.1 * (most - least);
  const y = (speed) => (100 * (top - speed)) / (top - bottom);
  const path = (points) => `M${points.map(([at, speed]) => `${x(at)} ${y(speed)}`).join("L")}`;
  const step = STEPS.find((each) => (top - bottom) / each <= 5) ?? 200;
  const levels = Array.from({ length: Math.floor(top / step) + 1 }, (_, index) => step * index).filter((each) => each >= bottom);
  const at = (kind, left, up, text = "") => made("span", { class: kind, style: `left: ${left}%; top: ${up}%` }, text);
  const drawing = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none" },
    svg("path", { class: "loss", d: `M0 ${y(1)}H100V100H0Z` }),
    ...levels.filter((each) => each !== 1).map((each) => svg("path", { class: "level", d: `M0 ${y(each)}H100` })),
    svg("path", { class: "band", d: band(y) }),
    svg("path", { class: "one", d: `M0 ${y(1)}H100` }),
    svg("path", { class: "worth", d: `M0 ${y(worth)}H100` }),
    ...(mark ? [svg("path", { class: "mark", d: `M${x(mark.at)} ${mark.whole ? 0 : y(1)}V100` })] : []),
    svg("path", { class: "line", d: path(line) }));
  const [left, up] = [x(here[0]), y(here[1])];
  const beside = left > 85 ? "left" : left < 15 ? "right" : "over";
  return made("div", { class: "plot", role: "img", "aria-label": words }, drawing,
    ...levels.map((each) => at("level", 0, y(each), `${each}×`)),
    ...ticks.map(([value, text]) => at("tick", x(value), 100, text)),
    ...(mark ? [at(`mark ${mark.side}`, x(mark.at), mark.whole ? 0 : y(1), mark.text)] : []),
    at("dot", left, up), at(`here ${beside}`, left, up, label));
}

function byAcceptance(made, { rates, low, high, even, here, label, worth }) {
  const x = (rate) => 100 * rate;
  const percent = (rate) => `${Math.round(100 * rate)}%`;
  const text = even === null ? "" : `breaks even at ${percent(even)}`;
  return plot(made, {
    x, line: rates, here, label, worth, speeds: rates.map(([, speed]) => speed),
    ticks: PERCENT.map((rate) => [rate, percent(rate)]),
    band: () => `M${x(low)} 0H${x(high)}V100H${x(low)}Z`,
    mark: even === null ? null : { at: even, text, side: even > 0.6 ? "above" : "below" }, // where the curve is not
    words: `${label} with ${percent(here[0])} of drafts accepted; ${text || "no rate breaks even"}.`,
  });
}

function byBatch(made, { batches, turn, here, label, worth }) {
  const x = (batch) => (100 * Math.log(batch)) / Math.log(1024);
  const band = (y) => `M${batches.map(([batch, , , high]) => `${x(batch)} ${y(high)}`).join("L")}L${batches.map(([batch, , low]) => `${x(batch)} ${y(low)}`).reverse().join("L")}Z`;
  return plot(made, {
    x, band, here, label, worth, line: batches, speeds: batches.flatMap(([, ...speeds]) => speeds),
    ticks: BATCHES.map((batch) => [batch, batch.toLocaleString("en")]),
    mark: turn && turn.batch <= 1024 ? { at: turn.batch, text: turn.text, whole: true, side: turn.batch >= 32 ? "left" : "right" } : null,
    words: `${label} at batch ${here[0]}${turn ? `; ${turn.text}` : ""}.`,
  });
}

/** Show both; without a value nothing. `made` makes an element of a tag, attributes and children. @param {Element} place */
export function showReasons(place, made, value) {
  const one = (title, about, drawing) => made("figure", { "data-no-terms": "" }, made("figcaption", {}, made("strong", {}, title), ` ${about}`), drawing);
  place.replaceChildren(...(value?.rates ? [
    one("By acceptance;", `dashed: worth it from ${value.worth}×`, byAcceptance(made, { ...value, here: [value.acceptance, value.speed] })),
    one("By batch", "at this acceptance", byBatch(made, { ...value, here: [value.batch, value.speed] })),
  ] : []));
}
