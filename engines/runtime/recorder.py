"""From the Decisions of a run, on the device, to its Steps, on the host."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import isfinite
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from draftscope.engines.protocol import UNUSED_ENTRY, Decision, DraftGraph, ForwardRequest
from draftscope.engines.sampling.coupling import collision_gumbel, collision_independent, entropy_bits, total_variation
from draftscope.traces.schema import Call, Fate, Node, PathPair, Step

_FATES: Final = tuple(Fate)
_DIGITS: Final = 6
"""Significant digits kept: enough for any figure, and a third of the file size."""
_PLACES: Final = 3
"""Decimals of a point in the plane of paths: noise has a spread of 1."""
_ALTERNATIVES: Final = 5
LIKELY: Final = 8
"""Number of tokens recorded of the distributions of each verdict by default."""
MAX_TOP_K: Final = 100
_SHARE_DIGITS: Final = 4
"""Significant digits of their probabilities, which are drawn as bars."""
_MAX_PENDING: Final = 2**23
"""Probabilities, 64 MB of them, that wait before steps are made unasked."""
_FIELDS: Final = ("p", "q", "accept_prob", "coin")
"""Numbers of an entry that are fields of a step."""

Numbers: TypeAlias = npt.NDArray[np.float64]
Table: TypeAlias = dict[str, Tensor]
Lists: TypeAlias = dict[str, list[Any]]
Likely: TypeAlias = tuple[tuple[int, float, float], ...]
"""Tokens with their p and q."""


@dataclass(frozen=True, slots=True)
class PendingStep:
    """A forward pass that is yet to become a step."""

    request: ForwardRequest
    decision: Decision
    call: Call
    likely: int = 0
    """The argument `likely` of `run_passes`."""
    num_values: int = 0
    """Number of probabilities in the answer."""


class StepRecorder:
    """The steps of a sequence. Passes wait as they are, on their device, until someone asks for the steps."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._waiting: list[PendingStep] = []
        self._num_pending = 0

    def add(self, one: PendingStep) -> None:
        """Keep a pass; what waits becomes steps unasked where it holds too many numbers."""
        self._waiting.append(one)
        self._num_pending += one.num_values
        if self._num_pending > _MAX_PENDING:
            self._convert()

    @property
    def steps(self) -> list[Step]:
        """A step for every pass."""
        if self._waiting:
            self._convert()
        return self._steps

    def _convert(self) -> None:
        self._steps += to_steps(self._waiting)
        self._waiting, self._num_pending = [], 0


def to_steps(passes: Sequence[PendingStep]) -> list[Step]:
    """The steps of passes of a sequence, whose numbers go to the host together."""
    passes = [replace(one, decision=one.decision.resolve()) for one in passes]
    exact, numbers = zip(*(_tables(one.decision) for one in passes), strict=True)
    signals = [{k: v for k, v in one.decision.step_measures.items() if isinstance(v, Tensor)} for one in passes]
    exact_lists = _to_host(exact, Tensor.tolist)
    rounded = _to_host([*numbers, *signals], _finite)
    return list(map(_step, passes, exact_lists, rounded, rounded[len(passes) :]))


def derived_measures(decision: Decision) -> dict[str, Tensor]:
    """Numbers that follow from the distributions of a decision, the same for every method that has them [W]."""
    p, q, draft = decision.p, decision.q, decision.draft
    if p is None or q is None or draft is None:
        return {}  # continuous tokens have densities, which their method knows best
    here = draft[:, None]
    p, q = p.float(), q.float()  # six digits are kept, and half the bytes are half the time
    tv = total_variation(q, p)
    collisions = {}
    if decision.consecutive_iterations:
        collisions = {"collision_independent": collision_independent(q, p), "collision_maximal": 1 - tv}
        collisions["collision_gumbel"] = collision_gumbel(q, p)
    return collisions | {
        "p": p.gather(1, here).squeeze(1),
        "q": q.gather(1, here).squeeze(1),
        "tv": tv,
        "entropy": entropy_bits(p),
        "draft_entropy": entropy_bits(q),
        "support": p.sign().sum(-1),
    }


