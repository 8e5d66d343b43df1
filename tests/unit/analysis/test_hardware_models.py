"""Published models: counts of parameters from their configuration, experts, windows and latent attention."""

from dataclasses import replace

import pytest
from transformers import DeepseekV3Config, Gemma3TextConfig, Llama4TextConfig, MixtralConfig, Qwen3MoeConfig

from draftscope.analysis.hardware import (
    DEVICES,
    ENGINES,
    SIZES,
    HardwareError,
    PassWork,
    check_memory,
    draft_cost,
    pass_cost,
    quantised,
)
from draftscope.analysis.hardware_models import MODELS, ModelConfig

H100, GRAPHS = DEVICES["H100"], ENGINES["CUDA graphs"]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_the_counts_of_a_configuration_are_the_published_ones_within_two_per_cent(model: ModelConfig) -> None:
    embedding = 0 if model.tied else model.vocabulary * model.hidden  # which the published active counts contain
    derived = model.total, model.active + embedding
    for count, published in zip(derived, model.published, strict=True):
        assert count / 1e9 == pytest.approx(published, rel=0.02)
    assert not model.drafter or MODELS[model.drafter].total < model.total / 2
    size = SIZES[model.name]
    assert (size.total, size.parameters, size.layers) == (model.total, model.active, model.layers)


def test_configurations_are_those_of_transformers_where_its_defaults_are_a_published_model() -> None:
    scout, deepseek, moe, mixtral = Llama4TextConfig(), DeepseekV3Config(), Qwen3MoeConfig(), MixtralConfig()
    model = MODELS["Llama 4 Scout"]
    assert (model.layers, model.hidden, model.heads, model.kv_heads, model.experts, model.vocabulary) == (
        scout.num_hidden_layers, scout.hidden_size, scout.num_attention_heads, scout.num_key_value_heads,
        scout.num_local_experts, scout.vocab_size,
    )  # fmt: skip
    assert (model.window, model.window_layers) == (scout.attention_chunk_size, sum(scout.no_rope_layers))
    assert sum(kind == "chunked_attention" for kind in scout.layer_types) == model.window_layers
    model = MODELS["DeepSeek V3"]
    assert model.latent == (
        deepseek.q_lora_rank, deepseek.kv_lora_rank, deepseek.qk_rope_head_dim, deepseek.qk_nope_head_dim,
    )  # fmt: skip
    assert (model.layers, model.hidden, model.heads, model.head_size, model.experts, model.active_experts) == (
        deepseek.num_hidden_layers, deepseek.hidden_size, deepseek.num_attention_heads, deepseek.v_head_dim,
        deepseek.n_routed_experts, deepseek.num_experts_per_tok,
    )  # fmt: skip
    assert (model.feed_forward, model.expert_width) == (deepseek.intermediate_size, deepseek.moe_intermediate_size)
    for name, config, width in (
        ("Qwen3 30B A3B", moe, moe.moe_intermediate_size), ("Mixtral 8x7B", mixtral, mixtral.intermediate_size),
    ):  # fmt: skip
        model = MODELS[name]
        assert (model.hidden, model.heads, model.kv_heads, model.experts, model.active_experts, model.expert_width) == (
            config.hidden_size, config.num_attention_heads, config.num_key_value_heads, config.num_local_experts,
            config.num_experts_per_tok, width,
        )  # fmt: skip
    for name in ("Gemma 3 1B", "Gemma 3 4B", "Gemma 3 12B", "Gemma 3 27B"):
        layers = Gemma3TextConfig(num_hidden_layers=MODELS[name].layers).layer_types
        assert sum(kind == "sliding_attention" for kind in layers) == MODELS[name].window_layers


def test_a_pass_reads_the_experts_that_its_tokens_touch() -> None:
    size = SIZES["Qwen3 30B A3B"]
    assert (
        size.touched(1) == pytest.approx(8) and 8 < size.touched(4) < 32 and size.touched(10_000) == pytest.approx(128)
    )
    one, four = (pass_cost(H100, size, GRAPHS, PassWork(query_tokens=tokens)).memory for tokens in (1, 4))
    assert one == pytest.approx(2 * size.parameters / (3350e9 * 0.8))
    assert four - one == pytest.approx((size.touched(4) - 8) * size.expert * 2 / (3350e9 * 0.8))
    assert SIZES["Qwen3 8B"].touched(4) == 0


def test_layers_with_a_window_keep_and_read_no_more_than_it() -> None:
    size = SIZES["Gemma 3 27B"]
    assert size.seen(1000) == 62 * 1000 and size.seen(100_000) == 10 * 100_000 + 52 * 1024
    short, long = (pass_cost(H100, size, GRAPHS, PassWork(query_tokens=1, context=n)) for n in (1024, 2048))
    assert long.memory - short.memory == pytest.approx(10 * 1024 * 2 * 16 * 128 * 2 / (3350e9 * 0.8))


def test_latent_attention_keeps_one_vector_for_all_heads() -> None:
    size = SIZES["DeepSeek V3"]
    assert size.layer_cache_bytes == 2 * (512 + 64) and size.kv_heads == 1
    assert size.width * 4 == 128 * (2 * (512 + 64) + 2 * 512)


def test_several_gpus_share_the_work_and_pay_for_their_links() -> None:
    size, work = SIZES["Llama 3.3 70B"], PassWork(query_tokens=4, context=1000)
    one, four = (pass_cost(H100, size, GRAPHS, work, gpus) for gpus in (1, 4))
    assert four.memory == pytest.approx(one.memory / 4) and four.compute == pytest.approx(one.compute / 4)
    assert one.communication == 0
    assert four.communication == pytest.approx(
        2 * 80 * (6.6e-6 + 6 * 0.6e-6 + 2 * 3 / 4 * 4 * 8192 * 2 / (450e9 * 0.8))
    )
    many = pass_cost(H100, size, GRAPHS, PassWork(query_tokens=1, context=100_000), 16)  # of 8 KV heads
    weights = pass_cost(H100, size, GRAPHS, PassWork(query_tokens=1), 16).memory
    assert many.memory - weights == pytest.approx(100_000 * 80 * 2 * 1024 * 2 / 8 / (3350e9 * 0.8))
    small, free = SIZES["Qwen3 0.6B"], replace(GRAPHS, overhead=0.0)
    assert pass_cost(DEVICES["L4"], small, free, PassWork(query_tokens=1), 8).bound == "communication"
    assert draft_cost(H100, small, free, PassWork(query_tokens=1), 8).bound == "memory"  # on one of them
    for device, gpus, problem in (
        ("M3 Max", 2, "gpus: M3 Max cannot be combined"),
        ("H100", 0, "gpus: 0 is not allowed"),
    ):
        with pytest.raises(HardwareError, match=problem):
            check_memory(DEVICES[device], SIZES["Qwen3 0.6B"], None, 10, gpus=gpus)
    with pytest.raises(HardwareError, match=r"take 141\.4 GB, and H100 has 80; choose a larger device, more GPUs"):
        check_memory(H100, size, None, 1000)
    check_memory(H100, size, None, 1000, gpus=2)


def test_fewer_bits_are_read_and_kept() -> None:
    size = SIZES["Qwen3 32B"]
    small = quantised(size, 4, 8)
    assert small.name == "Qwen3 32B in 4 bits" and small.stored_bytes == size.stored_bytes / 4
    assert small.layer_cache_bytes == size.layer_cache_bytes / 2
    one, quarter = (pass_cost(H100, each, GRAPHS, PassWork(query_tokens=1)) for each in (size, small))
    assert quarter.memory == pytest.approx(one.memory / 4) and quarter.compute == one.compute
