"""Command line for the recordings and clip cards that the page shows without loading a model.

`python -m demo record [FILE ...]` decodes the runs listed in assets/traces/gallery.json again. `python -m demo cards`
draws the first frames of the clips that the page offers to continue.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from cli.streams import exit_code_for_pipe
from demo.components.clip import cards_file, drawn
from demo.jobs.recordings import FOLDER, LIST, listed, record
from engines.models.catalog import MODELS, is_bundled


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="Look after the gallery.")
    parser.add_argument("action", choices=["record", "cards"], help="decode what gallery.json lists, or cards of clips")
    parser.add_argument("file", nargs="*", help="names of gallery.json; all of them when left out")
    options = parser.parse_args(arguments)
    if options.action == "cards":
        for model in (name for name, info in MODELS.items() if info.clips and is_bundled(name)):
            cards_file(model).write_text(json.dumps(drawn(model), indent=0) + "\n", encoding="utf-8")
        return 0
    entries = {entry["file"]: entry for entry in listed(FOLDER)}
    if unknown := [name for name in options.file if name not in entries]:
        parser.error(f"file: {unknown[0]!r} is not in {LIST}; use {', '.join(entries)}.")
    for entry in (entries[name] for name in options.file or entries):
        made = record(entry, FOLDER).summary
        print(
            f"{entry['file']}: {made.tokens} tokens, {made.forwards} forward passes, {made.seconds:.2f} s", flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
