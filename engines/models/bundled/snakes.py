"""Snakes and ladders: the game that a small studio language model plays, its prompts, and what a right answer is.

Squares 10 to 99 lie in a circle. A prompt gives a start and the rolls of a die; the answer has a line for every roll:
the roll, the square it leads to, and whether a ladder or a snake begins there. Where the piece lands after a jump
nothing else happens. Every line has eight tokens, and most lines say "stay": whoever writes a line before the one above
it is known will mostly draft that word right, and everything behind a wrong draft is wrong, too.
"""

import re
import zlib
from dataclasses import dataclass
from random import Random
from typing import Final

FIRST, LAST = 10, 99
"""The squares. All have two digits, so that every line has the same number of tokens."""
FACES: Final = 6
JUMPS: Final = {14: 31, 28: 74, 36: 12, 49: 23, 62: 81, 87: 55}
"""Where a ladder or a snake begins -> where it ends; no end is another's beginning."""
FEWEST, MOST = 8, 24
"""Rolls of a game."""
LINE: Final = 8
"""Tokens of a line."""
EXAMPLE: Final = "from 70 roll 634131613656"
_FORM: Final = re.compile(r"\s*from\s+(\d+)\s+rolls?\b([\d\s,]*)", re.IGNORECASE | re.ASCII)
_HELD_OUT: Final = 8
"""One game in so many is never trained on."""


@dataclass(frozen=True, slots=True)
class Game:
    """A start and the rolls that follow."""

    start: int
    rolls: tuple[int, ...]

    @property
    def prompt(self) -> str:
        """What a model is given, without the end of the line."""
        return f"from {self.start} roll {''.join(map(str, self.rolls))}"

    @property
    def answer(self) -> str:
        """What follows from the rules, character by character."""
        lines, square = [], self.start
        for roll in self.rolls:
            landed = FIRST + (square - FIRST + roll) % (LAST - FIRST + 1)
            square = JUMPS.get(landed, landed)
            lines.append(f"{roll} to {landed} {'stay' if square == landed else 'jump'} {square}\n")
        return "".join(lines)

    @property
    def held_out(self) -> bool:
        """Whether training leaves this game out: decided by start, rolls and their number, and by nothing else."""
        return zlib.crc32(self.prompt.encode()) % _HELD_OUT == 0


def read(prompt: str) -> Game:
    """The game of a prompt such as "from 70 roll 634131613656"; blanks and commas between rolls are skipped.

    Raises:
        ValueError: for what is no game; the message is one sentence.
    """
    match = _FORM.fullmatch(prompt)
    if not match:
        raise ValueError(f"prompt: asks for no game; write a square and rolls of a die, such as {EXAMPLE!r}.")
    start, rolls = int(match[1][:9]), [int(digit) for digit in match[2] if digit.isdigit()]
    if not FIRST <= start <= LAST:
        raise ValueError(f"prompt: there is no square {start}; start from one of {FIRST} to {LAST}.")
    if impossible := [roll for roll in rolls if not 1 <= roll <= FACES]:
        raise ValueError(f"prompt: a die does not show {impossible[0]}; roll numbers from 1 to {FACES}.")
    if not FEWEST <= len(rolls) <= MOST:
        amount = "few" if len(rolls) < FEWEST else "many"
        count = f"{len(rolls)} rolls are too {amount}" if rolls else "there are no rolls"
        raise ValueError(f"prompt: {count}; give {FEWEST} to {MOST}, such as {EXAMPLE!r}.")
    return Game(start, tuple(rolls))


def draw(dice: Random, rolls: int | None = None, held_out: bool = False) -> Game:
    """A game of so many rolls, or of 8 to 24, from the games for training or from those that it leaves out."""
    while True:
        count = rolls or dice.randint(FEWEST, MOST)
        game = Game(dice.randint(FIRST, LAST), tuple(dice.randint(1, FACES) for _ in range(count)))
        if game.held_out == held_out:
            return game


def held_out_games(count: int) -> list[Game]:
    """The first so many games that no model was trained on; they are always the same ones."""
    dice, games = Random("held out"), dict[str, Game]()
    while len(games) < count:
        game = draw(dice, held_out=True)
        games.setdefault(game.prompt, game)
    return list(games.values())
