"""Block diffusion language models: their networks, the noise they learn from, their loss and optimizers.

Size 1 among the block sizes that are mixed is ordinary next-token prediction; docs/training.md has the objective.
"""

import argparse
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from draftscope.engines.models.bundled.language import END, MASK, PAD
from draftscope.engines.models.checkpoint_files import sha256
from draftscope.engines.models.diffusion_lm import DiffusionLM, Traits
from draftscope.engines.runtime.driver import sample_tokens
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.traces.schema import ModelCard
from training.trainer import MODELS, Run, device, record

BLOCK: Final = 32
"""The largest block; all block sizes divide it."""
SIZES: Final = (1, 2, 4, 8, 16, 32)
SHARES: Final = (0.30, 0.10, 0.15, 0.15, 0.15, 0.15)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One model of a family."""

    title: str
    hidden: int
    layers: int
    inner: int
    shares: tuple[float, ...] = SHARES
    """How often each block size of `SIZES` is trained on."""
    shift: bool = False
    repair: bool = False
    full: bool = False
    base: str = ""
    """The model whose weights training starts from."""


@dataclass(frozen=True, slots=True)
class Noised:
    """A batch to learn from: ids and positions [B, S] that the network reads, and N of them to be predicted."""

    ids: Tensor
    positions: Tensor
    mask: Tensor
    """[B, 1, S, S] True where a query may see a key."""
    source: Tensor
    """[B, N] index of the output that predicts each position, as are target and weight, 0 where nothing is wanted."""
    target: Tensor
    weight: Tensor


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a token that must be there."""
    number = tokenizer.token_to_id(token)
    assert number is not None, token
    return int(number)


def network(kind: Recipe, tokenizer: Tokenizer) -> Qwen3ForCausalLM:
    """An untrained network."""
    config = Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=kind.hidden,
        intermediate_size=kind.inner,
        num_hidden_layers=kind.layers,
        num_attention_heads=kind.hidden // 32,
        num_key_value_heads=kind.hidden // 32,
        head_dim=32,
        max_position_embeddings=512,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=token_id(tokenizer, END),
        pad_token_id=token_id(tokenizer, PAD),
    )
    return Qwen3ForCausalLM(config)


