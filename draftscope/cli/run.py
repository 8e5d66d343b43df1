"""`draftscope list`, `run` and `check`."""

import json
import os
import sys
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

from typer import Argument, Option

from draftscope.cli import figure
from draftscope.cli.errors import DONE, INTERRUPTED, INVALID
from draftscope.cli.options import (
    Chat,
    Devices,
    Dtype,
    HelpAll,
    Json,
    Method,
    Model,
    Settings,
    System,
    Template,
    parse_assignments,
    parse_variables,
    rare_option,
)
from draftscope.cli.streams import output_file, report_unwritable
from draftscope.engines.paths import MODELS_VARIABLE
from draftscope.engines.settings import ConfigError
from draftscope.traces.files import STANDARD


def list_names(
    what: Annotated[
        Literal["methods", "models", "figures"] | None, Argument(help="Methods and models if omitted.")
    ] = None,
    as_json: Json = False,
) -> int:
    """List methods and models, or figures.

    Methods are listed with their settings and presets, models with what they need.
    """
    if what == "figures":
        return figure.list_figures(as_json=as_json)
    from draftscope.engines.runtime.method_index import method_index

    index = method_index()
    parts = {None: ("methods", "models", "families"), "methods": ("methods",), "models": ("models", "families")}[what]
    if as_json:
        print(json.dumps({part: index[part] for part in parts}, indent=1))
        return DONE
    if "methods" in parts:
        _print_methods(index["methods"])
    if what is None:
        print()
    if "models" in parts:
        _print_models(index["models"], index["families"])
    return DONE


def _print_methods(methods: dict[str, Any]) -> None:
    for name, about in methods.items():
        print(f"{name}: {about['title']}, {about['summary']}")
        for setting, detail in about["settings"].items():
            scope = f" Where {detail['when']}." if detail["when"] else ""
            print(f"    {setting}={detail['default']}  {detail['allowed']}. {detail['help']}{scope}")
        for preset, values in about["presets"].items():
            print(f"    --preset {quote(preset)}  {' '.join(f'{name}={value}' for name, value in values.items())}")


def _print_models(models: dict[str, Any], families: list[dict[str, Any]]) -> None:
    for name, about in models.items():
        print(f"{name}: {about['title']}; needs {about['needs']}. {about['prompt_help']}")
    print("\nFamilies of published checkpoints; a checkpoint that is not listed is loaded by its folder or OWNER/NAME:")
    for row in families:
        print("  {name}: {state}; {licence}. {note}".format(**row))
    if os.environ.get(MODELS_VARIABLE):
        from draftscope.engines.models.catalog import registered_folders

        for problem in registered_folders():
            print(problem, file=sys.stderr)


def run(
    method: Method,
    output: Annotated[
        str, Option("-o", "--output", metavar="FILE", help="Ends in .json or .json.gz; - is standard output.")
    ],
    model: Model = None,
    drafter: Annotated[
        str | None, Option(metavar="ID", help="Model that drafts; default: the catalogue's for this model.")
    ] = None,
    draft_device: Annotated[
        str | None, rare_option(metavar="DEVICE", help="Device of the drafter; default: as --device.")
    ] = None,
    prompt: Annotated[
        str | None, Option(metavar="TEXT", help="- is standard input; default: the model's example.")
    ] = None,
    chat: Chat = None,
    system: System = None,
    template: Template = None,
    messages: Annotated[
        str | None,
        rare_option(metavar="FILE", help="Turns of a conversation in JSON, in place of a prompt."),
    ] = None,
    seed: Annotated[str, Option(metavar="N", help="From 0 to 2147483647.")] = "0",
    preset: Annotated[
        str | None, Option(metavar="NAME", help="Named settings of draftscope list; --set overrides them.")
    ] = None,
    settings: Settings = None,
    device: Devices = None,
    dtype: Dtype = None,
    record_top_k: Annotated[
        int | None, rare_option(metavar="K", help="Most likely tokens to record for each verdict.")
    ] = None,
    help_all: HelpAll = False,
) -> int:
    """Decode once and write the trace."""
    from draftscope.engines.models.catalog import terms_of
    from draftscope.engines.runtime.driver import Run
    from draftscope.engines.runtime.run_request import RunRequest
    from draftscope.engines.testing.case import find

    _check_output(output)
    request = RunRequest(
        find(method),
        model,
        sys.stdin.read().strip() if prompt == STANDARD else prompt,
        seed=int(seed) if seed.removeprefix("-").isdecimal() else seed,  # the request rejects other texts by name
        settings=parse_assignments(settings or []),
        preset=preset,
        draft=drafter,
        chat=chat,
        system=system,
        template=parse_variables(template),
        messages=None if messages is None else _read_messages(messages),
        device=device,
        draft_device=draft_device,
        dtype=dtype,
        likely=record_top_k,
        local=True,
    ).resolve()
    if terms := terms_of(request.model):
        print(f"{request.model}: {terms}", file=sys.stderr)
    job = request.job()
    _warn_of_large_drafter(job)
    return _finish(Run(job), output)