def top_k_tokens(decision: Decision, verified: Sequence[int], count: int) -> Iterator[Likely]:
    """Yield the candidates of the verdicts on some drafts: each token once, by falling p.

    These are the draft, its replacement, and the most likely tokens under p, under q and in the residual.

    Args:
        decision: Decision with the columns p, q and draft.
        verified: Entries with a verdict.
        count: Most likely tokens of each kind, k.
    """
    assert decision.p is not None and decision.q is not None and decision.draft is not None
    rows = torch.tensor(verified, device=decision.p.device)
    both = torch.stack([decision.p[rows], decision.q[rows]]).float()
    top = torch.cat([both, both[:1] - both[1:]]).topk(min(count, both.shape[-1]))  # [3, R, k]
    named = torch.stack([decision.draft[rows], decision.token[rows]], 1)
    top_ids = top.indices.where(top.values > 0, named[:, :1])  # where p hardly exceeds q the residual has fewer tokens
    ids = torch.cat([named, top_ids.movedim(0, 1).flatten(1)], 1)
    shares = both.gather(-1, ids.expand(2, *ids.shape)).double().cpu().numpy()
    for row in zip(ids.tolist(), *_rounded(shares, _SHARE_DIGITS).tolist(), strict=True):
        each = {one for one in zip(*row, strict=True) if one[1] > 0 or one[2] > 0}
        yield tuple(sorted(each, key=lambda one: (-one[1], -one[2], one[0])))


def _tables(decision: Decision) -> tuple[Table, Table]:
    """Columns of a decision, flat: whole numbers, and numbers that are rounded."""
    exact: dict[str, Tensor | None] = {"position": decision.position, "fate": decision.fate, "row": decision.row}
    numbers: dict[str, Tensor | None] = {"accept_prob": decision.accept_prob, "coin": decision.uniform}
    numbers |= {**decision.measures, **derived_measures(decision)}
    for name, tokens in (("token", decision.token), ("draft", decision.draft)):
        (numbers if tokens is not None and tokens.ndim > 1 else exact)[name] = tokens
    if decision.probs is not None:
        best = decision.probs.topk(min(_ALTERNATIVES, decision.probs.shape[-1]))
        exact["top"], numbers["top"] = best.indices, best.values
    if decision.graph is not None:
        exact["graph"] = torch.cat([decision.graph.accepted[None], decision.graph.accepted_by_parent])
    present = ({name: column for name, column in table.items() if column is not None} for table in (exact, numbers))
    return next(present), next(present)


def _to_host(tables: Sequence[Table], convert: Callable[[Tensor], list[Any]]) -> list[Lists]:
    """Return the tables on the host, in one copy; `convert` takes all their numbers, concatenated."""
    parts = [column.reshape(-1) for table in tables for column in table.values()]
    if not parts:
        return [{} for _ in tables]
    together = torch.cat([part.to(parts[0].device) for part in parts])  # a drafter may have a device of its own
    values, ends = convert(together.cpu()), accumulate(map(len, parts))
    columns = (values[end - len(part) : end] for part, end in zip(parts, ends, strict=True))
    return [dict(zip(table, columns, strict=False)) for table in tables]


