// The workbench: every panel draws the same runs and marks the same selection. A host tells it where the player stands.

const FILTERS = "FILTERS";
const FATES = "FATES";
const MAX_ROWS = 200;
const HOLDS = { ">": (a, b) => a > b, ">=": (a, b) => a >= b, "<": (a, b) => a < b, "<=": (a, b) => a <= b };
const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 34, right: 10, top: 14, bottom: 38 };

function build(tag, attributes = {}, ...children) {
  const node = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null) node.setAttribute(name, value);
  }
  node.append(...children); // a string becomes a text node, whatever it holds
  return node;
}

const counted = (count, one, more = `${one}s`) => `${count} ${count === 1 ? one : more}`;
const digits = (value, decimals = 3) => (value === null || value === undefined ? "" : value > 0 && value < 10 ** -decimals ? `< ${(10 ** -decimals).toFixed(decimals)}` : value.toFixed(decimals));
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A run with what its panels look up: the last verdict of each position, where it became final, rows by pass. */
class Run {
  constructor(source, index) {
    Object.assign(this, source, { index });
    this.length = this.passes.slowness.length;
    this.lastVerdict = new Map();
    this.finalAt = new Map();
    this.verdictOf = new Map();
    this.step.forEach((step, entry) => FATES[this.fate[entry]].final && this.finalAt.set(this.position[entry], step));
    this.verdicts.entry.forEach((entry, row) => {
      this.lastVerdict.set(this.position[entry], row);
      this.verdictOf.set(`${this.step[entry]} ${this.position[entry]}`, row);
    });
  }

  verdict(row) {
    const entry = this.verdicts.entry[row];
    const numbers = Object.fromEntries(Object.entries(this.verdicts).map(([name, column]) => [name, column[row]]));
    return { ...numbers, run: this, step: this.step[entry], position: this.position[entry], fate: this.fate[entry] };
  }

  pass(step) {
    const numbers = Object.fromEntries(Object.entries(this.passes).map(([name, column]) => [name, column[step]]));
    return { ...numbers, run: this, step, position: null };
  }

  nameOf(position) {
    if (this.kind === "text") return `${position + 1}`;
    const [row, column] = this.cells[position];
    const at = `${row + 1}, ${(column % this.columns) + 1}`;
    return this.frames.length ? `${this.frames[Math.floor(column / this.columns)]}: ${at}` : at;
  }
}

class Workbench {
  constructor(root, { moved }) {
    Object.assign(this, { root, moved, runs: [], counts: [], at: null, question: null, value: 0, age: null, picked: [], number: -1 });
    this.build();
    const size = new ResizeObserver(() => this.schedule());
    size.observe(root);
    new MutationObserver(() => this.schedule()).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  }

