"""The adapter for smollm2: what masks attend to, what they learn, files, and that training resumes."""

import math
from argparse import Namespace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from support.tiny_llama import llama
from torch import Tensor

from draftscope.engines.models.transformers_api import cache_of
from training import smollm2_block, smollm2_block_answers
from training.smollm2_block import (
    BLOCK,
    Adapter,
    Blocks,
    Text,
    batches,
    draw_blocks,
    evaluate,
    loss_of,
    make_blocks,
    mask_states,
    read_texts,
    real_states,
    train,
)
from training.smollm2_block_answers import pack, store, varied_prompts
from training.trainer import Preset, Run

TEXTS = [
    Text(torch.randint(64, (length,), generator=torch.Generator().manual_seed(length)), prompt, length % 2 == 0)
    for length, prompt in ((20, 5), (23, 8), (30, 4), (31, 6))
]
PRESET = Preset(steps=4, batch=24, lr=1e-2, warmup=2)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(smollm2_block, "MASKS_PER_TEXT", 12)


def adapter_of(network: Any, layers: int = 0) -> Adapter:
    """An adapter that changes what it is added to."""
    torch.manual_seed(3)
    adapter = Adapter(network, 4, layers)
    with torch.no_grad():
        for name, weight in adapter.named_parameters():
            if name.endswith("b"):
                weight.normal_(0, 0.2)
    return adapter


def blocks_of(shift: bool = True) -> Blocks:
    """Two texts with three blocks each of two known tokens and four masks."""
    order = torch.tensor([[[2, 5], [1, 3], [4, 6]], [[1, 2], [2, 6], [3, 5]]])
    unfilled = [[[i for i in range(1, 7) if i not in filled] for filled in row] for row in order.tolist()]
    return make_blocks(TEXTS[:2], torch.tensor([[4, 9, 17], [7, 12, 20]]), order, torch.tensor(unfilled), shift)


