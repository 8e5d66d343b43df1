"""Draft graphs: which sets of ranked positions are filled in ahead of time, and which of them hold (PSD, Spiffy).

A node is a set of ranks, counted from 1 in the order of falling confidence; the root fills nothing. Node p is a parent
of k when its set is a proper subset, so a node may have several; docs/methods/psd.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Graph:
    """Sets of ranks, each in rising order; smaller sets first, so that parents precede their children."""

    nodes: tuple[tuple[int, ...], ...]

    @property
    def depth(self) -> int:
        """Ranks of the largest set."""
        return max(map(len, self.nodes))

    @property
    def reach(self) -> int:
        """The last rank that any node fills."""
        return max((node[-1] for node in self.nodes if node), default=0)

    def restrict_to(self, count: int) -> "Graph":
        """The nodes whose ranks there are when `count` positions are open."""
        return Graph(tuple(node for node in self.nodes if not node or node[-1] <= count))

    def prune_by_expected_gain(self, chance: Sequence[float], min_gain: float, count: int) -> "Graph":
        """Return the root, and the nodes whose expected gain over the remaining nodes is large enough.

        A node gains a token if all that it fills is accepted, and no other fed node of its size is accepted; drafts are
        accepted independently. A node that fills all open positions gains nothing: if it is accepted, the policy
        reveals them without it.

        Args:
            chance: Probability that the draft of each rank is accepted.
            min_gain: Minimum gain, in tokens.
            count: Number of open positions.
        """
        fed: list[tuple[int, ...]] = []
        for node in self.restrict_to(count).nodes:
            gain = _all_true(chance, node) * (len(node) < count)
            for other in fed:
                if len(other) == len(node):
                    gain *= 1 - _all_true(chance, tuple({*other} - {*node}))
            if not node or gain >= min_gain:
                fed.append(node)
        return Graph(tuple(fed))

    def fills(self, rank: Int[Tensor, " m"]) -> Bool[Tensor, "K m"]:
        """Which of the positions of these ranks each node fills; a rank of 0 is filled by none."""
        return _table(self)[:, rank.clamp(max=self.reach + 1)]

    def parents(self, node: int) -> tuple[int, ...]:
        """The nodes that are proper subsets of one."""
        mine = set(self.nodes[node])
        return tuple(p for p, other in enumerate(self.nodes[:node]) if set(other) < mine)


@cache
def _table(graph: Graph) -> Bool[Tensor, "K R"]:
    """Which ranks each node fills, from 0 to one that none does."""
    return torch.tensor([[rank in node for rank in range(graph.reach + 2)] for node in graph.nodes])


def _all_true(chance: Sequence[float], ranks: tuple[int, ...]) -> float:
    return math.prod(chance[rank - 1] for rank in ranks)


ROOT = Graph(((),))


@cache
def chain(d: int) -> Graph:
    """One node a level: {}, {1}, {1, 2} ... K = d + 1."""
    return Graph(tuple(tuple(range(1, level + 1)) for level in range(d + 1)))


@cache
def dag(d: int) -> Graph:
    """The chain and, on every level, a sibling that skips a rank: {1 .. l - 1, l + 1}. K = 2 d + 1."""
    levels = [tuple(range(1, level)) for level in range(1, d + 1)]
    return Graph(((), *((*start, len(start) + last) for start in levels for last in (1, 2))))


@cache
def star(k: int) -> Graph:
    """The root and k drafts of one rank each (LoPA)."""
    return Graph(((), *((rank,) for rank in range(1, k + 1))))


@cache
def sibling_nodes(k: int, start: int = 0) -> Graph:
    """Return nodes that differ in one draft (FDM).

    Args:
        k: Largest rank: there is a node for each of 1 .. k.
        start: Ranks that all nodes hold: 1 .. start.
    """
    common = set(range(1, start + 1))
    return Graph(tuple(dict.fromkeys(tuple(sorted(common | {rank})) for rank in range(1, k + 1))))


@dataclass(frozen=True, slots=True)
class GraphAcceptance:
    """Outcome of the nodes of a graph."""

    accepted_under: Bool[Tensor, "K K"]
    """Whether parent p is accepted and everything that k adds to it holds under p's distributions."""
    accepted: Bool[Tensor, " K"]
    winner: Int[Tensor, ""]
    """The largest accepted set; ties go to the surer additions, then to the lower node."""


def accept_nodes(
    filled: Bool[Tensor, "K m"],
    holds: Bool[Tensor, "K m"],
    confidence: Float[Tensor, "K m"],
    depth: int,
    exactly: Bool[Tensor, "K m"] | None = None,
) -> GraphAcceptance:
    """Hierarchical acceptance (PSD, Alg. 1, lines 19 to 25) from node 0, the root, on.

    Args:
        filled: What each node fills.
        holds: Where the draft of a position passes under the distributions of row p.
        confidence: Of row p's likeliest tokens.
        depth: Of the graph.
        exactly: Require that k adds to p just these positions, nothing less.
    """
    full, confidence_or_zero = filled.double(), torch.where(filled, 0.0, confidence).double()
    size, empty = full.sum(-1), 1 - full
    below = (full @ empty.T == 0) & (size[:, None] < size)  # [p, k]
    good = below & ((empty * ~holds) @ full.T == 0)
    if exactly is not None:
        good = good & (exactly.double() @ empty.T == 0)
    accepted = torch.arange(len(filled), device=filled.device) == 0
    for _ in range(depth):
        accepted = accepted | (accepted[:, None] & good).any(0)
    accepted_under = good & accepted[:, None]
    mean = confidence_or_zero @ full.T / (size - size[:, None]).clamp(min=1)
    surest = torch.where(accepted_under, mean, 0.0).amax(0)
    winner = torch.where(accepted, size + surest / 2, -1.0).argmax()
    return GraphAcceptance(accepted_under, accepted, winner)
