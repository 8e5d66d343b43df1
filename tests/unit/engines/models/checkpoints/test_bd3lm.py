"""BD3-LM: constants in place of its modulations give the logits of the network as published; refusals."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support import tiny_bd3lm
from support.damaged_checkpoints import Change, configured, refused, removed, weighted
from support.tiny_text_checkpoints import LONGEST, PADDED, SEED, SPECIAL, job, known, tokenizer_of, write
from transformers import Starcoder2Config

from draftscope.engines.models.checkpoints.bd3lm import BD3LM, fold
from draftscope.engines.models.loading import load


def test_folded_weights_give_the_logits_of_the_published_network() -> None:
    config = Starcoder2Config(
        vocab_size=PADDED,
        hidden_size=tiny_bd3lm.WIDTH,
        intermediate_size=4 * tiny_bd3lm.WIDTH,
        num_hidden_layers=tiny_bd3lm.LAYERS,
        num_attention_heads=tiny_bd3lm.HEADS,
        num_key_value_heads=tiny_bd3lm.HEADS,
        max_position_embeddings=LONGEST,
        tie_word_embeddings=False,
    )
    network = BD3LM(config).eval()
    network.load_state_dict(fold(tiny_bd3lm.tensors(PADDED, SEED), config))
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, PADDED, (24,), generator=generator)
    block = torch.arange(24) // 8
    seen = block[:, None] >= block[None, :]
    mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    with torch.no_grad():
        found = network(ids[None], attention_mask=mask[None, None]).logits[0]
    wanted = tiny_bd3lm.forward(tiny_bd3lm.tensors(PADDED, SEED), ids, torch.arange(24), seen)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)
    assert wanted.std() > 1


def test_the_tokenizer_of_gpt_2_gets_the_mask(tmp_path: Path) -> None:
    folder = write(tmp_path / "it", "bd3lm")
    tokenizer_of("bd3lm", SPECIAL["bd3lm"][:1]).save(str(folder / "tokenizer.json"))
    model: Any = load(folder)
    assert model.kind.mask == known("bd3lm") - 1 and model.families == ("diffusion-lm", "discrete-ar")
    with pytest.raises(ValueError, match="block: it knows no blocks of 4; use 1 or 8"):
        _ = job(model, block="4").task


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (configured(time_conditioning=True), "True for 'time_conditioning'; BD3-LM is built for False"),
        (configured(hidden_dim="wide"), "'wide' for 'hidden_dim', which is not allowed"),
        (configured(hidden_dim=64), "has shape .* its config.json asks for"),
        (configured(n_blocks=1), r"'backbone.blocks.1.* is in its weights, and BD3LM has no place"),
        (configured(n_blocks=3), r"'backbone.blocks.2.* is missing"),
        (weighted("backbone.sigma_map.mlp.0.weight", torch.zeros(12, 6)[:3]), "do not belong together: "),
        (removed("tokenizer.json"), "has no tokenizer.json; put that of openai-community/gpt2 into "),
    ],
)
def test_an_incomplete_checkpoint_is_refused_by_name(tmp_path: Path, change: Change, problem: str) -> None:
    assert refused(write(tmp_path / "tiny", "bd3lm"), change, problem).startswith("tiny: ")


def test_a_masked_sibling_of_qwen3_in_blocks_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "Qwen3-0.6B-diffusion-mdlm-v0.1", "a2d-qwen3")
    refused(folder, lambda _: None, "attends to the whole text at once, which is not read; use the -bd3lm- checkpoint")