def _warn_of_large_drafter(job: Any) -> None:
    if job.drafter is not None and job.drafter.num_parameters > job.model.num_parameters:
        print(
            f"--drafter: {job.drafter.card.id} has {job.drafter.num_parameters:,} parameters, {job.model.card.id} "
            f"{job.model.num_parameters:,}. The output is the same, but a drafter that is larger than its target "
            "cannot save time.",
            file=sys.stderr,
        )


def _finish(running: Any, output: str) -> int:
    """Decode to the end or until Ctrl-C, write the trace and print its summary."""
    from draftscope.traces import write

    code = DONE
    try:
        running.finish(progress=sys.stderr.isatty())
    except KeyboardInterrupt:  # the steps so far are written
        code = INTERRUPTED
    trace = running.trace()
    with report_unwritable(output), output_file(output, ".json") as path:
        write(trace, path)
    summary = trace.summary
    acceptance = "-" if summary.acceptance is None else f"{summary.acceptance:.3f}"
    print(
        f"method {trace.method}, model {trace.model.id}, tokens {summary.tokens}, forwards {summary.forwards}, "
        f"tokens per forward {summary.tokens_per_forward:.2f}, acceptance {acceptance}, seconds {summary.seconds:.2f}"
        + ("" if summary.complete else ", incomplete"),
        file=sys.stderr if output == STANDARD else sys.stdout,
    )
    return code


def _read_messages(path: str) -> Any:
    """The JSON of a file; - is standard input."""
    try:
        text = sys.stdin.read() if path == STANDARD else Path(path).read_text(encoding="utf-8-sig")
        return json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"--messages: {path!r} cannot be read as JSON ({why}); give a list of turns.") from None


def _check_output(path: str) -> None:
    """Raise ConfigError for a path to which no trace can be written."""
    if path != STANDARD and not path.endswith((".json", ".json.gz")):
        raise ConfigError(f"-o: {path!r} must end in .json or .json.gz, or be - for standard output.")
    if not (folder := Path(path).parent).is_dir():
        raise ConfigError(f"-o: the folder {str(folder)!r} does not exist; make it first.")


def check(
    method: Method,
    settings: Settings = None,
    seed: Annotated[
        int, Option(metavar="N", min=0, max=10**6, help="Number of the tiny models; 0 is the usual set.")
    ] = 0,
    counts: Annotated[bool, Option("--counts", help="Also count drafts for every table, prompt and setting.")] = False,
) -> int:
    """Test on tiny models whether a method does what it declares."""
    from draftscope.engines.testing import conformance
    from draftscope.engines.testing.case import claims, find, subject

    found, values = find(method), parse_assignments(settings or [])
    holds = True
    for finding in conformance.check(subject(found, values), claims(found, values), seed=seed, counts=counts):
        print(finding, flush=True)
        holds = holds and finding.holds
    return DONE if holds else INVALID
