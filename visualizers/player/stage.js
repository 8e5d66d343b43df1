// The stage: what a run that drafts ahead does, drawn word by word from its script, over ordinary decoding on the same clock.

const STAGE_HEADLINE = "Draft several words, then verify them in one pass.";
const WIDE_STAGE = 700;
const CAPTION_WIDTH = 330;
const BALL_STEP = 0.02;

class Stage {
  constructor(player) {
    this.player = player;
    this.canvas = make("canvas", { role: "img" });
    this.context = this.canvas.getContext("2d");
    [this.says, this.notes] = [make("strong", {}), make("span", {})];
    this.caption = make("p", { class: "ds-caption", "aria-hidden": "true" }, this.says, this.notes);
    this.card = make("dl", { class: "ds-card" });
    const ball = { class: "ds-toss", role: "slider", tabindex: "0", "aria-label": "What if the coin had been", "aria-orientation": "vertical", "aria-valuemin": "0", "aria-valuemax": "1" };
    this.ball = make("div", { ...ball, pointerdown: (event) => this.grab(event), keydown: (event) => this.nudge(event) });
    this.node = make("section", { class: "ds-stage", "aria-label": "Speculative decoding, word by word" }, this.canvas, this.caption, this.card, this.ball);
  }

  /** Show the stage where it can show what there is. Return whether it is shown. */
  use(lanes) {
    const { brief, guided } = this.player;
    this.replay = lanes.at(-1)?.replay;
    this.shown = brief && !guided && lanes.length > 0 && lanes.length < 3 && isStaged(this.replay);
    if (this.shown && lanes.length === 2) this.shown = lanes[0].replay.grid.kind === "text";
    this.other = this.shown && lanes.length === 2 ? lanes[0] : null;
    return this.shown;
  }

  /** Fit the canvas to its box, and write the script of the run for it. */
  fit() {
    const [width, height, { replay, other }] = [this.node.clientWidth, this.node.clientHeight, this];
    this.script = null;
    if (!this.shown || !width) return;
    const wide = width >= WIDE_STAGE;
    sized(this.canvas, width, height);
    this.font = getComputedStyle(this.node).fontFamily;
    const size = wide ? (width > 1050 ? 28 : 24) : 18;
    const [line, top, strip] = [Math.round(size * 1.62), wide ? 22 : 14, other ? (wide ? 48 : 58) : 0];
    const base = height - strip - (wide ? 40 : 116);
    const lines = Math.max(2, Math.floor((base - top - (wide ? 150 : 130)) / line));
    this.size = { width, height, wide, size, line, lines, top, strip, base, left: wide ? 32 : 16, right: width - (wide ? 32 : 16), column: width > 1050 ? 84 : wide ? 64 : 42, gap: wide ? 46 : 20 };
    this.context.font = `${size}px ${this.font}`;
    this.script = new Script(replay, this.ruler(), this.size);
    this.context.font = `${wide ? 16 : 14}px ${this.font}`;
    const ruler = this.ruler();
    this.usual = other ? this.textOf(other.replay) : [];
    this.usualEnds = this.usual.reduce((ends, text) => [...ends, ends.at(-1) + ruler(text)], [0]);
    this.written = this.version;
    this.fillCard();
  }

  /** What the script is written from. */
  get version() {
    return [this.replay, this.other?.replay].map((replay) => [replay?.length, replay?.complete].join()).join();
  }

  ruler() {
    const known = new Map();
    return (text) => {
      if (!known.has(text)) known.set(text, this.context.measureText(text).width);
      return known.get(text);
    };
  }

  /** The texts of a run's final tokens, in their order, up to its end. */
  textOf(replay) {
    const { token, finalAt } = replay.latest;
    const end = replay.endIn(replay.latest);
    return [...token].filter((_, position) => finalAt[position] >= 0 && position < end).map((each) => replay.wordOf(each).replaceAll("\n", " "));
  }

  /** Passes, or the pass under way and the time in it, in milliseconds. With still pictures only whole passes are shown. */
  at(now) {
    const { replay, script, player } = this;
    const ends = replay.ends[player.clock];
    const done = replay.stepsAt(player.clock, now);
    const within = done < replay.length ? (now - ends[done]) / (ends[done + 1] - ends[done]) : 0;
    return [done, wantsStillness() || !(within > 1e-6) ? 0 : within * script.passes[done].length];
  }

