"""Traces made up in milliseconds, for testing what shows them: consistent records of runs that never happened."""

import base64
import colorsys
import io
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from PIL import Image

from engines.models.pictures import as_uri
from traces.schema import (
    Call,
    Canvas,
    Fate,
    Legend,
    Milliseconds,
    ModelCard,
    Output,
    Scalar,
    Step,
    Tiles,
    Trace,
)
from traces.stats import summarise

from .handmade import make

CODES = 512
TILE = 4
HOSTILE = '<img src=x onerror="globalThis.pwned = 1"></script><script>globalThis.pwned = 1</script>'


@dataclass(frozen=True)
class Size:
    """How large a made-up run is."""

    rows: int = 12
    columns: int = 12
    window: int = 16
    accepted: float = 1.1
    """Drafts accepted in a step, on average."""
    seed: int = 0

    @property
    def positions(self) -> int:
        """Cells of the canvas."""
        return self.rows * self.columns


def jacobi(size: Size = Size(), **overrides: object) -> Trace:
    """A run of speculative Jacobi decoding: a window slides over the picture, drafts settle, coins decide."""
    run = _Run(size)
    while run.front < size.positions:
        run.step()
    config: dict[str, Scalar] = {"window": size.window, "coupling": "gumbel"}
    return replace(_trace("scd", run.steps, size, config), **overrides)  # type: ignore[arg-type]


def ordinary(size: Size = Size(), **overrides: object) -> Trace:
    """A run of the same picture, one token a forward pass."""
    chance = random.Random(size.seed)
    steps = [
        Step(call=_call("target", "causal", 1, chance), position=(position,), token=(token,), fate=(Fate.SAMPLED,))
        for position, token in enumerate(picture_tokens(size))
    ]
    return replace(_trace("ar", steps, size, {}), **overrides)  # type: ignore[arg-type]


def written(words: Sequence[str] = ("The", " draft", " holds", HOSTILE, ".")) -> Trace:
    """A text drafted whole, of which a verifier keeps all but the second token."""
    ids = tuple(range(len(words)))
    drafted = Step(
        call=Call(role="draft", mode="diffusion", query_tokens=len(words)),
        position=ids,
        token=ids,
        fate=(Fate.DRAFTED,) * len(words),
    )
    judged = Step(
        call=Call(role="target", mode="verify", query_tokens=len(words)),
        position=ids,
        token=ids,
        fate=(Fate.ACCEPTED, Fate.RESAMPLED) + (Fate.DISCARDED,) * (len(words) - 2),
        draft=ids,
        accept_prob=(0.9, 0.2) + (None,) * (len(words) - 2),
        coin=(0.1, 0.6) + (None,) * (len(words) - 2),
    )
    steps = (drafted, judged)
    canvas = Canvas(kind="text", shape=(len(words),))
    blank = _trace("s2d2", steps, Size(1, len(words)), {})
    return replace(
        blank,
        canvas=canvas,
        legend=Legend(vocabulary=dict(enumerate(words))),
        output=Output(tokens=(0, 1) + (None,) * (len(words) - 2)),
        summary=summarise(steps, len(words), complete=False),
        prompt=HOSTILE,
    )


def picture_tokens(size: Size) -> tuple[int, ...]:
    """The codes of a disc in front of a gradient."""
    tokens = []
    for row in range(size.rows):
        for column in range(size.columns):
            x, y = (column + 0.5) / size.columns - 0.5, (row + 0.5) / size.rows - 0.5
            distance = math.hypot(x, y + 0.05)
            hue, light = (4, 22 - int(36 * distance)) if distance < 0.3 else (9, 4 + int(22 * (y + 0.5)))
            tokens.append(32 * hue + max(0, min(31, light + (row * 7 + column * 3) % 3)))
    return tuple(tokens)


