"""Draft graphs: their sets, who vouches for whom, and which one is chosen from what came true."""

from pathlib import Path
from typing import Any

import pytest
import torch

from engines.config import make_config
from engines.diffusion_lm import calibration, unmasking
from engines.diffusion_lm.branches import ranked
from engines.diffusion_lm.draft_graphs import ROOT, Graph, accept_nodes, chain, dag, star
from engines.diffusion_lm.sequence import TextTask
from engines.methods import METHODS
from engines.models.catalog import MODELS, load_model
from traces.schema import Canvas, ModelCard

NOTHING = -torch.inf


def test_a_chain_adds_one_rank_a_level_and_a_dag_a_sibling_that_skips_one() -> None:
    assert chain(3).nodes == ((), (1,), (1, 2), (1, 2, 3))
    assert chain(0) == dag(0) == ROOT
    assert (chain(7).depth, chain(7).reach) == (7, 7)
    assert dag(2).nodes == ((), (1,), (2,), (1, 2), (1, 3))
    assert [len(dag(d).nodes) for d in (1, 3, 5, 7)] == [3, 7, 11, 15]
    assert dag(2).parents(3) == (0, 1, 2)
    assert dag(2).parents(4) == (0, 1)


def test_a_row_is_fed_for_what_it_is_expected_to_gain_over_the_others() -> None:
    confidence = torch.tensor([0.9, 0.5, 0.2])  # gains of (1,), (2,), (1, 2), (1, 3): 0.9, 0.5 * 0.1, 0.45, 0.18 * 0.5
    assert dag(2).worth(confidence, 0.0) == dag(2)
    assert dag(2).worth(confidence, 0.06).nodes == ((), (1,), (1, 2), (1, 3))
    assert dag(2).worth(confidence, 0.1).nodes == ((), (1,), (1, 2))
    assert dag(2).worth(confidence, 0.5).nodes == ((), (1,))
    assert dag(2).worth(confidence, 0.95) == ROOT
    # A rival that is not fed takes nothing away: (1, 3) would gain 0.18 alone.
    assert Graph(((), (1, 3))).worth(confidence, 0.1).nodes == ((), (1, 3))


@pytest.mark.parametrize("graph", [chain(5), dag(5), star(4)])
def test_parents_stand_before_their_children_and_sets_fill_their_ranks(graph: Graph) -> None:
    rank = torch.tensor([3, 0, 1, 2])
    small = graph.within(3)
    filled = small.fills(rank)
    assert all(node[-1] <= 3 for node in small.nodes if node)
    for k, node in enumerate(small.nodes):
        assert sorted(rank[filled[k]].tolist()) == list(node)
        assert all(p < k for p in small.parents(k))


def accepted(graph: Graph, holds: dict[tuple[int, ...], str], confidence: Any = None, exactly: Any = None) -> Any:
    """`holds` says for a node which positions, in the order of ranks, pass under its distributions."""
    filled = graph.fills(torch.arange(1, graph.reach + 1))
    table = torch.tensor([[c == "1" for c in holds.get(n, "0" * graph.reach)] for n in graph.nodes])
    sure = torch.where(filled, NOTHING, 0.5) if confidence is None else confidence
    return accept_nodes(filled, table, sure.double(), graph.depth, exactly)


def test_a_chain_is_followed_until_a_draft_fails() -> None:
    assert int(accepted(chain(3), {(): "100", (1,): "010", (1, 2): "000"}).winner) == 2
    assert int(accepted(chain(3), {(): "000", (1,): "010", (1, 2): "001"}).winner) == 0
    assert accepted(chain(3), {(): "100", (1,): "000", (1, 2): "001"}).accepted.tolist() == [True, True, False, False]


def test_any_one_parent_is_enough() -> None:
    result = accepted(dag(2), {(): "010", (2,): "100"})
    assert dag(2).nodes[int(result.winner)] == (1, 2)
    assert result.accepted_under[:, 3].tolist() == [False, False, True, False, False]
    assert not result.accepted[1]  # one of its parents is not accepted


def test_of_sets_of_one_size_the_surer_one_wins_then_the_lower() -> None:
    confidence = torch.where(dag(2).fills(torch.arange(1, 4)), NOTHING, torch.tensor([[0.6, 0.7, 0.1]]))
    assert int(accepted(dag(2), {(): "110"}, confidence).winner) == 3
    star_ = star(2)
    sure = torch.tensor([[0.6, 0.7], [NOTHING, 0.1], [0.1, NOTHING]])
    assert int(accepted(star_, {(): "11"}, sure).winner) == 2
    assert int(accepted(star_, {(): "11"}).winner) == 1


def test_exactly_wants_all_of_it() -> None:
    everything = torch.tensor([[True, True, False], [False, True, False], [False, False, True], [False] * 3])
    result = accepted(chain(3), {(): "110", (1,): "010", (1, 2): "001"}, exactly=everything)
    assert result.accepted.tolist() == [True, False, True, True]


def chosen(rule: str, confidence: list[float], position: list[int] | None = None, threshold: float = 0.9) -> list[int]:
    values = torch.tensor(confidence, dtype=torch.float64)
    place = torch.tensor(position or list(range(len(confidence))))
    result = unmasking.at_least_one(unmasking.RULES[rule](values, place, threshold), values)
    return result.nonzero().squeeze(1).tolist()