  /** Passes a second at which the stage is played; null where the clock has a speed of its own. */
  pace(now) {
    if (!this.shown || this.player.clock !== "passes" || !this.script) return null;
    const pass = this.script.passes[Math.floor(now + 1e-6)];
    return pass ? 1000 / pass.length : null;
  }

  /** What stands on the stage at a reading of the clock, with the coin that is supposed, if one is. */
  frame(now) {
    const { supposed, script } = this;
    if (!supposed || supposed.now !== now) return script.frame(...this.at(now));
    const { verdict, coin, accepted } = supposed;
    const frame = script.frame(verdict.pass.index, accepted ? verdict.times.judge - 60 : verdict.times.fall - 1, coin);
    return { ...frame, caption: [accepted ? "Below p: accepted." : "Above p: rejected.", coinInWords(verdict.moment, hadCoinBeen(verdict.moment, coin))] };
  }

  draw() {
    if (this.shown && this.written !== this.version) this.fit();
    if (!this.shown || !this.script) return;
    const { context, size, player } = this;
    const frame = (this.shownFrame = this.frame(player.now));
    this.colors = player.theme.surface;
    context.clearRect(0, 0, size.width, size.height);
    if (frame.bar) this.drawBar(frame);
    if (frame.verdict) this.drawVerdict(frame);
    for (const look of frame.words) this.drawWord(look, frame);
    context.globalAlpha = 1;
    this.drawCount(frame);
    if (this.other) this.drawUsual();
    this.say(frame);
  }

  /** How many tokens stand, in how many passes. */
  drawCount(frame) {
    const { context, colors, size, font, replay } = this;
    const { done, ended, verdict } = frame;
    const covered = size.wide && verdict && this.place(verdict.verdict, frame).right > size.right - 230;
    context.globalAlpha = 1 - ended;
    const text = inPasses(replay.tokensIn(replay.seek(done)), done);
    drawText(context, colors.accent, text, covered ? size.left : size.right, size.height - size.strip - (size.wide ? 22 : 14), covered ? "left" : "right", `600 ${size.wide ? 18 : 14}px ${font}`);
    context.globalAlpha = 1;
  }

  y(line, frame) {
    return this.size.top + (line - frame.top) * this.size.line;
  }

  drawWord({ word, kind, alpha, down, struck, landed, fresh }, frame) {
    const { context, colors, size, font } = this;
    const above = Math.max(0, Math.min(1, 1 - (frame.top - word.line)));
    let [x, y, scale] = [word.x, this.y(word.line, frame) + down, word.sign ? SIGN_SIZE : 1];
    if (landed < 1) {
      const from = this.place(word.verdict, frame);
      const start = [from.x(Math.max(0, word.verdict.pick)) - word.width / 2, from.base - from.unit * (word.verdict.columns[word.verdict.pick]?.share ?? 0) - 2 * size.size];
      [x, y, scale] = [mixed(start[0], x, landed), mixed(start[1], y, landed) - 24 * Math.sin(Math.PI * landed), scale * mixed(0.5, 1, landed)];
    }
    context.globalAlpha = alpha * above;
    const color = kind === "rejected" && struck > 0 ? colors.emphasis : fresh > 0.5 ? colors.emphasis : word.sign ? colors.muted : colors.text;
    const middle = y + size.size * 0.62;
    drawText(context, color, word.text, x, middle, "left", `${size.size * scale}px ${font}`);
    if (struck > 0) fillBox(context, colors.emphasis, x, middle, word.width * struck, 2.5);
    if (kind === "drawn") fillBox(context, colors.emphasis, x, y + size.size * 1.22, word.width * landed, 2.5);
  }

