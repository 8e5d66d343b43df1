"""Train an adapter that turns smollm2 into a block diffusion language model, on `training.smollm2_block_answers`.

    python -m training.smollm2_block [--aligned] [--rank R] [--layers N] [--preset cpu|gpu] [--minutes M] [-o FILE]

Low-rank matrices (LoRA, arXiv 2106.09685) are added to every linear layer, at masks only (gated LoRA, arXiv
2507.11851). Real tokens attend to the real tokens before them and use the published weights, so ordinary decoding is
unchanged. Masks attend to all real tokens before the block, to the known tokens of the block and to each other. The
mask at position t predicts token t + 1, and the last real token predicts the first token of the block; with
`--aligned`, the mask at position t predicts token t. The loss is the cross entropy with the base model's distribution
of the same token, given all tokens before it.

A checkpoint is written every two minutes, and the same command resumes from it.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM
from transformers.cache_utils import DynamicCache
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from draftscope.engines.models.checkpoint_files import sha256
from draftscope.engines.models.download import download_dir
from draftscope.engines.models.transformers_api import cache_argument
from draftscope.traces.files import atomic_path
from training.smollm2_answers import MODEL
from training.smollm2_block_answers import PACKED
from training.trainer import MODELS, Preset, Run, device, parse, record

PRESETS: Final = {
    "cpu": Preset(steps=4_000, batch=256, lr=2e-3, linear=0.6, warmup=30),
    "gpu": Preset(steps=12_000, batch=24_576, lr=2e-3, linear=0.6),
}
"""Masks per batch."""
BASE: Final = "SmolLM2-135M-Instruct"
BLOCK: Final = 16
"""The most positions of a block, masks and known tokens."""
MASKS_PER_TEXT: Final = 256
"""Masks that share one pass over a text."""
DECAY: Final = 0.85
"""Weight of a mask, to the power of the masks between it and the last real token before it."""
FILLED: Final = 0.25
"""Share of batches in which some tokens of every block are known."""
TOP_K: Final = 32
"""Tokens of the base model's distribution whose probabilities are learned one by one."""
SORTED: Final = 256
"""Texts that are sorted by length, so that those of a batch need little padding."""
EVAL_EVERY, EVAL_ANSWERS, EVAL_BLOCK = 100, 24, 8
ATTENTION: Final = ("q_proj", "k_proj", "v_proj", "o_proj")
FEED_FORWARD: Final = ("gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, slots=True)
class Text:
    """A prompt with the model's answer."""

    ids: Tensor
    """[N], the prompt first."""
    prompt: int
    """Tokens of the prompt."""
    sampled: bool
    """Whether the answer was sampled at temperature 1, or is greedy."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of B texts, n in each, which all have f known tokens and m masks."""

    ids: Tensor
    """[B, T] texts, padded at the end."""
    anchors: Tensor
    """[B, n] position of the last real token before the block."""
    filled: Tensor
    """[B, n, f] offsets from the anchor of the known tokens, from 1, rising."""
    masks: Tensor
    """[B, n, m] offsets of the masks."""
    wanted: Tensor
    """[B, n, m] whether the token that a mask predicts is unknown and lies inside the text."""
    shift: bool

    @property
    def distances(self) -> Tensor:
        """[B, n, m] offset of every mask from the last real token before it, from 1."""
        before = self.filled[..., None, :] < self.masks[..., None]
        last = torch.where(before, self.filled[..., None, :], 0)
        return self.masks - (last.amax(-1) if last.shape[-1] else 0)

    @property
    def teachers(self) -> Tensor:
        """[B, n, m] positions at which the base model predicts the same tokens as the masks."""
        return self.anchors[..., None] + self.masks - (0 if self.shift else 1)


class LowRank(nn.Module):
    """Low-rank addition to a linear layer at masks: b @ a."""

    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        """Make `a` random and `b` zero, so that nothing is added at first."""
        super().__init__()
        self.a = nn.Parameter(torch.randn(rank, inputs) * inputs**-0.5)
        self.b = nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, x: Tensor, linear: nn.Linear) -> Tensor:
        """Apply a linear layer and the adapter to rows [..., inputs]."""
        return linear(x) + F.linear(F.linear(x, self.a), self.b)  # type: ignore[no-any-return]


