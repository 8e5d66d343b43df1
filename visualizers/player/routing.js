// Routing: what the router expected of each draft, whether it had it verified, and what came of it.

/** Expected against accepted drafts, the score that decided, and the decision, over the clock. */
class RoutingView extends View {
  constructor() {
    super("routing", "Routing: verify or not", "");
    this.words = make("p", { class: "ds-words" });
    this.figure.append(this.words);
  }

  supports(replay) {
    return replay.decisions.length > 0;
  }

  heightFor() {
    return 178;
  }

  plot() {
    return { x: LEFT, y: 8, width: Math.max(1, this.width - LEFT - 10), height: this.height - BOTTOM - 34 };
  }

  paint(scene, context) {
    this.scene = scene;
    const { x, y, width, height } = this.plot();
    const { replay, clock, extent, theme } = scene;
    say(this.note, "○ drafts expected to pass · ■ accepted · – – score · bar: length of the span · below: ▲ verify, – not");
    const { low, high } = rangeOf(replay.decisions);
    const across = (step) => x + ((replay.ends[clock][step] + replay.ends[clock][step + 1]) / 2 / extent) * width;
    const down = (value) => y + ((high - value) / (high - low)) * height;
    this.paintAxes(scene, context, low, high, down);
    const room = Math.max(1.5, Math.min(14, (0.8 * width) / extent));
    this.paintScore(scene, context, across, down);
    for (const decision of replay.decisions) {
      context.globalAlpha = decision.step < scene.count ? 1 : 0.28;
      this.paintDecision(scene, context, decision, { at: across(decision.step), down, room, strip: y + height + 9 });
    }
    context.globalAlpha = 1;
    context.fillStyle = theme.surface.text;
    const now = x + (replay.ends[clock][scene.count] / extent) * width;
    context.fillRect(now - 0.75, y - 4, 1.5, height + 22);
    say(this.words, routeInWords(replay.decisions.findLast(({ step }) => step < scene.count), replay));
  }

  paintDecision({ theme }, context, { span, expected, accepted, verify }, { at, down, room, strip }) {
    if (span !== null) {
      context.fillStyle = theme.surface.line;
      context.fillRect(at - room / 2, down(span), room, down(0) - down(span));
    }
    context.strokeStyle = theme.surface.muted;
    context.lineWidth = 1.5;
    if (expected !== null && accepted !== null) {
      context.beginPath();
      context.moveTo(at, down(expected));
      context.lineTo(at, down(accepted));
      context.stroke();
    }
    const size = Math.max(2, Math.min(4, room / 2));
    if (accepted !== null) {
      context.fillStyle = theme.surface.emphasis;
      context.fillRect(at - size, down(accepted) - size, 2 * size, 2 * size);
    }
    if (expected !== null) {
      context.strokeStyle = theme.surface.accent;
      context.fillStyle = theme.surface.background;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(at, down(expected), size, 0, 2 * Math.PI);
      context.fill();
      context.stroke();
    }
    if (verify === null) return;
    context.fillStyle = theme.surface.text;
    if (!verify) return context.fillRect(at - size, strip - 0.75, 2 * size, 1.5);
    context.beginPath();
    context.moveTo(at, strip - size);
    context.lineTo(at + size, strip + size);
    context.lineTo(at - size, strip + size);
    context.fill();
  }

  paintScore({ replay, theme }, context, across, down) {
    context.strokeStyle = theme.surface.muted;
    context.lineWidth = 1.5;
    context.setLineDash([4, 3]);
    context.beginPath();
    for (const { step, score } of replay.decisions) if (score !== null) context.lineTo(across(step), down(score));
    context.stroke();
    context.setLineDash([]);
  }

  paintAxes(scene, context, low, high, down) {
    const { x, y, width, height } = this.plot();
    const ticks = ticksUpTo(high - low, 4, 1).map((tick) => tick + low).filter((tick) => tick <= high);
    for (const tick of new Set([...ticks, 0])) {
      context.fillStyle = tick === 0 ? scene.theme.surface.muted : scene.theme.surface.line;
      context.fillRect(x, Math.round(down(tick)), width, 1);
      if (tick === 0 || Math.abs(down(tick) - down(0)) > 10) this.label(context, scene, String(tick), x - 6, down(tick), "right");
    }
    for (const tick of ticksUpTo(scene.extent, width > 300 ? 8 : 4, scene.clock === "passes" ? 1 : 0)) {
      const align = tick === 0 ? "left" : tick / scene.extent > 0.95 ? "right" : "center";
      this.label(context, scene, tick.toLocaleString("en"), x + (tick / scene.extent) * width, y + height + 28, align);
    }
  }

  hit(x) {
    const plot = this.plot();
    const { replay, clock, extent, position } = this.scene ?? {};
    if (!replay || x < plot.x || x > plot.x + plot.width) return null;
    const step = replay.stepsAt(clock, ((x - plot.x) / plot.width) * extent);
    return { position: position ?? null, step: step < replay.length ? step : null, goTo: Math.min(step + 1, replay.length) };
  }
}

function rangeOf(decisions) {
  const values = decisions.flatMap(({ span, expected, accepted, score }) => [span, expected, accepted, score]).filter((value) => value !== null);
  return { low: Math.floor(Math.min(0, ...values)), high: Math.max(1, Math.ceil(Math.max(0, ...values))) };
}

/** A decision in a sentence. */
function routeInWords(decision, replay) {
  if (!decision) return "No decision yet.";
  const { step, span, expected, score, verify, accepted, confident } = decision;
  const parts = [
    expected !== null ? `${formatNumber(expected)}${span === null ? "" : ` of ${span}`} drafts expected to pass` : span === null ? null : `span of ${span}`,
    confident !== null ? `${confident} above the confidence threshold` : null,
    score !== null ? `score ${formatNumber(score)}` : null,
    verify === null ? null : verify ? "verify" : "do not verify",
    accepted !== null ? `${accepted} accepted` : null,
  ];
  const others = Object.entries(decision.others).map(([name, value]) => `${replay.signalLabel(name)} ${formatNumber(value)}`);
  return `Forward pass ${step + 1}: ${[...parts, ...others].filter(Boolean).join(", ")}.`;
}

const ROUTING_OTHERS = ["switch", "bucket", "bucket_visits", "bandit_mean", "bandit_bound"];

/** The router's decision at a step, or null where none was made. */
function decisionOf({ signals }, step) {
  const known = (name) => (Number.isFinite(signals[name]) ? signals[name] : null);
  const decision = { step, span: known("span"), expected: known("expected_accepted"), score: known("score"), confident: known("confident"), verify: known("verify"), accepted: null };
  if (decision.expected === null && decision.score === null && decision.verify === null) return null;
  const others = ROUTING_OTHERS.filter((name) => known(name) !== null).map((name) => [name, signals[name]]);
  return { ...decision, others: Object.fromEntries(others) };
}