def test_local_leap_takes_what_is_nearly_sure_beside_an_anchor() -> None:
    assert chosen("localleap", [0.8, 0.95, 0.8, 0.7]) == [0, 1, 2]
    assert chosen("localleap", [0.8, 0.95, 0.8, 0.8], [0, 4, 8, 9]) == [0, 1, 2]  # 4 places away, not 5
    assert chosen("localleap", [0.8, 0.89, 0.8]) == [1]  # without an anchor, the surest
    assert chosen("localleap", [0.9, 0.75, 0.7499]) == [0, 1]


def test_local_leap_with_equal_thresholds_is_confidence() -> None:
    noise = torch.Generator().manual_seed(0)
    for _ in range(50):
        confidence = torch.rand(8, generator=noise).tolist()
        assert chosen("localleap", confidence, threshold=0.75) == chosen("confidence", confidence, threshold=0.75)


def test_ties_go_to_the_lowest_position() -> None:
    for rule in unmasking.RULES:
        assert chosen(rule, [0.5, 0.6, 0.6]) == [1]


def test_what_is_left_is_ranked_with_ties_by_position() -> None:
    left = torch.tensor([True, True, False, True, True])
    assert ranked(torch.tensor([0.5, 0.6, 0.9, 0.6, 0.5]), left).tolist() == [3, 1, 0, 2, 4]


def test_many_rows_at_once_are_each_row_alone() -> None:
    noise = torch.Generator().manual_seed(1)
    rows = torch.rand(20, 6, generator=noise, dtype=torch.float64)
    rows[torch.rand(20, 6, generator=noise) < 0.3] = NOTHING
    rows[0] = NOTHING
    place = torch.arange(6) * 3
    for rule in unmasking.RULES.values():
        together = unmasking.at_least_one(rule(rows, place, 0.8), rows)
        for row, result in zip(rows, together, strict=True):
            assert result.equal(unmasking.at_least_one(rule(row, place, 0.8), row))
            assert not (result & (row == NOTHING)).any()
            assert result.any() or (row == NOTHING).all()


def test_what_comes_true_most_is_covered_first() -> None:
    sequences = {(1, 2): 10, (2, 1): 6, (1, 3): 3, (): 5}
    assert calibration.choose(sequences, 2, 2).nodes == ((), (1,))
    assert calibration.choose(sequences, 2, 3).nodes == ((), (1,), (1, 2))
    assert calibration.choose(sequences, 2, 4).nodes == ((), (1,), (2,), (1, 2))  # (2, 1) now goes two levels deep
    assert calibration.choose(sequences, 2, 9).nodes == ((), (1,), (2,), (1, 2), (1, 3))
    assert calibration.choose(sequences, 1, 9).nodes == ((), (1,), (2,))
    assert calibration.choose({(): 4}, 3, 8) == ROOT


def task(weights: str = "a") -> TextTask:
    card = ModelCard(id="some/model", weights={"w": weights})
    return TextTask(Canvas(kind="text", shape=(8,)), 9, torch.device("cpu"), mask=9, card=card)


def test_a_stored_graph_is_for_one_model_policy_and_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(calibration, "FOLDER", tmp_path)
    policy, card = ("confidence", 0.9, 8), task().card
    wanted = calibration.key(card, policy)
    calibration.write(calibration.path_of(card.id, policy), wanted, {"prompts": 1}, {(1, 2): 3, (): 1})
    assert calibration.calibrated(task(), policy, 3, 8).nodes == ((), (1,), (1, 2))
    for other in (("confidence", 0.9, 4), ("confidence", 0.8, 8), ("localleap", 0.9, 8)):
        with pytest.raises(ValueError, match=f"none is calibrated.* --model some/model --set policy={other[0]}"):
            calibration.calibrated(task(), other, 3, 8)
    with pytest.raises(ValueError, match=r"block8\.json is for weights .* run python -m engines calibrate"):
        calibration.calibrated(task("b"), policy, 3, 8)
    moved = calibration.path_of(card.id, ("confidence", 0.9, 16))
    moved.write_bytes(calibration.path_of(card.id, policy).read_bytes())
    with pytest.raises(ValueError, match="is for block 8, not 16"):
        calibration.calibrated(task(), ("confidence", 0.9, 16), 3, 8)


SHIPPED = sorted(calibration.FOLDER.glob("*/*.json"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_ships_was_made_with_the_weights_that_ship(path: Path) -> None:
    data = calibration.read(path)
    policy = (data["policy"], data["tau"], data["block"])
    model = load_model(data["model"])
    assert path == calibration.path_of(model.card.id, policy)
    assert data.items() >= calibration.key(model.card, policy).items(), "calibrate anew"
    assert sum(count for _, count in data["sequences"]) == data["steps"]
    config = make_config(METHODS["psd"].config, {"length": data["length"], "block": str(data["block"])})
    graph = calibration.calibrated(model.make_task(MODELS[data["model"]].default_prompt, config), policy, 3, 7)
    assert graph.depth == 3
    assert 4 < len(graph.nodes) <= 7
