"""The command line: `python -m engines list`, `run METHOD -o FILE`, `expect`, `check`, `calibrate`, and conversions."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

from engines.config import ConfigError, make_config, shown
from engines.diffusion_lm import calibration
from engines.methods import METHODS, psd
from engines.methods.method import Method
from engines.models import clip_files, devices, fixed_shapes
from engines.models.catalog import MODELS, UNREADABLE, default_model, open_model, small_of, terms_of
from engines.models.clip_model import ClipModel
from engines.models.errors import ModelError
from engines.models.memory import DTYPES, Room
from engines.models.published_families import FAMILIES
from engines.protocol import Model
from engines.runtime import expecting, listing
from engines.runtime.driver import Job, Run, run_batch
from engines.runtime.recorder import LIKELY
from engines.sampling.chance import LARGEST_SEED, read_seed
from engines.testing import conformance
from engines.testing.subject import claims, find, subject
from traces import dumps, write
from traces.streams import STANDARD, piped

DONE, BROKEN, USAGE, NO_MODEL, INTERRUPTED = 0, 1, 2, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.action(options))
    except ModelError as error:
        print(error, file=sys.stderr)
        return NO_MODEL
    except (ConfigError, ValueError) as error:
        print(error, file=sys.stderr)
        return USAGE


def list_everything(options: argparse.Namespace) -> int:
    """Print methods with their settings, and models with what they need."""
    methods = listing.methods()
    if options.json:
        print(json.dumps({"methods": methods, "models": listing.models(), "families": listing.families()}, indent=1))
        return DONE
    for name, about in methods.items():
        print(f"{name}: {about['title']}, {about['summary']}")
        for setting, detail in about["settings"].items():
            scope = f" Where {detail['when']}." if detail["when"] else ""
            print(f"    {setting}={detail['default']}  {detail['allowed']}. {detail['help']}{scope}")
        for preset, values in about["presets"].items():
            print(f"    --preset {quote(preset)}  {' '.join(f'{name}={value}' for name, value in values.items())}")
    print()
    for model in MODELS.values():
        print(f"{model.id}: {model.title}; needs {model.needs}. {model.prompt_help}")
    print("\nFamilies of published checkpoints; a checkpoint that is not listed is loaded by its folder or OWNER/NAME:")
    for family in FAMILIES:
        print(f"  {family}")
    for said in UNREADABLE:
        print(said, file=sys.stderr)
    return DONE


def run(options: argparse.Namespace) -> int:
    """Decode, write the trace, and say what it came to."""
    target, seed = _target(options.output), _seed(options.seed)
    method = find(options.method)
    named = {} if options.preset is None else method.preset(options.preset)
    config = make_config(method.config, {**named, **dict(_assignment(text) for text in options.set)})
    model_id = options.model or default_model(method.family)
    if said := terms_of(model_id):
        print(f"{model_id}: {said}", file=sys.stderr)
    room = Room(getattr(config, "length", 0) or Room().length)
    model = open_model(model_id, options.device, options.dtype, room)
    small = _drafter(options, method, model)
    example = MODELS[model_id].default_prompt if model_id in MODELS else ""
    prompt = example if options.prompt is None else options.prompt
    prompt = sys.stdin.read().strip() if prompt == STANDARD else prompt
    prompt = _prompt(model, prompt)
    running = Run(Job(method, model, prompt, config, seed, small=small, likely=options.likely, shapes=options.shapes))
    code = _advance(running, running.job.task.length)
    trace = running.trace()
    with _writing(options.output):
        if target is None:
            sys.stdout.buffer.write(dumps(trace))
            sys.stdout.flush()
        else:
            write(trace, target)
    made = trace.summary
    acceptance = "-" if made.acceptance is None else f"{made.acceptance:.3f}"
    print(
        f"method {trace.method}, model {trace.model.id}, tokens {made.tokens}, forwards {made.forwards}, "
        f"tokens per forward {made.tokens_per_forward:.2f}, acceptance {acceptance}, seconds {made.seconds:.2f}"
        + ("" if made.complete else ", incomplete"),
        file=sys.stderr if target is None else sys.stdout,
    )
    return code


def _prompt(model: Model, said: str) -> str:
    """The prompt, or for a model that takes clips, the one that a GIF or MP4 at a path comes to.

    Raises:
        ConfigError: for a file that cannot be read.
    """
    if not isinstance(model, ClipModel) or not said.lower().endswith(clip_files.ENDINGS):
        return said
    try:
        with Path(said).open("rb") as file:
            data = file.read(clip_files.MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"--prompt: {said!r} cannot be read ({why}); check the path.") from None
    return model.prompt_for(data)


@contextmanager
def _writing(place: str, field: str = "-o") -> Iterator[None]:
    """A disk that is full or closed to us is told in a sentence; a reader that went away is not told at all.

    Raises:
        ConfigError: for what cannot be written.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ConfigError(f"{field}: {place!r} cannot be written ({error.strerror}); choose another place.") from error


