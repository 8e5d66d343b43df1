"""A model whose output is not finite stops the run with a sentence that names model, dtype and pass."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from draftscope.engines.models.toys.toy_field import FieldBackbone
from draftscope.engines.runtime.driver import NotFiniteError, Run, run_batch
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.sampling.distributions import GuidedSampling, to_probs
from draftscope.engines.testing.toy_models import Table, TableSession


def spoil(monkeypatch: pytest.MonkeyPatch, bad: float, from_pass: int, wants: Any = lambda logits: True) -> None:
    """From a pass on, one logit of a table is bad."""
    proper, passes = TableSession.logits, []

    def logits(self: TableSession, requests: Mapping[int, Any]) -> Tensor:
        result = proper(self, requests).clone()
        if wants(requests):
            passes.append(1)
        if len(passes) >= from_pass:
            result[..., -1, 1] = bad
        return result

    monkeypatch.setattr(TableSession, "logits", logits)


SAMPLING = [{}, {"top_k": 1}, {"top_k": 2}, {"top_p": 0.8}, {"temperature": 0.5}]


@pytest.mark.parametrize("values", SAMPLING, ids=str)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_logits_that_are_not_finite_make_no_probability_a_number(bad: float, values: dict[str, Any]) -> None:
    logits = torch.tensor([[[0.3, bad, -1.0], [0.3, 0.1, -torch.inf]]])
    probs = to_probs(logits, GuidedSampling(**values))
    assert probs[0].isnan().all()
    assert probs[1].sum() == pytest.approx(1)  # -inf is a token that the model excludes


@pytest.mark.parametrize("values", SAMPLING, ids=str)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_run_stops_at_the_pass(bad: float, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, bad, from_pass=3)
    run = Run(RunRequest("ar", Table(6, 3, seed=0), "", seed=0, settings=values).job())
    with pytest.raises(NotFiniteError) as error:
        run.finish()
    assert str(error.value) == (
        "model: the output of table in float64 is not finite in pass 3 (causal); check the weights of the model."
    )
    assert len(run.trace().steps) == 2  # what was decoded before it is there


def test_the_drafter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, torch.nan, 1, lambda requests: next(iter(requests.values())).role == "draft")
    job = RunRequest("speculative", Table(6, 3, seed=0), "", seed=0, settings={"gamma": 2}, draft=Table(6, 3, seed=1))
    with pytest.raises(NotFiniteError, match=r"pass 1 \(draft\)"):
        Run(job.job()).finish()


def test_in_half_precision_the_remedy_is_another_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, torch.inf, from_pass=1)
    table = Table(6, 3, seed=0)
    table.dtype = torch.float16
    with pytest.raises(NotFiniteError, match=r"table in float16 is not finite in pass 1 .*; half .* use dtype=float32"):
        run_batch([RunRequest("ar", table, "", seed=0).job()])


@pytest.mark.parametrize("method", ["continuous", "cspd", "cspd-block"])
def test_vectors_that_are_not_finite(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    proper = FieldBackbone.logits
    monkeypatch.setattr(FieldBackbone, "logits", lambda self, requests: proper(self, requests) * torch.nan)
    with pytest.raises(NotFiniteError, match="is not finite in pass 1"):
        Run(RunRequest(method, "toy-field", "", seed=0, settings={"steps": 3}).job()).finish()
