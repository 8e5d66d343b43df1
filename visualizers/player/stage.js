// The stage: a run that drafts ahead, drawn word by word from its script, over ordinary decoding on the same clock.

const STAGE_HEADLINE = "Draft several words, then verify them in one pass.";
/** By the least width: letters, lines, columns of bars and their label, and pixels below, for the bars and for the other run. */
const STAGE_SHAPES = [
  { least: 1050, wide: true, size: 28, line: 45, top: 22, left: 32, column: 84, gap: 46, label: 88, small: 15, below: 40, bars: 150, strip: 48 },
  { least: 700, wide: true, size: 24, line: 39, top: 22, left: 32, column: 64, gap: 46, label: 88, small: 15, below: 40, bars: 150, strip: 48 },
  { least: 0, wide: false, size: 18, line: 29, top: 14, left: 16, column: 42, gap: 20, label: 52, small: 12, below: 116, bars: 130, strip: 58 },
];
const CAPTION_WIDTH = 330;

class Stage {
  constructor(player) {
    this.player = player;
    this.canvas = make("canvas", { role: "img" });
    this.context = this.canvas.getContext("2d");
    [this.says, this.notes] = [make("strong", {}), make("span", {})];
    this.caption = make("p", { class: "ds-caption", "aria-hidden": "true" }, this.says, this.notes);
    this.card = make("dl", { class: "ds-card" });
    this.coin = makeSlider({ class: "ds-coin-slider", min: "0", max: "1", step: "0.001", "aria-label": "What if the coin had been" }, (value) => this.suppose(value));
    this.node = make("section", { class: "ds-stage", "aria-label": "Speculative decoding, word by word" }, this.canvas, this.caption, this.card, this.coin);
  }

  /** Take the stage where it can show these lanes, the last one above the other. Return whether it does. */
  use(lanes) {
    const { brief, guided } = this.player;
    this.shown = brief && !guided && [1, 2].includes(lanes.length) && lanes.every(({ replay }) => replay.grid.kind === "text") && isStaged(lanes.at(-1).replay);
    [this.replay, this.other] = this.shown ? [lanes.at(-1).replay, lanes.length > 1 ? lanes[0] : null] : [];
    return this.shown;
  }

  /** Fit the canvas to its box, and write the script of the run for it. */
  fit() {
    const { node: { clientWidth: width, clientHeight: height }, replay, other } = this;
    this.script = this.supposed = null;
    if (!this.shown || !width) return;
    const { below, bars, strip, ...shape } = STAGE_SHAPES.find(({ least }) => width >= least);
    const own = other ? strip : 0;
    const base = height - own - below;
    const lines = Math.max(2, Math.floor((base - shape.top - bars) / shape.line));
    this.size = { ...shape, width, height, base, lines, strip: own, right: width - shape.left };
    this.font = getComputedStyle(this.node).fontFamily;
    sized(this.canvas, width, height);
    this.script = new Script(replay, this.ruler(shape.size), this.size);
    const ruler = this.ruler(shape.small + 1);
    const end = other?.replay.endIn(other.replay.latest);
    this.usual = [...(other?.replay.latest.token ?? [])].filter((token, position) => token >= 0 && position < end).map((token) => other.replay.wordOf(token).replaceAll("\n", " "));
    this.usualEnds = this.usual.reduce((ends, text) => [...ends, ends.at(-1) + ruler(text)], [0]);
    this.node.style.setProperty("--ds-strip", `${own}px`);
    this.fillCard();
  }

  /** A function that gives the width of a text in letters of a size. */
  ruler(size) {
    const known = new Map();
    this.context.font = `${size}px ${this.font}`;
    return (text) => known.get(text) ?? known.set(text, this.context.measureText(text).width).get(text);
  }

  /** How many passes are over, and the time in the next, in milliseconds. Where motion is unwanted only whole passes are shown. */
  at(now) {
    const { replay, script, player } = this;
    const [ends, done] = [replay.ends[player.clock], replay.stepsAt(player.clock, now)];
    const within = done < replay.length ? (now - ends[done]) / (ends[done + 1] - ends[done]) : 0;
    return [done, wantsStillness() || !(within > 1e-6) ? 0 : within * script.passes[done].length];
  }

  /** The clock `seconds` on from `now` at the stage's own speed; null where it has none: on other clocks, and when its run is over. */
  after(now, seconds) {
    const { passes } = (this.shown && this.player.clock === "passes" && this.script) || { passes: [] };
    let [at, left] = [now, 1000 * seconds];
    for (let done = Math.floor(now + 1e-6); done < passes.length; done += 1) {
      const rest = (done + 1 - at) * passes[done].length;
      if (left < rest) return at + left / passes[done].length;
      [at, left] = [done + 1, left - rest];
    }
    return at > now ? at : null;
  }