  drawBar(frame) {
    const { context, colors, size } = this;
    const { x, alpha, from, line } = frame.bar;
    const [y, height, reach] = [this.y(line, frame) - 5, size.size * 1.24 + 10, Math.min(x - from, 170)];
    const tail = context.createLinearGradient(x - reach - 0.01, 0, x, 0);
    tail.addColorStop(0, `${colors.accent}00`);
    tail.addColorStop(1, `${colors.accent}48`);
    context.globalAlpha = alpha;
    fillBox(context, tail, x - reach, y, reach, height);
    const glow = context.createRadialGradient(x, y + height / 2, 0, x, y + height / 2, height);
    glow.addColorStop(0, `${colors.accent}38`);
    glow.addColorStop(1, `${colors.accent}00`);
    fillBox(context, glow, x - height, y - height / 2, 2 * height, 2 * height);
    fillBox(context, colors.accent, x - 1.75, y - 3, 3.5, height + 6);
  }

  /** Where the bars of a verdict stand: the middle of each column, the base, and the height of a probability of 1. */
  place({ columns, word, pass }, frame) {
    const { size } = this;
    const { column, gap, base, width } = size;
    const whole = columns.length * (column + gap) - gap;
    const label = size.wide ? 88 : 52; // room for p and q in numbers, beside the draft's column
    const wanted = word.x + word.width / 2 - column / 2;
    const turned = size.wide && wanted + whole > width - 40;
    const left = turned ? Math.min(wanted + column, width - label) - whole : Math.max(label, Math.min(wanted, width - whole - 16));
    const x = (index) => left + (turned ? columns.length - 1 - index : index) * (column + gap) + column / 2;
    const unit = Math.min(size.wide ? 240 : 190, base - this.y(pass.lowest, { top: pass.top }) - size.size * 1.3 - 14);
    return { x, base, unit, left, right: left + whole, turned, from: [word.x + word.width / 2, this.y(word.line, frame) + size.size * 1.35] };
  }

  drawVerdict(frame) {
    const { context, colors, size, font } = this;
    const { verdict, alpha, grown, told, apart, scaled } = frame.verdict;
    const { x, base, unit, left, right, turned, from } = this.place(verdict, frame);
    const { column } = size;
    const bold = `600 ${size.wide ? 15 : 12}px ${font}`;
    const pen = (share) => (context.globalAlpha = alpha * share);
    const stays = mixed(1, 0.28, apart);
    const first = verdict.columns[0];
    pen(grown * (1 - apart) * 0.8);
    drawLine(context, [[from[0], from[1]], [x(0), base - unit * Math.max(first.p, first.q) * grown - 6]], colors.muted, 1.5, [2, 5]);
    pen(0.5 * grown);
    fillBox(context, colors.muted, left - 8, base, right - left + 16, 1.5);
    verdict.columns.forEach((each, index) => {
      const [from, q, p] = [x(index) - column / 2, unit * each.q * slowing(progress(grown, index * 0.06, 0.7 + index * 0.06)), unit * each.p * slowing(progress(grown, 0.2 + index * 0.06, 0.76 + index * 0.06))];
      const judged = index === 0 ? told : 0;
      pen(0.4 * stays * (1 - judged));
      fillBox(context, colors.muted, from, base - q, column, q);
      if (judged) {
        pen(0.4 * stays * judged);
        fillBox(context, colors.emphasis, from, base - q, column, Math.max(0, q - p));
        fillBox(context, colors.accent, from, base - Math.min(p, q), column, Math.min(p, q));
      }
      pen(stays);
      if (p > 0.5) drawLine(context, [[from - 3, base], [from - 3, base - p], [from + column + 3, base - p], [from + column + 3, base]], colors.accent, 2.5);
      if (apart > 0 && each.share > 0) {
        const over = Math.max(0, each.p - each.q) * unit;
        const tall = Math.max(mixed(over, unit * each.share, scaled), 1.5);
        pen(Math.min(1, 3 * apart));
        fillBox(context, colors.emphasis, from, mixed(base - unit * each.p, base - tall, apart), column, tall);
        pen(progress(apart, 0.6, 1));
        const inside = tall > 34;
        if (each.share >= LEAST_REST) drawText(context, inside ? colors.background : colors.text, `${Math.round(100 * mixed(over / unit, each.share, scaled))} %`, x(index), base - tall + (inside ? 20 : -11), "center", bold);
      }
      pen(slowing(grown));
      const drawn = index === verdict.pick && apart > 0.5;
      drawText(context, index === 0 || drawn ? colors.text : colors.muted, each.text, x(index), base + (size.wide ? 18 : 15), "center", `${index === 0 || drawn ? "600 " : ""}${size.wide ? 15 : 13}px ${font}`);
    });
    pen(told * stays);
    const [edge, end] = turned ? [x(0) + column / 2 + 9, "left"] : [x(0) - column / 2 - 9, "right"];
    const apartBy = Math.abs(first.q - first.p) * unit < 18 ? (first.q > first.p ? -9 : 9) : 0;
    drawText(context, colors.muted, `q ${small(first.q, 0.001)}`, edge, base - unit * first.q + apartBy, end, bold);
    drawText(context, colors.accent, `p ${small(first.p, 0.001)}`, edge, base - unit * first.p - apartBy - (first.p * unit < 9 ? 7 : 0), end, bold);
    this.drawBall(frame.verdict, { x, base, unit, from }, pen);
  }

