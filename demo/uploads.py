"""What all visitors' files may take on the disk: uploads are refused while there is no room.

Gradio bounds one upload and forgets it after a while, and nothing bounds how many come. What is kept for visitors is
counted before another file is taken; nobody loses what they have.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from anyio import to_thread
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from demo import log
from demo.limits import KEPT_SECONDS

_MB = 10**6


class Room:
    """Middleware that refuses uploads while folders hold more than `megabytes`; None is no limit."""

    def __init__(self, app: ASGIApp, folders: Sequence[Path], megabytes: int | None) -> None:
        self._app, self._folders, self._megabytes = app, tuple(folders), megabytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        asked = scope["type"] == "http" and scope["method"] == "POST" and scope["path"].endswith("/upload")
        if asked and self._megabytes is not None:
            held = await to_thread.run_sync(held_bytes, self._folders)
            if held > self._megabytes * _MB:
                log.event("refused", kind="upload", held=held)
                await PlainTextResponse(self._sentence(), 507)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _sentence(self) -> str:
        return (
            f"file: visitors' files fill the {self._megabytes} MB that this server keeps for them, and nothing was "
            f"uploaded; they go after {KEPT_SECONDS // 3600} hours. Try again later, or run Draftscope yourself."
        )


def held_bytes(folders: Sequence[Path]) -> int:
    """Bytes of all files below folders; what goes meanwhile, or is no folder, counts nothing."""
    return sum(_sizes(folders))


def _sizes(folders: Sequence[Path]) -> Iterator[int]:
    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in names:
                try:
                    yield os.lstat(os.path.join(root, name)).st_size
                except FileNotFoundError:
                    continue
