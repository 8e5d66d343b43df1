"""`draftscope site`: recordings as a folder of static pages."""

from pathlib import Path
from typing import Annotated, Final

from typer import Argument, Option

from draftscope.cli.errors import DONE, CommandError
from draftscope.cli.streams import read_trace, report_unwritable
from draftscope.traces.files import ASSETS

_SHIPPED: Final = ASSETS / "traces"


def site(
    output: Annotated[str, Argument(metavar="OUT", help="Folder to write; made if it is missing.")],
    traces: Annotated[
        list[str] | None,
        Argument(metavar="TRACE", help="Traces, .json or .json.gz; in a checkout by default those that ship."),
    ] = None,
    title: Annotated[str, Option(metavar="TEXT", help="Heading of the index.")] = "Recordings",
) -> int:
    """Write static pages that play traces: an index, a page for each and the calculator, without a server.

    A run is shown next to ordinary decoding of the same model, prompt and seed, if that is among the traces. The
    calculator offers the acceptance rates of runs in which another model drafts.
    """
    from draftscope.acceptance_files import drafter_rates
    from draftscope.visualizers.site import INDEX, write_site

    paths = traces or [str(path) for path in sorted(_SHIPPED.glob("*.json.gz"))]
    if not paths:
        raise CommandError("TRACE: none given; name at least one .json or .json.gz file.")
    named = [(Path(path).name.partition(".json")[0], read_trace(path)) for path in paths]
    with report_unwritable(output, "OUT"):
        shown = write_site(named, output, title, rates=drafter_rates(named))
    print(f"{len(shown)} recording{'s' * (len(shown) > 1)}: {Path(output) / INDEX}")
    return DONE
