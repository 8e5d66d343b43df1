// The board of a game of snakes and ladders beside its text: where the run says the piece went, and where it first went wrong.

/** The rules, as engines.models.bundled.snakes has them; a test compares the two. */
const SNAKES = { first: 10, last: 99, line: 8, jumps: { 14: 31, 28: 74, 36: 12, 49: 23, 62: 81, 87: 55 } };
const SNAKES_PROMPT = /^from ([1-9][0-9]) roll ([1-6]{1,64})$/;
const SQUARES = SNAKES.last - SNAKES.first + 1;
const WIDEST_BOARD = 300;
const PARTS = { roll: 0, to: 1, landed: [2, 3], word: 4, ends: [5, 6] };

/** What the rules make of a prompt: a line for every roll, with its tokens as they are spelt; null for another prompt. */
function gameOf(prompt) {
  const [, start, digits] = SNAKES_PROMPT.exec(String(prompt ?? "").trim()) ?? [];
  if (!start) return null;
  let from = Number(start);
  const lines = Array.from(digits, (digit) => {
    const landed = SNAKES.first + ((from - SNAKES.first + Number(digit)) % SQUARES);
    const ends = SNAKES.jumps[landed] ?? landed;
    const spelt = (square) => [` ${Math.floor(square / 10)}`, String(square % 10)];
    const tokens = [digit, " to", ...spelt(landed), ends === landed ? " stay" : " jump", ...spelt(ends), "\n"];
    const line = { from, landed, ends, tokens };
    from = ends;
    return line;
  });
  return { start: Number(start), lines, tokens: lines.flatMap(({ tokens }) => tokens) };
}

/** The circle of squares, the jumps, the way so far, and a sentence about the first wrong token. */
class BoardView extends View {
  heightFor = (width) => Math.min(width, WIDEST_BOARD);

  constructor() {
    super("board", "Board", "— ladder · - - snake · ● the run's way · ○ written ahead", "img");
    this.figure.append(this.words);
    this.game = null;
  }

  supports({ grid, meta }) {
    if (this.prompt !== meta.prompt) [this.prompt, this.game] = [meta.prompt, grid.kind === "text" ? gameOf(meta.prompt) : null];
    return this.game !== null;
  }

  /** The first position whose final token is not what the rules say, or null. */
  wrongIn({ state, replay }) {
    if (!this.game) return null;
    const wrong = this.game.tokens.findIndex((token, position) => this.isWritten(state, position) && replay.wordOf(state.token[position]) !== token);
    return wrong < 0 ? null : wrong;
  }

  isWritten(state, position) {
    return state.finalAt[position] >= 0 && state.token[position] >= 0;
  }

  paint(scene, context) {
    const { theme } = scene;
    this.circle = { x: this.width / 2, y: this.height / 2, radius: Math.max(20, this.height / 2 - 17) };
    const wrong = this.wrongIn(scene);
    const squares = this.squaresIn(scene);
    for (const [from, to] of Object.entries(SNAKES.jumps)) this.paintJump(context, Number(from), to, theme.surface.muted);
    this.paintRing(scene, context);
    this.paintWay(scene, context, squares, wrong);
    const sentence = this.sentence(scene, squares, wrong);
    say(this.words, sentence);
    this.words.classList.toggle("is-wrong", wrong !== null);
    this.canvas.setAttribute("aria-label", `Board. ${sentence}`);
  }

  /** The square in which every line ends, as the run has it; null where it is not final yet, or no square. */
  squaresIn({ state, replay }) {
    return this.game.lines.map((_, line) => {
      const digits = PARTS.ends.map((part) => SNAKES.line * line + part);
      if (!digits.every((position) => this.isWritten(state, position))) return null;
      const square = Number(digits.map((position) => replay.wordOf(state.token[position]).trim()).join(""));
      return Number.isInteger(square) && square >= SNAKES.first && square <= SNAKES.last ? square : null;
    });
  }

  /** Where a square lies, `out` pixels outside the circle. */
  spot(square, out = 0) {
    const { x, y, radius } = this.circle;
    const angle = ((square - SNAKES.first) / SQUARES) * 2 * Math.PI - Math.PI / 2;
    return [x + (radius + out) * Math.cos(angle), y + (radius + out) * Math.sin(angle)];
  }

  paintRing(scene, context) {
    for (let square = SNAKES.first; square <= SNAKES.last; square += 1) {
      const [color, radius] = square in SNAKES.jumps ? [scene.theme.surface.text, 2.6] : [scene.theme.surface.line, 2];
      drawDot(context, this.spot(square), radius, color);
      if (square % 10 === 0) this.label(context, scene, String(square), ...this.spot(square, 11), "center");
    }
  }