def _target(named: str) -> Path | None:
    """The file to write; None for standard output.

    Raises:
        ConfigError: for a name that cannot be a trace's.
    """
    if named == STANDARD:
        return None
    target = Path(named)
    if not target.name.endswith((".json", ".json.gz")):
        raise ConfigError(f"-o: {named!r} must end in .json or .json.gz, or be - for standard output.")
    if not target.parent.is_dir():
        raise ConfigError(f"-o: the folder {str(target.parent)!r} does not exist; make it first.")
    return target


def _seed(text: str) -> int:
    try:
        return read_seed(int(text))
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        return read_seed(text)


def _drafter(options: argparse.Namespace, method: Method, model: Model) -> Model | None:
    """The model that is to draft, if one is named, or is to run elsewhere than its target.

    Raises:
        ConfigError: for a method that has no other model draft.
    """
    name, field = options.draft_model, "--draft-device" if options.draft_model is None else "--draft-model"
    if name is None and options.draft_device is None:
        return None
    if method.drafter is None:
        fits = ", ".join(each.name for each in METHODS.values() if each.drafter)
        raise ConfigError(f"{field}: {method.name} has no other model draft; leave it out, or use one of {fits}.")
    small = open_model(name or small_of(model.card.id), options.draft_device or options.device, options.dtype)
    if small.device != model.device and method.family == "continuous-ar":
        raise ConfigError(f"--draft-device: {method.name} drafts vectors on its target's device; leave it out.")
    if small.parameters > model.parameters:
        sizes = f"{small.card.id} has {small.parameters:,} parameters, {model.card.id} {model.parameters:,}."
        print(
            f"--draft-model: {sizes} "
            "The output is the same, but a drafter that is larger than its target cannot save time.",
            file=sys.stderr,
        )
    return small


def expect(options: argparse.Namespace) -> int:
    """Say what a model will cost on this machine."""
    room = Room(_positive("--length", options.length), _positive("--lanes", options.lanes))
    print(expecting.expect(options.model, options.device, options.dtype, room))
    if options.passes:
        took = expecting.seconds_per_pass(options.model, options.passes, options.device, options.dtype)
        print(f"a pass of ordinary decoding took {took:.3g} s here, the median of {options.passes}")
    return DONE


def _positive(field: str, value: int) -> int:
    if value < 1:
        raise ConfigError(f"{field}: {value} is not allowed; use 1 or more.")
    return value


def check(options: argparse.Namespace) -> int:
    """Say what holds of a method, one line a check."""
    method = find(options.method)
    values = dict(_assignment(text) for text in options.set)
    holds = True
    for finding in conformance.check(subject(method, values), claims(method, values)):
        print(finding, flush=True)
        holds = holds and finding.holds
    return DONE if holds else BROKEN