  /** The coin falls as a ball on the draft's bar, to its share of q; where it lies above p it rolls on to the residual. */
  drawBall({ verdict, coin, seen, dropped, sunk, rolled, judged, ring }, { x, base, unit, from }, pen) {
    const { context, colors, size } = this;
    const { columns, pick, moment } = verdict;
    const radius = size.wide ? 11 : 9;
    const lies = base - coin * columns[0].q * unit;
    let [at, y] = [mixed(from[0], x(0), dropped), mixed(from[1], lies, dropped)];
    if (sunk > 0) y = mixed(lies, base - radius - 1, sunk);
    if (rolled > 0 && pick >= 0) {
      const [low, high] = [base - radius - 1, base - unit * columns[pick].share - radius - 1];
      [at, y] = [mixed(at, x(pick), rolled), mixed(low, high, rolled) - 4 * (34 + 0.3 * Math.abs(high - low)) * rolled * (1 - rolled)];
    }
    this.lies = { x: at, y, base, unit: unit * columns[0].q };
    const color = !judged ? colors.text : coin < moment.number("accept_prob") ? colors.accent : colors.emphasis;
    if (sunk > 0) {
      pen(0.5);
      drawDot(context, [x(0), lies], radius - 3, null, colors.text, 1.5);
    }
    pen(seen);
    drawDot(context, [at, y], radius, color, colors.background, 2.5);
    if (ring <= 0 || ring >= 1) return;
    pen(0.8 * (1 - ring));
    drawDot(context, [at, y], radius + 22 * ring, null, color, 3);
  }

  /** The other run below, its text so far with a caret that moves on with the clock. */
  drawUsual() {
    const { context, colors, size, font, other, usualEnds, player } = this;
    const { width, height, strip, wide, left, right } = size;
    const { replay } = other;
    const count = replay.stepsAt(player.clock, player.now);
    const ends = replay.ends[player.clock];
    const shown = Math.min(this.usual.length, replay.tokensIn(replay.seek(count)));
    const part = count < replay.length && !wantsStillness() ? (player.now - ends[count]) / (ends[count + 1] - ends[count]) : 0;
    fillBox(context, colors.line, 0, height - strip, width, 1);
    const [first, second] = wide ? [height - strip / 2, height - strip / 2] : [height - strip + 18, height - 17];
    drawText(context, colors.muted, other.title.textContent, left, first, "left", `600 13px ${font}`);
    const label = context.measureText(other.title.textContent).width;
    drawText(context, colors.text, inPasses(shown, count), right, first, "right", `600 ${wide ? 15 : 13}px ${font}`);
    const from = wide ? left + label + 18 : left;
    const until = wide ? right - 190 : right;
    const caret = mixed(usualEnds[shown], usualEnds[Math.min(shown + 1, this.usual.length)], part);
    const shift = Math.min(0, until - from - 8 - caret);
    drawWithin(context, [from, height - strip + 1, until - from, strip], () => {
      drawText(context, colors.muted, this.usual.slice(0, shown).join(""), from + shift, second, "left", `${wide ? 16 : 14}px ${font}`);
      if (count < replay.length) fillBox(context, colors.accent, from + shift + caret + 2, second - 10, 2, 20);
    });
  }

