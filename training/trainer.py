"""Shared parts of the training scripts: presets, a schedule, checkpoints to resume from, a loss log, the export."""

import argparse
import json
import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from huggingface_hub import save_torch_state_dict
from safetensors.torch import save_file
from torch import Tensor, nn

from draftscope.engines.models.bundled.image import load_weights
from draftscope.engines.models.bundled.manifest import MANIFEST, READS
from draftscope.engines.models.checkpoint_files import sha256
from draftscope.engines.paths import cache_dir
from draftscope.traces.files import ROOT, atomic_path

MODELS: Final = ROOT / "assets" / "models"
SCENES_LICENCE: Final = (
    "backgrounds drawn by this project; colour emoji rendered from Noto Color Emoji (OFL-1.1), see NOTICE"
)
Network = TypeVar("Network", bound=nn.Module)
SHARD_BYTES: Final = 10_400_000
"""Below the 10 MiB a file may have in a plain git repository of Hugging Face's hub."""


@dataclass(frozen=True, slots=True)
class Preset:
    """One training budget: the run ends when `steps` or `minutes` is reached."""

    steps: int
    batch: int
    lr: float
    minutes: float = math.inf
    linear: float = 0.0
    """The learning rate falls linearly to zero over this last part of the budget; 0 for a cosine over all of it."""
    warmup: int = 100
    """Steps over which the learning rate rises."""


