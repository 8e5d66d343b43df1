"""How large a trace, or a file of results, may be. A file beyond a limit is refused before it costs memory or time."""

from typing import Final

FILE_BYTES: Final = 32 * 2**20
"""Bytes of a file on disk or an upload, compressed or not."""
JSON_BYTES: Final = 64 * 2**20
"""Bytes after decompression, which stops here."""
VALUES: Final = 3_000_000
"""Values and brackets in the JSON text, counted before it is parsed."""
PART_VALUES: Final = 250_000
"""Maximum number of values of one step, and of everything outside the steps."""
NESTING: Final = 200
"""Brackets within brackets. The parser's own limit, named here for the message."""
POSITIONS: Final = 2**16
STEPS: Final = 2**16
ENTRIES: Final = 1_000_000
"""Entries of all steps together."""
PATH_STATES: Final = 1001
"""States of one denoising path."""
RULES: Final = 40
"""Ways to a verdict, in `rules`."""
SETTINGS: Final = 1000
"""In `config`."""
EXTENSION_VALUES: Final = 10_000
"""Values and names in `extensions`."""
EXTENSION_NESTING: Final = 20
"""Lists and objects within each other there."""
NAME_CHARACTERS: Final = 500
"""Names, labels, versions."""
TEXT_CHARACTERS: Final = 500_000
"""Prompts, notes and generated text."""
PICTURE_CHARACTERS: Final = 16 * 2**20
"""A picture as a data: URL."""
PICTURE_PIXELS: Final = 2**25
"""Width times height of a PNG: a small file can hold a picture that fills the memory."""
CALL_COUNT: Final = 10**9
"""Rows, query tokens or sequences of one forward pass, so that sums over all steps stay exact wherever JSON is read."""
MILLISECONDS: Final = 10**9
"""Maximum milliseconds of one stage of a step, over eleven days, so that sums stay finite."""
MAX_INT: Final = 2**63 - 1
"""A seed, a token's id, a whole number among the settings: they fit a signed number of 64 bits."""
MEASURE: Final = 1e100
"""Either sign, of any of a method's own numbers: squares and sums of such numbers are finite."""
TOLERANCE: Final = 1e-5
"""Tolerance of bounds, for rounded numbers."""
EXACT: Final = 2**53
"""Whole numbers up to this are exact wherever JSON is read; of results, either sign."""
RESULT_ROWS: Final = 200_000
"""Rows of one file of results."""
RESULT_SETTINGS: Final = 100
"""In one config or one list of a row of results."""
RESULT_PLACES: Final = 1024
"""Places of a draft that a row of results counts."""
