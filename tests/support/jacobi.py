"""A toy with real dynamics: speculative Jacobi decoding of a smooth raster of ordered codes, in numpy.

The distribution of a cell is a discretised bell around a blend of its left, upper and upper-left neighbours, so
contexts that differ little give distributions that differ little, as in pictures. The runs are exact; only the
milliseconds are made up.
"""

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from traces.schema import (
    Call,
    Canvas,
    Environment,
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

TILE = 4


@dataclass(frozen=True)
class Raster:
    """The model: how large the picture is, how many codes there are and how sharp their distributions."""

    rows: int = 8
    columns: int = 8
    codes: int = 32
    width: float = 0.25

    @property
    def cells(self) -> int:
        """Number of positions."""
        return self.rows * self.columns

    def all_probs(self, tokens: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """[W, V] distribution of every position given the tokens before it."""
        values = np.linspace(-1, 1, self.codes)

        def at(row: np.ndarray, column: np.ndarray) -> np.ndarray:
            inside = (row >= 0) & (column >= 0)
            return np.where(inside, values[tokens[np.maximum(row * self.columns + column, 0)]], 0.0)

        row, column = np.divmod(positions, self.columns)
        mean = 0.55 * at(row, column - 1) + 0.55 * at(row - 1, column) - 0.2 * at(row - 1, column - 1)
        weights = np.exp(-((values[None, :] - mean[:, None]) ** 2) / (2 * self.width**2))
        return weights / weights.sum(1, keepdims=True)


@dataclass
class Pending:
    """The window: one entry per pending draft."""

    tokens: list[int] = field(default_factory=list)
    all_probs: list[np.ndarray] = field(default_factory=list)
    initial: list[bool] = field(default_factory=list)
    age: list[int] = field(default_factory=list)

    def fill(self, count: int, codes: int, chance: np.random.Generator) -> None:
        """Append initial guesses, with the one-hot distribution that makes judging them exact."""
        while len(self.tokens) < count:
            token = int(chance.integers(codes))
            self.tokens.append(token)
            self.all_probs.append(np.eye(codes)[token])
            self.initial.append(True)
            self.age.append(0)

    def keep_from(self, index: int, tokens: list[int], all_probs: np.ndarray) -> None:
        """Drop what is final and take over the new tokens and distributions of the rest."""
        self.tokens, self.all_probs = tokens[index:], list(all_probs[index : len(tokens)])
        self.initial = [False] * len(self.tokens)
        self.age = [age + 1 for age in self.age[index:]]


def decode(
    *, coupling: str = "maximal", window: int = 16, alpha: float = 1.0, seed: int = 0, raster: Raster | None = None
) -> Trace:
    """Decode a picture with `window` drafts a step; coupling is none, maximal or gumbel."""
    raster = raster or Raster()
    chance = np.random.default_rng(seed)
    gumbel = -np.log(-np.log(np.random.default_rng(seed + 10**6).random((raster.cells, raster.codes))))
    tokens = np.zeros(raster.cells, dtype=int)
    pending, done, steps = Pending(), 0, []
    while done < raster.cells:
        pending.fill(min(window, raster.cells - done), raster.codes, chance)
        drafts = len(pending.tokens)
        tokens[done : done + drafts] = pending.tokens
        positions = np.arange(done, min(done + drafts + 1, raster.cells))
        all_probs = raster.all_probs(tokens, positions)
        step, judged = _step(pending, positions, all_probs, (coupling, alpha), (chance, gumbel))
        steps.append(step)
        final = sum(fate.final for fate in step.fate)
        tokens[done : done + final] = step.token[:final]
        pending.keep_from(final, judged, all_probs)
        done += final
    config = {"coupling": coupling, "window": window, "alpha": alpha}
    return _trace("jacobi", raster, seed, config, tuple(steps))


def ordinary(*, seed: int = 0, raster: Raster | None = None) -> Trace:
    """Decode one token a step."""
    raster = raster or Raster()
    chance = np.random.default_rng(seed)
    tokens, steps = np.zeros(raster.cells, dtype=int), []
    for position in range(raster.cells):
        probs = raster.all_probs(tokens, np.array([position]))[0]
        tokens[position] = _draw(probs, chance)
        call = Call(role="target", mode="causal", query_tokens=1, milliseconds=_milliseconds(chance, 0))
        steps.append(Step(call=call, position=(position,), token=(int(tokens[position]),), fate=(Fate.SAMPLED,)))
    return _trace("ordinary", raster, seed, {}, tuple(steps))


def _step(
    pending: Pending,
    positions: np.ndarray,
    all_probs: np.ndarray,
    how: tuple[str, float],
    randomness: tuple[np.random.Generator, np.ndarray],
) -> tuple[Step, list[int]]:
    coupling, alpha = how
    chance, gumbel = randomness
    drafts, columns = len(pending.tokens), _columns(pending, all_probs)
    coins = chance.random(drafts)
    token, fate, rejected = [], [], False
    for i in range(drafts):
        draft, p, q = pending.tokens[i], all_probs[i], pending.all_probs[i]
        kept = bool(coins[i] < columns["accept_prob"][i])
        corrected = draft if kept else _draw(np.maximum(p - q, 0), chance)
        if not rejected:
            token.append(corrected)
            fate.append(Fate.ACCEPTED if kept else Fate.RESAMPLED)
            rejected = not kept
            continue
        coupled = coupling != "none" and chance.random() < alpha
        if coupled and coupling == "maximal":
            token.append(corrected)
        elif coupled:
            token.append(int(np.argmax(np.log(p + 1e-300) + gumbel[positions[i]])))
        else:
            token.append(_draw(p, chance))
        pending_fate = Fate.KEPT if token[-1] == draft else Fate.CHANGED
        fate.append(Fate.DRAFTED if pending.initial[i] else pending_fate)
    judged = list(token)
    bonus = not rejected and len(positions) > drafts
    if bonus:
        token.append(_draw(all_probs[drafts], chance))
        fate.append(Fate.BONUS)
    tail: tuple[None, ...] = (None,) if bonus else ()
    step = Step(
        call=Call(role="self", mode="verify", query_tokens=drafts + 1, milliseconds=_milliseconds(chance, drafts)),
        position=tuple(int(position) for position in positions[: len(token)]),
        token=tuple(token),
        fate=tuple(fate),
        draft=(*pending.tokens, *tail),
        coin=(*(float(coin) for coin in coins), *tail),
        **{name: (*columns[name], *tail) for name in ("p", "q", "accept_prob")},
        numbers={name: (*columns[name], *tail) for name in columns if name not in ("p", "q", "accept_prob")},
        signals={"accepted": float(fate.count(Fate.ACCEPTED)), "window": float(drafts)},
    )
    return step, judged


def _columns(pending: Pending, all_probs: np.ndarray) -> dict[str, tuple[float, ...]]:
    new, old = all_probs[: len(pending.tokens)], np.array(pending.all_probs)
    rows = np.arange(len(new))
    p, q = new[rows, pending.tokens], old[rows, pending.tokens]
    common = np.minimum(new, old).sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.maximum(new[:, None, :] / new[:, :, None], old[:, None, :] / old[:, :, None])
    gumbel = np.nan_to_num(1 / ratios.sum(2)).sum(1)
    columns = {
        "p": p,
        "q": q,
        "accept_prob": np.minimum(1, p / q),
        "age": np.array(pending.age, dtype=float),
        "initial": np.array(pending.initial, dtype=float),
        "tv": 1 - common,
        "collision_independent": (new * old).sum(1),
        "collision_maximal": common,
        "collision_gumbel": gumbel,
        "entropy": _entropy(new),
        "draft_entropy": _entropy(old),
    }
    unbounded = ("age", "entropy", "draft_entropy")
    return {
        name: tuple(float(max(0.0, value if name in unbounded else min(1.0, value))) for value in column)
        for name, column in columns.items()
    }


def _entropy(all_probs: np.ndarray) -> np.ndarray:
    return -(all_probs * np.log2(np.maximum(all_probs, 1e-300))).sum(1)


def _draw(weights: np.ndarray, chance: np.random.Generator) -> int:
    return int(np.searchsorted(np.cumsum(weights) / weights.sum(), chance.random(), side="right"))


def _milliseconds(chance: np.random.Generator, drafts: int) -> Milliseconds:
    forward = 8 + 0.06 * drafts + float(chance.random())
    return Milliseconds(prepare=0.4, forward=forward, logits=0.3, decide=0.1 + 0.02 * drafts)


def _tiles(codes: int) -> Tiles:
    shades = np.linspace(20, 235, codes)
    atlas = np.stack([shades, 0.8 * shades + 20, 255 - 0.6 * shades], -1).astype(np.uint8)
    picture = Image.fromarray(np.repeat(np.repeat(atlas[None], TILE, 0), TILE, 1))
    return Tiles(png=_data_url(picture), size=TILE, columns=codes)


def _data_url(picture: Image.Image) -> str:
    data = io.BytesIO()
    picture.save(data, "PNG")
    return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()


def _trace(method: str, raster: Raster, seed: int, config: Mapping[str, Scalar], steps: tuple[Step, ...]) -> Trace:
    tokens: dict[int, int] = {}
    for step in steps:
        for position, token, fate in zip(step.position, step.token, step.fate, strict=True):
            if fate.final:
                assert isinstance(token, int)
                tokens[position] = token
    return Trace(
        method=method,
        model=ModelCard(id="toy/raster", title="Toy raster"),
        prompt="a smooth picture",
        config=config,
        seed=seed,
        created="2026-01-01T00:00:00Z",
        environment=Environment(device="cpu", dtype="float64", python="3.11", platform="test"),
        canvas=Canvas(kind="image", shape=(raster.rows, raster.columns)),
        legend=Legend(tiles=_tiles(raster.codes)),
        steps=steps,
        output=Output(tokens=tuple(tokens[position] for position in range(raster.cells))),
        summary=summarise(steps, raster.cells, True),
    )
