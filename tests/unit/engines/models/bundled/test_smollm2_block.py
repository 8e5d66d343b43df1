"""smollm2-block on its published weights: greedy texts are smollm2's, and sampled ones follow its distribution."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy import stats

from draftscope.engines.methods import METHODS
from draftscope.engines.models import catalog
from draftscope.engines.models.bundled import smollm2_block
from draftscope.engines.models.catalog import is_available, load_model
from draftscope.engines.models.chat import ChatOptions
from draftscope.engines.models.errors import ModelError, ModelWarning
from draftscope.engines.runtime.driver import Job, run_batch
from draftscope.engines.sampling.distributions import to_probs

needs_smollm2 = pytest.mark.skipif(not is_available("smollm2"), reason="draftscope model download smollm2 fetches it")
SUBJECTS = ("rain", "bread", "a bridge", "the moon", "chess", "a violin", "trees", "trains", "salt", "maps")
PROMPTS = [form.format(one) for one in SUBJECTS for form in ("Explain {} in one sentence.", "Write a line about {}.")]


def decode(method: str, model: Any, prompts: list[str], **values: Any) -> list[tuple[Any, ...]]:
    config = METHODS[method].config(**values)
    jobs = [Job(METHODS[method], model, prompt, config, 0, sample=i) for i, prompt in enumerate(prompts)]
    return [trace.output.tokens for trace in run_batch(jobs)]


@needs_smollm2
@pytest.mark.slow
def test_greedy_texts_are_those_of_smollm2() -> None:
    """Over 3 prompts; at most one differs, as packed products of other widths round ties differently."""
    base, model, length, prompts = load_model("smollm2"), load_model("smollm2-block"), 6, PROMPTS[::8]
    wanted = decode("ar", base, prompts, length=length, top_k=1)
    for method, values in (
        ("s2d2", {"block": "1"}),
        ("s2d2", {"block": "8", "router": "always"}),
        ("self-spec", {"gamma": 2}),
    ):
        texts = decode(method, model, prompts, length=length, **values)
        same = sum(text == other for text, other in zip(texts, wanted, strict=True))
        assert same >= len(prompts) - 1, (method, values, same)


@needs_smollm2
@pytest.mark.slow
@pytest.mark.nightly
def test_sampled_texts_follow_the_distribution_of_smollm2() -> None:
    """The first two tokens of 300 texts, the second of which is drafted at a mask."""
    loaded: Any = load_model("smollm2-block")
    model = loaded.with_chat(ChatOptions(chat=False))  # a prompt of few tokens takes less time
    count, prompt, sampling = 300, "My favourite colour is", {"temperature": 1.0, "top_k": 4}
    verified = {"block": "4", "router": "always", "verdict": "ratio"}
    config = METHODS["s2d2"].config(mode="sample", length=2, **sampling, **verified)
    found: Counter[tuple[int, ...]] = Counter()
    for first in range(0, count, 50):
        jobs = [Job(METHODS["s2d2"], model, prompt, config, 0, sample=i) for i in range(first, first + 50)]
        found.update(tuple(trace.output.tokens[:2]) for trace in run_batch(jobs))

    ids, expected = model.make_task(prompt, METHODS["ar"].config(length=8)).prompt_ids, dict[tuple[int, ...], float]()
    network = model.network

    def after(tokens: list[int]) -> torch.Tensor:
        with torch.inference_mode():
            hidden = network.model(torch.tensor([tokens]), position_ids=torch.arange(len(tokens))[None])
            logits = network.logits(hidden.last_hidden_state[0, -1:])[:, : model._width]
        probs: torch.Tensor = to_probs(logits[None, None], config)[0, 0]
        return probs

    first_probs = after(list(ids))
    for token in first_probs.nonzero()[:, 0].tolist():
        ends = token in model.ends
        second = torch.tensor([1.0]) if ends else after([*ids, token])
        for other in [None] if ends else second.nonzero()[:, 0].tolist():
            expected[token, other] = float(first_probs[token] * (1 if ends else second[other]))
    assert set(found) <= set(expected), "a token outside the nucleus"
    cells = [(found[pair], count * prob) for pair, prob in expected.items() if count * prob >= 5]
    cells.append((count - sum(n for n, _ in cells), count - sum(share for _, share in cells)))
    observed, wanted = zip(*(cell for cell in cells if cell[1] > 0), strict=True)
    assert len(observed) >= 3
    assert stats.chisquare(observed, wanted).pvalue > 1e-4


def test_without_smollm2_the_command_that_fetches_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "is_fetched", lambda _: False)
    with pytest.raises(ModelError, match=r"^smollm2-block: needs smollm2, which is not fetched yet; fetch it once"):
        load_model("smollm2-block")


@pytest.fixture
def other_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, torch.Tensor]], Any]:
    """Load the model with the changed weights of an adapter that was trained on others."""
    file = "smollm2-block.safetensors"
    weights = load_file(smollm2_block._FOLDER / file)

    def load(changed: dict[str, torch.Tensor]) -> Any:
        save_file(weights | changed, tmp_path / file, {"base_sha256": "0" * 64})
        monkeypatch.setattr(smollm2_block, "_FOLDER", tmp_path)
        monkeypatch.setattr(smollm2_block, "entry_of", lambda *_: {})
        monkeypatch.setattr(smollm2_block, "verify", lambda *_: {})
        return smollm2_block.load.__wrapped__("smollm2-block")

    return load


@needs_smollm2
@pytest.mark.slow
def test_an_adapter_of_other_weights_is_named_and_of_another_network_refused(other_adapter: Callable[..., Any]) -> None:
    with pytest.warns(ModelWarning, match=r"trained on weights of smollm2 with SHA-256 000000000000\.\.\., those"):
        assert other_adapter({}).card.id == "smollm2-block"
    with pytest.raises(
        ModelError, match=r"weights with SHA-256 000000000000\.\.\. of 30 layers with 8 numbers, and those"
    ):
        other_adapter({"mask": torch.zeros(16, 8)})