  /** A ladder leads to a higher square and is drawn solid, a snake to a lower one and is dashed. */
  paintJump(context, from, to, color) {
    context.setLineDash(to > from ? [] : [4, 3]);
    this.paintAcross(context, from, to, color, 1.2);
    context.setLineDash([]);
  }

  /** A line from one square to another, bent to the middle of the circle or to a point given. */
  paintAcross(context, from, to, color, width, out = -3, bend = [this.circle.x, this.circle.y]) {
    context.beginPath();
    context.moveTo(...this.spot(from, out));
    context.quadraticCurveTo(...bend, ...this.spot(to, out));
    paintPath(context, null, color, width);
  }

  paintWay({ theme }, context, squares, wrong) {
    const { accent, emphasis, background, text } = theme.surface;
    const known = squares.indexOf(null) < 0 ? squares.length : squares.indexOf(null);
    const lost = wrong === null ? Infinity : Math.floor(wrong / SNAKES.line);
    const color = (line) => (line < lost ? accent : emphasis);
    const stops = [this.game.start, ...squares];
    for (let line = 0; line < known; line += 1) this.paintHop(context, stops[line], stops[line + 1], color(line));
    squares.forEach((square, line) => {
      if (square !== null) drawDot(context, this.spot(square), 3.6, line < known ? color(line) : background, color(line), 1.5);
    });
    const here = stops[known];
    drawDot(context, this.spot(here), 6, color(known - 1), text);
    if (lost < known) { // where the piece would stand by the rules
      const [left, top] = this.spot(this.game.lines[known - 1].ends).map((middle) => middle - 7);
      Object.assign(context, { strokeStyle: accent, lineWidth: 2 });
      context.strokeRect(left, top, 14, 14);
    }
    const { x, y } = this.circle;
    const font = "650 26px system-ui, sans-serif";
    Object.assign(context, { strokeStyle: background, lineWidth: 5, font, textAlign: "center", textBaseline: "middle" });
    context.strokeText(String(here), x, y);
    drawText(context, text, String(here), x, y, "center", font);
  }

  /** From square to square: along the circle where the rules have the roll, straight where they have a jump. */
  paintHop(context, from, to, color) {
    const ahead = (to - from + SQUARES) % SQUARES;
    if (ahead <= 6) this.paintAcross(context, from, to, color, 2, 3, this.spot(from + ahead / 2, 12));
    else this.paintAcross(context, from, to, color, 2);
  }

  /** How it stands, in a sentence; of the first wrong token also whether it was written before what it depends on. */
  sentence(scene, squares, wrong) {
    const { state, replay } = scene;
    if (wrong !== null) return `${this.blame(scene, wrong)} ${this.timing(state, wrong)}`;
    const all = this.game.tokens.every((_, position) => state.finalAt[position] >= 0);
    if (all) return "Every token is as the rules have it.";
    const done = squares.filter((square) => square !== null).length;
    return replay.complete && scene.count === replay.length ? `${done} of ${squares.length} rolls fit into the text, all as the rules have them.` : `${done} of ${squares.length} rolls written, all as the rules have them so far.`;
  }

  blame({ state, replay }, wrong) {
    const [line, part] = [Math.floor(wrong / SNAKES.line), wrong % SNAKES.line];
    const { landed, ends, tokens } = this.game.lines[line];
    const [written, right] = [replay.wordOf(state.token[wrong]), tokens[part]].map((token) => token.trim() || "↵");
    const kind = ends > landed ? "a ladder" : "a snake";
    const rule = part !== PARTS.word ? `the rules say “${right}”` : ends === landed ? `nothing begins on ${landed}, so the rules say “stay”` : `${kind} begins on ${landed}, so the rules say “jump”`;
    return `“${written}” in line ${line + 1} is the first wrong token; ${rule}.`;
  }

  timing(state, wrong) {
    const at = state.finalAt[wrong];
    const needs = this.needs(Math.floor(wrong / SNAKES.line), wrong % SNAKES.line);
    const early = needs.some((position) => state.finalAt[position] < 0 || state.finalAt[position] >= at);
    return `It was revealed in pass ${at + 1}, ${early ? "before" : "after"} what it depends on was known.`;
  }

  /** The positions that a token of a line follows from. */
  needs(line, part) {
    const own = (parts) => parts.map((other) => SNAKES.line * line + other);
    if (PARTS.landed.includes(part)) return line ? PARTS.ends.map((other) => SNAKES.line * (line - 1) + other) : [];
    if (part === PARTS.word) return own(PARTS.landed);
    return PARTS.ends.includes(part) ? own([...PARTS.landed, PARTS.word]) : [];
  }
}
