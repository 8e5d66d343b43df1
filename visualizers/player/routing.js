// Routing: how many drafts the router expected to be accepted, whether it had them verified, and how many were.

/** Expected against accepted drafts, the score that decided, and the decision, over the clock. */
class RoutingView extends ClockView {
  supports = ({ decisions }) => decisions.length > 0;
  heightFor = () => 178;

  constructor() {
    super("routing", "Routing: verify or not", "○ expected to be accepted · ■ accepted · – – score · bar: length of the span · below: ▲ verify, – not");
    this.figure.append(this.words);
  }

  plot() {
    return super.plot(BOTTOM + 22);
  }

  paint(scene, context) {
    this.scene = scene;
    const { y, width, height } = this.plot();
    const { replay, clock, theme } = scene;
    const { low, high } = rangeOf(replay.decisions);
    const across = (step) => this.across((replay.ends[clock][step] + replay.ends[clock][step + 1]) / 2);
    const down = (value) => y + ((high - value) / (high - low)) * height;
    this.paintAxes(scene, context, low, high, down);
    const scores = replay.decisions.filter(({ score }) => score !== null).map(({ step, score }) => [across(step), down(score)]);
    drawLine(context, scores, theme.surface.muted, 1.5, [4, 3]);
    const room = Math.max(1.5, Math.min(14, (0.8 * width) / scene.extent));
    for (const decision of replay.decisions) {
      context.globalAlpha = decision.step < scene.count ? 1 : 0.28;
      this.paintDecision(scene, context, decision, { at: across(decision.step), down, room, strip: y + height + 9 });
    }
    context.globalAlpha = 1;
    this.paintNow(scene, context, 22);
    say(this.words, routeInWords(replay.decisions.findLast(({ step }) => step < scene.count), replay));
  }

  paintDecision({ theme: { surface } }, context, { span, expected, accepted, verify }, { at, down, room, strip }) {
    const size = Math.max(2, Math.min(4, room / 2));
    if (span !== null) {
      fillBox(context, surface.line, at - room / 2, down(span), room, down(0) - down(span));
    }
    if (expected !== null && accepted !== null) drawLine(context, [[at, down(expected)], [at, down(accepted)]], surface.muted, 1.5);
    if (accepted !== null) {
      fillBox(context, surface.emphasis, at - size, down(accepted) - size, 2 * size, 2 * size);
    }
    if (expected !== null) drawDot(context, [at, down(expected)], size, surface.background, surface.accent);
    if (verify === null) return;
    if (verify) drawShape(context, [[at, strip - size], [at + size, strip + size], [at - size, strip + size]], surface.text);
    else fillBox(context, surface.text, at - size, strip - 0.75, 2 * size, 1.5);
  }

  paintAxes(scene, context, low, high, down) {
    const { x, y, width, height } = this.plot();
    const ticks = ticksUpTo(high - low, 4, 1).map((tick) => tick + low).filter((tick) => tick <= high);
    for (const tick of new Set([...ticks, 0])) {
      fillBox(context, tick === 0 ? scene.theme.surface.muted : scene.theme.surface.line, x, Math.round(down(tick)), width, 1);
      if (tick === 0 || Math.abs(down(tick) - down(0)) > 10) this.label(context, scene, String(tick), x - 6, down(tick), "right");
    }
    this.paintClock(scene, context, y + height + 28);
  }
}

function rangeOf(decisions) {
  const values = decisions.flatMap(({ span, expected, accepted, score }) => [span, expected, accepted, score]).filter((value) => value !== null);
  return { low: Math.floor(Math.min(0, ...values)), high: Math.max(1, Math.ceil(Math.max(0, ...values))) };
}

function routeInWords(decision, replay) {
  if (!decision) return "No decision yet.";
  const { step, span, expected, score, verify, accepted, confident } = decision;
  const parts = [
    expected !== null ? `${formatNumber(expected)}${span === null ? "" : ` of ${span}`} drafts expected to be accepted` : span === null ? null : `span of ${span}`,
    confident !== null ? `${confident} above the confidence threshold` : null,
    score !== null ? `score ${formatNumber(score)}` : null,
    verify === null ? null : verify ? "verify" : "do not verify",
    accepted !== null ? `${accepted} accepted` : null,
  ];
  const others = Object.entries(decision.others).map(([name, value]) => `${(replay.signals[name]?.label ?? name).toLowerCase()} ${formatNumber(value)}`);
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
