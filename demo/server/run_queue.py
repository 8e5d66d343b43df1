"""Queue for the model: one run at a time, first come, first served, with positions reported to the clients.

Only work that runs a model is queued; everything else is answered at once. Runs are timed and logged, and end when
their client disconnects.
"""

import asyncio
import math
import os
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from ctypes import CDLL
from dataclasses import dataclass, field
from functools import cache, wraps
from statistics import fmean
from typing import Any, Final, TypeVar

import anyio
import gradio as gr
from gradio.context import LocalContext

from draftscope.demo.server import log
from draftscope.demo.server.limits import QUEUE_UPDATE_SECONDS, ServerLimits, server_limits
from draftscope.demo.server.middleware import address_of
from draftscope.engines.models.errors import ModelError
from draftscope.engines.settings import ConfigError

T = TypeVar("T")

FAILED: Final = "Internal error ({}). Try again; if it fails again, details are in the server log."
_REMEMBERED: Final = 8
"""Number of recent durations of a kind whose mean is the estimate: a server's load changes within minutes."""
_END: Final = object()
_TRIM: Final = getattr(CDLL(None) if os.name == "posix" else None, "malloc_trim", None)
"""Gives back what a run's threads freed, which glibc alone would keep for each of them."""
_disconnected: ContextVar[Callable[[], bool]] = ContextVar("gone", default=lambda: False)


@dataclass(frozen=True, slots=True)
class Client:
    """Client that sent a request, as far as a server can tell."""

    visitor: str
    """One open page; a program that calls over HTTP is a new one with every call."""
    address: str


@dataclass(eq=False, slots=True)
class QueueEntry:
    """Entry of the queue, from entering to leaving."""

    line: "RunQueue"
    asker: Client
    kind: str
    begun: float | None = None
    """Time when the entry became the first, on the queue's clock."""
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def num_ahead(self) -> int:
        """Number of entries ahead; 0 for the running one."""
        return self.line.entries.index(self)

    @property
    def seconds(self) -> float | None:
        """Estimated seconds until the entry runs; None if unknown."""
        return self.line.estimate_wait(self.num_ahead)

    def __str__(self) -> str:
        before, seconds = self.num_ahead, self.seconds
        ahead = "One other request is" if before == 1 else f"{before} other requests are"
        wait = "" if seconds is None else f" Yours begins in about {math.ceil(seconds) or 1} s."
        return f"The model decodes for one visitor at a time. {ahead} before yours.{wait}"


class RunQueue:
    """The line. It is used by one event loop alone and so needs no lock."""

    def __init__(self, limits: ServerLimits, clock: Callable[[], float] = time.monotonic) -> None:
        """An empty one; `clock` counts seconds."""
        self.limits = limits
        self.entries: list[QueueEntry] = []
        self._clock = clock
        self._took: dict[str, deque[float]] = {}

    def enter(self, asker: Client, kind: str) -> QueueEntry:
        """Add an entry at the end; it runs at once if the queue is empty.

        Args:
            asker: The client.
            kind: Kind of work, by which durations are remembered.

        Raises:
            ConfigError: If the queue, or the client's share of it, is full.
        """
        limits, entries = self.limits, self.entries
        if limits.waiting is not None and len(entries) > limits.waiting:
            raise ConfigError(f"queue: full, {limits.waiting} requests are waiting; try again{self._when()}.")
        from_visitor = Counter(entry.asker.visitor for entry in entries)[asker.visitor]
        if limits.per_visitor is not None and from_visitor >= limits.per_visitor:
            raise ConfigError(
                f"queue: you have {from_visitor} running or queued requests; try again when one has finished."
            )
        near = Counter(entry.asker.address for entry in entries)[asker.address]
        if limits.per_address is not None and near >= limits.per_address:
            raise ConfigError(
                f"queue: {near} requests of your network address are running or queued; try again{self._when()}."
            )
        entry = QueueEntry(self, asker, kind)
        entries.append(entry)
        self._call_next()
        return entry

    def leave(self, entry: QueueEntry) -> None:
        """Remove an entry that is done or cancelled, and start the next one. Removing it twice has no effect."""
        if entry not in self.entries:
            return
        self.entries.remove(entry)
        if entry.begun is not None:
            self._took.setdefault(entry.kind, deque(maxlen=_REMEMBERED)).append(self._clock() - entry.begun)
        self._call_next()

    def estimate_wait(self, before: int) -> float | None:
        """Return the estimated seconds of the first `before` entries together; None if unknown."""
        if not before:
            return 0.0
        if not self._took:
            return None
        all_seconds = [seconds for took in self._took.values() for seconds in took]
        mean_seconds = [fmean(self._took.get(entry.kind) or all_seconds) for entry in self.entries[:before]]
        begun = self.entries[0].begun
        spent = 0.0 if begun is None else self._clock() - begun
        return sum(mean_seconds) - min(spent, mean_seconds[0])

    def _when(self) -> str:
        seconds = self.estimate_wait(len(self.entries))
        return " in a minute" if seconds is None else f" in about {math.ceil(seconds) or 1} s"

    def _call_next(self) -> None:
        if self.entries and self.entries[0].begun is None:
            self.entries[0].begun = self._clock()
            self.entries[0].ready.set()


