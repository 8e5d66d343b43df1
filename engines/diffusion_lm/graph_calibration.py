"""Calibration of draft graphs: what was accepted on other prompts, for one model, transfer policy and block size.

`draftscope model calibrate-graph` decodes some prompts with the policy alone, and notes which ranks became final next
with the predicted tokens (analysis.prediction); docs/methods/psd.md describes how the graph is chosen.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from draftscope.analysis.prediction import rank_sequences
from draftscope.engines.diffusion_lm.block_sequence import TextTask
from draftscope.engines.diffusion_lm.draft_graphs import Graph, chain, dag
from draftscope.engines.paths import ASSETS
from draftscope.engines.settings import ConfigError
from draftscope.traces.files import read_bytes, write_atomic
from draftscope.traces.schema import ModelCard, Step

FOLDER: Final = ASSETS / "graphs"
PROMPTS: Final = ASSETS / "problems.json"
MAX_DEPTH: Final = 8

Sequences = Mapping[tuple[int, ...], int]


def prompts(path: Path, count: int) -> list[str]:
    """Return the last prompts of a JSON list.

    Args:
        path: File with a list of texts, or of objects with a `question`.
        count: How many of them, at least 1.

    Raises:
        ValueError: If the file holds no such list, or fewer prompts.
    """
    try:
        data: Any = json.loads(read_bytes(path))
        texts = [one if isinstance(one, str) else str(one["question"]) for one in data]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"prompts: {str(path)!r} holds no list of prompts ({error!r}); give JSON, a list of texts."
        ) from None
    if not 1 <= count <= len(texts):
        raise ValueError(
            f"count: {count} is not allowed; {path.name} holds {len(texts)} prompts, use 1 to {len(texts)}."
        )
    return texts[-count:]


def count_rank_sequences(runs: Sequence[Sequence[Step]]) -> Sequences:
    """How often each sequence of ranks was accepted."""
    return Counter(ranks for steps in runs for ranks in rank_sequences(steps, MAX_DEPTH))


def best_graph(sequences: Sequences, depth: int, rows: int) -> Graph:
    """Return the graph that reaches deepest on average, found greedily.

    At a step, a graph is followed along the accepted sequence as long as it contains its ranks. Every addition is the
    next set of some sequence, and the one that adds most to the sum of depths; ties go to the smaller set, then to
    lower ranks.

    Args:
        sequences: Ranks in the order in which they were accepted -> how often that happened.
        depth: Maximum number of levels.
        rows: Maximum number of nodes, the root included.
    """
    nodes: set[tuple[int, ...]] = {()}
    while len(nodes) < rows:
        gain: Counter[tuple[int, ...]] = Counter()
        for ranks, count in sequences.items():
            reached = _reached(ranks[:depth], nodes)
            if reached < min(len(ranks), depth):
                following = tuple(sorted(ranks[: reached + 1]))
                gain[following] += count * (_reached(ranks[:depth], nodes | {following}) - reached)
        if not gain:
            break
        nodes.add(min(gain, key=lambda q: (-gain[q], len(q), q)))
    return Graph(tuple(sorted(nodes, key=lambda node: (len(node), node))))


def _reached(ranks: tuple[int, ...], nodes: Set[tuple[int, ...]]) -> int:
    """How many of the ranks, one after the other, lead from set to set."""
    return next((n for n in range(len(ranks)) if tuple(sorted(ranks[: n + 1])) not in nodes), len(ranks))


def draft_graph(task: TextTask, kind: str, policy: tuple[str, float, int], depth: int, rows: int) -> Graph:
    """Return a draft graph.

    Args:
        task: Task, which names the model of a calibration.
        kind: "chain", "dag" or "calibrated".
        policy: Name of the policy, threshold and block size of a calibration.
        depth: Number of levels.
        rows: Maximum number of nodes of a calibrated graph.

    Raises:
        ConfigError: If nothing is calibrated for the model and the policy.
    """
    if kind == "calibrated" and depth:
        return calibrated(task, policy, depth, rows)
    return chain(depth) if kind == "chain" else dag(depth)


def calibrated(task: TextTask, policy: tuple[str, float, int], depth: int, rows: int) -> Graph:
    """Return the stored graph for a model and a policy.

    Args:
        task: Task, which names the model.
        policy: Name of the policy, threshold and block size.
        depth: Maximum number of levels.
        rows: Maximum number of nodes.

    Raises:
        ConfigError: If there is none, or it belongs to other weights; the message has the command that makes it.
    """
    name, tau, block = policy
    if task.card is None:
        raise ConfigError("graph: nothing can be calibrated for a model without a name; use dag or chain.")
    path = path_of(task.card.id, policy)
    remedy = f"run draftscope model calibrate-graph --model {task.card.id} --set policy={name} --set tau={tau:g} "
    remedy += f"--set block={block}, or use dag or chain."
    if not path.is_file():
        chosen = name if name == "greedy" else f"{name} {tau:g}"
        raise ConfigError(f"graph: none is calibrated for {task.card.id}, {chosen} and blocks of {block}; {remedy}")
    data = read(path)
    wanted = key(task.card, policy)
    for field, value in wanted.items():
        if data.get(field) != value:
            raise ConfigError(f"graph: {path.name} is for {field} {data.get(field)!r}, not {value!r}; {remedy}")
    return best_graph({tuple(ranks): count for ranks, count in data["sequences"]}, depth, rows)


def path_of(model: str, policy: tuple[str, float, int]) -> Path:
    """Return the path of a calibration.

    Args:
        model: Id of the model.
        policy: Name of the policy, threshold (not used by greedy) and block size.
    """
    name, tau, block = policy
    stem = name if name == "greedy" else f"{name}-{tau:g}"
    return FOLDER / model.replace("/", "--") / f"{stem}-block{block}.json"


def key(card: ModelCard, policy: tuple[str, float, int]) -> dict[str, Any]:
    """Return the model and policy that a calibration holds for.

    Args:
        card: Card of the model, with the hashes of its weights.
        policy: Name of the policy, threshold (None in the key of greedy) and block size.
    """
    name, tau, block = policy
    digest = hashlib.sha256(json.dumps(dict(card.weights), sort_keys=True).encode()).hexdigest()[:32]
    return {
        "model": card.id,
        "weights": digest,
        "policy": name,
        "tau": None if name == "greedy" else tau,
        "block": block,
    }


def write(path: Path, wanted: Mapping[str, Any], about: Mapping[str, Any], sequences: Sequences) -> None:
    """Store a calibration, whole or not at all.

    Args:
        path: Result of `path_of`.
        wanted: Result of `key`.
        about: How it was made, for readers of the file.
        sequences: Ranks in the order in which they were accepted -> how often that happened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    counted = sorted(sequences.items(), key=lambda pair: (-pair[1], pair[0]))
    lines = ",\n".join(f"  {json.dumps([list(ranks), count])}" for ranks, count in counted)
    head = json.dumps({**wanted, **about}, indent=1)[:-2]
    write_atomic(path, f'{head},\n "sequences": [\n{lines}\n ]\n}}\n'.encode())
    read.cache_clear()


@cache
def read(path: Path) -> dict[str, Any]:
    """A stored calibration."""
    return cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8")))
