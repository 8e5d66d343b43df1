"""What the command line says of moving pictures."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final, get_args

from traces.schema import Trace
from visualizers.moving import SIZES, Look, MovingError, Report, write_clip, write_moving
from visualizers.moving.clock import Clock

_NAMES: Final = ("clock", "fps", "size", "width", "every", "slow", "hold", "name", "clip")
"""Options of moving pictures alone."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of moving pictures. None have a default here, so that it is known which were given."""
    usual = Look()
    group = parser.add_argument_group("moving pictures: .gif, .mp4 and .webp")
    group.add_argument(
        "--clock", choices=get_args(Clock), help="whether a frame is a forward pass of every run (default) or a time"
    )
    group.add_argument("--fps", type=float, metavar="N", help=f"frames a second, {usual.fps:g} if left out")
    group.add_argument("--size", choices=tuple(SIZES), help=", ".join(f"{k} {v}" for k, v in SIZES.items()) + " pixels")
    group.add_argument("--width", type=int, metavar="PIXELS", help="any other size")
    group.add_argument("--every", type=int, metavar="N", help="passes from one frame to the next, 1 if left out")
    group.add_argument("--slow", type=float, metavar="N", help=f"times slower than real, {usual.slow:g} if left out")
    group.add_argument("--hold", type=float, metavar="SECONDS", help=f"of the last frame, {usual.hold:g} if left out")
    group.add_argument("--name", action="append", metavar="TEXT", help="title of a run; once for each, in their order")
    group.add_argument("--clip", action="store_true", default=None, help="the decoded clip of a video alone")


def given(options: argparse.Namespace) -> list[str]:
    """Return the options of moving pictures that were given."""
    return [name for name in _NAMES if getattr(options, name) is not None]


def film(traces: Sequence[Trace], options: argparse.Namespace, report: Report | None) -> None:
    """Write what the options ask for.

    Raises:
        MovingError: They do not fit one another or the traces.
        OSError: The file cannot be written.
    """
    path, look = Path(options.output), look_of(options)
    if not options.clip:
        write_moving(traces, path, look, report=report)
        return
    if idle := [name for name in given(options) if name in ("clock", "every", "slow", "hold", "name")]:
        raise MovingError(f"--{idle[0]} {getattr(options, idle[0])}: a clip alone has none; leave it or --clip out")
    if len(traces) != 1:
        raise MovingError(f"--clip: {len(traces)} traces; give the one whose clip it is")
    write_clip(traces[0], path, look, report=report)


def in_flags(error: MovingError) -> str:
    """Return the message with settings as the options of this command."""
    return error.said(lambda setting: setting if setting.isupper() else f"--{setting}")


def look_of(options: argparse.Namespace) -> Look:
    """Return how it shall look.

    Raises:
        MovingError: Options contradict one another or are out of range.
    """
    chosen = {name: getattr(options, name) for name in given(options)}
    unused = {"passes": "slow", "milliseconds": "every"}[chosen.get("clock", "passes")]
    if unused in chosen:
        clock = "passes" if unused == "every" else "milliseconds"
        raise MovingError(f"--{unused} {chosen[unused]:g}: belongs to --clock {clock}; leave it out or choose that")
    size, width = chosen.pop("size", None), chosen.pop("width", None)
    if size and width:
        raise MovingError(f"--width {width}: takes no --size beside it; leave one of them out")
    chosen.pop("clip", None)
    names = tuple(chosen.pop("name", ()))
    return Look(theme=options.theme, width=width or SIZES[size or "medium"], names=names, **chosen)
