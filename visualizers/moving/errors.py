"""What can be wrong with a moving picture that is asked for, and how large one may be."""

from collections.abc import Callable
from string import Formatter
from typing import Final

MOST_LANES: Final = 6
"""Traces side by side."""
MOST_FRAMES: Final = 600
MOST_SECONDS: Final = 120
"""How long it plays once, the last frame's wait included."""
WIDTHS: Final = (240, 1600)
"""Pixels, narrowest and widest."""
MOST_HEIGHT: Final = 2400
MOST_PIXELS: Final = 2**28
"""Of all frames together: a GIF is put together in memory, a byte a pixel."""
MOST_CELLS: Final = 2**23
"""Positions drawn, of all frames together."""
MOST_PICTURE: Final = 2**22
"""Pixels of a picture in a trace: larger ones are read too slowly, frame by frame."""
MOST_BYTES: Final = 64 * 2**20
"""Of the file."""
FASTEST: Final = 50
"""Frames a second; browsers slow a GIF down beyond that."""
LONGEST_HOLD: Final = 30
"""Seconds that the last frame may wait."""
SLOWEST: Final = 1000
"""How many times slower than it happened a run may be shown; as many times faster is allowed."""
_FIELDS: Final = {"size": "width"}
"""What settings are called in `Look`, where they go by another name."""


class MovingError(ValueError):
    """A moving picture that cannot be made. The message is one line and says what to do."""

    def __init__(self, what: str, *remedies: str) -> None:
        """Say what is wrong and what helps.

        Args:
            what: The fault, with the value that is at fault.
            remedies: Each one helps alone. A setting stands in braces, `"choose a smaller {size}"`, since every reader
                knows it by another name; in capitals, it is a variable of the environment.
        """
        self.what, self.remedies = what, remedies
        super().__init__(self.said(lambda setting: _FIELDS.get(setting, setting)))

    def said(self, name: Callable[[str], str | None]) -> str:
        """Return the message with every setting under the name that its reader knows it by.

        A remedy with a setting that has no name there is left out.
        """
        found = []
        for remedy in self.remedies:
            names = {setting: name(setting) for _, setting, _, _ in Formatter().parse(remedy) if setting}
            if None not in names.values():
                found.append(remedy.format(**names))
        return f"{self.what}: {' or '.join(found)}" if found else self.what


class NoRoom(MovingError):
    """A run does not fit into the room that its lane has."""


class CodecMissing(MovingError):
    """What writes this kind of file is not there, or does not work."""
