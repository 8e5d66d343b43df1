"""PSD: what must be the policy's own text, what may not be, and what every pass says of its drafts."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.conditionals import Conditionals
from support.language import tiny
from support.running import ended, exchange

from engines.__main__ import main
from engines.config import make_config
from engines.diffusion_lm import calibration
from engines.diffusion_lm.sequence import TextTask
from engines.methods import METHODS
from engines.runtime.driver import Job
from engines.runtime.request import Request
from engines.sampling.chance import SeededChance
from engines.testing.conformance import finish
from traces.schema import Fate, Step, Trace
from traces.text_stats import decode_order

PROMPT = "abcde"
KINDS = ["aligned", "shift", "full"]
LOOPS = ["reuse", "literal"]
POLICIES = ["greedy", "confidence", "localleap"]


def job(method: str = "psd", kind: str = "aligned", seed: int = 0, prompt: str = PROMPT, **values: object) -> Job:
    """With a low temperature, so that the noise of the model has opinions that thresholds can tell apart."""
    shared = {"block": "8", "length": 24, "temperature": 0.35}
    return Request(method, tiny(kind, seed), prompt, settings=shared | values).job()


def alone(policy: str, kind: str = "aligned", seed: int = 0) -> Trace:
    return finish(job("blockwise", kind, seed, rule=policy))


def sets(trace: Trace) -> list[frozenset[int]]:
    """What each pass made final."""
    positions = [
        frozenset(p for p, fate in zip(step.position, step.fate, strict=True) if fate.final) for step in trace.steps
    ]
    return [each for each in positions if each]


def counted(trace: Trace, like: Trace) -> bool:
    """Whether a trace has the tokens of another where that one has any, found in the same order.

    Drafts may have gone on behind the end of the text by the time it is noticed.
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
    """What strict acceptance takes at once are whole steps of the policy, so its sets are joined, never cut."""
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
        return sum(step.call.rows for step in trace.steps), len(trace.steps)

    plain = alone("greedy", kind)
    (all_rows, fewest), (some_rows, some), (no_more, most) = (fed(cost) for cost in (0.0, 0.1, 1.0))
    assert fewest <= some < most
    assert all_rows > some_rows
    assert no_more == most == len(plain.steps)  # no guess of the small model is certain


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
    decoder = METHODS[method].decode(model.task, config, SeededChance(0))
    made, tokens = ended(exchange(decoder, lambda request: model.answer(request).nan_to_num(0.0)))
    return tokens.tolist(), len(made)


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
    assert sum(map(len, sets(trace))) == sum(step.signals["committed"] for step in trace.steps)


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
    assert full.call.rows == 7
    assert full.call.query_tokens == 7 * 8


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
        kept = fates.count(Fate.ACCEPTED)
        rest = [Fate.REJECTED, *[Fate.DISCARDED] * len(fates)]
        assert fates == [Fate.ACCEPTED] * kept + rest[: len(fates) - kept]
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
    presets = METHODS["psd"].presets
    assert set(presets) == {"PSD (Confidence)", "PSD (LocalLeap)", "Spiffy"}
    spiffy = make_config(METHODS["psd"].config, presets["Spiffy"])
    assert "drafts may stay" not in METHODS["psd"].deviation(spiffy)
    assert "drafts may stay" in METHODS["psd"].deviation(make_config(METHODS["psd"].config, {}))


@pytest.mark.parametrize("name", METHODS["psd"].presets)
def test_a_run_goes_by_the_name_of_the_variant_whose_settings_it_has(name: str) -> None:
    preset: dict[str, Any] = dict(METHODS["psd"].presets[name])
    assert finish(job(depth=1, **preset)).variant == name
    if name == "Spiffy":
        assert finish(job(**{**preset, "acceptance": "policy"})).variant == ""  # greedy alone is not Spiffy


@pytest.mark.slow
def test_a_calibrated_graph_is_made_by_command_and_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model: Any = tiny("full")
    monkeypatch.setattr(calibration, "FOLDER", tmp_path)
    monkeypatch.setattr("engines.models.catalog.open_model", lambda *_: model)
    (tmp_path / "prompts.json").write_text('["abc", "bcd", "cde"]')
    wanted = job(kind="full", policy="greedy", graph="calibrated", rows=5, depth=2)
    with pytest.raises(ValueError, match="none is calibrated for tiny, greedy and blocks of 8; run "):
        wanted.decoder()
    settings = [f"--set={text}" for text in ("policy=greedy", "block=8", "length=24", "temperature=0.35")]
    assert (
        main(["calibrate", "--model", "tiny", "--prompts", str(tmp_path / "prompts.json"), "--count", "3", *settings])
        == 0
    )
    trace = finish(wanted)
    assert counted(trace, alone("greedy", "full"))
    assert {len(step.graph or ()) for step in verifications(trace)} & {5}
    assert main(["calibrate", "--model", "tiny", "--set", "depth=2"]) == 2


@pytest.mark.parametrize("method", ["psd", "lopa", "fdm-style"])
def test_more_rows_than_memory_holds_are_refused_before_any_work(method: str) -> None:
    task = job().task
    vast = TextTask(task.canvas, 10**8, task.device, prompt=task.prompt, mask=task.mask, ends=task.ends)
    with pytest.raises(ValueError, match=r"graph: \d+ rows with 8 distributions over 100,000,000 tokens need \d+ GiB"):
        next(METHODS[method].decode(vast, job(method).config, SeededChance(0)))
