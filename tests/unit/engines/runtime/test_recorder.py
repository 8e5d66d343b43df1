"""The distributions of verdicts in a trace: the right tokens, at no cost to the run."""

from pathlib import Path

import pytest
import torch

from draftscope.cli.main import main
from draftscope.engines.ar.probs_request import ProbsRequest
from draftscope.engines.methods import METHODS
from draftscope.engines.models.catalog import load_model
from draftscope.engines.protocol import FATE_CODES, UNUSED_ENTRY, Decision
from draftscope.engines.runtime import recorder
from draftscope.engines.runtime.driver import Job, Run, decode
from draftscope.engines.runtime.recorder import LIKELY, PendingStep, to_steps
from draftscope.engines.settings import ConfigError, make_config
from draftscope.traces import read
from draftscope.traces.schema import Call, Fate

W, V = 6, 90_000


def decision() -> Decision:
    """Six drafts over a large vocabulary, some verified, one unused entry, and a bonus after them."""
    generator = torch.Generator().manual_seed(0)
    p, q = (torch.rand(W, V, generator=generator, dtype=torch.float64).pow(40) for _ in range(2))
    p[1], q[2] = q[1], torch.nn.functional.one_hot(torch.tensor(89_999), V).double()
    p, q = (each / each.sum(-1, keepdim=True) for each in (p, q))
    fates = [Fate.ACCEPTED, Fate.ACCEPTED, Fate.RESAMPLED, Fate.REJECTED, Fate.DISCARDED, None, Fate.BONUS]
    codes = [UNUSED_ENTRY if fate is None else FATE_CODES[fate] for fate in fates]
    draft = torch.tensor([10, 20, 89_999, 40, 50, 60])
    token = torch.tensor([10, 20, 31_337, 40, 50, 60, 70])
    none = torch.empty(0, dtype=torch.long)
    return Decision(torch.arange(W + 1), token, torch.tensor(codes), readback=none, draft=draft, p=p, q=q)


def test_the_likeliest_tokens_of_each_distribution_are_kept() -> None:
    a_decision, k = decision(), 4
    request = ProbsRequest(a_decision.draft, num_final=0, num_cached=0)
    first, step = to_steps(
        [PendingStep(request, a_decision, Call(role="target", mode="verify", query_tokens=W), k)] * 2
    )
    assert first == step  # passes that are converted together have rows of their own
    assert [likely is not None for likely in step.likely] == [True, True, True, True, False, False]
    for i, likely in enumerate(step.likely[:4]):
        p, q = a_decision.p[i].float(), a_decision.q[i].float()
        tops = [share.topk(k) for share in (p, q, p - q)]
        best = {int(t) for top in tops for value, t in zip(*top, strict=True) if value > 0}
        wanted = {t for t in best | {int(a_decision.draft[i]), int(a_decision.token[i])} if p[t] > 0 or q[t] > 0}
        assert likely is not None and {token for token, _, _ in likely} == wanted
        assert [one[1] for one in likely] == sorted((one[1] for one in likely), reverse=True)
        for token, mine, theirs in likely:
            assert mine == pytest.approx(float(p[token]), rel=1e-3) and theirs == pytest.approx(
                float(q[token]), rel=1e-3
            )
    assert step.likely[1] is not None and len(step.likely[1]) <= k + 1, "the residual of p = q has no tokens"


@pytest.mark.parametrize("method", ["scd", "speculative"])
def test_recording_them_changes_no_token(method: str) -> None:
    model = load_model("toy-raster")
    config = make_config(METHODS[method].config, {})
    traces = []
    for likely in (0, 8, None):
        run = Run(Job(METHODS[method], model, "", config, 3, record_top_k=likely))
        for _ in zip(range(12), run, strict=False):
            pass
        traces.append(run.trace())
    bare, recorded, baseline = traces
    assert [(s.position, s.token, s.fate, s.coin) for s in bare.steps] == [
        (s.position, s.token, s.fate, s.coin) for s in recorded.steps
    ]
    assert all(step.likely is None for step in bare.steps)
    judged = [entry for step in recorded.steps for entry in step.likely or () if entry]
    assert len(judged) == recorded.summary.judged > 0
    assert LIKELY == 8 and [s.likely for s in baseline.steps] == [s.likely for s in recorded.steps]


def test_steps_wait_until_someone_asks_or_they_hold_much(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions: list[int] = []
    monkeypatch.setattr(recorder, "to_steps", lambda passes: decisions.append(len(passes)) or to_steps(passes))
    job = Job(METHODS["scd"], load_model("toy-raster"), "", make_config(METHODS["scd"].config, {}))
    (sequence,) = decode([job], record=True)
    assert decisions == [] and sequence.steps == sequence.steps and decisions == [len(sequence.steps)]
    monkeypatch.setattr(recorder, "_MAX_PENDING", 0)
    decode([job], record=True)
    assert decisions[1:] == [1] * len(sequence.steps)


def test_a_number_that_cannot_be_is_refused(tmp_path: Path) -> None:
    model = load_model("toy-raster")
    for wrong in (-1, 101):
        with pytest.raises(ConfigError, match=r"likely: .* is not allowed; use a whole number from 0 to 100"):
            Job(METHODS["scd"], model, "", make_config(METHODS["scd"].config, {}), record_top_k=wrong)
    file = tmp_path / "run.json"
    assert main(["run", "scd", "--model", "toy-raster", "--record-top-k", "2", "-o", str(file)]) == 0
    max_length = max(len(entry) for step in read(file).steps for entry in step.likely or () if entry)
    assert 3 <= max_length <= 2 * 3 + 2


def test_patches_are_those_of_the_tokens_that_are_spoken_of() -> None:
    model = load_model("studio-image")
    patches = model.make_legend({}, {5, 2, 400}).patches
    assert patches is not None and patches.ids == (2, 5, 400)
    assert patches.columns == 3 and len(patches.image) < 1000
    assert len(model.make_legend({}, range(512)).patches.image) < 30_000
    assert model.make_legend({}).patches is None
