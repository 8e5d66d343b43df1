"""Train the studio language models on worked maths problems.

    python -m training.text target|draft|shift|full [--preset cpu|gpu] [--minutes M]

`target` and `draft` are block diffusion models of the SDAR kind: within a block every position sees every other, a
block sees the finished blocks before it, and position i predicts its own token. `shift` is of the Fast-dLLM v2 kind,
where position i - 1 predicts token i. `full` is of the LLaDA kind: everything sees everything. It starts from the
weights of `target`, which know the problems and have to unlearn one mask.

Block diffusion trains on the clean row and a noised copy of it in one pass, 2L tokens under one mask (BD3-LM, arXiv
2503.09573). Block sizes are mixed within a batch, so that size 1, which is ordinary next-token prediction, is as
familiar as size 32. `target` also learns to repair: some of its visible tokens are wrong, and it predicts the right
ones.
"""

import argparse
import json
import shutil
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from engines.config import make_config
from engines.methods import METHODS
from engines.models.language_model import DiffusionLM
from engines.models.language_model import Kind as Traits
from engines.runtime.driver import Job, sample_tokens
from traces.schema import ModelCard
from training import text_data
from training.loop import MODELS, Preset, Run, batches, device, parse, record, sha256
from training.text_data import BLOCK, END, LENGTH, MASK, PAD, WINDOW, token_id


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the four models."""

    title: str
    hidden: int
    layers: int
    inner: int
    sizes: tuple[int, ...]
    shares: tuple[float, ...]
    """How often each block size is trained on."""
    shift: bool = False
    repair: bool = False
    full: bool = False
    base: str = ""
    """The model whose weights training starts from."""


SIZES: Final = (1, 2, 4, 8, 16, 32)
SHARES: Final = (0.30, 0.10, 0.15, 0.15, 0.15, 0.15)
MEASURED: Final = 500
MEASURED_FULL: Final = 48
"""Of a bidirectional model, which computes the whole row anew for every token."""
KINDS: Final = {
    "target": Kind("Block diffusion language model", 384, 5, 896, SIZES, SHARES, repair=True),
    "draft": Kind("Small block diffusion language model", 160, 4, 416, SIZES, SHARES),
    "shift": Kind("Right-shifted block diffusion language model", 160, 4, 416, SIZES, SHARES, shift=True),
    "full": Kind(
        "Bidirectional diffusion language model",
        384,
        5,
        896,
        SIZES,
        (0, 0, 0, 0.3, 0.3, 0.4),
        full=True,
        base="target",
    ),
}
PRESETS: Final = {
    "cpu": Preset(steps=30_000, batch=32, lr=3e-3, minutes=90),
    "gpu": Preset(steps=30_000, batch=512, lr=3e-3, minutes=9),
}


@dataclass(frozen=True, slots=True)
class Noised:
    """A batch to learn from."""

    ids: Tensor
    """[B, S] what the network reads."""
    positions: Tensor
    """[B, S]"""
    mask: Tensor
    """[B, 1, S, S] True where a query may see a key."""
    source: Tensor
    """[B, N] index of the output that predicts each position of the noised part."""
    target: Tensor
    """[B, N]"""
    weight: Tensor
    """[B, N]; 0 where nothing is to be predicted."""


def network(kind: Kind, tokenizer: Tokenizer) -> Qwen3ForCausalLM:
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

    def __init__(self, kind: Kind, tokenizer: Tokenizer) -> None:
        self.kind = kind
        self.mask_id, self.end = token_id(tokenizer, MASK), token_id(tokenizer, END)
        self.digits = torch.tensor([token_id(tokenizer, str(i)) for i in range(10)])
        self.vocabulary = tokenizer.get_vocab_size()

    def __call__(self, rows: Tensor, lengths: Tensor, generator: torch.Generator) -> Noised:
        """Noise rows [B, LENGTH] whose prompts have `lengths` [B] tokens."""
        kind, count = self.kind, len(rows)
        first = torch.zeros_like(lengths) if kind.full else lengths // BLOCK * BLOCK  # where the noised part begins
        place = first[:, None] + torch.arange(LENGTH if kind.full else WINDOW)  # [B, N]
        clean = rows.gather(1, place)
        picked = torch.multinomial(torch.tensor(kind.shares), count, replacement=True, generator=generator)
        size = torch.tensor(kind.sizes)[picked][:, None]
        # Learn what a decoder may be asked: from the prompt's end to the end of the block in which the solution ends.
        ends = ((rows == self.end).long().argmax(1) // BLOCK + 1) * BLOCK
        asked = (place >= lengths[:, None]) & (place < ends[:, None])
        block = place // size
        rate = self._rates(block, size, generator)
        if kind.full:
            return self._full(rows, lengths, place, rate, size, generator)
        hidden = (torch.rand(count, WINDOW, generator=generator) < rate) & asked
        lead = (place % size == 0) & (size > 1) & kind.shift  # in a shifted block the first token is never masked
        hidden &= ~lead
        noised = torch.where(hidden, self.mask_id, clean)
        weight = torch.where(hidden, 1 / rate, lead.float() * asked)
        if kind.repair:
            noised, weight = self._wrong(noised, weight, asked & ~hidden, size, generator)
        source = LENGTH + torch.arange(WINDOW).expand(count, -1)
        if kind.shift:
            source = torch.where(place % size == 0, place - 1, source - 1).clamp(min=0)
        ids = torch.cat([rows, noised], 1)
        positions = torch.cat([torch.arange(LENGTH).expand(count, -1), place], 1)
        return Noised(ids, positions, self._mask(positions // size), source, clean, weight)

    def _rates(self, block: Tensor, size: Tensor, generator: torch.Generator) -> Tensor:
        """A masking rate for every block [B, N]; everything is masked in blocks of one token."""
        draws = torch.rand(len(block), LENGTH + 1, generator=generator).gather(1, block)
        least = 1 / size
        return least + (1 - least) * draws

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

    def _mask(self, block: Tensor) -> Tensor:
        """The 2L mask from block numbers [B, LENGTH + WINDOW]."""
        query, key = block[:, :, None], block[:, None, :]
        clean = torch.arange(block.shape[1]) < LENGTH
        onto_clean = clean & torch.where(clean[:, None], key <= query, key < query)
        among_noised = ~clean & ~clean[:, None] & (key == query)
        return (onto_clean | among_noised)[:, None]

    def _full(
        self, rows: Tensor, lengths: Tensor, place: Tensor, rate: Tensor, size: Tensor, generator: torch.Generator
    ) -> Noised:
        """One noised row under full attention.

        Half the rows look as in block-wise decoding: a finished part, one block under way, and masks behind it.
        """
        count = len(rows)
        anywhere = torch.rand(count, 1, generator=generator) < 0.5
        share = torch.rand(count, 1, generator=generator).clamp(min=1 / BLOCK)
        spots = torch.rand(place.shape, generator=generator)
        last = (place - lengths[:, None]).amax(1, keepdim=True)
        under_way = (torch.rand(count, 1, generator=generator) * (last / size + 1)).long()
        block = (place - lengths[:, None]).div(size, rounding_mode="floor")
        answer = place >= lengths[:, None]
        by_block = torch.where(block == under_way, spots < rate[:, :1], block > under_way)
        masked = answer & torch.where(anywhere, spots < share, by_block)
        learnt = masked & torch.where(anywhere, True, block == under_way)
        weight = learnt / torch.where(anywhere, share, rate[:, :1])
        seen = torch.ones(count, 1, LENGTH, LENGTH, dtype=torch.bool)
        return Noised(torch.where(masked, self.mask_id, rows), place, seen, place, rows, weight)


def loss_of(model: Qwen3ForCausalLM, batch: Noised) -> Tensor:
    """Weighted cross entropy per predicted token, in nats."""
    to = device()
    hidden = model.model(
        input_ids=batch.ids.to(to),
        position_ids=batch.positions.to(to),
        attention_mask=batch.mask.to(to),
        use_cache=False,
    ).last_hidden_state
    index = batch.source.to(to)[..., None].expand(-1, -1, hidden.shape[-1])
    wanted = batch.weight.to(to) > 0
    logits = model.lm_head(hidden.gather(1, index)[wanted])
    weight = batch.weight.to(to)[wanted]
    losses = F.cross_entropy(logits.float(), batch.target.to(to)[wanted], reduction="none")
    return (losses * weight).sum() / weight.sum()


def optimizers(model: Qwen3ForCausalLM, lr: float) -> list[torch.optim.Optimizer]:
    """Muon on the layers' matrices, AdamW on the rest."""
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    inside = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in inside]
    return [
        torch.optim.Muon(matrices, lr=lr, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=lr, weight_decay=0.0, betas=(0.9, 0.95)),
    ]


