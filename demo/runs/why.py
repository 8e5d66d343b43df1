"""Why a run is not faster than it is, in plain words from its trace."""

from collections.abc import Sequence

from traces.breakeven import Account, account
from traces.schema import Trace


def why(traces: Sequence[Trace]) -> dict[str, str]:
    """The reasons of the last run beside the first, by what they are about; none without a run."""
    if not traces:
        return {}
    if len(traces) < 2:
        return {"": "Ordinary decoding did not run beside it, so nothing says what a pass of it costs here."}
    costs = account(traces[-1], traces[0])
    if costs is None:
        return {"": "One of the two runs was stopped, or its passes were not timed."}
    remedy = _remedy(costs)
    return {
        "In all": f"{costs.speed:.2f} times as fast as ordinary decoding; one run of each on this machine.",
        "The check": _check(costs),
        "The guesses": _guesses(costs),
        "The yield": _yield(costs),
        "To break even": _break_even(costs),
        **({"What would help most": remedy} if remedy else {}),
    }


def _check(costs: Account) -> str:
    rows = f" in {costs.rows:.1f} rows" if costs.rows > 1.05 else ""
    each = costs.verifying / costs.query_tokens if costs.query_tokens else 0
    looks = f"looks at {costs.query_tokens:.1f} tokens{rows} instead of {costs.ordinary_query_tokens:.1f}"
    price = f"costs {costs.verifying:.2f} ordinary passes: {each:.2f} for each token"
    row = f" and {costs.verifying / costs.rows:.2f} for each row" if rows else ""
    return f"a pass of the target {looks} and {price}{row}."


def _guesses(costs: Account) -> str:
    if not costs.draft_passes:
        return "they come with the check, so they cost no pass of their own."
    total = costs.draft_passes * costs.draft_cost
    return (
        f"{costs.draft_passes:.1f} passes of the drafter for every target pass, {costs.draft_cost:.2f} of an ordinary "
        f"pass each: {total:.2f} in all."
    )


def _yield(costs: Account) -> str:
    tokens = f"{costs.yielded:.2f} tokens for every target pass"
    if costs.acceptance is None:
        return f"{tokens}; no draft was put to the test."
    return f"{tokens}; {costs.acceptance:.0%} of judged drafts were accepted."


def _break_even(costs: Account) -> str:
    needs = f"at this cost a target pass has to yield {costs.needed:.2f} tokens"
    if not costs.guesses:
        return f"{needs}."
    guesses = f"with {costs.guesses:.1f} guesses a check"
    if costs.break_even is None:
        return f"{needs}, and {guesses} no acceptance is enough."
    return f"{needs}; {guesses} that takes an acceptance of about {costs.break_even:.0%}, if every place had the same."


def _remedy(costs: Account) -> str | None:
    """The cost whose disappearance would bring most."""
    ways = {
        "if its drafts cost nothing": costs.with_free_drafts,
        "if a check cost no more than an ordinary pass": costs.with_cheap_checks,
        "if every draft were accepted": costs.with_all_accepted,
    }
    way = max(ways, key=lambda name: ways[name])
    return None if ways[way] < 1.05 * costs.speed else f"it would be {ways[way]:.2f} times as fast {way}."