class Adapter(nn.Module):
    """Low-rank matrices for the first layers of a Llama, and the embeddings of masks."""

    def __init__(self, network: Any, rank: int = 16, layers: int = 0) -> None:
        """Make the adapter of a causal language model.

        Args:
            network: A LlamaForCausalLM.
            rank: Rank of the matrices.
            layers: Layers that masks pass through before the norm and the head; 0 for all.
        """
        super().__init__()
        model = network.model
        self.rank = rank
        self.layers: Any = nn.ModuleList(
            nn.ModuleDict(
                {
                    name: LowRank(linear.in_features, linear.out_features, rank)
                    for part, names in ((layer.self_attn, ATTENTION), (layer.mlp, FEED_FORWARD))
                    for name in names
                    for linear in (getattr(part, name),)
                }
            )
            for layer in model.layers[: layers or None]
        )
        embeddings = model.embed_tokens.weight.detach()
        noise = torch.randn(BLOCK, embeddings.shape[1]) * embeddings.std()
        self.mask = nn.Parameter(embeddings.mean(0) + 0.2 * noise)
        """[BLOCK, W], by distance from the last real token."""

    def save(self, path: Path, metadata: dict[str, str]) -> None:
        """Write the weights in bfloat16, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        weights = {name: weight.detach().cpu().bfloat16().contiguous() for name, weight in self.state_dict().items()}
        with atomic_path(path) as part:
            save_file(weights, part, metadata)

    def load(self, path: Path) -> None:
        """Read weights that `save` wrote."""
        self.load_state_dict({name: weight.float() for name, weight in load_file(path).items()})


@torch.no_grad()
def real_states(network: Any, blocks: Blocks) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Run the base model over the texts and the known tokens of the blocks.

    A known token of a block attends to the text up to the anchor and to the known tokens before it.

    Returns:
        The last hidden states [B, T, W] of the texts; for every layer K and V [B, H, T + n * f, D], texts first.
    """
    cache = DynamicCache()
    keeping = {cache_argument(network.model): cache, "use_cache": True}
    out = network.model(blocks.ids, **keeping)
    (_, n, f), T = blocks.filled.shape, blocks.ids.shape[1]
    if f:
        positions = (blocks.anchors[..., None] + blocks.filled).flatten(1)
        number = torch.arange(n, device=positions.device).repeat_interleave(f)
        text = torch.arange(T, device=positions.device) <= blocks.anchors.repeat_interleave(f, 1)[..., None]
        visible = (number[:, None] == number) & (positions[:, None] <= positions[..., None])
        seen = torch.cat([text, visible], -1)[:, None]
        ids = blocks.ids.gather(1, positions.clamp(max=T - 1))
        network.model(ids, attention_mask=additive(seen), position_ids=positions, **keeping)
    return out.last_hidden_state, [(layer.keys, layer.values) for layer in cache.layers]


def additive(seen: Tensor) -> Tensor:
    """Turn a mask that is True where a key is attended to into one to add to scores."""
    return torch.zeros(seen.shape, device=seen.device).masked_fill_(~seen, torch.finfo(torch.float32).min)