def train(run: Run, model: Qwen3ForCausalLM, noise: Noise, seed: int) -> None:
    """Train until the budget is used up."""
    rows, lengths = (torch.from_numpy(part).long() for part in text_data.load())
    pick = batches(len(rows), run.preset.batch, seed)
    for step in run.steps():
        chosen = pick(step)
        batch = noise(rows[chosen], lengths[chosen], torch.Generator().manual_seed(seed * 1_000_003 + step))
        with torch.autocast(device().type, torch.bfloat16):
            loss = loss_of(model, batch)
        run.update(loss)


def main() -> None:
    """Train, measure and export."""
    options, preset = parse(__doc__ or "", PRESETS, names=KINDS)
    kind, tokenizer = KINDS[options.name], Tokenizer.from_file(str(text_data.TOKENIZER))
    model = network(kind, tokenizer).to(device())
    if kind.base:
        preset = replace(preset, lr=preset.lr / 3)
        files = sorted((MODELS / f"text-{kind.base}").glob("*.safetensors"))
        found = {name: weight.float() for path in files for name, weight in load_file(path).items()}
        known = model.load_state_dict(found, strict=False)
        assert not known.unexpected_keys and known.missing_keys in ([], ["lm_head.weight"])  # tied to the embedding
    run = Run(f"text-{options.name}", model, optimizers(model, preset.lr), preset)
    run.resume(options.fresh)
    if not options.export_only:
        train(run, model, Noise(kind, tokenizer), options.seed)
    model.half().float()  # measure what is shipped
    export(run, kind, model, options)


