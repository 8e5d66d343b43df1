"""Events of drafts are counted from requests and final texts, whatever a method records."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.methods import METHODS
from draftscope.engines.protocol import Decision, Decoder
from draftscope.engines.sampling.random_source import RandomSource
from draftscope.engines.settings import make_config
from draftscope.engines.testing.case import subject
from draftscope.engines.testing.comparisons import missing_events
from draftscope.engines.testing.draft_events import (
    ACCEPTED,
    ALL_ACCEPTED,
    BONUS,
    ENDED,
    LIKELY,
    MADE,
    REJECTED,
    UNLIKELY,
    VERIFIED,
    DraftEvents,
    Event,
    observe,
    report,
    required,
)
from draftscope.engines.testing.enumeration import by_role, exact_distribution, run_decoder
from draftscope.engines.testing.exactness import proof
from draftscope.engines.testing.toy_models import Table


def scripted(*passes: tuple[list[int], list[int]]) -> Callable[[Any, Any, Any], Decoder]:
    """A decoder of passes: the drafts of each, and the tokens that are final after it."""

    def decode(task: Any, config: Any, rng: RandomSource) -> Decoder:
        done = torch.empty(0, dtype=torch.long)
        for drafts, gained in passes:
            tokens = torch.cat([done, torch.tensor(drafts, dtype=torch.long)])
            yield ProbsRequest(tokens, num_final=len(done), num_cached=0)
            done = torch.cat([done, torch.tensor(gained)])
            yield Decision(torch.arange(len(gained)), torch.tensor(gained), readback=torch.empty(0, dtype=torch.long))
        return done

    return decode


def sure(request: ProbsRequest) -> Tensor:
    """Distributions in which id 1 has probability 0.95."""
    return torch.tensor([[0.05, 0.95]]).expand(request.num_requested, 2)


def counts(*passes: tuple[list[int], list[int]], end: int | None = None) -> DraftEvents:
    table, events = Table(4, 2, seed=0), DraftEvents()
    task = table.task if end is None else replace(table.task, eos_token_ids=(end,))
    run_decoder(observe(scripted(*passes), events)(task, None, None), sure)
    return events


def test_a_pass_that_accepts_rejects_and_drops() -> None:
    events = counts(([1, 0, 1], [1, 1]), ([], [0]), ([], [0]))
    assert events.count == {
        Event(MADE, 1): 1, Event(VERIFIED, 1): 1, Event(ACCEPTED, 1): 1, Event(LIKELY): 1,
        Event(MADE, 2): 1, Event(VERIFIED, 2): 1, Event(REJECTED, 2): 1, Event(UNLIKELY): 1,
        Event(MADE, 3): 1,
    }  # fmt: skip
    assert (events.reach, events.texts) == (3, 1)
    assert report(events)[0] == "draft position 1: 1 made, 1 verified, 1 accepted, 0 rejected"
    assert report(events)[-1] == f"{LIKELY}: 1" or report(events)[-1].count(": 1") == 2


def test_a_bonus_and_a_pass_without_one() -> None:
    with_bonus, without = counts(([1], [1, 1]), ([], [0, 1])), counts(([1], [1]), ([], [0, 1, 1]))
    assert with_bonus.count[Event(ALL_ACCEPTED)] == without.count[Event(ALL_ACCEPTED)] == 1
    assert (with_bonus.count[Event(BONUS)], without.count[Event(BONUS)]) == (1, 0)


def test_a_text_that_ends_at_a_draft() -> None:
    assert counts(([1, 0, 1], [1, 0]), end=0).count[Event(ENDED)] == 1
    assert counts(([1, 1], [1, 0]), end=0).count[Event(ENDED)] == 0


def test_a_draft_that_the_pass_did_not_reach_is_not_verified() -> None:
    """Its token is in the text, but another pass put it there."""
    events = counts(([1, 1], [1]), ([], [1, 1, 1]))
    assert (events.count[Event(VERIFIED, 1)], events.count[Event(VERIFIED, 2)]) == (1, 0)


def test_what_a_proof_needs_follows_from_where_drafts_were_made() -> None:
    events = counts(([1, 1], [1, 1]), ([], [0, 1]))
    needed = list(required(events, (ALL_ACCEPTED,)))
    assert needed == [
        *(Event(kind, position) for position in (1, 2) for kind in (VERIFIED, ACCEPTED, REJECTED)),
        Event(ALL_ACCEPTED),
    ]
    assert [str(event) for event in needed if not events.count[event]] == [
        "rejected at draft position 1",
        "rejected at draft position 2",
    ]


def test_weights_are_probabilities_per_text() -> None:
    target, small, events = Table(3, 2, seed=3), Table(3, 2, seed=4), DraftEvents()
    method = METHODS["speculative"]
    decode, config = observe(method.decode, events), make_config(method.config, {"gamma": 1})
    models = by_role({"target": target, "draft": small})
    exact_distribution(lambda rng: decode(target.task, config, rng), models)
    assert events.weight[Event(MADE, 1)] == pytest.approx(1)
    p, q = target.forward(ProbsRequest(torch.empty(0, dtype=torch.long), 0, 0))[0], small._rows[()]
    first_is_rejected = float((q - p).clamp(min=0).sum())
    assert events.weight[Event(REJECTED, 1)] == pytest.approx(first_is_rejected)


NOTHING = "nothing was tested: no draft was made; choose settings under which short texts have drafts"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "values"), [("speculative", {"gamma": 0}), ("scd", {"window": 1})])
def test_settings_without_drafts_prove_nothing(name: str, values: dict[str, object]) -> None:
    result = proof(subject(METHODS[name], values), sampled=False)
    assert result.holds
    assert result.untested == NOTHING


def test_an_event_that_is_too_rare_is_named() -> None:
    events, case = DraftEvents(), subject(METHODS["speculative"])
    verified = (Event(MADE, 1), Event(VERIFIED, 1))
    events.add([*verified, Event(ACCEPTED, 1)], 0.9995)
    events.add([*verified, Event(REJECTED, 1)], 0.0005)
    rare = "nothing was tested about drafts rejected at draft position 1 (probability 0.0005, 0.001 needed)"
    assert missing_events(case, events, (), 0.001) == rare
    assert missing_events(case, events, (), 0.0004) == ""
    assert (
        missing_events(case, events, (ENDED,), 1)
        == "nothing was tested about drafts accepted at the end of a text (occurrences 0, 1 needed)"
    )
    assert missing_events(subject(METHODS["ar"]), DraftEvents(), (), 0.001) == ""


def test_who_drafts_for_itself_is_also_tested_with_another_drafter() -> None:
    """With equal distributions nothing can be rejected."""
    result = proof(subject(METHODS["speculative"], {"drafter": "itself"}), sampled=False)
    assert result.holds
    assert result.untested == ""


def test_ordinary_decoding_needs_no_drafts() -> None:
    result = proof(subject(METHODS["ar"]), sampled=False)
    assert result.holds
    assert (result.untested, result.tested, result.never) == ("", "", "")