class Noise:
    """Makes batches of one kind."""

    def __init__(self, kind: Recipe, tokenizer: Tokenizer, window: int | None = None) -> None:
        """Noise `window` tokens after the last whole `BLOCK` of the prompt, by default all in a row."""
        self.kind, self.window = kind, window
        self.mask_id, self.end = token_id(tokenizer, MASK), token_id(tokenizer, END)
        self.digits = torch.tensor([token_id(tokenizer, str(i)) for i in range(10)])
        self.vocabulary = tokenizer.get_vocab_size()

    def __call__(self, rows: Tensor, lengths: Tensor, generator: torch.Generator) -> Noised:
        """Noise rows [B, L] whose prompts have `lengths` [B] tokens; the noised part is within a row."""
        kind, (count, length) = self.kind, rows.shape
        window = length if kind.full else self.window or length
        first = torch.zeros_like(lengths) if kind.full else lengths // BLOCK * BLOCK  # where the noised part begins
        window_positions = first[:, None] + torch.arange(window)  # [B, N]
        clean = rows.gather(1, window_positions)
        picked = torch.multinomial(torch.tensor(kind.shares), count, replacement=True, generator=generator)
        size = torch.tensor(SIZES)[picked][:, None]
        # Learn what a decoder may be asked: from the prompt's end to the end of the block in which the solution ends.
        ends = ((rows == self.end).long().argmax(1) // BLOCK + 1) * BLOCK
        wanted = (window_positions >= lengths[:, None]) & (window_positions < ends[:, None])
        block = window_positions // size
        draws = torch.rand(len(block), length + 1, generator=generator).gather(1, block)  # one for every block
        rate = 1 / size + (1 - 1 / size) * draws  # everything is masked in blocks of one token
        if kind.full:
            return self._full(rows, lengths, window_positions, rate, size, generator)
        hidden = (torch.rand(count, window, generator=generator) < rate) & wanted
        lead = (
            (window_positions % size == 0) & (size > 1) & kind.shift
        )  # in a shifted block the first token is never masked
        hidden &= ~lead
        noised = torch.where(hidden, self.mask_id, clean)
        weight = torch.where(hidden, 1 / rate, lead.float() * wanted)
        if kind.repair:
            noised, weight = self._wrong(noised, weight, wanted & ~hidden, size, generator)
        source = length + torch.arange(window).expand(count, -1)
        if kind.shift:
            source = torch.where(window_positions % size == 0, window_positions - 1, source - 1).clamp(min=0)
        ids = torch.cat([rows, noised], 1)
        positions = torch.cat([torch.arange(length).expand(count, -1), window_positions], 1)
        return Noised(ids, positions, self._mask(positions // size, length), source, clean, weight)

    def _wrong(
        self, noised: Tensor, weight: Tensor, visible: Tensor, size: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Replace some visible tokens, digits by digits, in a quarter of the rows; all visible ones are predicted."""
        chosen = (torch.rand(len(noised), 1, generator=generator) < 0.25) & (size >= 4) & visible
        wrong = chosen & (torch.rand(noised.shape, generator=generator) < 0.12)
        digit = self.digits[torch.randint(10, noised.shape, generator=generator)]
        other = torch.randint(3, self.vocabulary, noised.shape, generator=generator)
        lie = torch.where(torch.isin(noised, self.digits), digit, other)
        return torch.where(wrong, lie, noised), torch.where(chosen, 0.3, weight)

    def _mask(self, block: Tensor, length: int) -> Tensor:
        """The 2L mask from block numbers [B, L + N]."""
        query, key = block[:, :, None], block[:, None, :]
        clean = torch.arange(block.shape[1]) < length
        onto_clean = clean & torch.where(clean[:, None], key <= query, key < query)
        among_noised = ~clean & ~clean[:, None] & (key == query)
        return (onto_clean | among_noised)[:, None]

    def _full(
        self, rows: Tensor, lengths: Tensor, positions: Tensor, rate: Tensor, size: Tensor, generator: torch.Generator
    ) -> Noised:
        """Noise rows under full attention.

        Half the rows look as in block-wise decoding: a final part, one block in progress, and masks after it.
        """
        count, length = rows.shape
        anywhere = torch.rand(count, 1, generator=generator) < 0.5
        share = torch.rand(count, 1, generator=generator).clamp(min=1 / BLOCK)
        spots = torch.rand(positions.shape, generator=generator)
        last = (positions - lengths[:, None]).amax(1, keepdim=True)
        under_way = (torch.rand(count, 1, generator=generator) * (last / size + 1)).long()
        block = (positions - lengths[:, None]).div(size, rounding_mode="floor")
        answer = positions >= lengths[:, None]
        by_block = torch.where(block == under_way, spots < rate[:, :1], block > under_way)
        masked = answer & torch.where(anywhere, spots < share, by_block)
        learnt = masked & torch.where(anywhere, True, block == under_way)
        weight = learnt / torch.where(anywhere, share, rate[:, :1])
        seen = torch.ones(count, 1, length, length, dtype=torch.bool)
        return Noised(torch.where(masked, self.mask_id, rows), positions, seen, positions, rows, weight)


def loss_of(model: Qwen3ForCausalLM, batch: Noised) -> Tensor:
    """Weighted cross entropy per predicted token, in nats."""
    to = device()
    read = {"input_ids": batch.ids, "position_ids": batch.positions, "attention_mask": batch.mask}
    hidden = model.model(**{name: part.to(to) for name, part in read.items()}, use_cache=False).last_hidden_state
    index = batch.source.to(to)[..., None].expand(-1, -1, hidden.shape[-1])
    wanted = batch.weight.to(to) > 0
    logits = model.lm_head(hidden.gather(1, index)[wanted])
    weight = batch.weight.to(to)[wanted]
    losses = F.cross_entropy(logits.float(), batch.target.to(to)[wanted], reduction="none")
    return (losses * weight).sum() / weight.sum()


def train(
    run: Run, model: Qwen3ForCausalLM, noise: Noise, seed: int, batch: Callable[[int], tuple[Tensor, Tensor]]
) -> None:
    """Train until the budget is used up; `batch` gives for a step rows [B, L] and lengths of their prompts [B]."""
    for step in run.steps():
        noised = noise(*batch(step), torch.Generator().manual_seed(seed * 1_000_003 + step))
        with torch.autocast(device().type, torch.bfloat16):
            loss = loss_of(model, noised)
        run.update(loss)


def answers(
    model: Qwen3ForCausalLM, kind: Recipe, tokenizer: Tokenizer, prompts: Sequence[str], settings: Mapping[str, object]
) -> list[str]:
    """Return what a model writes after prompts, decoded block by block in the given settings."""
    mask = token_id(tokenizer, MASK)
    traits = Traits(mask, (token_id(tokenizer, END),), kind.shift, kind.full)
    judged = DiffusionLM(model, tokenizer, traits, ModelCard(id="in training"), device())
    jobs = [RunRequest("blockwise", judged, prompt, settings=settings).job() for prompt in prompts]
    rows = [row for i in range(0, len(jobs), 64) for row in sample_tokens(jobs[i : i + 64])]
    return [judged.render_output([None if token == mask else token for token in row]).text or "" for row in rows]


def export(
    run: Run,
    kind: Recipe,
    model: Qwen3ForCausalLM,
    data: str,
    measure: Callable[[Qwen3ForCausalLM], dict[str, Any]],
    options: argparse.Namespace,
) -> None:
    """Write a transformers checkpoint in half precision, which is what is measured, and its MANIFEST entry."""
    folder = MODELS / run.name
    shutil.rmtree(folder, ignore_errors=True)
    model.half().save_pretrained(folder, max_shard_size="8MB")
    (folder / "generation_config.json").unlink(missing_ok=True)
    files = {path.name: sha256(path) for path in sorted(folder.glob("*.safetensors"))}
    about = {
        "title": kind.title,
        "architecture": "transformers Qwen3ForCausalLM under explicit attention masks",
        "data": data,
        "files": files,
        "shift": kind.shift,
        "full": kind.full,
    }
    record(run, about, measure(model.float()), options)
