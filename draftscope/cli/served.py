"""`draftscope bench --server`: a running server."""

import sys
from typing import Any

from draftscope.cli.errors import DONE, INTERRUPTED
from draftscope.cli.streams import report_unwritable


def bench_served(
    server: str,
    prompts: str,
    *,
    limit: int | None,
    output: str | None,
    latex: bool,
    fields: dict[str, Any],
    **options: Any,
) -> int:
    """Measure a server, print the table and write the file; what came before Ctrl-C is kept."""
    from draftscope.experiments.prompt_files import read_prompts
    from draftscope.servers.bench import LENGTH, bench_server

    length = fields.pop("length", LENGTH)
    texts = read_prompts(prompts)[:limit]
    measured = bench_server(server, texts, length=length, fields=fields, progress=sys.stderr.isatty(), **options)
    print(measured.latex() if latex else measured.markdown(), end="")
    if output:
        with report_unwritable(output):
            measured.write(output)
    return INTERRUPTED if measured.interrupted else DONE