def calibrate(options: argparse.Namespace) -> int:
    """Decode prompts by a transfer policy alone, and store which ranks of its confidence came true."""
    method = METHODS["psd"]
    config = make_config(psd.Config, {"depth": 0, **dict(_assignment(text) for text in options.set)})
    if config.depth:
        raise ConfigError("depth: calibration decodes by the policy alone; leave it out.")
    prompts = calibration.prompts(Path(options.prompts), options.count)
    model = open_model(options.model or default_model(method.family), options.device)
    runs = []
    for first in range(0, len(prompts), options.batch):
        jobs = [Job(method, model, prompt, config) for prompt in prompts[first : first + options.batch]]
        runs += [trace.steps for trace in run_batch(jobs)]
        if sys.stderr.isatty():
            print(f"\r{len(runs)} of {len(prompts)} prompts", end="", file=sys.stderr, flush=True)
    policy = (config.policy, config.tau, config.size)
    sequences = calibration.emitted(runs)
    about = {"prompts": len(prompts), "length": config.length, "steps": sum(sequences.values())}
    path = calibration.path_of(model.card.id, policy)
    with _writing(str(path)):
        calibration.write(path, calibration.key(model.card, policy), about, sequences)
    nodes = calibration.choose(sequences, 3, 7).nodes
    print(f"{path}: {about['steps']} steps; the best 7 rows of 3 levels are {' '.join(map(_ranks, nodes))}")
    return DONE


def convert_cosmos(options: argparse.Namespace) -> int:
    """Write a Cosmos checkpoint's weights in a form that is safe to read."""
    from engines.models.hub import cosmos_convert  # brings diffusers, which no other action needs

    with _writing(options.target, "TARGET"):
        cosmos_convert.convert(Path(options.source), Path(options.tokenizer), Path(options.target), print)
    print(
        f"run it with: python -m engines run scd --model {quote(options.target)} --preset Cosmos --prompt CLIP.mp4 ..."
    )
    return DONE


def convert_picture(options: argparse.Namespace) -> int:
    """Write a picture model's weights in a form that is safe to read."""
    from engines.models.hub import picture_convert  # brings diffusers, which no other action needs

    if options.kind not in picture_convert.KINDS:
        kinds = ", ".join(picture_convert.KINDS)
        raise ConfigError(f"KIND: {shown(options.kind)} is none; use {kinds}.")
    pixels = Path(options.pixels) if options.pixels else None
    asked = picture_convert.Asked(Path(options.source), pixels, options.heads, options.side)
    with _writing(options.target, "TARGET"):
        picture_convert.convert(options.kind, asked, Path(options.target), print)
    method = "cspd" if options.kind in ("mar", "xar", "harmon") else "scd"
    print(f"run it with: python -m engines run {method} --model {quote(options.target)} ...")
    return DONE


def _ranks(node: Sequence[int]) -> str:
    return "{" + ",".join(map(str, node)) + "}"