def export(run: Run, kind: Kind, model: Qwen3ForCausalLM, options: argparse.Namespace) -> None:
    """Write an ordinary transformers checkpoint in half precision, in files of a few MB, and its MANIFEST entry."""
    folder = MODELS / run.name
    shutil.rmtree(folder, ignore_errors=True)
    model.half().save_pretrained(folder, max_shard_size="8MB")
    (folder / "generation_config.json").unlink(missing_ok=True)
    files = {path.name: sha256(path) for path in sorted(folder.glob("*.safetensors"))}
    about = {
        "title": kind.title,
        "architecture": "transformers Qwen3ForCausalLM under explicit attention masks",
        "data": "problems generated by reasoning-gym's gsm_symbolic (Apache-2.0)",
        "files": files,
        "shift": kind.shift,
        "full": kind.full,
    }
    record(run, about, measure(model.float(), kind), options)


def measure(model: Qwen3ForCausalLM, kind: Kind) -> dict[str, Any]:
    """Share of held-out problems solved, by block size, greedily and one confident token after the other."""
    tokenizer = Tokenizer.from_file(str(text_data.TOKENIZER))
    ids = tokenizer.get_vocab()
    traits = Traits(ids[MASK], (ids[END],), kind.shift, kind.full)
    judged = DiffusionLM(model, tokenizer, traits, ModelCard(id="in training"), device())
    found = json.loads(text_data.PROBLEMS.read_text(encoding="utf-8"))[: MEASURED_FULL if kind.full else MEASURED]
    method = METHODS["blockwise"]
    solved = {}
    for size in (8, 16, 32) if kind.full else (1, 4, 8, 16, 32):
        config = make_config(method.config, {"block": str(size), "rule": "greedy", "length": 64})
        jobs = [Job(method, judged, problem["question"], config) for problem in found]
        rows = [row for i in range(0, len(jobs), 64) for row in sample_tokens(jobs[i : i + 64])]
        texts = [judged.output([None if t == ids[MASK] else t for t in row]).text or "" for row in rows]
        right = [text_data.solved(text, problem["answer"]) for text, problem in zip(texts, found, strict=True)]
        solved[f"solved_percent_block_{size}"] = round(100 * sum(right) / len(right), 1)
    return {"problems": len(found), **solved}


if __name__ == "__main__":
    main()