  build() {
    const change = () => this.setQuestion(FILTERS.find(({ name }) => name === this.filter.value) ?? null);
    this.filter = build("select", { "aria-label": "Filter", change });
    this.slider = build("input", { type: "range", "aria-label": "Number of the filter", input: () => this.setQuestion(this.question, Number(this.slider.value)) });
    this.output = build("output");
    this.status = build("span", { class: "said", role: "status" });
    const go = (way) => build("button", { type: "button", click: () => this.turn(way), "aria-label": way > 0 ? "Next match" : "Previous match" }, way > 0 ? "›" : "‹");
    this.going = [go(-1), go(1)];
    this.bar = build("div", { class: "bar" }, this.filter, build("label", { class: "number" }, this.slider, this.output), this.status, ...this.going);
    this.heat = build("div", { class: "heats" });
    this.churn = build("div", { class: "churns" });
    this.curve = build("svg:svg", { role: "group" });
    this.curveTitle = build("h2");
    this.rows = build("tbody");
    this.heads = build("thead");
    this.listTitle = build("h2");
    this.lasting = build("h2", {}, "Churn ", build("span", {}, "passes across, positions down"));
    this.scroller = build("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Matches" }, build("table", {}, this.heads, this.rows));
    const panel = (name, ...children) => build("section", { class: `panel ${name}` }, ...children);
    this.root.dataset.noTerms = ""; // texts of models, and heads of few letters
    this.root.replaceChildren(
      this.bar,
      panel("heat", build("h2", {}, "Acceptance ", build("span", {}, "orange: unsure, framed: rejected")), this.heat),
      panel("churn", this.lasting, this.churn, (this.key = build("p", { class: "key" }))),
      panel("list", this.listTitle, this.scroller),
      panel("curve", this.curveTitle, (this.curveNames = build("p", { class: "names" })), build("div", { class: "draw" }, this.curve)),
    );
    this.rows.addEventListener("click", ({ target }) => target.closest("tr")?.match && this.select(target.closest("tr").match));
  }

  /** Show other runs, nothing being selected. */
  show({ runs }) {
    this.runs = runs.map((run, index) => new Run(run, index));
    Object.assign(this, { counts: this.runs.map(({ length }) => length), at: null, age: null });
    this.root.hidden = !this.runs.length;
    const offered = FILTERS.filter(({ where }) => this.runs.some((run) => where.every(([column]) => (run.verdicts[column] ?? run.passes[column])?.some((value) => value !== null))));
    this.filter.replaceChildren(build("option", { value: "" }, "All verdicts"), ...offered.map(({ name, title }) => build("option", { value: name }, title.replace("{}", "…"))));
    this.heat.replaceChildren(...this.shown.map((run) => this.heatOf(run)));
    this.churn.replaceChildren(...this.shown.map((run) => this.churnOf(run)));
    const seen = Object.keys(FATES).filter((fate) => this.runs.some((run) => run.fate.includes(fate)));
    this.key.replaceChildren(...seen.map((fate) => build("span", { title: FATES[fate].meaning }, build("i", { "data-fate": fate }), fate)));
    this.setQuestion(offered.includes(this.question) ? this.question : null, this.value);
  }

  /** The runs in the order of the player, whose stage shows two with the compared one first. */
  get shown() {
    return this.runs.length === 2 ? [...this.runs].reverse() : this.runs;
  }

  /** Mark where the player stands: how many passes of each run have ended, and the position that is pointed at. */
  mark({ counts, position }) {
    const same = counts.length === this.counts.length && counts.every((count, run) => count === this.counts[run]);
    if (same && position === this.pointed) return;
    this.counts = counts;
    this.pointed = position;
    if (this.at && (this.counts[this.at.run.index] !== this.at.step + 1 || (this.at.position !== null && position !== null && position !== this.at.position))) this.at = null;
    this.report();
    this.schedule();
  }

  /** Choose a filter and its number; the answer is the list, and every panel dims the rest. */
  setQuestion(question, value = question?.value) {
    Object.assign(this, { question, value, age: null });
    this.filter.value = question?.name ?? "";
    const chooses = question?.minimum != null;
    this.slider.parentNode.hidden = !chooses;
    if (chooses) {
      Object.assign(this.slider, { min: question.minimum, max: question.maximum, step: question.step });
      this.slider.value = value;
      this.output.textContent = value;
    }
    this.answer();
  }

  answer() {
    const { question, value, age } = this;
    const holds = (row) => question.where.every(([column, how, number]) => row[column] !== null && HOLDS[how](row[column], number ?? value));
    const verdicts = (run) => run.verdicts.entry.map((_, row) => run.verdict(row));
    const each = (run) => {
      if (age !== null) return verdicts(run).filter((row) => row[run.curve?.column] === age);
      if (!question) return verdicts(run);
      return (question.of === "pass" ? [...Array(run.length).keys()].map((step) => run.pass(step)) : verdicts(run)).filter(holds);
    };
    this.picked = this.shown.flatMap(each);
    this.number = -1;
    const entirePasses = question?.of === "pass" && age === null;
    this.keys = new Set(this.picked.map(({ run, step, position }) => `${run.index} ${step}${entirePasses ? "" : ` ${position}`}`));
    this.narrowed = age !== null || question !== null;
    this.fill(entirePasses);
    this.schedule();
  }

  has(run, step, position) {
    return !this.narrowed || this.keys.has(`${run.index} ${step}`) || this.keys.has(`${run.index} ${step} ${position}`);
  }

  /** Select a verdict or a pass: the player goes there, and all panels mark it. */
  select(match) {
    this.at = match;
    this.number = this.picked.findIndex(({ run, step, position }) => run === match.run && step === match.step && position === match.position);
    this.pointed = match.position;
    this.counts = this.runs.map((run, index) => (run === match.run ? match.step + 1 : this.counts[index]));
    this.moved({ lane: match.run.index, step: match.step, position: match.position });
    this.report();
    this.schedule();
  }

  /** Say in words what is selected, or how many matches there are. */
  report() {
    const { at, number, picked } = this;
    const count = counted(picked.length, this.question?.of === "pass" ? "pass" : "verdict", this.question?.of === "pass" ? "passes" : undefined);
    const where = at && (at.position === null ? `pass ${at.step + 1}` : `${at.run.kind === "text" ? "token" : "row, column"} ${at.run.nameOf(at.position)}, pass ${at.step + 1}, ${at.fate ?? "selected"}`);
    this.status.textContent = at ? `${number < 0 ? "" : `${number + 1} of ${picked.length}: `}${where}` : count;
  }

  turn(way) {
    const count = this.picked.length;
    if (count) this.select(this.picked[(this.number + way + (this.number < 0 && way < 0 ? 1 : 0) + count) % count]);
  }

  selectPosition(run, position) {
    const row = run.lastVerdict.get(position);
    if (row !== undefined) this.select(run.verdict(row));
    else if (run.finalAt.has(position)) this.select({ run, step: run.finalAt.get(position), position });
  }

  // Panels.

  heatOf(run) {
    const chip = build("b", { class: `chip ${run.fidelity}` }, capital(run.fidelity));
    const head = build("header", {}, build("strong", { title: run.name }, run.name), " ", run.fidelity === "unknown" ? "" : chip, build("small", {}, run.summary));
    const pointed = (event) => run.at?.(event);
    const key = (event) => this.walk(event, run);
    const options = { class: run.words ? "words" : "picture", tabindex: "0", role: "group", "aria-label": `Acceptance of ${run.name}; arrow keys choose a position`, keydown: key };
    const body = build("div", options);
    if (run.words) {
      run.spans = run.words.map((word, position) => build("span", { "data-at": position, title: this.tip(run, position) }, word));
      body.append(...run.spans);
      body.addEventListener("click", ({ target }) => target.dataset.at && this.selectPosition(run, Number(target.dataset.at)));
    } else {
      run.canvas = build("canvas");
      run.images = run.pictures.map((src) => Object.assign(new Image(), { src, onload: () => this.schedule() }));
      body.append(run.canvas);
      body.addEventListener("click", (event) => {
        const position = pointed(event);
        if (position !== undefined) this.selectPosition(run, position);
      });
    }
    return build("figure", {}, head, body);
  }

  tip(run, position) {
    const row = run.lastVerdict.get(position);
    if (row === undefined) return "not verified";
    const { fate, accept_prob: probability, draw, step } = run.verdict(row);
    return `pass ${step + 1}: ${fate}, acceptance probability ${digits(probability)}${draw === null ? "" : `, draw ${digits(draw)}`}`;
  }

  walk(event, run) {
    const line = run.words ? 1 : run.columns * Math.max(1, run.frames.length);
    const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -line, ArrowDown: line }[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    const cellOf = (position) => (run.words ? position : run.cells[position][0] * line + run.cells[position][1]);
    const positionOf = new Map([...Array(run.positions).keys()].map((position) => [cellOf(position), position]));
    const next = this.at?.run === run && this.at.position !== null ? positionOf.get(cellOf(this.at.position) + move) : positionOf.get(0);
    if (next !== undefined) this.selectPosition(run, next);
  }

  churnOf(run) {
    const canvas = build("canvas", { role: "img", "aria-label": `Churn of ${run.name}: ${counted(run.length, "pass", "passes")}` });
    const click = (event) => {
      const box = canvas.getBoundingClientRect();
      const step = Math.floor(((event.clientX - box.left) / box.width) * this.longest());
      const position = Math.floor(((event.clientY - box.top) / box.height) * run.positions);
      const near = run.step.flatMap((each, entry) => (each === step ? [run.position[entry]] : []));
      if (!near.length) return;
      const nearest = near.reduce((best, each) => (Math.abs(each - position) < Math.abs(best - position) ? each : best));
      const row = run.verdictOf.get(`${step} ${nearest}`);
      this.select(row === undefined ? { run, step, position: nearest } : run.verdict(row));
    };
    canvas.addEventListener("click", click);
    run.strip = canvas;
    return build("div", { class: "draw" }, canvas, build("small", { title: run.name }, run.name));
  }

  longest() {
    return Math.max(1, ...this.runs.map(({ length }) => length));
  }

  fill(entirePasses) {
    const several = new Set(this.picked.map(({ run }) => run)).size > 1;
    const known = ["q", "p"].filter((name) => this.picked.some((match) => match[name] !== null)); // vectors have densities
    const heads = entirePasses
      ? ["Pass", ...(several ? ["Run"] : []), "Time", "× median", "Accepted", "Verified", "Final"]
      : ["Position", ...(several ? ["Run"] : []), ...(this.runs.some(({ words }) => words) ? ["Token"] : []), "Pass", "Verdict", ...known, "Acceptance", "Draw", "Age"];
    this.heads.replaceChildren(build("tr", {}, ...heads.map((head) => build("th", { scope: "col" }, head))));
    const cells = (match) => {
      const { run, step } = match;
      const name = several ? [run.name] : [];
      if (entirePasses) return [`${step + 1}`, ...name, match.milliseconds === null ? "" : `${match.milliseconds.toPrecision(3)} ms`, digits(match.slowness, 2), match.accepted, match.judged, match.final];
      const token = this.runs.some(({ words }) => words) ? [run.words?.[match.position]?.trim() ?? ""] : [];
      return [run.nameOf(match.position), ...name, ...token, step + 1, match.fate, ...known.map((name) => digits(match[name])), digits(match.accept_prob), digits(match.draw), match.age];
    };
    const row = (match) => {
      const [first, ...others] = cells(match).map(String);
      const node = build("tr", {}, build("td", {}, build("button", { type: "button" }, first)), ...others.map((text) => build("td", {}, text)));
      return Object.assign(node, { match, className: match.rejected ? "rejected" : "" });
    };
    this.rows.replaceChildren(...this.picked.slice(0, MAX_ROWS).map(row));
    const what = entirePasses ? counted(this.picked.length, "pass", "passes") : counted(this.picked.length, "verdict");
    const more = this.picked.length > MAX_ROWS ? `the first ${MAX_ROWS} are listed` : "press one to go there";
    this.listTitle.replaceChildren(`${what} `, build("span", {}, this.picked.length ? more : "none is like this"));
    this.report();
    for (const button of this.going) button.disabled = !this.picked.length;
  }

  // Drawing.

  schedule() {
    this.scheduled ??= requestAnimationFrame(() => {
      this.scheduled = null;
      if (this.runs.length && this.root.checkVisibility()) this.draw();
    });
  }

  draw() {
    this.dark = document.body.classList.contains("dark");
    const style = getComputedStyle(this.root);
    this.ink = style.getPropertyValue("--body-text-color").trim() || style.color;
    this.paper = style.getPropertyValue("--background-fill-primary").trim() || "#ffffff";
    for (const chip of this.key.querySelectorAll("i")) chip.style.background = this.colour(chip.dataset.fate);
    for (const run of this.runs) {
      if (run.words) this.drawWords(run);
      else this.drawPicture(run);
      this.drawChurn(run);
    }
    this.drawCurve();
    for (const row of this.rows.children) {
      const { run, step, position } = row.match;
      const here = this.at ? run === this.at.run && step === this.at.step && position === this.at.position : step + 1 === this.counts[run.index] && (position === null || this.pointed === null || this.pointed === undefined || position === this.pointed);
      if (here && !row.hasAttribute("aria-current")) this.reveal(row);
      if (here) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  /** Scroll the list, and nothing around it, to a row. */
  reveal(row) {
    const [list, box] = [this.scroller.getBoundingClientRect(), row.getBoundingClientRect()];
    const head = this.heads.getBoundingClientRect().height;
    if (box.top < list.top + head) this.scroller.scrollTop -= list.top + head - box.top;
    else if (box.bottom > list.bottom) this.scroller.scrollTop += box.bottom - list.bottom;
  }

  colour(fate) {
    return FATES[fate][this.dark ? "dark" : "light"];
  }

  /** The last verdict of a position up to where the player stands, and how it is drawn. */
  lookOf(run, position) {
    const row = run.lastVerdict.get(position);
    const count = this.counts[run.index];
    const final = run.finalAt.get(position);
    if (row === undefined) return { open: final === undefined || final >= count, unsure: 0, rejected: false, lit: !this.narrowed };
    const { step, accept_prob: probability, rejected } = run.verdict(row);
    const open = (final ?? step) >= count;
    return { open, unsure: open ? 0 : 1 - probability, rejected: Boolean(rejected) && !open, lit: this.has(run, step, position) };
  }

  isAt(run, position) {
    return this.at ? this.at.run === run && this.at.position === position : this.pointed === position;
  }

  drawWords(run) {
    run.spans.forEach((span, position) => {
      const { open, unsure, rejected, lit } = this.lookOf(run, position);
      span.className = [open && "open", rejected && "lost", !lit && "dim", this.isAt(run, position) && "here"].filter(Boolean).join(" ");
      span.style.setProperty("--unsure", `${Math.round(70 * unsure)}%`);
    });
  }

  context(canvas) {
    const { width, height } = canvas.parentNode.getBoundingClientRect();
    const scale = devicePixelRatio || 1;
    const size = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== size[0]) canvas.width = size[0];
    if (canvas.height !== size[1]) canvas.height = size[1];
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    return { context, width, height };
  }

  drawPicture(run) {
    const { context, width, height } = this.context(run.canvas);
    const frames = Math.max(1, run.frames.length);
    let best = { across: 1, cell: 0 };
    for (let across = 1; across <= frames; across += 1) {
      const cell = Math.min((width - 6 * (across - 1)) / (across * run.columns), (height - 6 * (Math.ceil(frames / across) - 1)) / (Math.ceil(frames / across) * run.rows));
      if (cell > best.cell) best = { across, cell };
    }
    const { across, cell } = best;
    if (cell <= 0) return;
    const corner = (frame) => [(frame % across) * (run.columns * cell + 6), Math.floor(frame / across) * (run.rows * cell + 6)];
    const boxOf = (position) => {
      const [row, column] = run.cells[position];
      const [left, top] = corner(Math.floor(column / run.columns));
      return [left + (column % run.columns) * cell, top + row * cell];
    };
    run.at = ({ clientX, clientY }) => {
      const { left, top } = run.canvas.getBoundingClientRect();
      const inside = (position) => {
        const [x, y] = boxOf(position);
        return clientX - left >= x && clientX - left < x + cell && clientY - top >= y && clientY - top < y + cell;
      };
      return [...Array(run.positions).keys()].find(inside);
    };
    run.images.forEach((image, frame) => image.complete && image.naturalWidth && context.drawImage(image, ...corner(frame), run.columns * cell, run.rows * cell));
    for (let position = 0; position < run.positions; position += 1) {
      const [x, y] = boxOf(position);
      const { open, unsure, rejected, lit } = this.lookOf(run, position);
      context.fillStyle = open || !lit ? this.paper : this.colour("changed");
      context.globalAlpha = open ? 0.88 : lit ? 0.8 * unsure : 0.66;
      context.fillRect(x, y, cell, cell);
      context.globalAlpha = lit ? 1 : 0.25;
      context.strokeStyle = this.colour("rejected");
      context.lineWidth = Math.max(1, cell / 12);
      if (rejected) context.strokeRect(x + context.lineWidth / 2, y + context.lineWidth / 2, cell - context.lineWidth, cell - context.lineWidth);
      context.globalAlpha = 1;
      if (!this.isAt(run, position)) continue;
      context.strokeStyle = this.ink;
      context.lineWidth = Math.max(2, cell / 7);
      context.strokeRect(x, y, cell, cell);
    }
  }

  drawChurn(run) {
    const { context, width, height } = this.context(run.strip);
    const [wide, high] = [width / this.longest(), height / run.positions];
    run.step.forEach((step, entry) => {
      const position = run.position[entry];
      context.globalAlpha = this.has(run, step, position) ? 1 : 0.18;
      context.fillStyle = this.colour(run.fate[entry]);
      context.fillRect(step * wide, position * high, Math.max(1, wide - (wide > 4)), Math.max(1, high - (high > 4)));
    });
    context.globalAlpha = 1;
    context.fillStyle = context.strokeStyle = this.ink;
    context.fillRect(Math.min(width - 1.5, this.counts[run.index] * wide), 0, 1.5, height);
    const position = this.at ? (this.at.run === run ? this.at.position : null) : this.pointed;
    if (position === null || position === undefined) return;
    context.globalAlpha = 0.5;
    context.fillRect(0, (position + 0.5) * high, width, 1);
    context.globalAlpha = 1;
    const step = this.counts[run.index] - 1;
    context.lineWidth = 1.5;
    if (this.at) context.strokeRect(step * wide - 3, position * high - 3, wide + 6, high + 6);
  }

  drawCurve() {
    const curves = this.shown.filter(({ curve }) => curve);
    const named = curves.filter(({ curve }) => curve.column === curves[0].curve.column);
    this.curveNames.replaceChildren(...named.map(({ name, index }) => build("span", { class: `series-${index % 6}`, title: name }, build("i"), name)));
    const { width, height } = this.curve.parentNode.getBoundingClientRect();
    const first = curves[0]?.curve;
    this.curveTitle.replaceChildren(...(first ? [`${first.title} `, build("span", {}, "press a point")] : ["No verdicts ", build("span", {}, "these runs verify no drafts")]));
    this.curve.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const last = Math.max(2, ...named.flatMap(({ curve }) => curve.points.map(([at]) => at)));
    const start = Math.min(1, ...named.flatMap(({ curve }) => curve.points.map(([at]) => at)));
    const x = (at) => MARGIN.left + ((at - start) / (last - start)) * (width - MARGIN.left - MARGIN.right - 4);
    const y = (mean) => height - MARGIN.bottom - mean * (height - MARGIN.top - MARGIN.bottom);
    const parts = [0, 0.5, 1].flatMap((mean) => [
      build("svg:line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y(mean), y2: y(mean), class: "grid" }),
      build("svg:text", { x: MARGIN.left - 6, y: y(mean) + 4, "text-anchor": "end" }, String(mean)),
    ]);
    const ticks = [...new Set([start, ...(last < 8 ? [2, 3, 4, 5, 6, 7] : [5, 10, 15, 20, 30])].filter((at) => at >= start && at <= last))];
    const middle = (MARGIN.left + width - MARGIN.right) / 2;
    if (first) parts.push(...ticks.map((at) => build("svg:text", { x: x(at), y: height - 20, "text-anchor": "middle" }, String(at))), build("svg:text", { x: middle, y: height - 4, "text-anchor": "middle" }, first.axis));
    const marked = this.at?.[first?.column] ?? this.age;
    named.forEach((run) => {
      const { points } = run.curve;
      const shade = `series-${run.index % 6}`;
      parts.push(build("svg:path", { d: points.map(([at, mean], n) => `${n ? "L" : "M"}${x(at)} ${y(mean)}`).join(""), class: `line ${shade}` }));
      for (const [at, mean, count] of points) {
        const click = () => { Object.assign(this, { question: null, age: this.age === at ? null : at }); this.filter.value = ""; this.slider.parentNode.hidden = true; this.answer(); };
        const name = `${run.name}, ${run.curve.axis} ${at}: ${digits(mean)}, of ${count}`;
        const key = (event) => this.stepCurve(event, click);
        const isMarked = marked === at && (!this.at || this.at.run === run);
        const options = { cx: x(at), cy: y(mean), r: Math.min(7, 2 + Math.sqrt(count) / 3) + 2 * isMarked, class: `point ${shade} ${isMarked ? "here" : ""}`, role: "button", tabindex: parts.some((part) => part.matches(".point")) ? -1 : 0, "data-key": `${run.index} ${at}`, "aria-label": name, click, keydown: key };
        parts.push(build("svg:circle", options, build("svg:title", {}, name)));
      }
    });
    const focused = this.curve.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.curve.replaceChildren(...parts);
    if (focused) this.curve.querySelector(`[data-key="${focused}"]`)?.focus();
  }

  /** The points of the curve are one tab stop; arrow keys go from one to the next. */
  stepCurve(event, click) {
    const points = [...this.curve.querySelectorAll(".point")];
    const next = points[points.indexOf(event.target) + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? 0)];
    if (["Enter", " "].includes(event.key)) click();
    else if (next && next !== event.target) next.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

globalThis.draftscopeWorkbench = { mount: (root, options) => new Workbench(root, options) };