def parse(
    doc: str,
    presets: dict[str, Preset],
    names: Iterable[str] = (),
    add: Callable[[argparse.ArgumentParser], None] | None = None,
) -> tuple[argparse.Namespace, Preset]:
    """Read the command line of a training script.

    Args:
        doc: Its description.
        presets: Presets to choose from.
        names: The models to choose from, if there are several.
        add: Adds options that the script alone has.

    Returns:
        The options, and the preset.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if names:
        parser.add_argument("name", choices=names)
    parser.add_argument("--preset", choices=presets, default="gpu" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--minutes", type=float, help="stop after this long; the schedule follows the clock")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="ignore the checkpoint of an interrupted run")
    parser.add_argument("--export-only", action="store_true", help="measure and export the last checkpoint")
    if add:
        add(parser)
    options = parser.parse_args()
    preset = presets[options.preset]
    if options.minutes is not None:
        preset = replace(preset, minutes=options.minutes)
    torch.manual_seed(options.seed)
    return options, preset


def device() -> torch.device:
    """The accelerator if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Run:
    """One resumable training run.

    Iterate over `steps()` and call `update(loss)` in each: it takes the optimizer step, scales the learning rate,
    logs the loss and saves a checkpoint every two minutes and at the end.
    """

    def __init__(
        self, name: str, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], preset: Preset
    ) -> None:
        self.name, self.model, self.optimizers, self.preset = name, model, optimizers, preset
        self.parameters = sum(weight.numel() for weight in model.parameters())
        self.path = cache_dir() / f"{name}.pt"
        self.step, self.seconds = 0, 0.0
        self.log: list[tuple[int, float]] = []
        self._base = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
        self._recent: list[float] = []

    def resume(self, options: argparse.Namespace) -> None:
        """Continue from the checkpoint of an earlier run of the same name, if there is one and it is wanted."""
        if options.fresh or not self.path.exists():
            return
        saved = torch.load(self.path, map_location=device(), weights_only=True)
        self.model.load_state_dict(saved["model"])
        for optimizer, state in zip(self.optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        self.step, self.seconds, self.log = saved["step"], saved["seconds"], [tuple(row) for row in saved["log"]]

    @property
    def progress(self) -> float:
        """How much of the budget is used, 0 to 1."""
        return min(1.0, max(self.step / self.preset.steps, self.seconds / 60 / self.preset.minutes))

    def steps(self) -> Iterator[int]:
        """Step numbers until the budget is used up."""
        clock = saved = time.monotonic()
        while self.progress < 1:
            scale = self._scale()
            for optimizer, rates in zip(self.optimizers, self._base, strict=True):
                for group, rate in zip(optimizer.param_groups, rates, strict=True):
                    group["lr"] = rate * scale
            yield self.step
            now = time.monotonic()
            self.step, self.seconds, clock = self.step + 1, self.seconds + now - clock, now
            if now - saved > 120:
                self.save()
                saved = now
        self.save()

    def update(self, loss: Tensor) -> None:
        """One optimizer step on `loss`."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self._recent.append(float(loss.detach()))
        if len(self._recent) == 50:
            mean = sum(self._recent) / 50
            self.log.append((self.step, round(mean, 4)))
            self._recent.clear()
            print(f"{self.name} step {self.step} loss {mean:.4f} {self.seconds:.0f} s", flush=True)

    def carry_out(self, options: argparse.Namespace, train: Callable[[], None]) -> None:
        """Resume, train unless only an export is requested, and round the weights to the published precision."""
        self.resume(options)
        if not options.export_only:
            train()
        self.model.half().float()  # what ships is measured

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "step": self.step,
            "seconds": self.seconds,
            "log": self.log,
        }
        with atomic_path(self.path) as part:
            torch.save(state, part)

    def _scale(self) -> float:
        warm = min(1.0, (self.step + 1) / self.preset.warmup)
        if self.preset.linear:
            return warm * min(1.0, (1 - self.progress) / self.preset.linear)
        return warm * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * self.progress)))


def load_exported(network: Network, name: str) -> Network:
    """A network with the weights that ship under a name, on the device to train on."""
    load_weights(network, name)
    return network.to(device())


def muon(model: nn.Module, layers: nn.Module, lr: float) -> list[torch.optim.Optimizer]:
    """Muon on the matrices of the layers, AdamW on all else: embeddings, norms and head."""
    matrices = [p for p in layers.parameters() if p.ndim == 2]
    inside = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in inside]
    return [
        torch.optim.Muon(matrices, lr=lr, weight_decay=0.05, adjust_lr_fn="match_rms_adamw", ns_steps=4),
        torch.optim.AdamW(others, lr=lr, weight_decay=0.0, betas=(0.9, 0.95)),
    ]


def batches(count: int, size: int, seed: int) -> Callable[[int], Tensor]:
    """A function from step number to row indices [size]: shuffled epochs, the same for every resumed run."""
    per_epoch = count // size

    def rows(step: int) -> Tensor:
        epoch, i = divmod(step, per_epoch)
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch))
        return order[i * size : (i + 1) * size]

    return rows


def psnr(squared: float) -> float:
    """Decibels, of a mean squared error of pixels in [0, 1]."""
    return round(-10 * math.log10(squared), 2)


def export(
    run: Run, title: str, metrics: dict[str, Any], options: argparse.Namespace, data: str, **more: Mapping[str, str]
) -> None:
    """Write half-precision weights and their MANIFEST entry, loss curve and `more` included."""
    kind = type(run.model)
    about = {"title": title, "architecture": f"{kind.__module__}.{kind.__qualname__}", "data": data, **more}
    weights = {
        k: (v.half() if v.is_floating_point() else v).detach().cpu().contiguous()
        for k, v in run.model.state_dict().items()
    }
    record(run, {**about, **ship(run.name, weights)}, metrics, options)


def ship(name: str, weights: dict[str, Tensor]) -> dict[str, Any]:
    """Write weights as one file, or from `SHARD_BYTES` on as a folder of shards; return their manifest entry."""
    MODELS.mkdir(parents=True, exist_ok=True)
    path, folder = MODELS / f"{name}.safetensors", MODELS / name
    path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    if sum(weight.nbytes for weight in weights.values()) <= SHARD_BYTES:
        save_file(weights, path)
        return {"file": path.name, "sha256": sha256(path)}
    folder.mkdir()
    save_torch_state_dict(weights, folder, max_shard_size=SHARD_BYTES)
    return {"files": {shard.name: sha256(shard) for shard in sorted(folder.glob("*.safetensors"))}}


def record(run: Run, about: dict[str, Any], metrics: dict[str, Any], options: argparse.Namespace) -> None:
    """Write a model's MANIFEST entry, including its loss curve and the hashes of the files next to its weights."""
    manifest_path = MODELS / MANIFEST
    manifest = json.loads(manifest_path.read_text()) if manifest_path.exists() else {}
    stride = max(1, len(run.log) // 60)
    minutes = "" if options.minutes is None else f" --minutes {options.minutes:g}"
    family, _, member = run.name.partition("-")
    script = f"{family} {member}" if family in ("text", "patch", "tally") else run.name.replace("-", "_")
    manifest[run.name] = {
        **about,
        "parameters": run.parameters,  # as it was made: measuring may put lean layers in place of some
        "command": f"python -m training.{script} --preset {options.preset}{minutes} --seed {options.seed}",
        "seed": options.seed,
        "trained": {
            "device": str(device()),
            "torch": torch.__version__,
            "steps": run.step,
            "minutes": round(run.seconds / 60, 1),
            **{k: v for k, v in asdict(run.preset).items() if k in ("batch", "lr")},
        },
        "metrics": metrics,
        "loss": run.log[::stride],
    }
    manifest[run.name] = with_reads(MODELS, run.name, manifest)
    manifest_path.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    print(json.dumps(metrics, indent=1))


def with_reads(folder: Path, name: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of the manifest with the hashes of files in its folder and of the tokenizer of its family, if any."""
    files = [*(folder / name).rglob("*"), folder / f"{name.partition('-')[0]}-tokenizer.json"]
    read_files = [path for path in files if path.is_file() and path.suffix != ".safetensors"]
    shown = sorted(path for path in read_files if not path.name.startswith("."))
    reads = {path.relative_to(folder).as_posix(): sha256(path) for path in shown}
    entry = {key: value for key, value in manifest[name].items() if key != READS}
    return {**entry, READS: reads} if reads else entry