def _step(one: PendingStep, exact: Lists, numbers: Lists, signals: Lists) -> Step:
    """The step of a pass, from its numbers on the host."""
    decision, codes = one.decision, exact["fate"]
    real = [i for i, code in enumerate(codes) if code != UNUSED_ENTRY]

    def column(values: list[Any]) -> tuple[Any, ...]:
        """Return a value for every entry of the step; None after those that belong to drafts."""
        padded = values + [None] * (len(codes) - len(values))
        return tuple(padded if len(real) == len(codes) else [padded[i] for i in real])

    def tokens(name: str, ids: Tensor) -> tuple[Any, ...]:
        return column(exact[name] if ids.ndim == 1 else _in_rows(numbers.pop(name), ids.shape[1]))

    fate = tuple(_FATES[codes[i]] for i in real)
    draft = None if decision.draft is None else tokens("draft", decision.draft)
    counts: dict[str, float] = {}
    if draft is not None:
        counts = {"accepted": fate.count(Fate.ACCEPTED), "window": sum(each is not None for each in draft)}
    top = None
    if decision.probs is not None:  # impossible tokens are not alternatives
        best = list(zip(exact["top"], numbers.pop("top"), strict=True))
        rows = _in_rows(best, min(_ALTERNATIVES, decision.probs.shape[-1]))
        top = tuple(tuple(one for one in row or () if one[1] > 0) for row in column(rows))
    known = {
        name: float(f"{value:.{_DIGITS}g}") for name, value in decision.step_measures.items() if name not in signals
    }
    measured = {name: value for name, (value,) in signals.items() if value is not None}
    return Step(
        call=one.call,
        position=column(exact["position"]),
        token=tokens("token", decision.token),
        fate=fate,
        row=column(exact["row"]) if decision.row is not None else None,
        draft=draft,
        top=top,
        likely=_likely(one, real, fate),
        **{name: column(numbers.pop(name)) for name in _FIELDS if name in numbers},
        numbers={name: column(values) for name, values in numbers.items()},
        # A mean over nothing is not finite, and left out.
        signals=counts | {name: value for name, value in (known | measured).items() if isfinite(value)},
        mask=one.request.recorded_mask(),
        graph=None
        if decision.graph is None
        else _nodes(decision.graph, _in_rows(exact["graph"], len(decision.graph.parents))),
        paths=None
        if decision.denoising_paths is None
        else _paths(decision.denoising_paths.double().cpu().numpy(), real, fate),
    )


def _nodes(graph: DraftGraph, drafts: list[tuple[int, ...]]) -> tuple[Node, ...]:
    accepted, *accepted_under = drafts
    nodes = []
    for k, (parents, positions) in enumerate(zip(graph.parents, graph.positions, strict=True)):
        under = tuple(p for p in parents if accepted_under[p][k])
        nodes.append(Node(row=k, parents=parents, positions=positions, accepted=bool(accepted[k]), vouched_by=under))
    return tuple(nodes)


def _paths(seen: Numbers, real: list[int], fate: Sequence[Fate]) -> tuple[PathPair | None, ...] | None:
    """Return the paths of the verified entries; None if no draft has one."""
    if not seen.size:
        return None
    judged = [f.judged and i < len(seen) for i, f in zip(real, fate, strict=True)]
    return tuple(_pair(seen[i]) if is_verified else None for i, is_verified in zip(real, judged, strict=True))


def _pair(points: Numbers) -> PathPair:
    plane = points[:, :4].round(_PLACES).T.tolist()
    squared, *followed = _rounded(points[:, 4:].T).tolist()
    draft, target = (tuple(zip(*columns, strict=True)) for columns in (plane[:2], plane[2:]))
    ratios = tuple(ratio for column in followed for ratio in column[1:])
    return PathPair(draft=draft, target=target, distance_squared=tuple(squared), log_ratio=ratios)


def _in_rows(values: list[Any], width: int) -> list[tuple[Any, ...]]:
    return [tuple(values[i : i + width]) for i in range(0, len(values), width)]


def _likely(one: PendingStep, real: list[int], fate: Sequence[Fate]) -> tuple[Likely | None, ...] | None:
    """Return the candidates at the verified entries; None if there are none."""
    judged = [i for i, f in zip(real, fate, strict=True) if f.judged]
    if not judged or not one.likely or one.decision.p is None or one.decision.q is None:
        return None
    rows = dict(zip(judged, top_k_tokens(one.decision, judged, one.likely), strict=True))
    return tuple(rows.get(i) for i in real)


def _finite(numbers: Tensor) -> list[float | None]:
    """The numbers as a trace has them; None for what is not one."""
    values = _rounded(numbers.double().numpy())
    plain: list[float | None] = values.tolist()
    for i in np.flatnonzero(np.isnan(values)).tolist():
        plain[i] = None
    return plain


def _rounded(values: Numbers, digits: int = _DIGITS) -> Numbers:
    """Return the values with `digits` significant digits.

    Each is an integer over a power of ten, so it prints short.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        decimals = digits - 1 - np.floor(np.log10(np.abs(values)))
    up, down = 10.0 ** np.clip(decimals, 0, 300), 10.0 ** np.clip(-decimals, 0, 300)
    return np.where(values == 0, 0.0, np.round(values / down * up) / up * down)
