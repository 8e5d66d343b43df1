"""The lean form of Qwen3 gives what transformers' own gives, with and without a cache."""

from typing import Any

import pytest
import torch
from transformers import Qwen3Config, Qwen3Model
from transformers.cache_utils import Cache

from engines.continuous.denoising import respaced
from engines.models import heads
from engines.models.lean import LeanQwen3, lean
from engines.models.sessions.causal import SlotLayer, Slots

CLOSE = {"atol": 1e-5, "rtol": 1e-5}
LENGTH = 24


def native(**changed: Any) -> Qwen3Model:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4}
    config = Qwen3Config(vocab_size=11, max_position_embeddings=LENGTH, **sizes | heads | changed)
    model = Qwen3Model(config).eval()
    for name, weight in model.named_parameters():
        torch.nn.init.normal_(weight, 1.0 if "norm" in name else 0.0, 0.3)
    return model


@torch.inference_mode()
def passes(model: Any, ids: torch.Tensor, rows: int) -> list[torch.Tensor]:
    """States of windows that overlap what was fed before, as after a rejection."""
    slots = Slots(rows, LENGTH)
    cache, states = Cache(layers=[SlotLayer(slots) for _ in range(3)]), []
    for first, end in ((0, 9), (9, 10), (10, 18), (12, 13), (13, 24)):
        positions = torch.arange(first, end).expand(rows, -1)
        slots.end, slots.contiguous = end, slice(first, end)
        mask = torch.zeros(rows, 1, end - first, end)
        mask.masked_fill_(torch.arange(end) > positions[:, None, :, None], torch.finfo(torch.float32).min)
        asked = {"position_ids": positions, "attention_mask": mask, "past_key_values": cache, "use_cache": True}
        states.append(model(input_ids=ids[:, first:end], **asked).last_hidden_state)
    return states


@pytest.mark.parametrize("rows", [1, 3])
def test_a_cache_that_is_written_over_gives_the_states_of_the_native_model(rows: int) -> None:
    model, ids = native(), torch.randint(11, (rows, LENGTH), generator=torch.Generator().manual_seed(1))
    expected = passes(model, ids, rows)
    states = passes(LeanQwen3(model), ids, rows)
    assert expected[-1].std() > 0.1
    torch.testing.assert_close(states, expected, **CLOSE)


@pytest.mark.parametrize("given", ["ids", "embedded"])
def test_without_a_cache_attention_is_causal(given: str) -> None:
    model, ids = native(), torch.arange(LENGTH)[None] % 11
    inputs = {"input_ids": ids} if given == "ids" else {"inputs_embeds": model.embed_tokens(ids)}
    with torch.inference_mode():
        expected = model(**inputs, position_ids=torch.arange(LENGTH)[None], use_cache=False).last_hidden_state
        states = LeanQwen3(model)(**inputs, position_ids=torch.arange(LENGTH)[None]).last_hidden_state
    torch.testing.assert_close(states, expected, **CLOSE)


@pytest.mark.parametrize(
    "changed",
    [{"num_key_value_heads": 2}, {"attention_bias": True}, {"hidden_act": "gelu"}, {"dtype": torch.bfloat16}],
    ids=str,
)
def test_another_kind_of_layer_stays_as_it_is(changed: dict[str, Any]) -> None:
    dtype = changed.pop("dtype", torch.float32)
    model = native(**changed).to(dtype)
    assert lean(model) is model


def by_layers(head: heads.DiffusionHead, x: torch.Tensor, t: float, condition: torch.Tensor) -> list[torch.Tensor]:
    """What MAR's head says, layer by layer as its paper's code has it."""
    told, hidden = head.time_embed(torch.full((len(x),), t)) + head.cond_embed(condition), head.input_proj(x)
    layers: list[Any] = [*head.res_blocks]
    for layer in layers:
        shift, scale, gate = layer.adaLN_modulation(told).chunk(3, -1)
        hidden = hidden + gate * layer.mlp(layer.in_ln(hidden) * (1 + scale) + shift)
    shift, scale = head.final_layer.adaLN_modulation(told).chunk(2, -1)
    normed = torch.nn.functional.layer_norm(hidden, hidden.shape[-1:], eps=1e-6)
    return list(head.final_layer.linear(normed * (1 + scale) + shift).chunk(2, -1))


@pytest.mark.parametrize("together", [1, 12, 512])
def test_a_head_that_is_conditioned_says_at_every_step_what_the_head_says(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "_ROWS", together)
    torch.manual_seed(0)
    head, schedule = heads.DiffusionHead(4, 6, 16, 3), respaced(9)
    for weight in head.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    x, condition = torch.randn(5, 4), torch.randn(5, 6)
    with torch.inference_mode():
        denoise = head.lean()(condition, schedule)
        for i in reversed(range(9)):
            expected = by_layers(head, x, float(schedule.timestep[i]), condition)
            torch.testing.assert_close(list(denoise(x, schedule, i)), expected, **CLOSE)
            torch.testing.assert_close(
                list(head(x, torch.full((5,), float(schedule.timestep[i])), condition)), expected, **CLOSE
            )
            torch.testing.assert_close(
                list(denoise.rows(slice(1, 3))(x[1:3], schedule, i)), [e[1:3] for e in expected], **CLOSE
            )
            alone = denoise.rows(torch.tensor([2]))(x, schedule, i)  # one row takes any number of tokens
            torch.testing.assert_close([part[2] for part in alone], [part[2] for part in expected], **CLOSE)
        states = torch.randn(9, 5, 4)
        at_once = denoise.along(states, schedule)
        for k, i in enumerate(reversed(range(9))):
            torch.testing.assert_close([part[k] for part in at_once], list(denoise(states[k], schedule, i)), **CLOSE)
