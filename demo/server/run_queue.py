"""Who waits for the model: one works at a time, first come first served, and everybody is told their place.

Only what runs a model stands in line. Everything else is answered at once, however long the line is. What runs is timed
and logged, and ends with whoever asked.
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

from demo.server import log
from demo.server.limits import TELL_SECONDS, Limits, current
from demo.server.middleware import address_of
from engines.models.errors import ModelError
from engines.settings import ConfigError

T = TypeVar("T")

FAILED: Final = "The app itself failed at this ({}). Try again; if that fails, too, the log of its server says where."
_REMEMBERED: Final = 8
"""Of how many of a kind the usual duration is the mean: a server's load changes within minutes."""
_END: Final = object()
_TRIM: Final = getattr(CDLL(None) if os.name == "posix" else None, "malloc_trim", None)
"""Gives back what a run's threads freed, which glibc alone would keep for each of them."""
_gone: ContextVar[Callable[[], bool]] = ContextVar("gone", default=lambda: False)


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, as far as a server can tell."""

    visitor: str
    """One open page; a program that calls over HTTP is a new one with every call."""
    address: str


@dataclass(eq=False, slots=True)
class Place:
    """Somebody's place in a line, from entering it to leaving it."""

    line: "Line"
    asker: Asker
    kind: str
    begun: float | None = None
    """When it was one's turn, on the line's clock."""
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def before(self) -> int:
        """How many come before; 0 when it is one's turn."""
        return self.line.places.index(self)

    @property
    def seconds(self) -> float | None:
        """About how long until it is one's turn, as far as can be told."""
        return self.line.seconds_of(self.before)

    def __str__(self) -> str:
        before, seconds = self.before, self.seconds
        ahead = "One other request is" if before == 1 else f"{before} other requests are"
        wait = "" if seconds is None else f" Yours begins in about {math.ceil(seconds) or 1} s."
        return f"The model decodes for one visitor at a time. {ahead} before yours.{wait}"


class Line:
    """The line. It is used by one event loop alone and so needs no lock."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        """An empty one; `clock` counts seconds."""
        self.limits = limits
        self.places: list[Place] = []
        self._clock = clock
        self._took: dict[str, deque[float]] = {}

    def enter(self, asker: Asker, kind: str) -> Place:
        """Stand at the end; who enters an empty line has their turn at once.

        About how long it takes is remembered by `kind`. Raises ConfigError when the line or the asker's part is full.
        """
        most, places = self.limits, self.places
        if most.waiting is not None and len(places) > most.waiting:
            raise ConfigError(f"queue: {most.waiting} wait for the model already; try again{self._when()}.")
        own = Counter(place.asker.visitor for place in places)[asker.visitor]
        if most.per_visitor is not None and own >= most.per_visitor:
            raise ConfigError(f"queue: {own} of yours run or wait already; try again when one of them is done.")
        near = Counter(place.asker.address for place in places)[asker.address]
        if most.per_address is not None and near >= most.per_address:
            raise ConfigError(f"queue: {near} from your network address run or wait already; try again{self._when()}.")
        place = Place(self, asker, kind)
        places.append(place)
        self._call_next()
        return place

    def leave(self, place: Place) -> None:
        """Done, or given up: let the next one have their turn. Leaving twice is leaving once."""
        if place not in self.places:
            return
        self.places.remove(place)
        if place.begun is not None:
            self._took.setdefault(place.kind, deque(maxlen=_REMEMBERED)).append(self._clock() - place.begun)
        self._call_next()

    def seconds_of(self, before: int) -> float | None:
        """About how long the first so many will take together; None where nothing is known."""
        if not before:
            return 0.0
        if not self._took:
            return None
        every = [seconds for took in self._took.values() for seconds in took]
        usual = [fmean(self._took.get(place.kind) or every) for place in self.places[:before]]
        begun = self.places[0].begun
        spent = 0.0 if begun is None else self._clock() - begun
        return sum(usual) - min(spent, usual[0])

    def _when(self) -> str:
        seconds = self.seconds_of(len(self.places))
        return " in a minute" if seconds is None else f" in about {math.ceil(seconds) or 1} s"

    def _call_next(self) -> None:
        if self.places and self.places[0].begun is None:
            self.places[0].begun = self._clock()
            self.places[0].ready.set()


@cache
def the_line() -> Line:
    """The line of this process, under its limits."""
    return Line(current())


def _asker(request: gr.Request) -> Asker:
    if request.request is None:  # nobody sent it: a test, or a script
        return Asker(request.session_hash or "", "")
    client = request.client.host if request.client else ""
    return Asker(request.session_hash or "", address_of(client, dict(request.headers.items())))


async def _in_threads(values: Iterator[T]) -> AsyncGenerator[T, None]:
    """What a generator yields, computed beside the event loop. It is closed with this one."""
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
    request: gr.Request, kind: str, gone: Callable[[], bool], work: Callable[[], Iterator[T]]
) -> AsyncGenerator[Place | T, None]:
    """Wait for the model, then work: yields the place while waiting, then what `work` yields; nothing once gone.

    Raises ConfigError where the line takes nobody, and what `work` raises.
    """
    place = the_line().enter(_asker(request), kind)
    begun = time.monotonic()
    try:
        while place.before and not gone():
            yield place
            with anyio.move_on_after(TELL_SECONDS):
                await place.ready.wait()
        if gone():
            log.event("left", kind=kind, waited=round(time.monotonic() - begun, 2))
            return
        async with aclosing(_in_threads(work())) as values:
            async for value in values:
                yield value
    finally:
        place.line.leave(place)


def error_text(kind: str, error: Exception) -> str:
    """What whoever asked hears of an error, which goes into the log, too."""
    if isinstance(error, ValueError | ModelError):
        log.refused(kind, error)
        return log.for_visitors(str(error))
    log.failed(kind, error)
    return FAILED.format(type(error).__name__)


@contextmanager
def in_a_sentence(kind: str) -> Iterator[None]:
    """Errors reach whoever asked as a sentence, and the log as a line."""
    try:
        yield
    except gr.Error as error:  # which is a ValueError
        error.print_exception = False
        raise
    except Exception as error:
        raise gr.Error(error_text(kind, error), print_exception=False) from error


def called(kind: str, work: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """A program's call that waits for the model first, and ends soon after the program hung up."""

    @wraps(work)
    async def handle(*given: Any, **named: Any) -> Any:
        request: gr.Request | None = LocalContext.request.get(None)
        gone = _hung_up()
        kept = _gone.set(gone)

        def once() -> Iterator[Any]:
            yield work(*given, **named)

        try:
            with in_a_sentence(kind):
                async with aclosing(wait_turn(request or gr.Request(), kind, gone, once)) as turn:
                    async for now in turn:
                        if not isinstance(now, Place):
                            return now
        finally:
            _gone.reset(kept)
        raise gr.Error("nobody waits for this any more.")

    return handle


def program_gone() -> bool:
    """Whether the program whose call this is hung up."""
    return _gone.get()()


def _hung_up() -> Callable[[], bool]:
    """Whether the client of gradio's present event is gone, to be asked later from any thread."""
    blocks, name = LocalContext.blocks.get(None), LocalContext.event_id.get(None)
    event = blocks._queue.event_ids_to_events.get(name) if blocks is not None and name else None
    return lambda: event is not None and not event.alive
