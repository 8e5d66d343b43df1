"""`draftscope certify`: whether an engine is lossless."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Context, Option

from draftscope.cli.errors import DONE, INVALID, UNDECIDED, CommandError
from draftscope.cli.options import reject_unused
from draftscope.cli.streams import report_unwritable


def _complete_engines() -> list[str]:
    from draftscope.certificates.named import NAMES

    return [*NAMES]


def certify(
    context: Context,
    engine: Annotated[
        str | None,
        Argument(
            metavar="ENGINE",
            help="transformers, transformers-lookup, transformers-assisted, llama.cpp, llama.cpp-ngram-simple, "
            "llama.cpp-draft and others, or the address of a server of the known model.",
            autocompletion=_complete_engines,
        ),
    ] = None,
    write: Annotated[
        str | None, Option(metavar="FOLDER", help="Write the known model for a server, and print how to start it.")
    ] = None,
    drafter: Annotated[Literal["model", "lookup"], Option(help="Drafter of a server.")] = "model",
    temperature: Annotated[float, Option(metavar="T", help="Temperature.")] = 1.0,
    top_k: Annotated[int, Option(metavar="K", help="Likeliest tokens that are kept; 0 for all.")] = 0,
    top_p: Annotated[float, Option(metavar="P", help="Mass of likeliest tokens that is kept.")] = 1.0,
    tokens: Annotated[int, Option(metavar="N", help="Tokens to draw, unless a bias is found before.")] = 64_000,
    seed: Annotated[int, Option(metavar="N", min=0, max=2**30, help="Seed of the first text.")] = 0,
    output: Annotated[
        list[str] | None,
        Option("-o", "--output", metavar="FILE", help="Ends in .json, or in .html for a page; may be repeated."),
    ] = None,
) -> int:
    """Test whether an engine with drafts samples from the exact distribution of its model.

    The engine serves a tiny model whose distribution is known. Exit code 0 if it is certified, 1 if it is biased, 4 if
    this cannot be decided.
    """
    from draftscope.certificates.certificate import certify as judge
    from draftscope.certificates.certificate import check_path, write_certificate
    from draftscope.certificates.known_model import write_checkpoints
    from draftscope.certificates.named import named_source

    if (engine is None) == (write is None):
        raise CommandError("give either ENGINE or --write FOLDER.")
    if write is not None:
        tests = ("drafter", "temperature", "top_k", "top_p", "tokens", "seed", "output")
        reject_unused(context, tests, "needs ENGINE; leave it out with --write, which tests nothing")
        with report_unwritable(write):
            write_checkpoints(Path(write))
        print(_commands(Path(write)))
        return DONE
    for path in output or ():
        check_path(path)
    options: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    options |= {"tokens": tokens, "seed": seed, "progress": sys.stderr.isatty()}
    assert engine is not None
    if "://" in engine:
        found = judge(engine, drafter=drafter, **options)
    else:
        reject_unused(context, ["drafter"], f"is for the address of a server; leave it out with {engine}")
        with named_source(engine) as source:
            found = judge(source, **options)
    print(found)
    for path in output or ():
        with report_unwritable(path):
            write_certificate(found, path)
    return {"certified": DONE, "biased": INVALID}.get(found.verdict, UNDECIDED)


def _commands(folder: Path) -> str:
    """How to serve the known model, without the defaults of servers that change its distribution."""
    return (
        f"llama-server -m {folder}/target.gguf -md {folder}/draft.gguf --metrics\n"
        f"vllm serve {folder}/target --dtype float32 --generation-config vllm --speculative-config "
        f'\'{{"model": "{folder}/draft", "num_speculative_tokens": 4}}\'\n'
        f"python -m sglang.launch_server --model-path {folder}/target --dtype float32 --enable-metrics\n"
        "then: draftscope certify http://127.0.0.1:PORT"
    )
