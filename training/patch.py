"""Train the studio patch models: pictures as 12x12 continuous tokens.

    python -m training.patch tokenizer|target|draft|mixture|masked [--preset cpu|gpu] [--minutes M]

in this order; docs/training.md describes their initialisation, data and objectives.
"""

import math
from functools import cache
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface

from draftscope.engines.continuous.denoising import TIMESTEPS, ContinuousSampling, denoise, respaced_cosine_schedule
from draftscope.engines.continuous.gaussian_bridges import make_bridge
from draftscope.engines.continuous.gaussians import Gaussians
from draftscope.engines.models.bundled.catalog import PATCHES
from draftscope.engines.models.bundled.image_networks import CODES, DRAFTER, Tokenizer, Transformer
from draftscope.engines.models.bundled.patch import (
    NOISE,
    PREFIX,
    SIZES,
    WIDTH,
    MaskedPatchTransformer,
    PatchNetwork,
    PatchTokenizer,
    PatchTransformer,
    condition_vectors,
)
from draftscope.engines.models.heads import MixtureHead, ResidualHead
from training.image_ar import DISTINCT, drop_conditions, float32_attention
from training.image_tokenizer import as_images, reconstruction_loss
from training.scenes_data import TEST, TRAIN, build
from training.trainer import SCENES_LICENCE, Preset, Run, device, export, load_exported, muon, parse, psnr

PRESETS: Final = {
    "cpu": Preset(steps=12_000, batch=16, lr=2e-3, minutes=50, linear=0.7),
    "gpu": Preset(steps=30_000, batch=64, lr=2e-3, linear=0.7),
}
ALIGNED: Final = 400
"""Steps that the projection of tokens learns alone."""
HELD_OUT: Final = 1_000
REPEATS: Final = 4
"""Noise levels sampled for every token of a batch: the head is cheap compared with the backbone."""
ERROR_WEIGHT: Final = 0.1
"""Weight of the likelihood of the errors of the noise estimate, which sets the variances of the steps."""
FROM_DATA: Final = 0.6
"""Share of the budget in which a mixture learns from data; then it learns from paths that its target draws."""
SAMPLING: Final = ContinuousSampling(last_timestep=dict(PATCHES)["last_timestep"])
TOKENIZER: Final = "patch-tokenizer"
SCHEDULE: Final = respaced_cosine_schedule(TIMESTEPS)


def noisy_tokens(mean: Tensor, generator: torch.Generator) -> Tensor:
    """Tokens [B, 144, 8] drawn around their means."""
    return mean + math.sqrt(NOISE) * torch.randn(mean.shape, generator=generator, device=mean.device)


def inherit_convolutions(model: PatchTokenizer) -> None:
    """Start from the image model's tokenizer, whose codes have other dimensions."""
    theirs, target = load_exported(Tokenizer(), "image-tokenizer").state_dict(), model.state_dict()
    model.load_state_dict(
        target | {name: theirs[name] for name in target if name in theirs and theirs[name].shape == target[name].shape}
    )


def train_tokenizer(run: Run, model: PatchTokenizer, seed: int) -> None:
    """Reconstruct pictures from noisy tokens."""
    model.train()
    for step in run.steps():
        rows = torch.from_numpy(build(run.preset.batch, TRAIN, seed, step)[0])
        image = as_images(rows).contiguous(memory_format=torch.channels_last)
        noise = torch.Generator(device()).manual_seed(seed * 1_000_003 + step)
        with torch.autocast(device().type, torch.bfloat16):
            out = model.reconstruct(noisy_tokens(model.means(image), noise)).float()
        run.update(reconstruction_loss(out, image))
    model.eval()


