"""Train the small drafter of the studio image model on samples of the target (as DistillSpec, arXiv 2310.08461).

    python -m training.image_draft [--preset cpu|gpu] [--minutes M]

The sequences are sampled first, with their logits, and stored in the cache folder, 300 kB each; an interrupted run
continues after the last complete batch.
"""

import math
from typing import Final, TypeAlias

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from draftscope.engines.models.bundled.image import load_weights
from draftscope.engines.models.bundled.image_networks import CODES, DRAFTER, GRID, Transformer, condition_ids
from draftscope.engines.models.bundled.prompts import PROMPTS
from draftscope.engines.models.sessions.causal import CacheSlots, SlotLayer
from draftscope.engines.paths import cache_dir
from draftscope.traces.files import atomic_path
from training.image_ar import drop_conditions, inputs
from training.trainer import SCENES_LICENCE, Preset, Run, batches, device, export, muon, parse

PRESETS: Final = {
    "cpu": Preset(steps=12_000, batch=24, lr=3e-3, minutes=14),
    "gpu": Preset(steps=20_000, batch=48, lr=3e-3),
}
VARIATION_WEIGHT: Final = 3.0
"""Weight of the total variation, the share of drafts that is rejected, relative to a divergence of weight 1."""
ROWS: Final = 128
SPLITS: Final = {"train": 48, "held": 4, "held-silent": 4}
"""Batches of sequences: to learn from, with some conditions dropped; held-out, with all conditions and with none."""


def conditions(split: str, generator: torch.Generator) -> Tensor:
    """Labels [ROWS, 2] of a batch: uniform over what there are pictures of, dropped as a split wants it."""
    labels = torch.tensor(PROMPTS)[torch.randint(len(PROMPTS), (ROWS,), generator=generator)]
    if split == "train":
        return drop_conditions(labels, generator)
    return torch.full_like(labels, -1) if split == "held-silent" else labels


@torch.inference_mode()
def draw(target: Transformer, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Codes [B, 144] drawn from the target without guidance, and the logits [B, 144, K] they were drawn from."""
    length = GRID**2
    slots = CacheSlots(len(labels), target.prefix + length)
    cache = Cache(layers=[SlotLayer(slots) for _ in target.backbone.layers])
    ids = condition_ids(labels.to(device()))
    codes = torch.empty(len(labels), length, dtype=torch.long, device=device())
    logits = torch.empty(len(labels), length, CODES, dtype=torch.float16)
    for i in range(length):
        positions = torch.arange(slots.end, slots.end + ids.shape[1], device=device())
        slots.contiguous = slice(slots.end, slots.end + ids.shape[1])
        slots.end = slots.contiguous.stop
        last = target(ids, positions.expand_as(ids), cache)[:, -1]
        ids = torch.multinomial(last.softmax(-1), 1, generator=generator)
        codes[:, i], logits[:, i] = ids[:, 0], last.half().cpu()
    return codes.cpu(), logits


Draws: TypeAlias = tuple[Tensor, Tensor, tuple[Tensor, ...]]
"""Codes [N, 144], labels [N, 2] and, batch by batch, logits [ROWS, 144, K], which stay in their files."""


def draws(target: Transformer, digest: str, split: str, seed: int) -> Draws:
    """The sequences of a split, drawn once and kept."""
    folder, parts = cache_dir() / f"image-draws-{digest[:12]}-{seed}", []
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(SPLITS[split]):
        path = folder / f"{split}-{i}.pt"
        if not path.exists():
            number = 1_000_003 * seed + 1_000 * list(SPLITS).index(split) + i
            label = conditions(split, torch.Generator().manual_seed(number))
            drawn, scores = draw(target, label, torch.Generator(device()).manual_seed(number))
            with atomic_path(path) as part:
                torch.save((drawn, label, scores), part)
            print(f"drew batch {i + 1} of {SPLITS[split]}, {split}", flush=True)
        parts.append(torch.load(path, mmap=True, weights_only=True))
    codes, labels, logits = zip(*parts, strict=True)
    return torch.cat(codes), torch.cat(labels), logits


def inherit(model: Transformer, target: Transformer) -> None:
    """Start from the target's embeddings, first layers, last norm and head; the drafter has its width."""
    theirs = target.state_dict()
    model.load_state_dict({name: theirs[name] for name in model.state_dict()})


def compare(model: Transformer, codes: Tensor, labels: Tensor, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """KL(target || drafter) in nats, total variation and the drafter's log probabilities, at each position [B, 144]."""
    ids, positions = inputs(model, codes, labels)
    with torch.autocast(device().type, torch.bfloat16, enabled=model.training):
        out = model(ids, positions)[:, model.prefix - 1 :]
    log_probs, wanted = out.float().log_softmax(-1), logits.to(device()).float().log_softmax(-1)
    p = wanted.exp()
    divergence = (p * (wanted - log_probs)).sum(-1)
    return divergence, 0.5 * (p - log_probs.exp()).abs().sum(-1), log_probs


def train(run: Run, model: Transformer, split: Draws, seed: int) -> None:
    """Train until the budget is used up."""
    codes, labels, logits = split
    rows = batches(len(codes), run.preset.batch, seed)
    model.train()
    for step in run.steps():
        picked = rows(step)
        wanted = torch.stack([logits[row // ROWS][row % ROWS] for row in picked.tolist()])
        divergence, variation, _ = compare(model, codes[picked], labels[picked], wanted)
        run.update(divergence.mean() + VARIATION_WEIGHT * variation.mean())
    model.eval()


@torch.no_grad()
def measure(model: Transformer, split: Draws) -> dict[str, float]:
    """Means over all positions of held-out sequences."""
    codes, labels, logits = split
    totals = torch.zeros(4)
    for chunk, label, scores in zip(codes.split(ROWS), labels.split(ROWS), logits, strict=True):
        divergence, variation, log_probs = compare(model, chunk, label, scores)
        rates = [x.cpu().gather(-1, chunk[..., None]).mean() for x in (log_probs, scores.float().log_softmax(-1))]
        totals += torch.stack([variation.mean().cpu(), divergence.mean().cpu(), *rates])
    variation, divergence, drafter, target = (totals / len(logits)).tolist()
    return {
        "acceptance": round(1 - variation, 4),
        "divergence_nats": round(divergence, 4),
        "bits_per_token_drafter": round(-drafter / math.log(2), 4),
        "bits_per_token_target": round(-target / math.log(2), 4),
    }


def main() -> None:
    """Draw, train, measure and export."""
    options, preset = parse(__doc__ or "", PRESETS)
    target = Transformer()
    (digest,) = load_weights(target, "image-ar").values()
    target = target.to(device()).eval()
    model = Transformer(DRAFTER).to(device()).eval()
    inherit(model, target)
    run = Run("image-draft", model, muon(model, model.backbone.layers, preset.lr), preset)
    held_out = {split: draws(target, digest, split, options.seed) for split in ("held", "held-silent")}
    run.carry_out(options, lambda: train(run, model, draws(target, digest, "train", options.seed), options.seed))
    metrics: dict[str, float | int] = dict(measure(model, held_out["held"]))
    metrics |= {f"{name}_without_conditions": value for name, value in measure(model, held_out["held-silent"]).items()}
    metrics["held_out_sequences"] = sum(len(codes) for codes, _, _ in held_out.values())
    title = "Small drafter for the autoregressive transformer over the tokenizer's codes"
    export(run, title, metrics, options, f"sequences drawn from image-ar, which learned from {SCENES_LICENCE}")


if __name__ == "__main__":
    main()