  /** What stands there at a reading of the clock, with the coin that is supposed, if one is. */
  frame(now) {
    const { supposed, script } = this;
    const held = supposed?.now === now && script.passes[supposed.pass].verdict;
    if (!held) return script.frame(...this.at(now));
    const { times, moment } = held;
    const stays = supposed.coin < moment.number("accept_prob");
    const frame = script.frame(supposed.pass, stays ? times.judge - 60 : times.fall - 1, supposed.coin);
    return { ...frame, caption: [stays ? "Below p: accepted." : "Above p: rejected.", coinInWords(moment, hadCoinBeen(moment, supposed.coin))] };
  }

  draw() {
    if (!this.shown || !this.script) return;
    const { context, size, player } = this;
    const frame = (this.drawn = this.frame(player.now));
    this.colors = player.theme.surface;
    context.globalAlpha = 1;
    context.clearRect(0, 0, size.width, size.height);
    frame.place = frame.verdict && this.place(frame.verdict.verdict, frame);
    if (frame.bar) this.drawBar(frame);
    if (frame.verdict) this.drawVerdict(frame.verdict, frame.place);
    for (const look of frame.words) this.drawWord(look, frame);
    this.drawCounts(frame);
    this.say(frame);
  }

  y(line, top) {
    return this.size.top + (line - top) * this.size.line;
  }

  /** Write in letters of a size, bold where it is negative. */
  write(color, text, x, y, align, size) {
    drawText(this.context, color, text, x, y, align, `${size < 0 ? "600 " : ""}${Math.abs(size)}px ${this.font}`);
  }

  drawWord({ word, kind, alpha, down, struck, landed, fresh }, { top, place }) {
    const { context, colors, size } = this;
    let [x, y, scale] = [word.x, this.y(word.line, top) + down, word.sign ? SIGN_SIZE : 1];
    if (landed < 1) {
      const { columns, pick } = word.verdict;
      const [from, above] = [place.x(Math.max(0, pick)) - word.width / 2, place.base - place.unit * (columns[pick]?.share ?? 0) - 2 * size.size];
      [x, y, scale] = [mixed(from, x, landed), mixed(above, y, landed) - 24 * Math.sin(Math.PI * landed), scale * mixed(0.5, 1, landed)];
    }
    context.globalAlpha = alpha * progress(word.line, top - 1, top);
    const middle = y + size.size * 0.62;
    this.write(struck > 0 || fresh ? colors.emphasis : word.sign ? colors.muted : colors.text, word.text, x, middle, "left", size.size * scale);
    if (struck > 0) fillBox(context, colors.emphasis, x, middle, word.width * struck, 2.5);
    if (kind === "drawn") fillBox(context, colors.emphasis, x, y + size.size * 1.22, word.width * landed, 2.5);
  }

  drawBar({ bar: { x, alpha, from, line }, top }) {
    const { context, colors, size } = this;
    const [y, height, reach] = [this.y(line, top) - 5, size.size * 1.24 + 10, Math.min(x - from, 170)];
    const light = (gradient, stops, ...box) => {
      stops.forEach((stop, index) => gradient.addColorStop(index, colors.accent + stop));
      fillBox(context, gradient, ...box);
    };
    context.globalAlpha = alpha;
    light(context.createLinearGradient(x - reach - 0.01, 0, x, 0), ["00", "48"], x - reach, y, reach, height);
    light(context.createRadialGradient(x, y + height / 2, 0, x, y + height / 2, height), ["38", "00"], x - height, y - height / 2, 2 * height, 2 * height);
    fillBox(context, colors.accent, x - 1.75, y - 3, 3.5, height + 6);
  }

  /** Where the bars of a verdict stand: the middle of each column, the base, the height of a probability of 1, the word above. */
  place({ columns, word, pass }, { top }) {
    const { column, gap, base, width, wide, size, label } = this.size;
    const whole = columns.length * (column + gap) - gap;
    const wanted = word.x + word.width / 2 - column / 2;
    const turned = wide && wanted + whole > width - 40;
    const left = turned ? Math.min(wanted + column, width - label) - whole : Math.max(label, Math.min(wanted, width - whole - 16));
    const x = (index) => left + (turned ? columns.length - 1 - index : index) * (column + gap) + column / 2;
    const unit = Math.min(wide ? 320 : 190, base - this.y(pass.lowest, pass.top) - size * 1.3 - (wide ? 22 : 14));
    return { x, base, unit, left, right: left + whole, turned, above: [word.x + word.width / 2, this.y(word.line, top) + size * 1.35] };
  }