@torch.no_grad()
def measure_tokenizer(model: PatchTokenizer, images: Tensor) -> dict[str, float | int]:
    """PSNR on held-out images, with the noise of tokens and without."""
    generator, squared = torch.Generator(device()).manual_seed(0), [0.0, 0.0]
    for chunk in images.split(250):
        image = as_images(chunk)
        mean = model.means(image)
        for k, tokens in enumerate((noisy_tokens(mean, generator), mean)):
            squared[k] += float((model.decode(tokens) - image).square().mean((1, 2, 3)).sum()) / 4
    noisy, clean = (psnr(total / len(images)) for total in squared)
    return {"psnr_db": noisy, "psnr_db_without_noise": clean, "held_out_images": len(images)}


def noised(token: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens [M, D] with the noise of random timesteps [M]; and that noise."""
    t = torch.randint(TIMESTEPS, (len(token),), generator=generator, device=token.device)
    coefficients = torch.tensor(SCHEDULE.coefficients, device=token.device)[t, None]
    eps = torch.randn(token.shape, generator=generator, device=token.device)
    return coefficients.sqrt() * token + (1 - coefficients).sqrt() * eps, t.float(), eps


def diffusion_loss(out: tuple[Tensor, Tensor], wanted: Tensor, error: Tensor) -> Tensor:
    """Squared error of the noise estimate, and the likelihood of squared errors, by which the second output learns.

    `out` is a head's noise estimate and the logarithm of the squared error that it expects [M, D].
    """
    estimated_noise, log_error = out
    likelihood = 0.5 * (log_error + error * (-log_error).exp())
    return F.mse_loss(estimated_noise, wanted) + ERROR_WEIGHT * likelihood.mean()


def conditions(model: PatchNetwork, token: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The tokens [M, D] to learn of whole pictures [B, 144, 8] under labels [B, 2], and the head's conditions [M, H].

    A causal model learns all of them; of a masked one's the generator hides 1 to 144 a picture.
    """
    with torch.autocast(device().type, torch.bfloat16):
        if isinstance(model, MaskedPatchTransformer):
            visible = torch.rand(len(token), 1, generator=generator, device=token.device) * token.shape[1]
            rank = torch.rand(token.shape[:2], generator=generator, device=token.device).argsort(-1)
            hidden = rank >= visible.floor()
            return token[hidden], model(token, ~hidden, labels)[hidden].float()
        inputs = torch.cat([condition_vectors(labels), token[:, :-1]], 1)
        positions = torch.arange(inputs.shape[1], device=inputs.device).expand(len(inputs), -1)
        return token.flatten(0, 1), model(inputs, positions)[:, PREFIX - 1 :].flatten(0, 1).float()


def estimate(model: PatchNetwork, noisy: Tensor, t: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
    """Its head's noise estimate and the logarithm of the squared error that it expects."""
    assert isinstance(model.head, ResidualHead)
    with torch.autocast(device().type, torch.bfloat16):
        estimated_noise, raw = model.head(noisy, t, condition.repeat(REPEATS, 1))
    return estimated_noise.float(), F.logsigmoid(raw).float()


def estimated(
    model: PatchNetwork, token: Tensor, labels: Tensor, generator: torch.Generator, teacher: PatchNetwork | None
) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
    """Return a head's outputs for noisy tokens of whole pictures, and their targets: see `diffusion_loss`.

    A teacher, which is causal, replaces the data: equal noise estimates and equal expected errors are equal
    distributions.
    """
    learnt, condition = conditions(model, token, labels, generator)
    noisy, t, eps = noised(learnt.repeat(REPEATS, 1), generator)
    out = estimate(model, noisy, t, condition)
    if teacher is None:
        return out, eps, (eps - out[0].detach()).square()
    with torch.no_grad():
        wanted, log_error = estimate(teacher, noisy, t, conditions(teacher, token, labels, generator)[1])
    return out, wanted, log_error.exp()


@torch.no_grad()
def drawn_paths(target: PatchNetwork, condition: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Paths x_T .. x_0 [M, S, D] that a target's head draws under conditions [M, H], and their log densities [M]."""
    assert isinstance(target.head, ResidualHead)
    shape = (len(condition), SAMPLING.steps + 1, WIDTH)
    noise = torch.randn(shape, generator=generator, device=condition.device, dtype=torch.float64)
    paths = denoise(target.head.lean()(condition, SAMPLING.schedule), noise[:, :-1], SAMPLING, None)
    states = torch.cat([paths.states, paths.last.draw(noise[:, -1], noise[:, -1, 0])[:, None]], 1)
    return states, paths.distributions.log_density(states[:, 1:].transpose(0, 1)).sum(0)


def loss(
    model: PatchNetwork, token: Tensor, labels: Tensor, generator: torch.Generator, teacher: PatchNetwork | None
) -> Tensor:
    """The loss of whole pictures: tokens [B, 144, 8] under labels [B, 2].

    Of a mixture the negative log likelihood per component, nats; with a teacher the total variation of paths, which is
    the share of drafts that it rejects, estimated by paths of the teacher's.
    """
    if isinstance(model.head, MixtureHead):
        learnt, condition = conditions(model, token, labels, generator)
        distribution: Gaussians = model.head(condition)
        if teacher is None:
            return -distribution.log_density(learnt.double()).mean().float() / token.shape[-1]
        with torch.no_grad():
            theirs = conditions(teacher, token, labels, generator)[1]
        states, log_density = drawn_paths(teacher, theirs, generator)
        ratio = make_bridge(distribution, SAMPLING).log_density(states) - log_density
        return 1 - ratio.clamp(max=0).exp().mean().float()
    return diffusion_loss(*estimated(model, token, labels, generator, teacher))


def encoded(tokenizer: PatchTokenizer, count: int, *seed: int) -> tuple[Tensor, Tensor]:
    """Means of tokens [N, 144, 8] and labels [N, 2] of the pictures that `training.scenes_data.build` makes."""
    images, labels = build(count, *seed)
    with torch.no_grad():
        return tokenizer.means(as_images(torch.from_numpy(images))), torch.from_numpy(labels)


def inherit(model: PatchNetwork, codes: Transformer) -> None:
    """Start from the layers of a transformer of the image model, evenly chosen, or with copies that add nothing yet.

    Copies start with output projections of zero, as in LLaMA Pro (arXiv 2401.02415).
    """
    layers, theirs = model.backbone.layers, codes.backbone.layers
    source = [i * len(theirs) // len(layers) for i in range(len(layers))]
    for i, layer in enumerate(layers):
        layer.load_state_dict(theirs[source[i]].state_dict())
        if source[i] in source[:i]:
            nn.init.zeros_(layer.self_attn.o_proj.weight)
            nn.init.zeros_(layer.mlp.down_proj.weight)
    model.backbone.norm.load_state_dict(codes.backbone.norm.state_dict())
    model.position.load_state_dict(codes.position.state_dict())
    with torch.no_grad():
        model.backbone.embed_tokens.weight.copy_(codes.backbone.embed_tokens.weight[CODES:])


def align(model: PatchNetwork, codes: Transformer, tokenizer: PatchTokenizer, seed: int) -> None:
    """Project tokens close to the embeddings of the codes that the image model has for the same patches."""
    coder = load_exported(Tokenizer(), "image-tokenizer").eval()
    optimizer = torch.optim.AdamW(model.project.parameters(), 3e-3)
    generator = torch.Generator(device()).manual_seed(seed)
    for step in range(ALIGNED):
        image = as_images(torch.from_numpy(build(PRESETS["cpu"].batch, TRAIN, seed, step)[0]))
        with torch.no_grad():
            token = noisy_tokens(tokenizer.means(image), generator)
            wanted = codes.backbone.embed_tokens(coder.encode(image).flatten(1))
        loss = F.mse_loss(model.project(token), wanted) / wanted.var()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"{step + 1} steps of the projection, loss {float(loss.detach()):.3f}", flush=True)


def train_transformer(
    run: Run, model: PatchNetwork, tokenizer: PatchTokenizer, seed: int, teacher: PatchNetwork | None
) -> None:
    """Train on tokens that are sampled again around their means in every step."""
    AttentionInterface.register("float32", float32_attention)
    for network in (model, teacher):
        if network is not None:
            network.backbone.set_attn_implementation("float32")
            network.compile()
    batch = cache(lambda number: encoded(tokenizer, run.preset.batch, TRAIN, seed, number))
    for step in run.steps():
        mean, labels = batch(step % DISTINCT)
        here = torch.Generator().manual_seed(seed * 1_000_003 + step)
        generator = torch.Generator(device()).manual_seed(seed * 1_000_003 + step)
        token = noisy_tokens(mean, generator)
        judge = None if isinstance(model.head, MixtureHead) and run.progress < FROM_DATA else teacher
        run.update(loss(model, token, drop_conditions(labels, here).to(device()), generator, judge))
    model.backbone.set_attn_implementation("sdpa")


@torch.no_grad()
def measure_transformer(
    model: PatchNetwork, tokenizer: PatchTokenizer, teacher: PatchNetwork | None
) -> dict[str, float | int]:
    """Errors on held-out pictures, with the same noise for every model."""
    mean, labels = encoded(tokenizer, HELD_OUT, TEST, 0)
    chunks, mixes = list(zip(mean.split(100), labels.split(100), strict=True)), isinstance(model.head, MixtureHead)

    def average(teacher: PatchNetwork | None) -> float:
        generator, total = torch.Generator(device()).manual_seed(0), 0.0
        for part, label in chunks:
            token, known = noisy_tokens(part, generator), label.to(device())
            if mixes:
                total += float(loss(model, token, known, generator, teacher))
            else:
                out, wanted, _ = estimated(model, token, known, generator, teacher)
                total += float(F.mse_loss(out[0], wanted))
        return round(total / len(chunks), 4)

    error, difference = "squared_error_of_the_noise", "squared_difference_from_target"
    if mixes:
        error, difference = "negative_log_likelihood_nats", "rejected_by_the_target"
    measured = {"held_out_images": len(labels), error: average(None)}
    return measured if teacher is None else measured | {difference: average(teacher)}


def main() -> None:
    """Train, measure and export one of the models."""
    options, preset = parse(__doc__ or "", PRESETS, ("tokenizer", *SIZES))
    if options.name == "tokenizer":
        tokenizer = PatchTokenizer().to(device())
        inherit_convolutions(tokenizer)
        optimizer = torch.optim.AdamW(tokenizer.parameters(), preset.lr, betas=(0.9, 0.98), weight_decay=1e-3)
        run = Run(TOKENIZER, tokenizer, [optimizer], preset)
        run.carry_out(options, lambda: train_tokenizer(run, tokenizer, options.seed))
        title = "Autoencoder, 96x96 colour pictures to 12x12 tokens of 8 numbers"
        held_out = torch.from_numpy(build(2_000, TEST, 0)[0])
        export(run, title, measure_tokenizer(tokenizer, held_out), options, SCENES_LICENCE)
        return
    size, teacher, codes = SIZES[options.name], None, load_exported(Transformer(), "image-ar")
    if options.name in ("draft", "mixture"):
        teacher = load_exported(PatchTransformer(SIZES["target"]), "patch-target").eval()
        codes = load_exported(Transformer(DRAFTER), "image-draft")
    tokenizer = load_exported(PatchTokenizer(), TOKENIZER).eval()
    model = (MaskedPatchTransformer if options.name == "masked" else PatchTransformer)(size).to(device())
    inherit(model, codes)
    if options.name == "masked":
        target = load_exported(PatchTransformer(SIZES["target"]), "patch-target")
        model.head.load_state_dict(target.head.state_dict())
    run = Run(f"patch-{options.name}", model, muon(model, model.backbone.layers, preset.lr), preset)
    if options.fresh or not run.path.exists():
        align(model, codes, tokenizer, options.seed)
    run.carry_out(options, lambda: train_transformer(run, model, tokenizer, options.seed, teacher))
    export(run, size.title, measure_transformer(model, tokenizer, teacher), options, SCENES_LICENCE)


if __name__ == "__main__":
    main()