  /** Caption, card, the place of the ball, and all of it in words. */
  say(frame) {
    const { size, node } = this;
    const { verdict, done, ended } = frame;
    const total = this.replay.length;
    const [said, note] = frame.caption;
    say(this.says, said);
    say(this.notes, note);
    const place = verdict ? this.place(verdict.verdict, frame) : null;
    const [before, behind] = place ? [place.left - (place.turned ? 40 : 110), size.width - place.right - (place.turned ? 110 : 40)] : [0, 0];
    const x = !size.wide || !place ? size.left : before > CAPTION_WIDTH && (place.turned || behind < CAPTION_WIDTH) ? before - CAPTION_WIDTH : size.width - behind;
    this.caption.style.transform = `translate(${Math.round(x)}px, ${size.wide ? size.base - 96 : size.base + 25}px)`;
    this.caption.style.opacity = ended ? 0 : 1;
    this.card.style.opacity = ended;
    this.card.style.visibility = ended ? "" : "hidden";
    const number = `${Math.min(total, done + Number(this.at(this.player.now)[1] > 0))} of ${counted(total, "pass")}`;
    node.style.setProperty("--ds-strip", `${size.strip}px`);
    const held = Boolean(verdict && verdict.seen === 1 && verdict.alpha === 1 && this.lies);
    this.ball.hidden = !held;
const text = frame.words.filter(({ kind, alpha }) => alpha > 0.9 && kind !== "rejected").map(({ word }) => word.text).join(" ");
    const label = `Pass ${number}. ${[said, note].filter(Boolean).join(" ")} The text so far: ${text}`;
    if (this.canvas.ariaLabel !== label) this.canvas.setAttribute("aria-label", label);
    if (!held) return;
    this.ball.style.transform = `translate(${this.lies.x}px, ${this.lies.y}px)`;
    this.ball.setAttribute("aria-valuenow", figure(verdict.coin));
    this.ball.setAttribute("aria-valuetext", `coin ${figure(verdict.coin)}: ${said}`);
    this.held = verdict.verdict;
  }

  /** What the whole run took, beside ordinary decoding. */
  fillCard() {
    const { replay, other, player } = this;
    const facts = [];
    if (replay.whole && (!other || other.replay.whole)) {
      const own = replay.drafts ? `, ${replay.drafts} by the drafter` : "";
      facts.push([formatInteger(replay.length), `passes, ${other ? `not ${other.replay.length}` : `${counted(replay.tokensIn(replay.latest), "token")}`}${own}`]);
      const [usual, made] = [other?.replay, replay].map((run) => run?.meta.summary?.seconds / run?.tokensIn(run.latest));
      const ratio = usual / made;
      if (ratio > 0 && Number.isFinite(ratio)) facts.push(ratio >= 1 ? [`${ratio.toFixed(1)}×`, "faster per token, as measured"] : [`${(1 / ratio).toFixed(1)}×`, "slower per token, as measured"]);
      if (player.race.pair?.exact) facts.push(["Exact", player.race.pair.truth]);
    }
    this.card.replaceChildren(...facts.map(([fact, about]) => make("div", {}, make("dt", {}, about), make("dd", {}, fact))));
  }

  /** Suppose another coin, or the trace's own again. */
  suppose(coin) {
    const { player, held } = this;
    player.takeOver();
    this.supposed = coin === null ? null : { now: player.now, verdict: held, coin, accepted: coin < held.moment.number("accept_prob") };
    player.schedule();
  }

  grab(event) {
    event.preventDefault();
    this.ball.focus();
    const top = this.node.getBoundingClientRect().top;
    const { base, unit } = this.lies;
    const leave = new AbortController();
    const follow = ({ clientY }) => this.suppose(Math.min(1, Math.max(0, (top + base - clientY) / unit)));
    addEventListener("pointermove", follow, { signal: leave.signal });
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => leave.abort(), { signal: leave.signal });
  }

  nudge(event) {
    const step = { ArrowUp: BALL_STEP, ArrowDown: -BALL_STEP }[event.key];
    if (!step && !(event.key === "Escape" && this.supposed)) return;
    event.preventDefault();
    event.stopPropagation();
    const coin = this.shownFrame.verdict.coin;
    this.suppose(step ? Math.min(1, Math.max(0, coin + step)) : null);
  }
}

function inPasses(tokens, passes) {
  return `${counted(tokens, "token")} in ${counted(passes, "pass")}`;
}
