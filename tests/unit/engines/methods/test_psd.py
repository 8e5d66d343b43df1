"""PSD: what must equal the policy's text, what need not, and the record of its drafts."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from support.conditionals import Conditionals
from support.passes import ended, run_passes
from support.tiny_diffusion_lm import tiny_diffusion_lm

from draftscope.analysis.block_stats import decode_order
from draftscope.cli.main import main
from draftscope.engines.diffusion_lm import graph_calibration as calibration
from draftscope.engines.diffusion_lm import unmasking
from draftscope.engines.diffusion_lm.block_sequence import TextTask
from draftscope.engines.diffusion_lm.draft_graphs import ROOT, Graph, accept_nodes, chain, dag, star
from draftscope.engines.diffusion_lm.draft_rows import rank_by_confidence
from draftscope.engines.methods import METHODS
from draftscope.engines.models.catalog import MODELS, load_model
from draftscope.engines.runtime.driver import Job
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.sampling.random_source import SeededRandom
from draftscope.engines.settings import make_config
from draftscope.engines.testing.conformance import finish
from draftscope.traces.schema import Canvas, Fate, ModelCard, Step, Trace

PROMPT = "abcde"
KINDS = ["aligned", "shift", "full"]
LOOPS = ["reuse", "literal"]
POLICIES = ["greedy", "confidence", "localleap"]


def job(method: str = "psd", kind: str = "aligned", seed: int = 0, prompt: str = PROMPT, **values: object) -> Job:
    """With a low temperature, so that the random model is confident enough for thresholds to matter."""
    shared = {"block": "8", "length": 24, "temperature": 0.35}
    return RunRequest(method, tiny_diffusion_lm(kind, seed), prompt, settings=shared | values).job()


def alone(policy: str, kind: str = "aligned", seed: int = 0) -> Trace:
    return finish(job("blockwise", kind, seed, rule=policy))


def sets(trace: Trace) -> list[frozenset[int]]:
    """Return what each pass made final."""
    positions = [
        frozenset(p for p, fate in zip(step.position, step.fate, strict=True) if fate.final) for step in trace.steps
    ]
    return [each for each in positions if each]


def counted(trace: Trace, like: Trace) -> bool:
    """Return whether a trace has the tokens of another where that one has any, found in the same order.

    Drafts may have continued after the end of the text before it was noticed.
    """
    order, expected = decode_order(trace.steps), decode_order(like.steps)
    same = all(trace.output.tokens[i] == like.output.tokens[i] for i in expected)
    return same and order[: len(expected)] == expected


@pytest.mark.one_quick
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_without_drafts_it_is_the_policy(kind: str, policy: str, loop: str) -> None:
    trace, plain = finish(job(kind=kind, policy=policy, depth=0, loop=loop)), alone(policy, kind)
    assert trace.output.tokens == plain.output.tokens
    assert sets(trace) == sets(plain)
    assert len(trace.steps) == len(plain.steps)


@pytest.mark.one_quick
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("graph", ["chain", "dag"])
@pytest.mark.parametrize("kind", ["aligned", "full"])
def test_greedy_text_comes_out_in_the_same_order(kind: str, graph: str, loop: str) -> None:
    plain = alone("greedy", kind)
    passes = []
    for depth in (1, 3, 7):
        trace = finish(job(kind=kind, policy="greedy", depth=depth, graph=graph, loop=loop))
        assert counted(trace, plain)
        passes.append(len(trace.steps))
    assert passes == sorted(passes, reverse=True)
    assert passes[-1] < len(plain.steps)  # else there was nothing to test


@pytest.mark.one_quick
@pytest.mark.parametrize("policy", ["confidence", "localleap"])
@pytest.mark.parametrize(("kind", "seed"), [("aligned", 0), ("aligned", 3), ("full", 0), ("shift", 1)])
def test_strict_acceptance_follows_the_policy_step_by_step(kind: str, seed: int, policy: str) -> None:
    """Strict acceptance takes whole steps of the policy at once, so its sets are joined, never cut."""
    trace, plain = finish(job(kind=kind, seed=seed, policy=policy, acceptance="strict")), alone(policy, kind, seed)
    assert all(trace.output.tokens[i] == plain.output.tokens[i] for i in decode_order(plain.steps))
    single, joined = iter(sets(plain)), sets(trace)
    for together in joined:
        left = set(together)
        while left and (part := next(single, None)) is not None:
            assert part <= left
            left -= part
    assert next(single, None) is None


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_fed_where_they_pay_and_the_text_is_the_policys(kind: str, loop: str) -> None:
    def fed(row_cost: float) -> tuple[int, int]:
        trace = finish(job(kind=kind, policy="greedy", acceptance="strict", loop=loop, row_cost=row_cost))
        assert counted(trace, plain)
        blocks = [{(p + trace.canvas.block_offset) // 8 for p in step.position} for step in trace.steps]
        assert any(len(each) > 1 for each in blocks) == ((kind, loop, row_cost) == ("aligned", "reuse", 0.1))
        return sum(step.call.rows for step in trace.steps), len(trace.steps)

    plain = alone("greedy", kind)
    (all_rows, fewest_rows), (_, shared), (some_rows, some_tokens), (no_more, full_tokens) = (
        fed(cost) for cost in (0.0, 0.1, 0.4, 1.0)
    )
    assert (
        max(fewest_rows, shared + 1) <= some_tokens < full_tokens
    )  # a block with all drafts may share its pass with the next one
    assert all_rows > some_rows
    assert no_more == full_tokens == len(plain.steps)  # no draft gains more than a pass


@pytest.mark.slow
def test_other_acceptance_may_take_another_path() -> None:
    """Negative: a draft that is part of what the policy reveals changes what is revealed together."""
    differing = 0
    for seed in range(4):
        plain = alone("localleap", "full", seed)
        trace = finish(job(kind="full", seed=seed, policy="localleap", acceptance="policy", depth=1))
        differing += not counted(trace, plain) or len(set(map(len, sets(trace)))) != len(set(map(len, sets(plain))))
    assert differing


def decode(model: Conditionals, method: str = "psd", **values: object) -> tuple[list[int], int]:
    """Tokens and passes on a model given by tables, which answers equal rows equally, to the last bit."""
    config = make_config(METHODS[method].config, {"length": 8, "block": "8", **values})
    decoder = METHODS[method].decode(model.task, config, SeededRandom(0))
    decisions, tokens = ended(run_passes(decoder, lambda request: model.forward(request).nan_to_num(0.0)))
    return tokens.tolist(), len(decisions)


@pytest.mark.one_quick
@pytest.mark.parametrize("acceptance", ["policy", "token", "strict"])
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("graph", ["chain", "dag"])
def test_spiffy_loses_nothing_whatever_the_model_says(graph: str, loop: str, acceptance: str) -> None:
    gained = 0
    for seed in range(12):
        model = Conditionals(7, 2, seed)
        plain, steps = decode(model, "blockwise", rule="greedy")
        values = {"policy": "greedy", "graph": graph, "loop": loop, "acceptance": acceptance}
        tokens, fewer = decode(model, depth=4, **values)
        assert tokens == plain
        gained += steps - fewer if loop == "reuse" else len(tokens)
    assert gained > 0


@pytest.mark.one_quick
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_passes_and_tokens_add_up(kind: str, policy: str) -> None:
    trace = finish(job(kind=kind, policy=policy))
    canvas = trace.canvas
    size, offset = canvas.block or 0, canvas.block_offset
    first = [step for step in trace.steps if kind == "shift" and (step.position[0] + offset) % size == 0]
    drafts = sum(step.call.mode == "draft" for step in trace.steps)
    assert drafts == len({step.signals["block"] for step in trace.steps}) + len(first)
    assert all(len(step.position) == 1 for step in first)  # a block's first token is carried over by a pass of its own
    for step in trace.steps:
        signals = step.signals
        assert signals["committed"] == signals["unmasked"] + signals["speculated"] == sum(f.final for f in step.fate)
        assert signals["speculated"] == step.fate.count(Fate.ACCEPTED)
        assert (step.call.mode == "verify") == (step.graph is not None) == (step.row is not None)


@pytest.mark.one_quick
@pytest.mark.parametrize("kind", ["aligned", "full"])
def test_greedy_takes_a_pass_for_every_token_that_no_draft_added(kind: str) -> None:
    """Apart from passes whose draft filled the whole block, which leaves the policy nothing to reveal."""
    for depth in (1, 3):
        steps = finish(job(kind=kind, policy="greedy", depth=depth, graph="dag")).steps
        assert all(step.signals["committed"] <= 1 + depth for step in steps)
        assert [step.signals["unmasked"] for step in steps] == [
            float(step.signals["open"] > step.signals["speculated"]) for step in steps
        ]


def test_a_literal_loop_asks_once_more_and_rows_are_drafts_that_share_what_is_finished() -> None:
    modes = [step.call.mode for step in finish(job(policy="greedy", loop="literal")).steps]
    assert "verify" in modes
    assert all((a, b) != ("verify", "verify") for a, b in pairwise(modes))
    trace = finish(job(policy="greedy", depth=3, graph="dag", block="8"))
    full = next(step for step in trace.steps if step.call.mode == "verify" and step.signals["open"] == 7)
    assert (full.call.rows, full.call.query_tokens) == (7, 7 * 8)


def verifications(trace: Trace) -> list[Step]:
    return [step for step in trace.steps if step.graph is not None]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_graph_says_which_parents_accepted_a_row(policy: str) -> None:
    steps = verifications(finish(job(kind="full", policy=policy, depth=4)))
    assert any(node.accepted and node.parents for step in steps for node in step.graph or ())
    for step in steps:
        root, *others = step.graph
        assert root.accepted
        assert root.positions == ()
        for node in others:
            assert node.accepted == bool(node.vouched_by)
            assert all(
                step.graph[p].accepted and set(step.graph[p].positions) < set(node.positions) for p in node.vouched_by
            )
        winner = step.graph[int(step.signals["winner"])]
        accepted = {p for p, fate in zip(step.position, step.fate, strict=True) if fate is Fate.ACCEPTED}
        assert set(winner.positions) == accepted
        assert len(winner.positions) == max(len(node.positions) for node in step.graph if node.accepted)


def test_every_draft_has_a_verdict_a_rank_and_a_level() -> None:
    for step in verifications(finish(job(policy="greedy", depth=3, graph="chain"))):
        judged = [i for i, draft in enumerate(step.draft) if draft is not None]
        fates = [step.fate[i] for i in judged]
        assert [step.numbers["rank"][i] for i in judged] == [i + 1 for i in judged]
        assert [step.numbers["level"][i] for i in judged] == [i + 1 for i in judged]
        accepted = fates.count(Fate.ACCEPTED)
        remaining = [Fate.REJECTED, *[Fate.DISCARDED] * len(fates)]
        assert fates == [Fate.ACCEPTED] * accepted + remaining[: len(fates) - accepted]
        for i in judged:
            agrees = step.top is not None and step.top[i][0][0] == step.draft[i]
            assert agrees or step.fate[i] is not Fate.ACCEPTED


def test_what_is_left_open_is_ranked_by_confidence() -> None:
    for step in finish(job(policy="confidence")).steps:
        left = [i for i, fate in enumerate(step.fate) if fate is Fate.DRAFTED]
        ranks = [step.numbers["rank"][i] for i in left]
        by_confidence = sorted(left, key=lambda i: (-(step.numbers["confidence"][i] or 0), step.position[i]))
        assert [left[ranks.index(r)] for r in sorted(r for r in ranks if r is not None)] == by_confidence


def test_presets_are_the_papers() -> None:
    printed = {"PSD (Confidence), as published": "confidence", "PSD (LocalLeap), as published": "localleap"}
    assert set(METHODS["psd"].presets) == {"PSD (Confidence)", "PSD (LocalLeap)", "Spiffy", *printed}
    for name, policy in printed.items():
        config = make_config(METHODS["psd"].config, METHODS["psd"].presets[name])
        assert (config.policy, config.acceptance, config.loop, config.row_cost) == (policy, "token", "literal", 0)
    spiffy = make_config(METHODS["psd"].config, METHODS["psd"].presets["Spiffy"])
    assert "drafts may stay" not in METHODS["psd"].deviation(spiffy)
    assert "drafts may stay" in METHODS["psd"].deviation(make_config(METHODS["psd"].config, {}))


@pytest.mark.parametrize("name", METHODS["psd"].presets)
def test_a_run_goes_by_the_name_of_the_variant_whose_settings_it_has(name: str) -> None:
    preset: dict[str, Any] = dict(METHODS["psd"].presets[name])
    assert METHODS["psd"].variant(make_config(METHODS["psd"].config, preset)) == name
    preset |= {"block": "8"} if "block" in preset else {}
    if preset.get("block"):
        assert finish(job(**preset)).variant == name.removesuffix(", as published"), "the paper has blocks of 32"
        return
    assert finish(job(**{"depth": 1, **preset})).variant == name
    assert finish(job(**{"depth": 1, **preset, "row_cost": 0.1})).variant == (name if name == "Spiffy" else "")
    if name == "Spiffy":
        assert finish(job(**{**preset, "acceptance": "policy"})).variant == ""  # greedy alone is not Spiffy


@pytest.mark.slow
def test_a_calibrated_graph_is_made_by_command_and_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model: Any = tiny_diffusion_lm("full")
    monkeypatch.setattr(calibration, "FOLDER", tmp_path)
    monkeypatch.setattr("draftscope.engines.models.catalog.open_model", lambda *_: model)
    (tmp_path / "prompts.json").write_text('["abc", "bcd", "cde"]')
    wanted = job(kind="full", policy="greedy", graph="calibrated", rows=5, depth=2)
    with pytest.raises(ValueError, match="none is calibrated for tiny, greedy and blocks of 8; run "):
        wanted.decoder()
    settings = [f"--set={text}" for text in ("policy=greedy", "block=8", "length=24", "temperature=0.35")]
    command = ["model", "calibrate-graph", "--model", "tiny", "--prompts", str(tmp_path / "prompts.json")]
    assert main([*command, "--count", "3", *settings]) == 0
    trace = finish(wanted)
    assert counted(trace, alone("greedy", "full"))
    assert {len(step.graph or ()) for step in verifications(trace)} & {5}
    assert main(["model", "calibrate-graph", "--model", "tiny", "--set", "depth=2"]) == 2


@pytest.mark.parametrize("method", ["psd", "lopa", "fdm-style"])
def test_more_rows_than_memory_holds_are_refused_before_any_work(method: str) -> None:
    task = job().task
    vast = TextTask(
        task.canvas, 10**8, task.device, prompt_ids=task.prompt_ids, mask=task.mask, eos_token_ids=task.eos_token_ids
    )
    with pytest.raises(ValueError, match=r"graph: \d+ rows with 8 distributions over 100,000,000 tokens need \d+ GiB"):
        next(METHODS[method].decode(vast, job(method).config, SeededRandom(0)))


NOTHING = -torch.inf


def test_a_chain_adds_one_rank_a_level_and_a_dag_a_sibling_that_skips_one() -> None:
    assert chain(3).nodes == ((), (1,), (1, 2), (1, 2, 3))
    assert chain(0) == dag(0) == ROOT
    assert (chain(7).depth, chain(7).reach) == (7, 7)
    assert dag(2).nodes == ((), (1,), (2,), (1, 2), (1, 3))
    assert [len(dag(d).nodes) for d in (1, 3, 5, 7)] == [3, 7, 11, 15]
    assert [dag(2).parents(k) for k in (3, 4)] == [(0, 1, 2), (0, 1)]


def test_a_row_is_fed_for_what_it_is_expected_to_gain_over_the_others() -> None:
    confidence = [0.9, 0.5, 0.2]  # gains of (1,), (2,), (1, 2), (1, 3): 0.9, 0.5 * 0.1, 0.45, 0.18 * 0.5
    assert dag(2).prune_by_expected_gain(confidence, 0.0, 9) == dag(2)
    assert dag(2).prune_by_expected_gain(confidence, 0.06, 9).nodes == ((), (1,), (1, 2), (1, 3))
    assert dag(2).prune_by_expected_gain(confidence, 0.06, 2).nodes == ((), (1,))  # (1, 2) would be all
    assert dag(2).prune_by_expected_gain(confidence, 0.5, 9).nodes == ((), (1,))
    assert dag(2).prune_by_expected_gain(confidence, 0.95, 9) == ROOT
    assert Graph(((), (1, 3))).prune_by_expected_gain(confidence, 0.1, 9).nodes == (
        (),
        (1, 3),
    )  # no rival is fed: it gains 0.18


@pytest.mark.parametrize("graph", [chain(5), dag(5), star(4)])
def test_parents_stand_before_their_children_and_sets_fill_their_ranks(graph: Graph) -> None:
    rank = torch.tensor([3, 0, 1, 2])
    small = graph.restrict_to(3)
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
    positions = torch.tensor(position or list(range(len(confidence))))
    result = unmasking.at_least_one(unmasking.RULES[rule](values, positions, threshold), values)
    return result.nonzero().squeeze(1).tolist()


def test_local_leap_takes_what_is_nearly_sure_beside_an_anchor() -> None:
    assert chosen("localleap", [0.8, 0.95, 0.8, 0.7]) == [0, 1, 2]
    assert chosen("localleap", [0.8, 0.95, 0.8, 0.8], [0, 4, 8, 9]) == [0, 1, 2]  # 4 places away, not 5
    assert chosen("localleap", [0.8, 0.89, 0.89]) == [1]  # without an anchor, the surest, the first of two
    assert chosen("localleap", [0.9, 0.75, 0.7499]) == [0, 1]


def test_local_leap_with_equal_thresholds_is_confidence() -> None:
    noise = torch.Generator().manual_seed(0)
    for _ in range(50):
        confidence = torch.rand(8, generator=noise).tolist()
        assert chosen("localleap", confidence, threshold=0.75) == chosen("confidence", confidence, threshold=0.75)


def test_what_is_left_is_ranked_with_ties_by_position() -> None:
    left = torch.tensor([True, True, False, True, True])
    assert rank_by_confidence(torch.tensor([0.5, 0.6, 0.9, 0.6, 0.5]), left).tolist() == [3, 1, 0, 2, 4]


def test_many_rows_at_once_are_each_row_alone() -> None:
    noise = torch.Generator().manual_seed(1)
    rows = torch.rand(20, 6, generator=noise, dtype=torch.float64)
    rows[torch.rand(20, 6, generator=noise) < 0.3] = NOTHING
    rows[0] = NOTHING
    positions = torch.arange(6) * 3
    for rule in unmasking.RULES.values():
        together = unmasking.at_least_one(rule(rows, positions, 0.8), rows)
        for row, result in zip(rows, together, strict=True):
            assert result.equal(unmasking.at_least_one(rule(row, positions, 0.8), row))
            assert not (result & (row == NOTHING)).any()
            assert result.any() or (row == NOTHING).all()


def test_what_comes_true_most_is_covered_first() -> None:
    sequences = {(1, 2): 10, (2, 1): 6, (1, 3): 3, (): 5}
    assert calibration.best_graph(sequences, 2, 2).nodes == ((), (1,))
    assert calibration.best_graph(sequences, 2, 3).nodes == ((), (1,), (1, 2))
    assert calibration.best_graph(sequences, 2, 4).nodes == ((), (1,), (2,), (1, 2))  # (2, 1) now goes two levels deep
    assert calibration.best_graph(sequences, 2, 9).nodes == ((), (1,), (2,), (1, 2), (1, 3))
    assert calibration.best_graph(sequences, 1, 9).nodes == ((), (1,), (2,))
    assert calibration.best_graph({(): 4}, 3, 8) == ROOT


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
    with pytest.raises(ValueError, match=r"block8\.json is for weights .* run draftscope model calibrate-graph"):
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
