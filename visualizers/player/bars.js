// The distributions behind a verdict: bars of p over q, what is left of p over q, and for vectors two bell curves.

const MOST_BARS = 8;
const TILE_PIXELS = 16;

/** A picture that `draw(context)` draws in a square, or null if it returns false. */
function thumb(side, draw) {
  const tile = make("canvas", { class: "ds-thumb", style: `width: ${side}px; height: ${side}px`, "aria-hidden": "true" });
  return draw(sized(tile, side, side)) ? tile : null;
}

/** A token as a picture of itself, or null. */
function thumbnail(pictures, token, side) {
  return Number.isInteger(token) ? thumb(side, (context) => drawTile(context, pictures, token, 0, 0, side)) : null;
}

/** A list of {token, parts: [[share, kind]], number, heard, mark} as bars to one scale; `number` is what stands behind a bar. */
function barRows(moment, pictures, rows) {
  const most = Math.max(1e-12, ...rows.flatMap(({ parts }) => parts.map(([share]) => share)));
  const items = rows.map(({ token, parts, number, mark, heard }) => {
    const bars = parts.map(([share, kind]) => make("i", { class: `is-${kind}`, style: `width: ${(100 * share) / most}%` }));
    const meter = make("span", { class: "ds-bars", "aria-hidden": "true" }, ...bars);
    const flag = mark ? make("small", { class: "ds-mark" }, mark) : null;
    const name = make("span", { class: "ds-bar-name" }, make("span", {}, moment.replay.tokenText(token)), flag);
    const written = make("span", { class: "ds-bar-figure" }, number ?? figure(parts[0][0], 2), heard ? make("span", { class: "ds-sr" }, heard) : null);
    return make("li", { class: mark ? `is-${mark}` : "" }, thumbnail(pictures, token, TILE_PIXELS), name, meter, written);
  });
  return make("ol", { class: "ds-rows-of-bars" }, ...items);
}

/** The tokens worth showing: the draft, what replaced it, and the likeliest ones by either distribution. */
function likeliestRows(moment, pictures, likely) {
  const [draft, taken] = [moment.token("draft"), moment.token("token")];
  const mark = (token) => (token === draft ? "draft" : moment.redrawn && token === taken ? "drawn" : null);
  const weight = ({ token, p, q }) => (mark(token) ? Infinity : Math.max(p, q));
  const best = [...likely].sort((a, b) => weight(b) - weight(a)).slice(0, MOST_BARS).sort((a, b) => b.p - a.p || b.q - a.q);
  const rows = best.map(({ token, p, q }) => ({ token, parts: [[p, "p"], [q, "q"]], heard: ` is p, q is ${figure(q, 2)}`, mark: mark(token) }));
  return barRows(moment, pictures, rows);
}

function topRows(moment, pictures) {
  const taken = moment.token("token");
  const rows = moment.top.slice(0, MOST_BARS).map(([token, p]) => ({ token, parts: [[p, "p"]], mark: token === taken ? "taken" : null }));
  return barRows(moment, pictures, rows);
}

/**
 * max(0, p - q) over its sum, the largest first, with the token that was drawn from it marked. The sum over all tokens is the
 * total variation of p and q; where that is not recorded, it is the sum over the tokens that are.
 */
function residualRows(moment, pictures) {
  const drawn = moment.redrawn ? moment.token("token") : null;
  const left = moment.likely.map(({ token, p, q }) => ({ token, share: Math.max(0, p - q) })).filter(({ share }) => share > 0);
  left.sort((a, b) => b.share - a.share || a.token - b.token);
  const largest = left.slice(0, MOST_BARS);
  const own = left.find(({ token }) => token === drawn);
  if (own && !largest.includes(own)) largest.splice(-1, 1, own);
  const known = left.reduce((sum, { share }) => sum + share, 0);
  const total = Math.max(known, moment.number("residual_mass") ?? moment.number("tv") ?? 0);
  const rows = largest.map(({ token, share }) => ({ token, parts: [[share, "left"]], number: `${figure((100 * share) / total, 2)} %`, mark: token === drawn ? "drawn" : null }));
  return barRows(moment, pictures, rows);
}

/** The last denoising step of draft and target as bell curves along the line between their means; null without numbers. */
function bellsOf(moment) {
  const names = ["last_std", "last_std_draft", "last_mean_distance", "last_place", "last_place_token"];
  const [target, draft, distance, place, token] = names.map((name) => moment.number(name));
  return target > 0 && draft > 0 && distance >= 0 && place !== undefined ? { target, draft, distance, place, token } : null;
}

/** Draw the curves: q around 0, p around the distance of the means, the draft and what took its place as marks. */
function drawBells(canvas, { target, draft, distance, place, token }, theme, replaced) {
  const wide = canvas.clientWidth || 300;
  const context = sized(canvas, wide, 96);
  const marks = [0, distance, place, ...(replaced ? [token] : [])];
  const [low, high] = [Math.min(...marks) - 3 * Math.max(draft, target), Math.max(...marks) + 3 * Math.max(draft, target)];
  const x = (value) => ((value - low) / (high - low)) * wide;
  const bell = (mean, std, color, dash) => {
    const points = Array.from({ length: wide + 1 }, (_, at) => {
      const value = low + (at / wide) * (high - low);
      const height = Math.exp(-(((value - mean) / std) ** 2) / 2) * Math.min(draft, target) / std;
      return [at, 76 - 66 * height];
    });
    drawLine(context, points, color, 2, dash);
  };
  const { surface } = theme;
  fillBox(context, surface.line, 0, 76, wide, 1);
  bell(0, draft, surface.muted, [5, 4]);
  bell(distance, target, surface.accent, []);
  const mark = (at, label, color, end) => {
    fillBox(context, color, x(at) - 1, 62, 2, 18);
    const room = context.measureText(label).width * (end === "center" ? 0.5 : 1) + 4;
    const [before, behind] = [x(at), wide - x(at)];
    const fits = { left: behind, right: before, center: Math.min(before, behind) }[end] >= room;
    drawText(context, color, label, x(at), 88, fits ? end : before < behind ? "left" : "right");
  };
  const apart = replaced && token < place;
  mark(place, "draft", surface.text, replaced ? (apart ? "left" : "right") : "center");
  if (replaced) mark(token, "resampled", surface.emphasis, apart ? "right" : "left");
}
