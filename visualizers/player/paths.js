// How draft and target denoised the chosen token: two paths from noise to a vector, in the plane that traces keep.

const PATHS_MARGIN = 16;
const CHOOSE = "Choose a token whose draft was judged to see how draft and target came by it.";
const PATHS_ROUNDED = 0.002;
const POINTS = "in a fixed plane · ○ start, x_T · – – draft to ▲ · — target to ■";

/** The two paths of the chosen token, to one scale in both directions. */
class PathsView extends View {
  speaks = true;
  supports = ({ hasPaths }) => hasPaths;
  heightFor = () => 230;

  constructor() {
    super("paths", "How it was denoised", POINTS);
    this.figure.append(this.words);
  }

  paint(scene, context) {
    const { replay, position, entry, theme } = scene;
    const step = entry && replay.steps[entry.step];
    const pair = step?.paths?.[entry.entry] ?? null;
    const fate = step && theme.fates[step.fate[entry.entry]];
    const none = fate ? `Only a judged draft has two paths; this token was ${fate.name}.` : CHOOSE;
    const words = pair ? pathsInWords(pair, fate) : none;
    say(this.words, words);
    this.canvas.setAttribute("aria-valuenow", position ?? 0);
    this.canvas.setAttribute("aria-valuetext", words);
    fillBox(context, theme.surface.background, 0, 0, this.width, this.height);
    if (pair) this.paintPair(scene, context, pair, { fate, code: step.fate[entry.entry], token: step.token[entry.entry] });
    else this.label(context, scene, "nothing to compare", this.width / 2, this.height / 2, "center");
  }

  paintPair(scene, context, { draft, target }, { fate, code, token }) {
    const { surface } = scene.theme;
    const placed = seenInPlane(token);
    const to = this.scaled([...draft, ...target, ...(placed ? [placed] : [])]);
    this.paintScale(scene, context, to.pixels);
    drawLine(context, target.map(to.place), surface.accent);
    drawLine(context, draft.map(to.place), surface.emphasis, 2, [5, 4]);
    for (const [points, color] of [[target, surface.accent], [draft, surface.emphasis]]) drawDot(context, to.place(points[0]), 6, null, color);
    const [x, y] = to.place(target.at(-1));
    fillBox(context, surface.accent, x - 4.5, y - 4.5, 9, 9);
    const [left, top] = to.place(draft.at(-1));
    drawShape(context, [[left, top - 6], [left + 6, top + 5], [left - 6, top + 5]], surface.emphasis, surface.background, 1.5);
    if (!placed || !fate?.final || fate.name === "accepted") return;
    const [at, down] = to.place(placed);
    drawGlyph(context, scene.theme, code, at - 8, down - 8, 16, surface.text);
  }

  /** One scale for both directions, with the paths in the middle. */
  scaled(points) {
    const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
    const middle = [xs, ys].map((values) => (Math.min(...values) + Math.max(...values)) / 2);
    const span = [xs, ys].map((values) => Math.max(1e-6, Math.max(...values) - Math.min(...values)));
    const pixels = Math.min((this.width - 2 * PATHS_MARGIN) / span[0], (this.height - 2 * PATHS_MARGIN - 14) / span[1]);
    const place = ([x, y]) => [this.width / 2 + (x - middle[0]) * pixels, this.height / 2 - 7 - (y - middle[1]) * pixels];
    return { pixels, place };
  }

  /** A length to measure by, since every token has a scale of its own. */
  paintScale(scene, context, pixels) {
    const length = ticksUpTo(this.width / 3 / pixels, 2, 0)[1];
    if (!length) return;
    const y = this.height - 9;
    fillBox(context, scene.theme.surface.muted, 8, y, length * pixels, 1.5);
    for (const x of [8, 8 + length * pixels]) context.fillRect(x - 0.75, y - 3, 1.5, 7.5);
    this.label(context, scene, formatNumber(length), 14 + length * pixels, y, "left");
  }
}

/** What the paths show, and what became of the draft. */
function pathsInWords({ draft, target, distance_squared: apart }, fate) {
  const far = (squared) => formatNumber(Math.sqrt(squared));
  const start = apart[0] === 0 ? "The same noise: both paths start at one point" : `Noise of their own: the paths start ${far(apart[0])} apart`;
  const [last, own] = [draft.at(-1), target.at(-1)];
  const seen = Math.hypot(last[0] - own[0], last[1] - own[1]);
  const verdict = fate?.name === "accepted" ? "The draft was accepted." : `The draft was rejected; ${fate?.final ? `a new draw (${fate.glyph}) took its place` : "its place is open again"}.`;
  const inside = seen > PATHS_ROUNDED ? `, ${formatNumber(seen)} of it in this plane` : "";
  return `${start} and end ${far(apart.at(-1))} apart${inside}. ${verdict}`;
}

/** Where a vector lies in the plane of the trace's paths (PathPair in docs/trace.md); null for ids. */
function seenInPlane(token) {
  if (!Array.isArray(token) || !token.every(Number.isFinite)) return null;
  const along = (direction) => {
    const length = Math.max(1, Math.hypot(...direction));
    return token.reduce((sum, value, index) => sum + (value * direction[index]) / length, 0);
  };
  const mean = (token.length % 2) / token.length;
  return [along(token.map(() => 1)), along(token.map((_, index) => (index % 2 ? -1 : 1) - mean))];
}
