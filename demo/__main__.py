"""The command line: `python -m demo record [FILE ...]` decodes anew runs that assets/traces/gallery.json lists."""

import argparse
import sys
from collections.abc import Sequence

from demo.recordings import FOLDER, LIST, listed, record
from traces.streams import piped


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="Look after the gallery.")
    parser.add_argument("action", choices=["record"], help="decode what gallery.json lists")
    parser.add_argument("file", nargs="*", help="names of gallery.json; all of them when left out")
    parser.add_argument("--missing", action="store_true", help="leave the traces that are there alone")
    options = parser.parse_args(arguments)
    entries = {entry["file"]: entry for entry in listed(FOLDER)}
    if unknown := [name for name in options.file if name not in entries]:
        parser.error(f"file: {unknown[0]!r} is not in {LIST}; use {', '.join(entries)}.")
    for entry in (entries[name] for name in options.file or entries):
        if options.missing and (FOLDER / entry["file"]).exists():
            continue
        made = record(entry, FOLDER).summary
        print(
            f"{entry['file']}: {made.tokens} tokens, {made.forwards} forward passes, {made.seconds:.2f} s", flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(piped(main))
