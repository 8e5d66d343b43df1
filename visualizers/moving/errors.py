"""What can be wrong with a moving picture that is asked for, and how large one may be."""

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


class MovingError(ValueError):
    """A moving picture that cannot be made. The message is one line and says what to do."""


class CodecMissing(MovingError):
    """What writes this kind of file is not there, or does not work."""
