"""The command `draftscope bench`: time your own models on your own prompts, with and without drafts."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from draftscope.experiments.bench import bench, read_prompts
from engines.__main__ import assignments
from engines.models.errors import ModelError

USAGE, NO_MODEL = 2, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, write the results, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="draftscope bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--target", required=True, metavar="MODEL", help="an id, a checkpoint's folder or OWNER/NAME")
    add("--draft", metavar="MODEL", help="drafts for it; default: the catalogue's small model, if any")
    add("--prompts", required=True, metavar="FILE", help="JSON lines with prompt or turns (MT-Bench, Spec-Bench)")
    add("--gamma", type=int, nargs="+", default=[4], metavar="N", help="draft lengths; default: 4")
    add("--repeats", type=int, default=1, metavar="N", help="times that a prompt is timed in every way")
    add("--limit", type=int, metavar="N", help="take the first N prompts")
    add("--seed", type=int, default=0, metavar="N")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="length, temperature, top_k, top_p")
    add("--device", help="as for run")
    add("--dtype", help="as for run")
    add("--table", choices=("markdown", "latex"), default="markdown", help="what is printed")
    add("-o", "--output", metavar="FILE", help="write JSON, which the app opens under Choose")
    given = parser.parse_args(arguments)
    settings: dict[str, Any] = {name: value for name in ("device", "dtype") if (value := getattr(given, name))}
    settings |= {"seed": given.seed, "progress": sys.stderr.isatty()}
    try:
        settings |= assignments(given.set)
        texts = read_prompts(given.prompts)[: given.limit]
        made = bench(given.target, texts, draft=given.draft, gammas=given.gamma, repeats=given.repeats, **settings)
        print(made.latex() if given.table == "latex" else made.markdown(), end="")
        if given.output:
            made.write(given.output)
    except BrokenPipeError:
        raise
    except (ValueError, ModelError, OSError) as error:
        print(f"draftscope bench: {error}", file=sys.stderr)
        return NO_MODEL if isinstance(error, ModelError) else USAGE
    return 0