  drawVerdict(verdict, place) {
    const { context, colors, size } = this;
    const { grown, told, apart } = verdict;
    const { columns } = verdict.verdict;
    const { x, base, unit, left, right, turned, above } = place;
    const pen = (share) => (context.globalAlpha = verdict.alpha * share);
    const [{ p, q }, stays] = [columns[0], mixed(1, 0.28, apart)];
    pen(grown * (1 - apart) * 0.8);
    drawLine(context, [above, [x(0), base - unit * Math.max(p, q) * grown - 6]], colors.muted, 1.5, [2, 5]);
    pen(0.5 * grown);
    fillBox(context, colors.muted, left - 8, base, right - left + 16, 1.5);
    columns.forEach((_, index) => this.drawColumn(verdict, place, index, stays, pen));
    pen(told * stays);
    const [edge, end] = turned ? [right + 9, "left"] : [left - 9, "right"];
    const lift = Math.abs(q - p) * unit < 18 ? (q > p ? -9 : 9) : 0; // so that the two do not overlap
    this.write(colors.muted, `q ${small(q, 0.001)}`, edge, base - unit * q + lift, end, -size.small);
    this.write(colors.accent, `p ${small(p, 0.001)}`, edge, base - unit * p - lift - (p * unit < 9 ? 7 : 0), end, -size.small);
    this.drawBall(verdict, place, pen);
  }

  /** p outlined over q, told apart for the draft; where p exceeds q the excess comes down and is scaled to 100 %. */
  drawColumn({ verdict: { columns, pick }, grown, told, apart, scaled }, { x, base, unit }, index, stays, pen) {
    const { context, colors, size } = this;
    const { p, q, share, text } = columns[index];
    const [from, wide, judged, late] = [x(index) - size.column / 2, size.column, index ? 0 : told, index * 0.06];
    const [low, high] = [unit * q * slowing(progress(grown, late, 0.7 + late)), unit * p * slowing(progress(grown, 0.2 + late, 0.76 + late))];
    pen(0.4 * stays * (1 - judged));
    fillBox(context, colors.muted, from, base - low, wide, low);
    pen(0.4 * stays * judged);
    fillBox(context, colors.emphasis, from, base - low, wide, Math.max(0, low - high));
    fillBox(context, colors.accent, from, base - Math.min(low, high), wide, Math.min(low, high));
    pen(stays);
    if (high > 0.5) drawLine(context, [[from - 3, base], [from - 3, base - high], [from + wide + 3, base - high], [from + wide + 3, base]], colors.accent, 2.5);
    if (apart > 0 && share > 0) {
      const part = mixed(Math.max(0, p - q), share, scaled);
      const [tall, inside] = [Math.max(unit * part, 1.5), unit * part > 34];
      pen(Math.min(1, 3 * apart));
      fillBox(context, colors.emphasis, from, mixed(base - unit * p, base - tall, apart), wide, tall);
      pen(progress(apart, 0.6, 1));
      if (share >= LEAST_REST) this.write(inside ? colors.background : colors.text, `${Math.round(100 * part)} %`, x(index), base - tall + (inside ? 20 : -11), "center", -size.small);
    }
    pen(slowing(grown));
    const bold = index === 0 || (index === pick && apart > 0.5);
    this.write(bold ? colors.text : colors.muted, text, x(index), base + (size.wide ? 18 : 15), "center", size.small * (bold ? -1 : 1));
  }

  /** The coin falls as a ball on the draft's bar, to its share of q; where it lies above p it rolls on to the residual. */
  drawBall({ verdict: { columns, pick, moment }, coin, seen, dropped, sunk, rolled, judged, ring }, { x, base, unit, above }, pen) {
    const { context, colors, size } = this;
    const radius = size.wide ? 11 : 9;
    const [tall, low] = [unit * columns[0].q, base - radius - 1];
    const lies = base - coin * tall;
    const high = low - unit * (columns[pick]?.share ?? 0);
    const fallen = sunk > 0 ? mixed(lies, low, sunk) : mixed(above[1], lies, dropped);
    const [at, y] = [mixed(mixed(above[0], x(0), dropped), x(Math.max(0, pick)), rolled), mixed(fallen, high, rolled) - 4 * (34 + 0.3 * (low - high)) * rolled * (1 - rolled)];
    const color = !judged ? colors.text : coin < moment.number("accept_prob") ? colors.accent : colors.emphasis;
    pen(0.5);
    if (sunk > 0) drawDot(context, [x(0), lies], radius - 3, null, colors.text, 1.5);
    pen(seen);
    drawDot(context, [at, y], radius, color, colors.background, 2.5);
    pen(0.8 * (1 - ring));
    if (ring > 0 && ring < 1) drawDot(context, [at, y], radius + 22 * ring, null, color, 3);
  }

