"""`draftscope app`, and `draftscope dev`: regenerate the files that the app ships. All need a checkout."""

import json
import runpy
from typing import Annotated

from typer import Argument, Typer

from draftscope.cli.checkout import import_from_checkout
from draftscope.cli.errors import DONE, CommandError
from draftscope.traces.files import ROOT

app = Typer(help="Regenerate the files that the app ships, in a checkout.", rich_markup_mode=None)


def serve_app() -> int:
    """Serve the app.

    GRADIO_SERVER_NAME and GRADIO_SERVER_PORT set the address, 127.0.0.1:7860 by default. Needs a checkout.
    """
    if not (ROOT / "app.py").is_file():
        raise CommandError("is not part of the installed package; run it in a checkout of the repository.")
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
