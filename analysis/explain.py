"""Results of a run in numbers and words, and why it is not faster."""

from collections.abc import Sequence

from draftscope.analysis.break_even import BreakEven, break_even_analysis
from draftscope.analysis.run_report import RunReport, times
from draftscope.analysis.tables import Fact, counted
from draftscope.traces.labels import is_baseline
from draftscope.traces.schema import Trace


def run_metrics(traces: Sequence[Trace]) -> list[Fact]:
    """Return the metrics of the last trace, compared with the first one if there are two."""
    if not traces:
        return []
    report = RunReport(traces[-1], traces[0] if len(traces) > 1 else None)
    trace, base = report.trace, report.base
    summary = trace.summary
    if summary.acceptance is None:
        why_none = "the baseline makes no drafts" if is_baseline(trace) else "no draft was verified in this run"
        acceptance = Fact("Acceptance", "none judged", why_none)
    else:
        accepted = f"{summary.accepted} of {summary.judged} judged drafts"
        if summary.drafts and summary.drafts != summary.judged:  # a rejection left some unjudged
            accepted += f"; {summary.accepted / summary.drafts:.0%} of {summary.drafts} that passes evaluated"
        acceptance = Fact("Acceptance", f"{summary.acceptance:.0%}", accepted)
    drafted = report.draft_passes
    time = "one run on this machine"
    if base is not None:
        ratio = report.time_ratio
        fast = "not comparable" if ratio is None else f"{times(ratio)} times as fast per token"
        time = f"{fast}; ordinary: {_seconds(base.summary.seconds)}; one run of each on this machine"
    rows = f" in {summary.row_forwards:,} rows" if summary.row_forwards > summary.forwards else ""
    base_rate = f"ordinary: {tokens:.2f}; " if base and (tokens := RunReport(base).tokens_per_pass) else ""
    return [
        _passes(report),
        Fact("Decoding time", _seconds(summary.seconds), time),
        # Fewer passes that evaluate more tokens each are not free, so the fed tokens are shown as well.
        Fact(
            f"Tokens per {'target' if drafted else 'forward'} pass",
            "-" if report.tokens_per_pass is None else f"{report.tokens_per_pass:.2f}",
            f"{base_rate}{summary.query_tokens:,} query tokens in all{rows}",
        ),
        acceptance,
        *([Fact("Output", report.fidelity.capitalize(), report.truth)] if report.truth else []),
    ]


def _passes(report: RunReport) -> Fact:
    """Return the forward passes; with a drafter, those of the target, and the drafter's as a note."""
    tokens, drafted = report.trace.summary.tokens, report.draft_passes
    note = f"for {counted(tokens, 'token')}"
    if report.base is not None:
        base = report.base.summary
        other = "" if base.tokens == tokens else f" for {base.tokens}"
        note += f"; ordinary: {RunReport(report.base).passes:,}{other}"
    if not drafted:
        return Fact("Forward passes (NFE)", f"{report.passes}", note)
    return Fact("Target passes", f"{report.passes}", f"{note}; and {drafted} of the drafter")


def _seconds(seconds: float) -> str:
    """A time that was measured once, to two digits: the third differs from run to run."""
    return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.2g} s"


def explain_speed(traces: Sequence[Trace]) -> dict[str, str]:
    """Return the reasons for the speed of the last run compared with the first, by topic; empty without runs."""
    if not traces:
        return {}
    if len(traces) < 2:
        return {"": "The baseline did not run as well, so the cost of its passes is unknown here."}
    costs = break_even_analysis(traces[-1], traces[0])
    if costs is None:
        return {"": "One of the two runs was stopped, or its passes were not timed."}
    remedy = _remedy(costs)
    rows = f" in {costs.rows:.1f} rows" if costs.rows > 1.05 else ""
    looks = f"looks at {costs.query_tokens:.1f} tokens{rows} instead of {costs.ordinary_query_tokens:.1f}"
    each = costs.verifying / costs.query_tokens if costs.query_tokens else 0
    row = f" and {costs.verifying / costs.rows:.2f} for each row" if rows else ""
    price = f"costs {costs.verifying:.2f} ordinary passes: {each:.2f} for each token{row}"
    total = costs.draft_passes * costs.draft_cost
    drafting = (
        f"{costs.draft_passes:.1f} passes of the drafter for every target pass, {costs.draft_cost:.2f} of an ordinary "
        f"pass each: {total:.2f} in all."
    )
    accepted = "" if costs.acceptance is None else f"{costs.acceptance:.0%} of verified drafts were accepted"
    free = "they come with verification and cost no pass of their own."
    return {
        "In all": f"{times(costs.speed)} times as fast as ordinary decoding; one run of each on this machine.",
        "Verification": f"a pass of the target {looks} and {price}.",
        "Drafts": drafting if costs.draft_passes else free,
        "Tokens": f"{costs.tokens_per_target_pass:.2f} for every target pass; {accepted or 'no draft was verified'}.",
        "To break even": _break_even(costs),
        **({"What would help most": remedy} if remedy else {}),
    }


def _break_even(costs: BreakEven) -> str:
    needs = f"at this cost a target pass has to yield {costs.break_even_tokens:.2f} tokens"
    if not costs.drafts:
        return f"{needs}."
    drafts = f"with {costs.drafts:.1f} drafts a verification"
    if costs.break_even is None:
        return f"{needs}, and {drafts} no acceptance is enough."
    return f"{needs}; {drafts} that takes an acceptance of about {costs.break_even:.0%} at every draft position."


def _remedy(costs: BreakEven) -> str | None:
    """The cost whose disappearance would bring most."""
    ways = {
        "if its drafts cost nothing": costs.with_free_drafts,
        "if verification cost no more than an ordinary pass": costs.with_cheap_verification,
        "if every draft were accepted": costs.with_all_accepted,
    }
    way = max(ways, key=lambda name: ways[name])
    return None if ways[way] < 1.05 * costs.speed else f"it would be {ways[way]:.2f} times as fast {way}."