  /** How far the run is, and below it the other one, with a caret that moves on with the clock. */
  drawCounts({ done, ended, place }) {
    const { context, colors, size, other, usualEnds, player, replay } = this;
    const { width, height, strip, wide, left, right } = size;
    const count = (run, passes) => `${counted(run.tokensIn(run.seek(passes)), "token")} in ${counted(passes, "pass")}`;
    const covered = wide && place?.right > right - 230;
    context.globalAlpha = 1 - ended;
    this.write(colors.accent, count(replay, done), covered ? left : right, height - strip - (wide ? 22 : 14), covered ? "left" : "right", wide ? -18 : -14);
    context.globalAlpha = 1;
    if (!other) return;
    const [ends, passes, title] = [other.replay.ends[player.clock], other.replay.stepsAt(player.clock, player.now), other.title.textContent];
    const shown = Math.min(this.usual.length, other.replay.tokensIn(other.replay.seek(passes)));
    const part = passes < other.replay.length && !wantsStillness() ? (player.now - ends[passes]) / (ends[passes + 1] - ends[passes]) : 0;
    const [first, second] = wide ? [height - strip / 2, height - strip / 2] : [height - strip + 18, height - 17];
    fillBox(context, colors.line, 0, height - strip, width, 1);
    this.write(colors.text, count(other.replay, passes), right, first, "right", -size.small);
    this.write(colors.muted, title, left, first, "left", -13);
    const [from, until] = wide ? [left + context.measureText(title).width + 18, right - 190] : [left, right];
    const caret = mixed(usualEnds[shown], usualEnds[Math.min(shown + 1, this.usual.length)], part);
    const start = from + Math.min(0, until - from - 8 - caret);
    drawWithin(context, [from, height - strip + 1, until - from, strip], () => {
      this.write(colors.muted, this.usual.slice(0, shown).join(""), start, second, "left", size.small + 1);
      if (passes < other.replay.length) fillBox(context, colors.accent, start + caret + 2, second - 10, 2, 20);
    });
  }

  /** Caption, card and the place of the ball, and all of it in words. */
  say({ verdict, ended, caption, words, place, done }) {
    const { size, player, replay } = this;
    const [before, behind] = place?.turned ? [place.left - 40, 0] : [(place?.left ?? 0) - 110, size.width - (place?.right ?? 0) - 40];
    const x = !size.wide || !place ? size.left : before > CAPTION_WIDTH && behind < CAPTION_WIDTH ? before - CAPTION_WIDTH : size.width - behind;
    say(this.says, caption[0]);
    say(this.notes, caption[1]);
    this.caption.style.transform = `translate(${Math.round(x)}px, ${size.base + (size.wide ? -96 : 25)}px)`;
    this.caption.style.visibility = ended ? "hidden" : "";
    Object.assign(this.card.style, { opacity: ended, visibility: ended ? "" : "hidden" });
    const text = words.filter(({ kind, alpha }) => alpha > 0.9 && kind !== "rejected").map(({ word }) => word.text);
    const label = `Pass ${Math.min(replay.length, Math.ceil(done + this.at(player.now)[1] / 1e6))} of ${replay.length}. ${caption.join(" ")} The text so far: ${text.join(" ")}`;
    if (this.canvas.ariaLabel !== label) this.canvas.setAttribute("aria-label", label);
    this.held = verdict?.seen === 1 && verdict.alpha === 1 ? verdict : null;
    this.coin.hidden = !this.held;
    if (!this.held) return;
    const tall = place.unit * verdict.verdict.columns[0].q;
    Object.assign(this.coin.style, { left: `${place.x(0) - 22}px`, top: `${place.base - tall - 11}px`, height: `${tall + 22}px` });
    this.coin.value = verdict.coin;
    this.coin.setAttribute("aria-valuetext", `coin ${figure(verdict.coin)}: ${caption.join(" ")}`);
  }

  /** What the whole run took, beside the other. */
  fillCard() {
    const { replay, other, player } = this;
    const own = replay.drafts ? `, ${replay.drafts} by the drafter` : "";
    const facts = [[formatInteger(replay.length), `passes${other ? `, not ${other.replay.length}` : ""}${own}`]];
    const [usual, made] = [other?.replay, replay].map((run) => run?.meta.summary?.seconds / run?.tokensIn(run.latest));
    if (usual / made > 0 && Number.isFinite(usual / made)) facts.push([`${Math.max(usual / made, made / usual).toFixed(1)}×`, `${usual < made ? "slower" : "faster"} per token, as measured`]);
    if (player.race.pair?.exact) facts.push(["Exact", player.race.pair.truth]);
    const whole = replay.whole && (!other || other.replay.whole);
    this.card.replaceChildren(...(whole ? facts : []).map(([fact, about]) => make("div", {}, make("dt", {}, about), make("dd", {}, fact))));
  }

  /** Suppose another coin in the pass that is shown, until the clock moves. */
  suppose(coin) {
    const { player, held } = this;
    this.supposed = { now: player.now, pass: held.verdict.pass.index, coin };
    player.takeOver();
    player.schedule();
  }
}