def mask_states(network: Any, adapter: Adapter, blocks: Blocks, stored: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Run the masks of the blocks through the adapted layers.

    Args:
        network: The base model, a LlamaForCausalLM.
        adapter: Its adapter.
        blocks: Where the masks are.
        stored: K and V of the real tokens, as `real_states` returns them.

    Returns:
        Normalised hidden states [B, n, m, W] for the head.
    """
    (_, n, m), f, T = blocks.masks.shape, blocks.filled.shape[-1], blocks.ids.shape[1]
    x = adapter.mask[blocks.distances - 1].flatten(1, 2)
    turn = network.model.rotary_emb(x, (blocks.anchors[..., None] + blocks.masks).flatten(1))
    seen = torch.arange(T, device=x.device) <= blocks.anchors[..., None]
    hidden = additive(seen)[:, None, :, None]
    for layer, lora, (keys, values) in zip(network.model.layers, adapter.layers, stored, strict=False):
        attention, mlp, layer_lora = layer.self_attn, layer.mlp, lora
        h = layer.input_layernorm(x)
        q, k, v = (
            layer_lora[name](h, getattr(attention, name)).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
            for name in ATTENTION[:3]
        )
        q, k = apply_rotary_pos_emb(q, k, *turn)
        # Heads that share K and V become further rows of one product: [B, H, n, g * m, D].
        q = q.unflatten(2, (n, m)).unflatten(1, (k.shape[1], -1)).transpose(2, 3).flatten(3, 4)
        k, v = (
            torch.cat([before[:, :, T:].unflatten(2, (n, f)), each.unflatten(2, (n, m))], 3)
            for before, each in ((keys, k), (values, v))
        )
        text = (q.flatten(2, 3) @ keys[:, :, :T].transpose(2, 3)).unflatten(2, (n, -1))
        scores = torch.cat([text * attention.scaling + hidden, q @ k.transpose(3, 4) * attention.scaling], -1)
        weights = scores.softmax(-1)
        out = (weights[..., :T].flatten(2, 3) @ values[:, :, :T]).unflatten(2, (n, -1)) + weights[..., T:] @ v
        out = out.unflatten(3, (-1, m)).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
        x = x + layer_lora["o_proj"](out, attention.o_proj)
        h = layer.post_attention_layernorm(x)
        h = F.silu(layer_lora["gate_proj"](h, mlp.gate_proj)) * layer_lora["up_proj"](h, mlp.up_proj)
        x = x + layer_lora["down_proj"](h, mlp.down_proj)
    return network.model.norm(x).unflatten(1, (n, m))  # type: ignore[no-any-return]


def read_texts(path: Path, held_out: bool) -> list[Text]:
    """Read the answers to learn from, or those that are held out, of a file of `training.smollm2_block_answers`."""
    columns = load_file(path)
    texts = columns["ids"].to(torch.int32).split(columns["lengths"].tolist())
    rows = zip(texts, columns["prompts"].tolist(), columns["sampled"].tolist(), columns["held"].tolist(), strict=True)
    return [
        Text(ids, prompt, sampled)
        for ids, prompt, sampled, is_held_out in rows
        if is_held_out == held_out and len(ids) > prompt + 2
    ]


def batches(texts: Sequence[Text], size: int, seed: int) -> Iterator[list[Text]]:
    """Yield batches of texts of similar length without end; every epoch has an order of its own."""
    epoch = 0
    while True:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
        order = torch.randperm(len(texts), generator=generator).split(max(SORTED, size))
        parts = [sorted(part.tolist(), key=lambda i: len(texts[i].ids)) for part in order]
        groups = [part[i : i + size] for part in parts for i in range(0, len(part), size)]
        for i in torch.randperm(len(groups), generator=generator).tolist():
            yield [texts[number] for number in groups[i]]
        epoch += 1


def padded(texts: Sequence[Text]) -> Tensor:
    """[B, T] ids of texts."""
    return nn.utils.rnn.pad_sequence([text.ids.long() for text in texts], batch_first=True)


def draw_blocks(texts: Sequence[Text], masks: int, shift: bool, generator: torch.Generator) -> Blocks:
    """Draw blocks of one random length, in part filled, after random tokens of the answers.

    Args:
        texts: B texts.
        masks: About how many masks and known tokens to draw in all.
        shift: Whether a mask predicts the token after it.
        generator: For all that is random.
    """
    first, second, third = torch.rand(3, generator=generator).tolist()
    length = 1 + int(BLOCK * first**2)  # most are short, as distant masks weigh little
    count = 1 + int((length - 1) * third) if length > 1 and second < FILLED else 0
    n = max(1, masks // (len(texts) * length))
    anchors = torch.stack([_anchors(text, n, generator) for text in texts])
    order = torch.rand(len(texts), n, length, generator=generator).argsort(-1) + 1
    return make_blocks(texts, anchors, order[..., :count].sort(-1).values, order[..., count:].sort(-1).values, shift)


def _anchors(text: Text, n: int, generator: torch.Generator) -> Tensor:
    """Draw n anchors, all different where the answer is long enough."""
    order = torch.randperm(len(text.ids) - text.prompt - 1, generator=generator)
    return order[torch.arange(n) % len(order)] + text.prompt - 1


def make_blocks(texts: Sequence[Text], anchors: Tensor, filled: Tensor, masks: Tensor, shift: bool) -> Blocks:
    """Find which masks predict an unknown token of their text; see `Blocks` for the shapes."""
    ends = torch.tensor([len(text.ids) for text in texts])[:, None, None]
    predicted = masks + shift
    known = (predicted[..., None] == filled[..., None, :]).any(-1)
    wanted = (anchors[..., None] + predicted < ends) & ~known
    ids, anchors, filled, masks, wanted = (
        each.to(device()) for each in (padded(texts), anchors, filled, masks, wanted)
    )
    return Blocks(ids, anchors, filled, masks, wanted, shift)


def loss_of(network: Any, adapter: Adapter, blocks: Blocks) -> Tensor:
    """Compute the cross entropy with the base model's distributions, a mean over masks weighted by distance.

    Of every distribution the TOP_K likeliest tokens count one by one, all others together.
    """
    last, stored = real_states(network, blocks)
    head, wanted, T = network.lm_head.weight, blocks.wanted, blocks.ids.shape[1]
    row = torch.arange(len(last), device=last.device)[:, None, None] * T
    rows, which = (row + blocks.teachers)[wanted].unique(return_inverse=True)
    with torch.no_grad():
        log_p, tokens = F.linear(last.flatten(0, 1)[rows], head).log_softmax(-1).topk(TOP_K)
    p, tokens = log_p.exp()[which], tokens[which]
    logits = F.linear(mask_states(network, adapter, blocks, stored)[wanted], head)
    log_q = logits.gather(-1, tokens) - logits.logsumexp(-1, keepdim=True)
    remainder = (1 - log_q.exp().sum(-1)).clamp(min=1e-6).log()
    losses = -(p * log_q).sum(-1) - (1 - p.sum(-1)).clamp(min=0) * remainder
    weights = DECAY ** (blocks.distances[wanted] - 1).float()
    return (losses * weights).sum() / weights.sum()


@torch.no_grad()
def evaluate(network: Any, adapter: Adapter, texts: Sequence[Text], shift: bool, interval: int) -> dict[str, float]:
    """Compare blocks of EVAL_BLOCK tokens, none of which is known, with the base model.

    Args:
        network: The base model.
        adapter: Its adapter.
        texts: Held-out answers.
        shift: Whether a mask predicts the token after it.
        interval: Distance between anchors, in tokens.

    Returns:
        For every position of a block, from 1: `greedy_i`, how often the likeliest token is the base model's, in greedy
        answers, and `overlap_i`, the sum of min(p, q) over the vocabulary, in sampled answers.
    """
    head, masks = network.lm_head.weight, EVAL_BLOCK - shift
    totals = torch.zeros(2, EVAL_BLOCK + 1, 2, dtype=torch.float64)
    for text in texts:
        anchors = torch.arange(text.prompt - 1, len(text.ids) - 2, interval)[None]
        if not anchors.shape[1]:
            continue
        offsets = torch.arange(1, masks + 1).expand(1, anchors.shape[1], -1)
        blocks = make_blocks([text], anchors, offsets[..., :0], offsets, shift)
        last, stored = real_states(network, blocks)
        states = mask_states(network, adapter, blocks, stored)[blocks.wanted]
        p = F.linear(last[0, blocks.teachers[blocks.wanted]], head).softmax(-1)
        q = F.linear(states, head).softmax(-1)
        same = torch.minimum(p, q).sum(-1) if text.sampled else (p.argmax(-1) == q.argmax(-1)).float()
        positions = (blocks.masks[blocks.wanted] + shift).cpu()
        sums = torch.stack([same, torch.ones_like(same)], -1).double().cpu()
        totals[int(text.sampled)].index_add_(0, positions, sums)
    rates = totals[..., 0] / totals[..., 1].clamp(min=1)
    return {
        f"{name}_{i}": round(float(rates[kind, i]), 4)
        for kind, name in enumerate(("greedy", "overlap"))
        for i in range(1 + shift, EVAL_BLOCK + 1)
    }


def train(run: Run, network: Any, texts: Sequence[Text], held_out: Sequence[Text], shift: bool, seed: int) -> None:
    """Train until the budget is used up."""
    adapter, size = run.model, max(1, run.preset.batch // MASKS_PER_TEXT)
    assert isinstance(adapter, Adapter)
    plan = batches(texts, size, seed)
    for _ in range(run.step):
        next(plan)
    sample = held_out[:: max(1, len(held_out) // EVAL_ANSWERS)]
    for step in run.steps():
        if step and step % EVAL_EVERY == 0:
            print(
                f"step {step}, {run.seconds / 60:.1f} min: {evaluate(network, adapter, sample, shift, 6)}", flush=True
            )
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        run.update(loss_of(network, adapter, draw_blocks(next(plan), run.preset.batch, shift, generator)))


def options_of(parser: argparse.ArgumentParser) -> None:
    """Add this script's options."""
    parser.add_argument("--rank", type=int, default=16, help="rank of the matrices")
    parser.add_argument("--layers", type=int, default=0, help="only the first LAYERS layers, as a smaller drafter")
    parser.add_argument("--aligned", action="store_true", help="the mask at a position predicts the token there")
    parser.add_argument("--threads", type=int, help="threads of the CPU")
    parser.add_argument("--data", type=Path, default=PACKED, help="answers to learn from")
    parser.add_argument("-o", "--output", type=Path, help="file to write the adapter to")


def main() -> None:
    """Train, measure and write the adapter."""
    options, preset = parse(__doc__ or "", PRESETS, add=options_of)
    if options.threads:
        torch.set_num_threads(options.threads)
    name = f"{MODEL}-block" + "-aligned" * options.aligned
    name += f"-rank{options.rank}" * (options.rank != 16) + f"-layers{options.layers}" * bool(options.layers)
    network: Any = AutoModelForCausalLM.from_pretrained(download_dir(MODEL), dtype=torch.float32).eval()
    network = network.requires_grad_(False).to(device())
    adapter = Adapter(network, options.rank, options.layers).to(device())
    optimizer = torch.optim.AdamW(adapter.parameters(), lr=preset.lr, weight_decay=0.0, betas=(0.9, 0.98))
    run, shift = Run(name, adapter, [optimizer], preset), not options.aligned
    texts, held_out = (read_texts(options.data, is_held_out) for is_held_out in (False, True))
    run.resume(options)
    if not options.export_only:
        train(run, network, texts, held_out, shift, options.seed)
    adapter.bfloat16().float()  # the weights that are written are measured
    metadata = {
        "base": BASE,
        "base_sha256": sha256(download_dir(MODEL) / "model.safetensors"),
        "rank": str(options.rank),
        "layers": str(len(adapter.layers)),
        "block": str(BLOCK),
        "shift": str(int(shift)),
        "positions": str(run.step * preset.batch),
    }
    output = options.output or MODELS / f"{name}.safetensors"
    adapter.save(output, metadata)
    print(f"{output}: {output.stat().st_size} bytes, {metadata}", flush=True)
    metrics: dict[str, Any] = {**evaluate(network, adapter, held_out, shift, 8), "held_out_answers": len(held_out)}
    about = {
        "title": f"Adapter that turns {MODEL} into a block diffusion language model",
        "architecture": "training.smollm2_block.Adapter",
        "data": "answers of smollm2 (Apache-2.0) to prompts of this project and about Python's standard library",
        "file": output.name,
        "sha256": sha256(output),
    }
    if options.output:
        print(metrics)
    else:
        record(run, about, metrics, options)


if __name__ == "__main__":
    main()