@cache
def run_queue() -> RunQueue:
    """The line of this process, under its limits."""
    return RunQueue(server_limits())


def _asker(request: gr.Request) -> Client:
    if request.request is None:  # called by a test or a script
        return Client(request.session_hash or "", "")
    client = request.client.host if request.client else ""
    return Client(request.session_hash or "", address_of(client, dict(request.headers.items())))


async def _in_threads(values: Iterator[T]) -> AsyncGenerator[T, None]:
    """Yield the values of an iterator that runs in a thread, next to the event loop.

    Closing this closes the iterator.
    """
    try:
        while (value := await anyio.to_thread.run_sync(next, values, _END)) is not _END:
            yield value  # type: ignore[misc]
    finally:
        close: Any = getattr(values, "close", None)
        if close is not None:
            await anyio.to_thread.run_sync(close)
        if _TRIM is not None:
            await anyio.to_thread.run_sync(_TRIM, 0)


async def wait_turn(
    request: gr.Request, kind: str, disconnected: Callable[[], bool], work: Callable[[], Iterator[T]]
) -> AsyncGenerator[QueueEntry | T, None]:
    """Wait for the model, then work.

    Args:
        request: Request of the client.
        kind: Kind of work.
        disconnected: Returns True once the client has disconnected.
        work: Starts the work.

    Yields:
        The queue entry while waiting, then the values of `work`; nothing after the client has disconnected.

    Raises:
        ConfigError: If the queue is full.
        Exception: Whatever `work` raises.
    """
    entry = run_queue().enter(_asker(request), kind)
    begun = time.monotonic()
    try:
        while entry.num_ahead and not disconnected():
            yield entry
            with anyio.move_on_after(QUEUE_UPDATE_SECONDS):
                await entry.ready.wait()
        if disconnected():
            log.event("left", kind=kind, waited=round(time.monotonic() - begun, 2))
            return
        async with aclosing(_in_threads(work())) as values:
            async for value in values:
                yield value
    finally:
        entry.line.leave(entry)


def error_text(kind: str, error: Exception) -> str:
    """Return the message of an error for the client, and log the error."""
    if isinstance(error, ValueError | ModelError):
        log.log_rejected(kind, error)
        return log.redact_paths(str(error))
    log.log_failure(kind, error)
    return FAILED.format(type(error).__name__)


@contextmanager
def as_user_errors(kind: str) -> Iterator[None]:
    """Report exceptions to the client as one sentence, and to the log as one line."""
    try:
        yield
    except gr.Error as error:  # which is a ValueError
        error.print_exception = False
        raise
    except Exception as error:
        raise gr.Error(error_text(kind, error), print_exception=False) from error


def queued_api_call(kind: str, work: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Wrap an API call: wait for the model, and cancel soon after the client disconnects."""

    @wraps(work)
    async def handle(*arguments: Any, **named: Any) -> Any:
        request: gr.Request | None = LocalContext.request.get(None)
        disconnected = _hung_up()
        token = _disconnected.set(disconnected)

        def once() -> Iterator[Any]:
            yield work(*arguments, **named)

        try:
            with as_user_errors(kind):
                async with aclosing(wait_turn(request or gr.Request(), kind, disconnected, once)) as turn:
                    async for now in turn:
                        if not isinstance(now, QueueEntry):
                            return now
        finally:
            _disconnected.reset(token)
        raise gr.Error("The client disconnected; the run was cancelled.")

    return handle


def client_disconnected() -> bool:
    """Return whether the client of this call has disconnected."""
    return _disconnected.get()()


def _hung_up() -> Callable[[], bool]:
    """Whether the client of gradio's present event is gone, to be asked later from any thread."""
    blocks, name = LocalContext.blocks.get(None), LocalContext.event_id.get(None)
    event = blocks._queue.event_ids_to_events.get(name) if blocks is not None and name else None
    return lambda: event is not None and not event.alive