def tiles() -> Tiles:
    """An atlas of 16 hues by 32 lightnesses."""
    sheet = Image.new("RGB", (32 * TILE, CODES // 32 * TILE))
    for code in range(CODES):
        hue, light = divmod(code, 32)
        red, green, blue = colorsys.hls_to_rgb(hue / 16, 0.12 + 0.8 * light / 31, 0.45)
        color = tuple(round(255 * channel) for channel in (red, green, blue))
        sheet.paste(color, (code % 32 * TILE, code // 32 * TILE, (code % 32 + 1) * TILE, (code // 32 + 1) * TILE))
    return Tiles(png=as_uri(sheet, "PNG"), size=TILE, columns=32)


@dataclass
class _Run:
    """The window of a run in progress."""

    size: Size
    front: int = 0
    steps: list[Step] = field(default_factory=list)
    drafts: dict[int, int] = field(default_factory=dict)
    ages: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.size.seed)
        self.goal = picture_tokens(self.size)

    def step(self) -> None:
        """Judge the window from the left, redraw behind the first rejection, and fill it up."""
        window = range(self.front, min(self.front + self.size.window, self.size.positions))
        rows: list[dict[str, object]] = []
        rejected = False
        passing = self.size.accepted / (1 + self.size.accepted)
        for position in window:
            age = self.ages.get(position, 0)
            fresh = position not in self.drafts
            row = self._probs(age, fresh, passing, judged=not rejected and not fresh)
            row |= {"position": position, "draft": self.drafts.get(position), "age": float(age)}
            row["fate"], row["token"] = self._decide(position, row, fresh=fresh, rejected=rejected, first=not rows)
            rejected = rejected or row["fate"] in (Fate.RESAMPLED, Fate.DRAFTED, Fate.SAMPLED)
            rows.append(row)
            self.ages[position] = age + 1
            self.drafts[position] = row["token"]  # type: ignore[assignment]
        self.front += sum(row["fate"].final for row in rows)  # type: ignore[attr-defined]
        self._record(rows)

    def _probs(self, age: int, fresh: bool, passing: float, *, judged: bool) -> dict[str, object]:
        tv = 1.0 if fresh else min(1.0, self.chance.betavariate(2, 3 + age) * 1.2)
        accept_prob = min(1.0, self.chance.betavariate(4 * passing + 0.4, 4 * (1 - passing) + 0.2))
        q = 0.05 + 0.9 * self.chance.random()
        return {
            "q": None if fresh else q,
            "p": None if fresh else q * accept_prob,
            "accept_prob": accept_prob if judged else None,
            "coin": self.chance.random() if judged else None,
            "tv": tv,
            "initial": float(fresh),
            "entropy": 6 * self.chance.random() / (1 + 0.2 * age),
        }

    def _decide(
        self, position: int, row: dict[str, object], *, fresh: bool, rejected: bool, first: bool
    ) -> tuple[Fate, int]:
        goal = self.goal[position]
        near = (goal + self.chance.choice((-3, -2, -1, 1, 2, 3))) % CODES
        if fresh:
            return (Fate.SAMPLED, goal) if first else (Fate.DRAFTED, self.chance.randrange(CODES))
        if not rejected:
            passed = row["coin"] < row["accept_prob"]  # type: ignore[operator]
            return (Fate.ACCEPTED, self.drafts[position]) if passed else (Fate.RESAMPLED, goal)
        if self.chance.random() < 0.55:
            return Fate.KEPT, self.drafts[position]
        wanted = goal if self.chance.random() < 0.7 else near
        return Fate.CHANGED if wanted != self.drafts[position] else Fate.KEPT, wanted

    def _record(self, rows: list[dict[str, object]]) -> None:
        def column(name: str) -> tuple:  # type: ignore[type-arg]
            return tuple(row[name] for row in rows)

        top = tuple(((row["token"], 0.5), (row["draft"] or 0, 0.2), (7, 0.05)) for row in rows)
        names = ("position", "token", "fate", "draft", "p", "q", "accept_prob", "coin")
        columns = {name: column(name) for name in names}
        numbers = {name: column(name) for name in ("age", "initial", "tv", "entropy")}
        call = _call("self", "verify", len(rows), self.chance)
        self.steps.append(Step(call=call, **columns, top=top, numbers=numbers))  # type: ignore[arg-type]


def _call(role: str, mode: str, tokens: int, chance: random.Random) -> Call:
    stages = Milliseconds(
        prepare=0.4, forward=5 + 0.05 * tokens + chance.random(), logits=0.6, decide=0.3 + 0.01 * tokens
    )
    return Call(role=role, mode=mode, query_tokens=tokens, milliseconds=stages)  # type: ignore[arg-type]


def _trace(method: str, steps: Sequence[Step], size: Size, config: dict[str, Scalar]) -> Trace:
    atlas, canvas = tiles(), Canvas(kind="image", shape=(size.rows, size.columns))
    model, legend = ModelCard(id="synthetic", title="Synthetic picture model"), Legend(tiles=atlas)
    trace = make(method, canvas, steps, model=model, prompt="a disc", config=config, seed=size.seed, legend=legend)
    return replace(trace, output=replace(trace.output, image=_picture(trace.output.tokens, atlas, size)))


def _picture(tokens: Sequence[object], atlas: Tiles, size: Size) -> str:
    sheet = Image.open(io.BytesIO(base64.b64decode(atlas.png.split(",", 1)[1])))
    image = Image.new("RGB", (size.columns * TILE, size.rows * TILE))
    for position, token in enumerate(tokens):
        code = token if isinstance(token, int) else 0
        left, top = code % 32 * TILE, code // 32 * TILE
        tile = sheet.crop((left, top, left + TILE, top + TILE))
        image.paste(tile, (position % size.columns * TILE, position // size.columns * TILE))
    return as_uri(image, "PNG")
