"""Who waits for the model: one works at a time, first come first served, and everybody is told their place.

Only what runs a model stands in line. Everything else is answered at once, however long the line is.
"""

import asyncio
import ipaddress
import math
import os
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeVar

import anyio
import gradio as gr

from demo import log
from demo.limits import ON_SPACE, TELL_SECONDS, Limits, current
from engines.config import ConfigError

T = TypeVar("T")

_REMEMBERED: Final = 8
"""Of how many of a kind the usual duration is the mean: a server's load changes within minutes."""
_PROXY: Final = "DRAFTSCOPE_PROXY"
_NETWORK: Final = 64
"""Bits of an address of version 6 that a provider hands out; the rest is its customer's to choose, anew at will."""
_END: Final = object()


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

    def leave(self) -> None:
        """Done, or given up."""
        self.line.leave(self)


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

        Args:
            asker: Who asks.
            kind: What for; about how long it takes is remembered by it.

        Raises:
            ConfigError: when the line is full, or the asker has enough in it.
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
        self._next()
        return place

    def leave(self, place: Place) -> None:
        """Let the next one have their turn. Leaving twice is leaving once."""
        if place not in self.places:
            return
        self.places.remove(place)
        if place.begun is not None:
            self._took.setdefault(place.kind, deque(maxlen=_REMEMBERED)).append(self._clock() - place.begun)
        self._next()

    def seconds_of(self, before: int) -> float | None:
        """About how long the first so many will take together; None where nothing is known."""
        if not before:
            return 0.0
        usual = [self._usual(place.kind) for place in self.places[:before]]
        known = [seconds for seconds in usual if seconds is not None]
        if len(known) < len(usual):
            return None
        begun = self.places[0].begun
        spent = 0.0 if begun is None else self._clock() - begun
        return sum(known) - min(spent, known[0])

    def _usual(self, kind: str) -> float | None:
        took = self._took.get(kind) or [one for each in self._took.values() for one in each]
        return sum(took) / len(took) if took else None

    def _when(self) -> str:
        seconds = self.seconds_of(len(self.places))
        return " in a minute" if seconds is None else f" in about {math.ceil(seconds) or 1} s"

    def _next(self) -> None:
        if self.places and self.places[0].begun is None:
            self.places[0].begun = self._clock()
            self.places[0].ready.set()


def in_words(place: Place) -> str:
    """Somebody's place and about how long it will take."""
    before, seconds = place.before, place.seconds
    ahead = "One other request is" if before == 1 else f"{before} other requests are"
    wait = "" if seconds is None else f" Yours begins in about {math.ceil(seconds) or 1} s."
    return f"The model decodes for one visitor at a time. {ahead} before yours.{wait}"


@cache
def the_line() -> Line:
    """The line of this process, under its limits."""
    return Line(current())


def asker(request: gr.Request) -> Asker:
    """Who sent a request."""
    if request.request is None:  # nobody sent it: a test, or a script
        return Asker(request.session_hash or "", "")
    client = request.client.host if request.client else ""
    return Asker(request.session_hash or "", address_of(client, dict(request.headers.items())))


def address_of(client: str, headers: Mapping[str, str]) -> str:
    """The network address that a request counts for: a customer's whole network where it is one of version 6.

    What a proxy says of its client is believed where there is one: on a Space, or as told.
    """
    behind = os.environ.get(ON_SPACE) or os.environ.get(_PROXY)
    said = _forwarded(headers.get("x-forwarded-for", "")) if behind else None
    try:
        address = said or ipaddress.ip_address(client)
    except ValueError:
        return client
    mapped = getattr(address, "ipv4_mapped", None)
    network = _NETWORK if address.version == 6 and not mapped else 32
    return str(ipaddress.ip_network((mapped or address, network), strict=False)).removesuffix("/32")


def _forwarded(said: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The last public address of the header: those before it are the client's own words."""
    for name in reversed(said.split(",")):
        try:
            address = ipaddress.ip_address(name.strip())
        except ValueError:
            continue
        if not address.is_private:
            return address
    return None


async def in_threads(values: Iterator[T]) -> AsyncGenerator[T, None]:
    """What a generator yields, computed beside the event loop. It is closed with this one."""
    try:
        while (value := await anyio.to_thread.run_sync(next, values, _END)) is not _END:
            yield value  # type: ignore[misc]
    finally:
        close: Any = getattr(values, "close", None)
        if close is not None:
            await anyio.to_thread.run_sync(close)


async def waited(place: Place, gone: Callable[[], bool]) -> AsyncGenerator[Place, None]:
    """Yields the place every little while until it is one's turn, or until nobody waits for it any more."""
    while place.before and not gone():
        yield place
        with anyio.move_on_after(TELL_SECONDS):
            await place.ready.wait()


async def turn(
    request: gr.Request, kind: str, gone: Callable[[], bool], work: Callable[[], Iterator[T]]
) -> AsyncGenerator[Place | T, None]:
    """Wait for the model, then work: yields the place while waiting, then what `work` yields; nothing once gone.

    Raises:
        ConfigError: where the line takes nobody, and what `work` raises.
    """
    place = the_line().enter(asker(request), kind)
    begun = time.monotonic()
    try:
        async for now in waited(place, gone):
            yield now
        if gone():
            log.event("left", kind=kind, waited=round(time.monotonic() - begun, 2))
            return
        async with aclosing(in_threads(work())) as values:
            async for value in values:
                yield value
    finally:
        place.leave()
