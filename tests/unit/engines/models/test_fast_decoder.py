"""The lean form of a decoder gives what transformers' own gives, with and without a cache."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM
from transformers.cache_utils import Cache

from draftscope.engines.continuous.denoising import ConditionedDenoiser, respaced_cosine_schedule
from draftscope.engines.models import fast_decoder as lean_module
from draftscope.engines.models import heads
from draftscope.engines.models.fast_decoder import (
    CachedLinear,
    FastDecoder,
    HalfLinear,
    LeanCausalLM,
    Linear,
    PackedLinear,
    lean,
    packs,
)
from draftscope.engines.models.sessions.causal import CacheSlots, SlotCache, SlotLayer
from draftscope.engines.models.transformers_api import cache_argument

CLOSE, UNNORMED = {"atol": 2e-5, "rtol": 2e-5}, {"atol": 2e-4, "rtol": 1e-4}
LENGTH, LAYERS = 24, 3
SIZES = {
    "vocab_size": 11,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": LENGTH,
}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 12,
}  # fmt: skip
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "qwen3": (Qwen3ForCausalLM, {"num_key_value_heads": 4, "head_dim": 8}),
    "qwen3, grouped": (Qwen3ForCausalLM, {"head_dim": 16}),
    "qwen3, biases": (Qwen3ForCausalLM, {"head_dim": 8, "attention_bias": True}),
    "qwen2": (Qwen2ForCausalLM, {}),
    "llama": (LlamaForCausalLM, {"rope_parameters": LLAMA3}),
    "llama, biases": (LlamaForCausalLM, {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    "mistral": (MistralForCausalLM, {"sliding_window": None}),
}


def native(kind: str = "qwen3", **changed: Any) -> Any:
    build, options = KINDS[kind]
    torch.manual_seed(0)
    model = build(build.config_class(**SIZES | options | changed)).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        torch.nn.init.normal_(weight, 1.0 if "norm" in name and "bias" not in name else 0.0, 0.3)
    return model


def made_lean(model: Any, linear: type[Linear]) -> FastDecoder:
    """Its decoder, whose layers the lean form takes."""
    return FastDecoder(deepcopy(model.model), linear)


@torch.inference_mode()
def passes(model: Any, ids: torch.Tensor, rows: int) -> list[torch.Tensor]:
    """States of windows that overlap what was fed before, as after a rejection."""
    slots = CacheSlots(rows, LENGTH)
    cache, states = Cache(layers=[SlotLayer(slots) for _ in range(LAYERS)]), []
    for first, end in ((0, 9), (9, 10), (10, 18), (12, 13), (13, 24)):
        positions = torch.arange(first, end).expand(rows, -1)
        slots.end, slots.contiguous = end, slice(first, end)
        mask = torch.zeros(rows, 1, end - first, end)
        mask.masked_fill_(torch.arange(end) > positions[:, None, :, None], torch.finfo(torch.float32).min)
        arguments = {"position_ids": positions, "attention_mask": mask, cache_argument(model): cache, "use_cache": True}
        states.append(model(input_ids=ids[:, first:end], **arguments).last_hidden_state)
    return states


@pytest.mark.parametrize("linear", [Linear, PackedLinear, CachedLinear])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_that_is_written_over_gives_the_states_of_the_native_model(
    kind: str, rows: int, linear: type[Linear]
) -> None:
    model, ids = native(kind), torch.randint(11, (rows, LENGTH), generator=torch.Generator().manual_seed(1))
    expected = passes(model.model, ids, rows)
    states = passes(made_lean(model, linear), ids, rows)
    assert expected[-1].std() > 0.1
    torch.testing.assert_close(states, expected, **CLOSE)


@pytest.mark.parametrize("linear", [Linear, PackedLinear, CachedLinear])
@pytest.mark.parametrize("backend", ["ids", "embedded"])
@pytest.mark.parametrize("kind", KINDS)
def test_without_a_cache_attention_is_causal(kind: str, backend: str, linear: type[Linear]) -> None:
    model, ids = native(kind), torch.arange(LENGTH)[None] % 11
    inputs = {"input_ids": ids} if backend == "ids" else {"inputs_embeds": model.model.embed_tokens(ids)}
    positions = torch.arange(LENGTH)[None]
    with torch.inference_mode():
        outputs = model.model(**inputs, position_ids=positions, use_cache=False, output_hidden_states=True)
        states, tapped, _ = made_lean(model, linear)(**inputs, position_ids=positions, taps=(0, 1))
    torch.testing.assert_close(states, outputs.last_hidden_state, **CLOSE)
    torch.testing.assert_close([*tapped], [*outputs.hidden_states[1:3]], **UNNORMED)


@pytest.mark.parametrize("with_mask", [True, False], ids=["packed", "without oneDNN's operators"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_causal_model_says_what_the_native_one_says(
    kind: str, with_mask: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, ids = native(kind), torch.arange(LENGTH)[None] % 11
    with torch.inference_mode():
        outputs = model(ids, output_hidden_states=True)
    if not with_mask:
        monkeypatch.setattr(PackedLinear, "__call__", lambda *_: torch.ops.mkldnn.gone())
    monkeypatch.setattr(lean_module, "LARGE", 0)
    packs.cache_clear()
    one, cache = LeanCausalLM(deepcopy(model)), SlotCache(LAYERS, LENGTH)
    packs.cache_clear()
    assert type(one._head) is (PackedLinear if with_mask else Linear)
    with torch.inference_mode():
        for first, end, num_kept in ((0, 9, 9), (9, 10, 1), (10, 18, 8), (18, 20, 2), (18, 24, 6)):
            cache.crop(first - cache.get_seq_length())
            result = one(ids[:, first:end], cache, num_kept, taps=(LAYERS - 2,))
            torch.testing.assert_close(result.logits[0], outputs.logits[0, end - num_kept : end], **UNNORMED)
            torch.testing.assert_close(result.tapped[0], outputs.hidden_states[LAYERS - 1][:, first:end], **UNNORMED)


@pytest.mark.parametrize("shape", [(96, 64), (576, 1536), (2048, 2048), (1000, 36)])
def test_a_packed_row_does_not_depend_on_how_many_there_are(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    packed, x = PackedLinear(torch.randn(shape)), torch.randn(33, shape[1])
    rows = packed(x)
    for count in (1, 2, 3, 5, 16, 32):
        assert torch.equal(packed(packed.padded(x[:count]))[:count], rows[:count])


def test_a_single_row_is_read_as_the_weights_lie_where_a_cache_holds_them() -> None:
    weight, x = torch.randn(96, 64), torch.randn(2, 64)
    cached, plain, packed = (kind(weight) for kind in (CachedLinear, Linear, PackedLinear))
    assert torch.equal(cached(cached.padded(x[:1])), plain(x[:1]))
    assert torch.equal(cached(cached.padded(x)), packed(packed.padded(x)))
    assert lean(deepcopy(native().model)).linear is (CachedLinear if packs() else Linear)


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("qwen3", {"hidden_act": "gelu"}),
        ("qwen3", {"dtype": torch.bfloat16}),
        ("mistral", {"sliding_window": 8}),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}),
    ],
    ids=str,
)
def test_another_kind_of_layer_stays_as_it_is(kind: str, changed: dict[str, Any]) -> None:
    model = native(kind, **changed).model.to(changed.get("dtype", torch.float32))
    assert lean(model) is model


def by_layers(head: heads.DiffusionHead, x: torch.Tensor, t: float, condition: torch.Tensor) -> list[torch.Tensor]:
    """Return the outputs of MAR's head, layer by layer as in its paper's code."""
    embedded, hidden = head.time_embed(torch.full((len(x),), t)) + head.cond_embed(condition), head.input_proj(x)
    layers: list[Any] = [*head.res_blocks]
    for layer in layers:
        shift, scale, gate = layer.adaLN_modulation(embedded).chunk(3, -1)
        hidden = hidden + gate * layer.mlp(layer.in_ln(hidden) * (1 + scale) + shift)
    shift, scale = head.final_layer.adaLN_modulation(embedded).chunk(2, -1)
    normed = torch.nn.functional.layer_norm(hidden, hidden.shape[-1:], eps=1e-6)
    return list(head.final_layer.linear(normed * (1 + scale) + shift).chunk(2, -1))


@pytest.mark.parametrize("together", [1, 12, 512])
def test_a_conditioned_head_says_at_every_step_what_the_head_says(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "_ROWS", together)
    torch.manual_seed(0)
    head, schedule = heads.DiffusionHead(4, 6, 16, 3), respaced_cosine_schedule(9)
    for weight in head.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    x, condition = torch.randn(5, 4), torch.randn(5, 6)
    with torch.inference_mode():
        denoise = head.lean()(condition, schedule)
        assert isinstance(denoise, ConditionedDenoiser)
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
        at_once = denoise.predict_all_steps(states, schedule)
        for k, i in enumerate(reversed(range(9))):
            torch.testing.assert_close([part[k] for part in at_once], list(denoise(states[k], schedule, i)), **CLOSE)


@pytest.mark.parametrize("kind", [CachedLinear, HalfLinear, PackedLinear])
def test_a_packed_product_becomes_what_the_plain_one_does(kind: type[PackedLinear]) -> None:
    if not packs(kind):
        pytest.skip("this machine packs no weights")
    weight, x, other = (torch.randn(rows, 32, generator=torch.Generator().manual_seed(rows)) for rows in (32, 16, 17))
    plain, packed = Linear(weight / 6, weight[0]), kind(weight / 6, weight[0])
    for to in (None, other[:16]):
        assert (packed(x, to) - plain(x, to)).abs().max() < 0.1
