"""Why a run is not faster than it is, in plain words from its trace."""

from collections.abc import Sequence
from typing import Any, Final

import gradio as gr

from demo.widgets import component
from traces.paying import Account, account
from traces.schema import Trace

_JS: Final = """
const list = build('ul', {});
const box = build('details', {}, build('summary', {}, 'Why is it not faster here?'), list);
const show = () => {
  const said = props.value ?? [];
  if (!said.length) return box.remove();
  list.replaceChildren(...said.map(({ about, text }) =>
    build('li', {}, ...(about ? [build('strong', {}, `${about}: `)] : []), text)));
  if (!box.isConnected) place.append(box);
};
"""
_CSS: Final = """
details { padding: 10px 16px; border: 1px solid var(--border-color-primary); border-radius: 10px; font-size: 15px;
  line-height: 1.5; color: var(--body-text-color); }
summary { font-weight: 600; cursor: pointer; }
summary:focus-visible { outline: 2px solid var(--color-accent); outline-offset: 2px; }
ul { display: grid; gap: 6px; max-width: 92ch; margin: 10px 0 2px; padding-left: 20px; list-style: disc; }
strong { font-weight: 650; }
"""


def why_box(traces: Sequence[Trace] = (), **options: Any) -> gr.HTML:
    """A place for the reasons, closed until it is asked; see `why`."""
    return component(why(traces), _JS, _CSS, **options)


def why(traces: Sequence[Trace]) -> list[dict[str, str]]:
    """The reasons of the last run beside the first, as the value of the box; none without a run."""
    if not traces:
        return []
    if len(traces) < 2:
        return [_said("", "Ordinary decoding did not run beside it, so nothing says what a pass of it costs here.")]
    found = account(traces[-1], traces[0])
    if found is None:
        return [_said("", "One of the two runs was stopped, or its passes were not timed.")]
    return [
        _said("In all", f"{found.speed:.2f} times as fast as ordinary decoding; one run of each on this machine."),
        _said("The check", _check(found)),
        _said("The guesses", _guesses(found)),
        _said("The yield", _yield(found)),
        _said("To break even", _break_even(found)),
        *([] if (remedy := _remedy(found)) is None else [_said("What would help most", remedy)]),
    ]


def _check(found: Account) -> str:
    rows = f" in {found.rows:.1f} rows" if found.rows > 1.05 else ""
    each = found.verifying / found.query_tokens if found.query_tokens else 0
    looks = f"looks at {found.query_tokens:.1f} tokens{rows} instead of {found.ordinary_query_tokens:.1f}"
    costs = f"costs {found.verifying:.2f} ordinary passes: {each:.2f} for each token"
    row = f" and {found.verifying / found.rows:.2f} for each row" if rows else ""
    return f"a pass of the target {looks} and {costs}{row}."


def _guesses(found: Account) -> str:
    if not found.draft_passes:
        return "they come with the check, so they cost no pass of their own."
    total = found.draft_passes * found.draft_cost
    return (
        f"{found.draft_passes:.1f} passes of the drafter for every target pass, {found.draft_cost:.2f} of an ordinary "
        f"pass each: {total:.2f} in all."
    )


def _yield(found: Account) -> str:
    tokens = f"{found.yielded:.2f} tokens for every target pass"
    if found.acceptance is None:
        return f"{tokens}; no draft was put to the test."
    return f"{tokens}; {found.acceptance:.0%} of judged drafts were accepted."


def _break_even(found: Account) -> str:
    needs = f"at this cost a target pass has to yield {found.needed:.2f} tokens"
    if not found.guesses:
        return f"{needs}."
    guesses = f"with {found.guesses:.1f} guesses a check"
    if found.break_even is None:
        return f"{needs}, and {guesses} no acceptance is enough."
    return f"{needs}; {guesses} that takes an acceptance of about {found.break_even:.0%}, if every place had the same."


def _remedy(found: Account) -> str | None:
    """The cost whose disappearance would bring most."""
    ways = {
        "if its drafts cost nothing": found.with_free_drafts,
        "if a check cost no more than an ordinary pass": found.with_cheap_checks,
        "if every draft were accepted": found.with_all_accepted,
    }
    way = max(ways, key=lambda name: ways[name])
    return None if ways[way] < 1.05 * found.speed else f"it would be {ways[way]:.2f} times as fast {way}."


def _said(about: str, text: str) -> dict[str, str]:
    return {"about": about, "text": text}
