"""`draftscope app`, and `draftscope dev`: regenerate the files that the app ships, in a checkout."""

import json
import runpy
import sys
from typing import Annotated

from typer import Argument, Option, Typer, confirm

from draftscope.cli.checkout import import_from_checkout
from draftscope.cli.errors import DONE, NO_MODEL, CommandError
from draftscope.traces.files import ROOT

app = Typer(help="Regenerate the files that the app ships, in a checkout.", rich_markup_mode=None)


def serve_app(
    fetch: Annotated[bool, Option("--fetch", help="Fetch missing weights and recordings unasked.")] = False,
) -> int:
    """Serve the app.

    GRADIO_SERVER_NAME and GRADIO_SERVER_PORT set the address, 127.0.0.1:7860 by default. An installed package asks
    before it fetches weights and recordings into the cache, once; each file is checked by its hash.
    """
    if not (ROOT / "app.py").is_file():
        raise CommandError("is not part of the installed package; run it in a checkout of the repository.")
    from draftscope.engines import assets
    from draftscope.engines.paths import ASSETS

    if wanted := assets.missing():
        size = f"{sum(wanted.values()) // 10**6} MB of weights and recordings"
        print(f"The app needs {size}, from {assets.source()} into {ASSETS}.", flush=True)
        if not (fetch or (sys.stdin.isatty() and confirm("Fetch them?"))):
            raise CommandError("needs its weights and recordings; draftscope app --fetch fetches them.", NO_MODEL)
        assets.fetch(_report_bytes)
    runpy.run_path(str(ROOT / "app.py"), run_name="__main__")
    return DONE


@app.command()
def record(
    files: Annotated[list[str] | None, Argument(metavar="FILE", help="Names in gallery.json; all if omitted.")] = None,
) -> int:
    """Record the runs of assets/traces/gallery.json."""
    recordings = import_from_checkout("draftscope.demo.jobs.recordings")
    entries = {entry["file"]: entry for entry in recordings.listed(recordings.FOLDER)}
    if unknown := [name for name in files or () if name not in entries]:
        raise CommandError(f"FILE: {unknown[0]!r} is not in {recordings.LIST}; use {', '.join(entries)}.")
    for name in files or entries:
        summary = recordings.record(entries[name], recordings.FOLDER).summary
        print(
            f"{name}: {summary.tokens} tokens, {summary.forwards} forward passes, {summary.seconds:.2f} s", flush=True
        )
    return DONE


@app.command("clip-cards")
def clip_cards() -> int:
    """Draw the cards of the clips that can be continued."""
    clip = import_from_checkout("draftscope.demo.components.clip")
    from draftscope.engines.models.catalog import MODELS, is_bundled

    for model in (name for name, info in MODELS.items() if info.clips and is_bundled(name)):
        clip.cards_file(model).write_text(json.dumps(clip.drawn(model), indent=0) + "\n", encoding="utf-8")
    return DONE


def _report_bytes(arrived: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if arrived == total else ""
        print(f"\r{arrived // 10**6} of {total // 10**6} MB", end=end, file=sys.stderr, flush=True)
