"""Run notebooks in a folder of their own and store what they print in them: `python -m tools.notebooks FILE ...`.

An output of HTML or JavaScript above 20 kB, such as the player, is left out, so that a file stays small and can be
read in a comparison of versions. Texts, tables and pictures stay.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import nbformat
from nbclient import NotebookClient

MAX_OUTPUT_CHARACTERS: Final = 20_000
"""Maximum length of one output other than a picture."""
MAX_FILE_BYTES: Final = 300_000
KEPT: Final = ("image/png", "text/plain")
"""Kinds of output that are stored, with HTML of a small size."""


def run(path: Path) -> None:
    """Run a notebook and store its outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raised an error.
        ValueError: The notebook would become too large.
    """
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    with TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=600, resources=resources, store_widget_state=False).execute()
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [stored for output in cell.outputs if (stored := _stored(output))]
    text: str = nbformat.writes(notebook)  # type: ignore[no-untyped-call]
    if len(text.encode()) > MAX_FILE_BYTES:
        raise ValueError(f"{path.name}: {len(text.encode()):,} bytes with outputs; show smaller figures.")
    path.write_text(f"{text}\n", encoding="utf-8")


def _stored(output: Any) -> Any:
    """Return an output without what is too large; None if nothing of it is left."""
    if output.output_type == "stream":
        return output if output.name == "stdout" else None
    small = {
        kind: data
        for kind, data in output.get("data", {}).items()
        if kind == "image/png" or (kind in (*KEPT, "text/html") and len(str(data)) <= MAX_OUTPUT_CHARACTERS)
    }
    output.data = small
    return output if small else None


if __name__ == "__main__":
    for name in sys.argv[1:]:
        run(Path(name))
