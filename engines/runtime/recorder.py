"""From a Decision on the device to a Step on the host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from engines.protocol import NO_ENTRY, Decision, DraftGraph
from engines.sampling.coupling import collision_gumbel, collision_independent, entropy_bits, total_variation
from traces.schema import Call, Fate, Mask, Node, PathPair, Step, Token

_FATES: Final = tuple(Fate)
_DIGITS: Final = 6
"""Significant digits kept: enough for any figure, and a third of the file size."""
_PLACES: Final = 3
"""Decimals of a point in the plane of paths: noise has a spread of 1."""
_ALTERNATIVES: Final = 5
LIKELY: Final = 8
"""Tokens that are kept of each distribution behind a verdict, unless a run asks for another number."""
MOST_LIKELY: Final = 100
_SHARE_DIGITS: Final = 4
"""Of their probabilities, which are drawn as bars."""
_TOP: Final = "top"
_JUDGED: Final = torch.tensor([*(fate.judged for fate in Fate), False])
"""By fate code, NO_ENTRY included."""


def derive(decision: Decision) -> Mapping[str, Tensor]:
    """Numbers that follow from the distributions of a decision, the same for every method that has them [W]."""
    p, q, draft = decision.p, decision.q, decision.draft
    if p is None or q is None or draft is None:
        return {}  # continuous tokens have densities, which their method knows best
    here = draft[:, None]
    p, q = p.float(), q.float()  # six digits are kept, and half the bytes are half the time
    tv = total_variation(q, p)
    collisions = {}
    if decision.successive:
        collisions = {"collision_independent": collision_independent(q, p), "collision_maximal": 1 - tv}
        collisions["collision_gumbel"] = collision_gumbel(q, p)
    return collisions | {
        "p": p.gather(1, here).squeeze(1),
        "q": q.gather(1, here).squeeze(1),
        "tv": tv,
        "entropy": entropy_bits(p),
        "draft_entropy": entropy_bits(q),
        "support": (p > 0).sum(-1),
    }


@dataclass(frozen=True, slots=True)
class Packed:
    """A decision on the device, ready to be copied to the host."""

    columns: tuple[str, ...]
    known: Mapping[str, float]
    """Signals that the host has."""
    measured: tuple[str, ...]
    """Signals that are read back."""
    graph: DraftGraph | None
    parts: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
    """float64 [columns, E] and [measured], what became of a graph's K drafts [K + 1, K] or [0], `Decision.walks`, and
    `likeliest`."""


def likeliest(decision: Decision, count: int) -> Tensor:
    """Id, p and q of what the verdicts were between [R, C, 3]; a token may stand in a row more than once.

    That is the draft, what replaced it, and the `count` likeliest tokens under p, under q and in the residual. There is
    a row for every judged entry or, on devices where it costs to know which are, for every draft.
    """
    p, q, draft = decision.p, decision.q, decision.draft
    if p is None or q is None or draft is None or not count:
        return decision.token.new_zeros(0, 0, 3, dtype=torch.float64)
    W, V = p.shape
    named = torch.stack([draft, decision.token[:W]], 1)
    if p.device.type == "cpu":
        judged = _JUDGED[decision.fate[:W]]  # NO_ENTRY is the last one
        p, q, named = p[judged], q[judged], named[judged]
    both = torch.stack([p, q]).float()
    most = torch.cat([both, both[:1] - both[1:]]).topk(min(count, V)).indices  # [3, R, k]
    ids = torch.cat([named, most.movedim(0, 1).flatten(1)], 1)
    return torch.cat([ids[None].double(), both.gather(-1, ids.expand(2, *ids.shape)).double()]).movedim(0, -1)


def pack(decision: Decision, derived: Mapping[str, Tensor], likely: int = 0) -> Packed:
    """All numbers as a few tensors, so that a step costs one copy to the host; `likely` as in `drive`."""
    columns: dict[str, Tensor] = {"position": decision.position, "fate": decision.fate}
    columns |= _components("token", decision.token)
    columns |= {} if decision.draft is None else _components("draft", decision.draft)
    given = {"row": decision.row, "accept_prob": decision.accept_prob, "coin": decision.coin}
    columns |= {name: column for name, column in given.items() if column is not None}
    columns |= {**decision.numbers, **derived}
    if decision.probs is not None:
        best = decision.probs.topk(min(_ALTERNATIVES, decision.probs.shape[-1]))
        for i in range(best.values.shape[-1]):
            columns |= {f"{_TOP} token {i}": best.indices[:, i], f"{_TOP} share {i}": best.values[:, i]}
    table = torch.full(
        (len(columns), len(decision.position)), torch.nan, dtype=torch.float64, device=decision.token.device
    )
    for row, column in zip(table, columns.values(), strict=True):
        row[: len(column)] = column
    known = {name: float(value) for name, value in decision.signals.items() if not isinstance(value, Tensor)}
    measured = {name: value for name, value in decision.signals.items() if isinstance(value, Tensor)}
    signals = [table.new_empty(0), *(value.reshape(1).to(torch.float64) for value in measured.values())]
    graph, drafts = decision.graph, table.new_empty(0)
    if graph is not None:
        drafts = torch.cat([graph.accepted[None], graph.accepted_under]).double()
    seen = table.new_empty(0) if decision.walks is None else decision.walks()
    parts = (table, torch.cat(signals), drafts, seen, likeliest(decision, likely))
    return Packed(tuple(columns), known, tuple(measured), graph, parts)


def unpack(packed: Packed, parts: Sequence[Any], call: Call, mask: Mask | None) -> Step:
    """The Step of a packed decision from its parts on the host."""
    table, signals, drafts, seen, likely = parts
    by_name = dict(zip(packed.columns, table, strict=True))
    real = [i for i, code in enumerate(by_name["fate"]) if code != NO_ENTRY]
    columns = {name: [column[i] for i in real] for name, column in by_name.items()}
    fate = tuple(_FATES[int(code)] for code in columns.pop("fate"))
    position = tuple(map(int, columns.pop("position")))
    token, draft, row = _tokens(columns, "token") or (), _tokens(columns, "draft"), columns.pop("row", None)
    top = _alternatives(columns)
    rounded = [tuple(None if isnan(value) else value for value in column) for column in _rounded([*columns.values()])]
    numbers = dict(zip(columns, rounded, strict=True))
    p, q, accept_prob, coin = (numbers.pop(name, None) for name in ("p", "q", "accept_prob", "coin"))
    counts: dict[str, float] = {}
    if draft is not None:
        counts = {"accepted": fate.count(Fate.ACCEPTED), "window": sum(one is not None for one in draft)}
    kept = {**packed.known, **dict(zip(packed.measured, signals, strict=True))}
    return Step(
        call=call,
        position=position,
        token=tuple(one for one in token if one is not None),
        fate=fate,
        row=None if row is None else tuple(map(int, row)),
        draft=draft,
        p=p,
        q=q,
        accept_prob=accept_prob,
        coin=coin,
        top=top,
        likely=_likely(likely, real, fate),
        numbers=numbers,
        # A mean over nothing is not finite, and left out.
        signals=counts | {name: float(f"{value:.{_DIGITS}g}") for name, value in kept.items() if isfinite(value)},
        mask=mask,
        graph=None if packed.graph is None else _nodes(packed.graph, drafts),
        paths=_paths(seen, real, fate),
    )


def _nodes(graph: DraftGraph, drafts: list[list[float]]) -> tuple[Node, ...]:
    accepted, *accepted_under = drafts
    nodes = []
    for k, (parents, positions) in enumerate(zip(graph.parents, graph.positions, strict=True)):
        under = tuple(p for p in parents if accepted_under[p][k])
        nodes.append(Node(row=k, parents=parents, positions=positions, accepted=bool(accepted[k]), vouched_by=under))
    return tuple(nodes)


def _paths(seen: list[list[list[float]]], real: list[int], fate: Sequence[Fate]) -> tuple[PathPair | None, ...] | None:
    """Paths of the entries that were judged; None where no draft has one."""
    if not seen or not seen[0]:
        return None
    judged = [f.judged and i < len(seen) for i, f in zip(real, fate, strict=True)]
    return tuple(_pair(seen[i]) if kept else None for i, kept in zip(real, judged, strict=True))


def _pair(seen: list[list[float]]) -> PathPair:
    points = np.asarray(seen)
    plane = points[:, :4].round(_PLACES).T.tolist()
    squared, *followed = _rounded(points[:, 4:].T.tolist())
    draft, target = (tuple(zip(*columns, strict=True)) for columns in (plane[:2], plane[2:]))
    ratios = tuple(ratio for column in followed for ratio in column[1:])
    return PathPair(draft=draft, target=target, distance_squared=tuple(squared), log_ratio=ratios)


def _components(name: str, tokens: Tensor) -> dict[str, Tensor]:
    """Tokens as columns: ids are one, vectors have one a component."""
    if tokens.ndim == 1:
        return {name: tokens}
    return {f"{name} {i}": component for i, component in enumerate(tokens.unbind(1))}


def _tokens(columns: dict[str, list[float]], name: str) -> tuple[Token | None, ...] | None:
    """Take the columns of tokens out; None without such columns, and where there is no token."""
    if name in columns:
        return tuple(None if isnan(value) else int(value) for value in columns.pop(name))
    parts = [columns.pop(key) for key in list(columns) if key.startswith(f"{name} ")]
    if not parts:
        return None
    return tuple(None if isnan(vector[0]) else vector for vector in zip(*_rounded(parts), strict=True))


def _alternatives(columns: dict[str, list[float]]) -> tuple[tuple[tuple[int, float], ...], ...] | None:
    """Take the columns of alternatives out; impossible tokens are none."""
    names = [name for name in columns if name.startswith(f"{_TOP} ")]
    if not names:
        return None
    table = [columns.pop(name) for name in names]
    ids, shares = zip(*table[::2], strict=True), zip(*_rounded(table[1::2]), strict=True)
    pairs = (zip(map(int, tokens), values, strict=True) for tokens, values in zip(ids, shares, strict=True))
    return tuple(tuple((token, share) for token, share in each if share > 0) for each in pairs)


def _likely(
    table: list[list[list[float]]], real: list[int], fate: Sequence[Fate]
) -> tuple[tuple[tuple[int, float, float], ...] | None, ...] | None:
    """Each token once, by falling p, at the entries that were judged; None where none was."""
    judged = [entry for entry, f in enumerate(fate) if f.judged]
    if not table or not judged:
        return None
    rows = table if len(table) == len(judged) else [table[real[entry]] for entry in judged]
    ids, *shares = np.moveaxis(np.asarray(rows), -1, 0)
    columns = zip(ids.astype(int).tolist(), *_rounded(shares, _SHARE_DIGITS), strict=True)
    kept: list[tuple[tuple[int, float, float], ...] | None] = [None] * len(real)
    for entry, column in zip(judged, columns, strict=True):
        each = {one for one in zip(*column, strict=True) if one[1] > 0 or one[2] > 0}
        kept[entry] = tuple(sorted(each, key=lambda one: (-one[1], -one[2], one[0])))
    return tuple(kept)


def _rounded(table: Any, digits: int = _DIGITS) -> list[Any]:
    """The table with so many significant digits; each is a whole number over a power of ten, so it prints short."""
    values = np.asarray(table)
    with np.errstate(divide="ignore", invalid="ignore"):
        places = digits - 1 - np.floor(np.log10(np.abs(values)))
    up, down = 10.0 ** np.clip(places, 0, 300), 10.0 ** np.clip(-places, 0, 300)
    rounded = np.where(values == 0, 0.0, np.round(values / down * up) / up * down)
    return list(rounded.tolist())