def naive(network: Any, adapter: Adapter, ids: list[int], positions: list[int], masked: list[int]) -> Tensor:
    """Hidden states of one sequence, row by row, in which the adapter is part of the weights of masks.

    Args:
        network: A Llama.
        adapter: Its adapter.
        ids: Token ids.
        positions: Their positions.
        masked: For every row the number of its mask embedding, from 1, or 0 for a real token.
    """
    model, config = network.model, network.config
    groups, dim = config.num_attention_heads // config.num_key_value_heads, config.head_dim
    rows = [
        adapter.mask[kind - 1] if kind else model.embed_tokens.weight[i] for i, kind in zip(ids, masked, strict=True)
    ]
    angles = [position * model.rotary_emb.inv_freq for position in positions]

    def turned(x: Tensor, angle: Tensor) -> Tensor:
        one, two = x.chunk(2, -1)
        return torch.cat([one * angle.cos() - two * angle.sin(), two * angle.cos() + one * angle.sin()], -1)

    for layer, lora in zip(model.layers, adapter.layers, strict=False):

        def product(name: str, x: Tensor, row: int, base: Any = lora, of: Any = layer) -> Tensor:
            weight = getattr(of.self_attn if name in smollm2_block.ATTENTION else of.mlp, name).weight
            return (weight + base[name].b @ base[name].a if masked[row] else weight) @ x

        q, k, v = (
            [product(name, layer.input_layernorm(x), i).view(-1, dim) for i, x in enumerate(rows)]
            for name in smollm2_block.ATTENTION[:3]
        )
        q, k = ([turned(x, angle) for x, angle in zip(each, angles, strict=True)] for each in (q, k))
        after = []
        for i, x in enumerate(rows):
            seen = [
                j
                for j, position in enumerate(positions)
                if (masked[i] and masked[j]) or (not masked[j] and (masked[i] or position <= positions[i]))
            ]
            heads = []
            for head in range(config.num_attention_heads):
                scores = torch.stack([q[i][head] @ k[j][head // groups] for j in seen]) / math.sqrt(dim)
                heads.append(sum(p * v[j][head // groups] for p, j in zip(scores.softmax(0), seen, strict=True)))
            x = x + product("o_proj", torch.cat(heads), i)
            h = layer.post_attention_layernorm(x)
            gate = torch.nn.functional.silu(product("gate_proj", h, i))
            after.append(x + product("down_proj", gate * product("up_proj", h, i), i))
        rows = after
    return model.norm(torch.stack(rows))


@torch.no_grad()
@pytest.mark.parametrize("layers", [2, 1])
def test_masks_see_the_text_known_tokens_and_each_other(layers: int) -> None:
    network, blocks = llama(0), blocks_of()
    adapter = adapter_of(network, layers)
    _, stored = real_states(network, blocks)
    states = mask_states(network, adapter, blocks, stored)
    for text, row in ((0, 1), (1, 2)):
        anchor, filled = int(blocks.anchors[text, row]), blocks.filled[text, row].tolist()
        distance = dict(zip(blocks.masks[text, row].tolist(), blocks.distances[text, row].tolist(), strict=True))
        slots = range(1, 7)
        ids = [int(blocks.ids[text, min(i, len(TEXTS[text].ids) - 1)]) for i in range(anchor + 7)]
        wanted = naive(
            network, adapter, ids, [*range(anchor + 7)], [0] * (anchor + 1) + [distance.get(slot, 0) for slot in slots]
        )
        where = [anchor + slot for slot in slots if slot not in filled]
        torch.testing.assert_close(states[text, row], wanted[where], rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_real_tokens_are_the_base_models_bit_for_bit() -> None:
    network, blocks = llama(0), blocks_of()
    last, stored = real_states(network, blocks)
    mask_states(network, adapter_of(network), blocks, stored)
    outputs = network.model(blocks.ids, use_cache=True)
    assert torch.equal(last, outputs.last_hidden_state)
    T = blocks.ids.shape[1]
    for (keys, values), layer in zip(stored, cache_of(outputs).layers, strict=True):
        assert torch.equal(keys[:, :, :T], layer.keys) and torch.equal(values[:, :, :T], layer.values)
        # Known tokens after the anchor without a gap, here the first two of a block, are as in the text itself.
        torch.testing.assert_close(keys[1, :, T : T + 2], layer.keys[1, :, 8:10])


def test_a_mask_has_its_distance_from_the_last_real_token_and_its_teacher() -> None:
    shifted, aligned = blocks_of(), blocks_of(shift=False)
    assert shifted.masks[0].tolist() == [[1, 3, 4, 6], [2, 4, 5, 6], [1, 2, 3, 5]]
    assert shifted.distances[0].tolist() == [[1, 1, 2, 1], [1, 1, 2, 3], [1, 2, 3, 1]]
    # The text has 20 tokens. The mask before a known token predicts nothing new.
    assert shifted.wanted[0].tolist() == [
        [False, True, False, True],
        [False, True, True, True],
        [True, False, False, False],
    ]
    assert aligned.wanted[0].tolist() == [[True] * 4, [True] * 4, [True, True, False, False]]
    assert shifted.teachers[0, 0].tolist() == [5, 7, 8, 10] and aligned.teachers[0, 0].tolist() == [4, 6, 7, 9]


def test_blocks_are_drawn_inside_answers_and_filled_in_part() -> None:
    lengths, filled = set(), 0
    for seed in range(100):
        blocks = draw_blocks(TEXTS, 40, True, torch.Generator().manual_seed(seed))
        both = torch.cat([blocks.masks, blocks.filled], -1).sort(-1).values
        length = both.shape[-1]
        assert (both == torch.arange(1, length + 1)).all()
        lengths.add(length)
        filled += blocks.filled.shape[-1] > 0
        for text, row in zip(TEXTS, blocks.anchors, strict=True):
            assert text.prompt - 1 <= int(row.min()) and int(row.max()) < len(text.ids) - 2
    assert min(lengths) == 1 and max(lengths) == BLOCK and len(lengths) > 12 and 10 < filled < 30


def test_every_epoch_has_all_texts_in_another_order() -> None:
    plan = batches(TEXTS, 2, 0)
    epochs = [[len(text.ids) for _ in range(2) for text in next(plan)] for _ in range(8)]
    assert all(sorted(epoch) == [20, 23, 30, 31] for epoch in epochs) and len({*map(tuple, epochs)}) > 1
    assert epochs == [
        [len(text.ids) for part in islice(batches(TEXTS, 2, 0), 2 * i, 2 * i + 2) for text in part] for i in range(8)
    ]


@torch.no_grad()
@pytest.mark.parametrize("top", [64, 8])
def test_the_loss_is_cross_entropy_weighted_by_distance(top: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2_block, "TOP_K", top)
    network, blocks = llama(0), blocks_of()
    adapter = adapter_of(network)
    last, stored = real_states(network, blocks)
    states = mask_states(network, adapter, blocks, stored)
    total = weights = 0.0
    for b, i, j in blocks.wanted.nonzero().tolist():
        p = network.lm_head(last[b, blocks.teachers[b, i, j]]).softmax(-1)
        q = network.lm_head(states[b, i, j]).softmax(-1)
        best = p.topk(top).indices
        remainder = 1 - p[best].sum(), (1 - q[best].sum()).clamp(min=1e-6)
        weight = 0.85 ** (int(blocks.distances[b, i, j]) - 1)
        total -= weight * float((p[best] * q[best].log()).sum() + remainder[0] * remainder[1].log())
        weights += weight
    assert float(loss_of(network, adapter, blocks)) == pytest.approx(total / weights, rel=1e-3)


def trained(steps: int, *, fresh: bool = False) -> Run:
    """A run that has trained for at most `steps` steps."""
    network = llama(0).requires_grad_(False)
    torch.manual_seed(1)
    adapter = Adapter(network, 4)
    run = Run("block", adapter, [torch.optim.AdamW(adapter.parameters(), PRESET.lr)], PRESET)
    run.resume(Namespace(fresh=fresh))
    steps_of = run.steps

    def first() -> Any:
        yield from islice(steps_of(), steps - run.step)
        run.step = steps
        run.save()

    run.steps = first  # type: ignore[method-assign]
    train(run, network, TEXTS, TEXTS[:1], True, 0)
    return run


def test_training_resumes_where_it_stopped() -> None:
    state = trained(4, fresh=True).model.state_dict()
    begun = trained(2, fresh=True).model.state_dict()
    resumed = trained(4).model.state_dict()
    assert all(torch.equal(state[name], resumed[name]) for name in state)
    assert not all(torch.equal(state[name], begun[name]) for name in state)


def test_the_adapter_learns_and_the_base_model_stays() -> None:
    network = llama(0).requires_grad_(False)
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    torch.manual_seed(1)
    adapter = Adapter(network, 4)
    blocks = blocks_of()
    optimizer = torch.optim.AdamW(adapter.parameters(), 1e-2)
    losses = []
    for _ in range(12):
        loss = loss_of(network, adapter, blocks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.2
    assert all(torch.equal(weight, before[name]) for name, weight in network.state_dict().items())


@pytest.mark.parametrize("shift", [True, False])
def test_evaluation_has_a_row_for_every_position(shift: bool) -> None:
    network = llama(0)
    rates = evaluate(network, adapter_of(network), TEXTS, shift, 4)
    positions = range(1 + shift, 9)
    assert [*rates] == [f"{name}_{i}" for name in ("greedy", "overlap") for i in positions]
    assert all(0 <= rate <= 1 for rate in rates.values()) and any(rates.values())


def test_an_adapter_without_a_change_at_one_known_position_agrees_with_the_base_model() -> None:
    """With the token's own embedding at the mask, the adapter as made is the base model itself."""
    network = llama(0)
    adapter = Adapter(network, 4)
    text = TEXTS[0]
    offsets = torch.ones(1, 1, 1, dtype=torch.long)
    blocks = make_blocks([text], torch.tensor([[9]]), offsets[..., :0], offsets, True)
    with torch.no_grad():
        adapter.mask[0] = network.model.embed_tokens.weight[text.ids[10]]
        last, stored = real_states(network, blocks)
        states = mask_states(network, adapter, blocks, stored)
    torch.testing.assert_close(states[0, 0, 0], last[0, 10], rtol=1e-4, atol=1e-4)


def test_an_adapter_is_written_in_bfloat16_and_read_back(tmp_path: Path) -> None:
    network = llama(0)
    adapter, other = adapter_of(network), Adapter(network, 4)
    adapter.save(tmp_path / "adapter.safetensors", {"rank": "4"})
    other.load(tmp_path / "adapter.safetensors")
    for name, weight in adapter.state_dict().items():
        assert torch.equal(other.state_dict()[name], weight.bfloat16().float())
    with safe_open(tmp_path / "adapter.safetensors", "pt") as file:
        assert file.metadata() == {"rank": "4"}


def test_shards_are_packed_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2_block_answers, "FOLDER", tmp_path / "shards")
    with pytest.raises(SystemExit, match=r"no answers; run: python -m training\.smollm2_block_answers"):
        pack(tmp_path / "packed.safetensors")
    for name, texts in (("held-0000", TEXTS[:1]), ("train-0000", TEXTS[1:3]), ("train-0001", TEXTS[3:])):
        store(
            tmp_path / "shards" / f"{name}.safetensors",
            [text.ids for text in texts],
            [text.prompt for text in texts],
            torch.tensor([text.sampled for text in texts]),
        )
    pack(tmp_path / "packed.safetensors")
    for held_out, wanted in ((True, TEXTS[:1]), (False, TEXTS[1:])):
        for text, text_read in zip(read_texts(tmp_path / "packed.safetensors", held_out), wanted, strict=True):
            assert text.ids.tolist() == text_read.ids.tolist()
            assert (text.prompt, text.sampled) == (text_read.prompt, text_read.sampled)


def test_prompts_about_functions_are_held_out_by_function() -> None:
    learnt, held_out = (
        list(islice(varied_prompts(split, ["textwrap", "posixpath", "bisect"]), 60)) for split in (False, True)
    )
    assert not {*learnt} & {*held_out} and len({*learnt}) == 60
    assert sum("```python" in prompt for prompt in learnt) > 5
    assert [*islice(varied_prompts(False, ["textwrap", "posixpath", "bisect"]), 60)] == learnt
