"""Write into assets/models/MANIFEST.json the hashes of the files that models read beside their weights.

    python -m training.manifest            write them
    python -m training.manifest --check    exit 1 where one is missing or another, and name it

The command that makes a model writes its entry, these hashes included. Run this where such a file was changed or added
later, or after two lines of work that made models were merged. Weights are never hashed anew here: where they are
others than listed, this says so and writes nothing.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engines.models.bundled.manifest import MANIFEST, READS
from training.loop import MODELS, sha256, with_reads


def weights_that_differ(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """Weights that are missing or not those listed."""
    listed = {entry["file"]: entry["sha256"] for entry in manifest.values() if "file" in entry}
    for name, entry in manifest.items():
        listed |= {f"{name}/{file}": digest for file, digest in entry.get("files", {}).items()}
    return [file for file, digest in listed.items() if not (folder / file).is_file() or sha256(folder / file) != digest]


def main(arguments: Sequence[str] | None = None, folder: Path = MODELS) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.manifest", description="Hash what models read.")
    parser.add_argument("--check", action="store_true", help="write nothing, and exit 1 where something differs")
    options = parser.parse_args(arguments)
    path = folder / MANIFEST
    manifest = json.loads(path.read_text(encoding="utf-8"))
    if wrong := weights_that_differ(folder, manifest):
        sys.stderr.write(f"{wrong[0]}: is not the file listed in {MANIFEST}; restore it, or train it again.\n")
        return 1
    made = {name: with_reads(folder, name, manifest) for name in manifest}
    differ = [name for name in manifest if made[name] != manifest[name]]
    if not options.check and differ:
        path.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for name in differ:
        print(f"{name}: {', '.join(made[name].get(READS, {})) or 'nothing beside its weights'}")
    return 1 if options.check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