def _advance(running: Run, length: int) -> int:
    """Take all steps, with progress on a terminal; Ctrl-C keeps what was decoded."""
    decoded = 0
    show = sys.stderr.isatty()
    try:
        for k, step in enumerate(running, 1):
            decoded += sum(fate.final for fate in step.fate)
            if show:
                print(f"\r{decoded}/{length} tokens, {k} forward passes", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        if show:
            print(file=sys.stderr)
    return DONE


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--set: {text!r} must read NAME=VALUE.")
    return name, value


def _action(actions: Any, name: str, told: str) -> Any:
    """A parser of one action, whose own help says what it does, too."""
    return actions.add_parser(name, help=told, description=f"{told[0].upper()}{told[1:]}.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m engines", description="Run a decoding method and record its trace."
    )
    actions = parser.add_subparsers(
        required=True, metavar="{list,run,expect,check,calibrate,convert-cosmos,convert-picture}"
    )
    listing: Any = _action(actions, "list", "methods with their settings, models with what they need")
    listing.add_argument("--json", action="store_true", help="as JSON, for programs")
    listing.set_defaults(action=list_everything)
    running: Any = _action(actions, "run", "decode once and write the trace")
    running.add_argument("method", help="a name of list, or module:name of a method of your own")
    running.add_argument("--model", help="an id of list, or a checkpoint's folder; default: the method's studio model")
    running.add_argument("--draft-model", metavar="ID", help="drafts in place of the small model of the catalogue")
    running.add_argument("--draft-device", metavar="DEVICE", help="where the drafter runs; default: as --device")
    running.add_argument("--prompt", metavar="TEXT", help="- is standard input; default: the model's example")
    running.add_argument("--seed", default="0", metavar="N", help=f"from 0 to {LARGEST_SEED}; default: 0")
    running.add_argument("--preset", metavar="NAME", help="settings that go by a name; see list. --set overrules them")
    running.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting; see list")
    running.add_argument("--device", help=devices.HELP_SEVERAL)
    running.add_argument("--shapes", choices=fixed_shapes.SHAPES, default="", help=fixed_shapes.HELP)
    running.add_argument(
        "--dtype",
        choices=sorted(DTYPES),
        help="what a published language model's weights are held in; default: float32 on a CPU, bfloat16 elsewhere",
    )
    running.add_argument(
        "--likely",
        type=int,
        metavar="K",
        help=f"tokens to record of each distribution behind a verdict; default: {LIKELY} on models that ship, else 0",
    )
    running.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="ends in .json or .json.gz; - is standard output"
    )
    running.set_defaults(action=run)
    _add_expect(actions)
    checking: Any = _action(actions, "check", "whether a method keeps its promises, on tiny models")
    checking.add_argument("method", help="module:name of an engines.methods.method.Method of your own, or one of list")
    checking.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the method")
    checking.set_defaults(action=check)
    trying: Any = _action(actions, "calibrate", "find out which drafts of psd come true for a model and policy")
    trying.add_argument("--model", help="as for run")
    trying.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="policy, tau, block, length ..."
    )
    trying.add_argument("--prompts", default=str(calibration.PROMPTS), metavar="FILE", help="JSON: a list of texts")
    trying.add_argument("--count", type=int, default=50, metavar="N", help="use the last N prompts")
    trying.add_argument("--batch", type=int, default=10, metavar="B", help="prompts decoded in lockstep")
    trying.add_argument("--device", help="as for run")
    trying.set_defaults(action=calibrate)
    _add_conversions(actions)
    return parser


def _add_expect(actions: Any) -> None:
    """The action that says what a model will cost."""
    costing: Any = _action(actions, "expect", "what a model will take on this machine, before it is loaded")
    costing.add_argument("--model", required=True, help="as for run")
    costing.add_argument("--device", help=devices.HELP_SEVERAL)
    costing.add_argument("--dtype", choices=sorted(DTYPES), help="as for run")
    costing.add_argument(
        "--length", type=int, default=Room().length, metavar="N", help="positions of a text, prompt included"
    )
    costing.add_argument("--lanes", type=int, default=1, metavar="N", help="sequences that are decoded together")
    costing.add_argument(
        "--passes", type=int, default=0, metavar="N", help="load it, too, and time N passes of ordinary decoding"
    )
    costing.set_defaults(action=expect)


def _add_conversions(actions: Any) -> None:
    """The actions that write published checkpoints anew, without pickles."""
    converting: Any = _action(
        actions, "convert-cosmos", "write a published Cosmos model without pickles; docs/models.md"
    )
    converting.add_argument("source", metavar="SOURCE", help="folder of the model, with config.json and model.pt")
    converting.add_argument("tokenizer", metavar="TOKENIZER", help="folder of its tokenizer, with autoencoder.jit")
    converting.add_argument("target", metavar="TARGET", help="folder to write, new or empty")
    converting.set_defaults(action=convert_cosmos)
    drawing: Any = _action(
        actions, "convert-picture", "write a published picture model without pickles; docs/models.md"
    )
    drawing.add_argument("kind", metavar="KIND", help="mar, ...; docs/models.md has the files of each")
    drawing.add_argument("source", metavar="SOURCE", help="file of the model, or its folder")
    drawing.add_argument("pixels", metavar="PIXELS", nargs="?", help="file of its autoencoder, where it has one")
    drawing.add_argument("target", metavar="TARGET", help="folder to write, new or empty")
    drawing.add_argument("--heads", type=int, metavar="N", help="heads of attention, where tensors do not tell")
    drawing.add_argument(
        "--side",
        type=int,
        metavar="N",
        help="codes to a side of the picture, or of an xAR's cells, where it is another",
    )
    drawing.set_defaults(action=convert_picture)


if __name__ == "__main__":
    sys.exit(piped(main))
