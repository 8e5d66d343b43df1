"""Causal checkpoints write what transformers generates."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support import tiny_text_checkpoints as checkpoints
from support.damaged_checkpoints import weighted
from support.tiny_text_checkpoints import (
    CAUSAL,
    PADDED,
    decoded,
    job,
    network_of,
    write,
)

from draftscope.engines.models import loading
from draftscope.engines.models.loading import load


def test_the_head_of_a_tied_checkpoint_is_not_used(tmp_path: Path) -> None:
    folder = write(tmp_path / "it", "Fast_dLLM_Qwen", tied=True)
    plain = decoded(job(load(folder), block="8"))
    loading._LOADED.clear()
    weighted("lm_head.weight", torch.ones(PADDED, 32))(folder)
    assert decoded(job(load(folder), block="8")) == plain


@pytest.mark.one_quick
@pytest.mark.parametrize("family", CAUSAL)
def test_a_causal_model_writes_what_transformers_generates(tmp_path: Path, family: str) -> None:
    """Greedily, with a drafter and without. GPT-2 has no row in the table; the text outgrows the window of Mistral."""
    model: Any = load(write(tmp_path / "it", family, shards=2))
    small: Any = load(write(tmp_path / "small", family, seed=checkpoints.SEED + 1))
    task = job(model, "ar").task
    ids = torch.tensor([task.prompt_ids])
    network = network_of(family)
    while ids.shape[1] < len(task.prompt_ids) + 16 and int(ids[0, -1]) not in task.eos_token_ids:
        best = network(ids).logits[0, -1, : task.vocab_size].argmax()
        ids = torch.cat([ids, best[None, None]], 1)
    wanted = ids[0, len(task.prompt_ids) :].tolist()
    for method, values in (("ar", {}), ("speculative", {"small": small, "gamma": 3}), ("scd", {"window": 4})):
        tokens = decoded(job(model, method, top_k=1, **values))
        assert [token for token in tokens if token is not None][: len(wanted)] == wanted
    assert network.config.eos_token_id in task.eos_token_ids and task.vocab_size == checkpoints.known(family)
