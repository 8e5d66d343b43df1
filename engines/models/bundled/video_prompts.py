"""What the studio video model can be asked for: one of the held-out clips that ship, or the codes of a clip.

`clip 7` is the seventh held-out clip; `engines.models.checkpoints.clip_model` says what `codes ...` holds.
"""

import re
from typing import Final

from engines.config import ConfigError
from engines.models.bundled.video_networks import CODES, GIVEN
from engines.models.checkpoints.clip_model import unpack

MOTIONS: Final = ("drifting", "turning", "bouncing")
"""How garments move, in the order of the labels."""
_CLIP: Final = re.compile(r"(?:clip\s*)?(\d{1,6})", re.IGNORECASE)


def parse(prompt: str, clips: int) -> int | tuple[int, ...]:
    """Index of a held-out clip, from 0, or the codes [288] of a clip's first nine frames.

    Raises:
        ConfigError: for anything else.
    """
    text = prompt.strip()
    if match := _CLIP.fullmatch(text):
        number = int(match[1])
        if not 1 <= number <= clips:
            raise ConfigError(f"prompt: there is no clip {number}; say clip 1 to clip {clips}.")
        return number - 1
    codes = unpack(text, GIVEN, CODES)
    if codes is None:
        raise ConfigError(f"prompt: {text!r:.60} names no clip; say clip 1 to clip {clips}.")
    return codes
