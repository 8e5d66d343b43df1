"""What runs a model for a page or a program: it stands in line, is timed and logged, and ends with whoever asked."""

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any, Final

import gradio as gr
from gradio.context import LocalContext

from demo import gpu, log
from demo.decoding import Asked, Ended, Opened, Turn, race
from demo.limits import current
from demo.line import Place, in_words, turn
from demo.site import Site, Update
from demo.widgets import notice
from engines.models.errors import ModelError

Work = Callable[[Update, gr.Request], Iterator[Update]]
FAILED: Final = "The app itself failed at this ({}). Try again; if that fails, too, the log of its server says where."
_gone: ContextVar[Callable[[], bool]] = ContextVar("gone", default=lambda: False)


def queued(
    site: Site, box: gr.HTML, kind: str, work: Work, *, stops: bool = True
) -> Callable[[Update, gr.Request], AsyncGenerator[Update, None]]:
    """A page's handler that waits for the model first, and says in `box` what place it has; errors go there, too.

    Args:
        site: Whose visitors.
        box: A notice.
        kind: What it is called in the log.
        work: The handler.
        stops: Whether it has a button that stops it.
    """

    async def handle(values: Update, request: gr.Request) -> AsyncGenerator[Update, None]:
        stopped = site.visitor(request).stopped if stops else _nobody
        try:
            async with aclosing(turn(request, kind, stopped, partial(work, values, request))) as told:
                now: Place | Update | None = None
                async for now in told:
                    yield {box: notice("info", in_words(now), "You are in line.")} if isinstance(now, Place) else now
                if now is None or isinstance(now, Place):
                    yield {box: notice("info", "It had not begun.", "Stopped.")}
        except gr.Error:  # which is a ValueError
            raise
        except (ValueError, ModelError) as error:
            log.refused(kind, error)
            yield {box: notice("error", log.for_visitors(str(error)))}
        except Exception as error:
            log.failed(kind, error)
            yield {box: notice("error", FAILED.format(type(error).__name__))}

    return handle


def called(kind: str, work: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """A program's call that waits for the model first, and ends soon after the program hung up."""

    @wraps(work)
    async def handle(*given: Any, **named: Any) -> Any:
        request: gr.Request | None = LocalContext.request.get(None)
        gone = hung_up()
        kept = _gone.set(gone)
        try:
            once = partial(_once, partial(work, *given, **named))
            async with aclosing(turn(request or gr.Request(), kind, gone, once)) as told:
                async for now in told:
                    if not isinstance(now, Place):
                        return now
        except gr.Error:
            raise
        except ValueError as error:
            log.refused(kind, error)
            raise gr.Error(str(error), print_exception=False) from error
        finally:
            _gone.reset(kept)
        raise gr.Error("nobody waits for this any more.", print_exception=False)

    return handle


def decoded(asked: Sequence[Asked], stopped: Callable[[], bool], kind: str) -> Iterator[Opened | Turn | Ended]:
    """`race` on the GPU that is lent, if one is, within the time that this server gives, with its lines in the log.

    Raises:
        ValueError: for a prompt or setting that a model refuses, and for a run that would take too long.
        ModelError: when a model cannot be had.
    """
    run = asked[-1]
    about: dict[str, Any] = {"kind": kind, "method": run.method, "model": run.model, "seed": run.seed}
    begun = time.monotonic()
    log.event("run.begun", **about)
    ended = "left"
    passes = 0
    try:
        for told in gpu.through(sum(one.seconds for one in asked), race, asked, stopped, current().run_seconds):
            if isinstance(told, Ended):
                ended = told.ended or "done"
            elif not isinstance(told, Opened):
                passes += len(told)
            yield told
    except Exception as error:
        ended = type(error).__name__
        raise
    finally:
        log.event("run.ended", **about, seconds=round(time.monotonic() - begun, 3), passes=passes, ended=ended)


def program_gone() -> bool:
    """Whether the program whose call this is hung up."""
    return _gone.get()()


def hung_up() -> Callable[[], bool]:
    """Whether the client of gradio's present event is gone, to be asked later from any thread."""
    blocks, name = LocalContext.blocks.get(None), LocalContext.event_id.get(None)
    event = blocks._queue.event_ids_to_events.get(name) if blocks is not None and name else None
    return _nobody if event is None else lambda: not event.alive


def _once(work: Callable[[], Any]) -> Iterator[Any]:
    yield work()


def _nobody() -> bool:
    return False
