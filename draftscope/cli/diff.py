"""`draftscope diff`: whether greedy texts differ by rounding or by a bug."""

from typing import Annotated

from typer import Argument, Context, Option

from draftscope.cli.errors import DONE, INVALID, UNDECIDED
from draftscope.cli.options import parse_variables, reject_unused
from draftscope.cli.streams import report_unwritable

_SOURCE = "A server's address, a checkpoint's folder, a folder of traces, a trace, or a JSON file with texts."


def diff(
    context: Context,
    a: Annotated[str, Argument(metavar="A", help=_SOURCE)],
    b: Annotated[str, Argument(metavar="B", help="As A.")],
    prompts: Annotated[
        str | None, Option(metavar="FILE", help="Texts for servers and checkpoints: JSON lines or an array.")
    ] = None,
    length: Annotated[int, Option(metavar="N", min=1, help="Tokens of an answer.")] = 64,
    limit: Annotated[int | None, Option(metavar="N", help="Use the first N prompts.")] = None,
    set_a: Annotated[
        list[str] | None, Option(metavar="NAME=VALUE", help="A field of A's requests, or an argument of generate.")
    ] = None,
    set_b: Annotated[list[str] | None, Option(metavar="NAME=VALUE", help="As --set-a, for B.")] = None,
    score_with: Annotated[
        str | None,
        Option(
            metavar="MODEL",
            help="Folder, GGUF file or id of the model that both run: scores splits where an engine gave no "
            "log-probabilities.",
        ),
    ] = None,
    output: Annotated[
        list[str] | None,
        Option("-o", "--output", metavar="FILE", help="Ends in .json, or in .html for a page; may be repeated."),
    ] = None,
) -> int:
    """Find where greedy texts of two engines part, and whether rounding explains it.

    Exit code 0 if they agree or all splits are within rounding, 1 if one is more than that, 4 if it cannot be decided.
    """
    from draftscope.diffing import check_path
    from draftscope.diffing import diff as compare
    from draftscope.experiments.prompt_files import read_prompts

    for path in output or ():
        check_path(path)
    if prompts is None:
        reject_unused(context, ["length", "limit"], "needs --prompts, for a server or a checkpoint; leave it out")
    texts = read_prompts(prompts)[:limit] if prompts else ()
    fields = {"fields_a": parse_variables(set_a, "--set-a") or {}, "fields_b": parse_variables(set_b, "--set-b") or {}}
    found = compare(a, b, texts, length=length, score_with=score_with, **fields)
    print(found)
    for path in output or ():
        with report_unwritable(path):
            found.write(path)
    return {"same": DONE, "tie": DONE, "bug": INVALID}.get(found.divergence.worst, UNDECIDED)
