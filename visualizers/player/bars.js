// The distributions behind a verdict: bars of p over q, what is left of p over q, and for vectors two bell curves.

const MOST_BARS = 8;
const TILE_PIXELS = 16;

/** A token as a picture of itself, or nothing. */
function thumbnail(pictures, token, side) {
  const ratio = Math.min(3, globalThis.devicePixelRatio || 1);
  const tile = make("canvas", { class: "ds-thumb", width: side * ratio, height: side * ratio, "aria-hidden": "true" });
  tile.style.width = tile.style.height = `${side}px`;
  return Number.isInteger(token) && drawTile(tile.getContext("2d"), pictures, token, 0, 0, side * ratio) ? tile : null;
}

/** Rows of {token, parts: [[share, kind]], said, mark} to one scale. */
function barRows(moment, pictures, rows) {
  const most = Math.max(1e-12, ...rows.flatMap(({ parts }) => parts.map(([share]) => share)));
  return rows.map(({ token, parts, said, mark, heard }) => {
    const meter = make("span", { class: "ds-bars", "aria-hidden": "true" });
    for (const [share, kind] of parts) {
      const bar = make("i", { class: `is-${kind}` });
      bar.style.width = `${(100 * share) / most}%`;
      meter.append(bar);
    }
    const flag = mark ? make("small", { class: "ds-mark" }, mark) : null;
    const name = make("span", { class: "ds-bar-name" }, make("span", {}, moment.replay.tokenText(token)), flag);
    const figureNode = make("span", { class: "ds-bar-figure" }, said, heard ? make("span", { class: "ds-sr" }, heard) : null);
    return make("li", { class: mark ? `is-${mark}` : "" }, thumbnail(pictures, token, TILE_PIXELS), name, meter, figureNode);
  });
}

/** The tokens worth showing: the draft, what replaced it, and the likeliest ones by either distribution. */
function likeliestRows(moment, pictures) {
  const [draft, taken] = [moment.token("draft"), moment.token("token")];
  const mark = (token) => (token === draft ? "guess" : token === taken ? "drawn" : null);
  const weight = ({ token, p, q }) => (mark(token) ? Infinity : Math.max(p, q));
  const shown = [...moment.likely].sort((a, b) => weight(b) - weight(a)).slice(0, MOST_BARS).sort((a, b) => b.p - a.p || b.q - a.q);
  const rows = shown.map(({ token, p, q }) => ({
    token,
    parts: [[p, "p"], [q, "q"]],
    said: figure(p, 2),
    heard: ` is p, q is ${figure(q, 2)}`,
    mark: mark(token),
  }));
  return barRows(moment, pictures, rows);
}

/** Of a single distribution its likeliest tokens; `chosen` is the one that was taken. */
function topRows(moment, pictures) {
  const chosen = moment.token("token");
  const rows = moment.top.slice(0, MOST_BARS).map(([token, p]) => ({ token, parts: [[p, "p"]], said: figure(p, 2), mark: token === chosen ? "taken" : null }));
  return barRows(moment, pictures, rows);
}

/** p and q of the guess alone, where nothing else was recorded. */
function pairRows(moment, pictures) {
  const [p, q, token] = [moment.number("p"), moment.number("q"), moment.token("draft")];
  return barRows(moment, pictures, [{ token, parts: [[p, "p"], [q, "q"]], said: figure(p, 2), heard: ` is p, q is ${figure(q, 2)}`, mark: "guess" }]);
}

/** max(0, p - q), the largest first, with the token that was drawn from it marked. */
function residualRows(moment, pictures) {
  const drawn = moment.fate.name === "resampled" ? moment.token("token") : null;
  const left = moment.likely.map(({ token, p, q }) => ({ token, share: Math.max(0, p - q) })).filter(({ share }) => share > 0);
  left.sort((a, b) => b.share - a.share || a.token - b.token);
  const shown = left.slice(0, MOST_BARS);
  const own = left.find(({ token }) => token === drawn);
  if (own && !shown.includes(own)) shown.splice(-1, 1, own);
  return barRows(moment, pictures, shown.map(({ token, share }) => ({ token, parts: [[share, "left"]], said: figure(share, 2), mark: token === drawn ? "drawn" : null })));
}

/** The last denoising step of draft and target as bell curves along the line between their means; null without numbers. */
function bellsOf(moment) {
  const names = ["last_std", "last_std_draft", "last_mean_distance", "last_place", "last_place_token"];
  const [target, draft, distance, place, token] = names.map((name) => moment.number(name));
  return target > 0 && draft > 0 && distance >= 0 && place !== undefined ? { target, draft, distance, place, token } : null;
}

/** Draw the curves: q around 0, p around the distance of the means, the guess and what took its place as marks. */
function drawBells(canvas, { target, draft, distance, place, token }, theme, replaced) {
  const [wide, tall] = [canvas.clientWidth || 300, 96];
  const ratio = Math.min(3, globalThis.devicePixelRatio || 1);
  [canvas.width, canvas.height] = [wide * ratio, tall * ratio];
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
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
  context.fillStyle = surface.line;
  context.fillRect(0, 76, wide, 1);
  bell(0, draft, surface.muted, [5, 4]);
  bell(distance, target, surface.accent, []);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "top";
  const mark = (at, label, color, end) => {
    context.fillStyle = color;
    context.fillRect(x(at) - 1, 62, 2, 18);
    context.textAlign = x(at) < 30 ? "left" : x(at) > wide - 30 ? "right" : end;
    context.fillText(label, x(at), 82);
  };
  const apart = replaced && token < place;
  mark(place, "guess", surface.text, replaced ? (apart ? "left" : "right") : "center");
  if (replaced) mark(token, "redrawn", surface.emphasis, apart ? "right" : "left");
}
