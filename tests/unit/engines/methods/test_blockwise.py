"""Fast-dLLM v2's way through a block: a first token carried over from the block before, and sub-blocks in order."""

from dataclasses import replace
from typing import Any, cast

import pytest
from support.passes import passes
from support.reference_decoding import Released
from support.tiny_diffusion_lm import MASK, TinyLM, text, tiny_diffusion_lm

from draftscope.engines.diffusion_lm.block_sequence import BlockSequence, TextTask
from draftscope.engines.runtime.driver import Job
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.testing.conformance import finish
from draftscope.traces.schema import Fate

LENGTH = 24
PROMPTS = ["abc", "abcdefg"]
"""With the line break after them they end inside a block of 8, or with it."""


def job(model: Any, prompt: str, method: str = "blockwise", **values: object) -> Job:
    return RunRequest(method, model, prompt, settings={"block": "8", "length": LENGTH, "threshold": 0.4} | values).job()


def endless(kind: str, seed: int = 0) -> TinyLM:
    """A model whose text never ends before the canvas does."""
    model = tiny_diffusion_lm(kind, seed=seed)
    traits = replace(model.kind, ends=())
    return TinyLM(model.network, model._tokenizer, traits, model.card, model.device)


DECODERS: list[tuple[str, str, dict[str, object]]] = [
    *((kind, "blockwise", {"rule": "confidence"}) for kind in ("shift", "aligned", "full")),
    *((kind, "blockwise", {"rule": "dynamic"}) for kind in ("shift", "aligned")),
    *((kind, "s2d2", {"router": "never", "ar_cache": False}) for kind in ("shift", "aligned")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "method", "values"), DECODERS)
@pytest.mark.parametrize(
    ("size", "part"), [(8, 4), *(pytest.param(*one, marks=pytest.mark.nightly) for one in ((8, 1), (4, 2)))]
)
def test_blocks_are_decoded_as_a_loop_without_caches_does(
    kind: str, method: str, values: dict[str, object], size: int, part: int
) -> None:
    """With a first token that is carried over, as Fast-dLLM v2 does; test_text_checkpoints.py has whole blocks."""
    blocks = {"block": str(size), "sub_block": str(part)}
    values = values | ({"steps": size} if "dynamic" in values.values() else {})
    attention, carries, left_off = "full" if kind == "full" else "blocks", kind == "shift" and part > 1, 0
    for model in (endless(kind), endless(kind, seed=1), tiny_diffusion_lm(kind, seed=2)):
        for prompt in PROMPTS:
            run_job, ends = job(model, prompt, method, **blocks, **values), model.kind.ends
            plain = Released(
                model.everything, run_job.task.vocab_size, MASK, ends, attention=attention, shift=kind == "shift"
            )
            trace = finish(run_job)
            wanted = text(plain.decode(run_job.task.prompt_ids, LENGTH, size, 0.4, part=part))
            assert text(trace.output.tokens) == wanted
            assert len(trace.steps) == plain.passes
            if carries:
                apart = finish(job(model, prompt, method, **blocks, **values, reuse_store_pass=False))
                left_off += text(apart.output.tokens) != wanted
    assert left_off or not carries, "carrying makes no difference here: nothing is tested"


@pytest.mark.one_quick
@pytest.mark.parametrize("method", ["editing", "psd", "lopa", "ete-style", "fdm-style"])
def test_every_method_takes_a_blocks_first_token_from_the_pass_that_stores_the_block_before(method: str) -> None:
    tau = "threshold" if method == "editing" else "tau"
    run_job = RunRequest(
        method, endless("shift"), PROMPTS[0], settings={"block": "8", "length": LENGTH, tau: 0.4}
    ).job()
    count, met = len(cast(TextTask, run_job.task).prompt_ids), 0
    for request, _, decision in passes(run_job):
        positions = (decision.position + count).tolist()
        if request.num_to_cache == len(request.position):
            met += 1
            assert positions == [int(request.position[-1]) + 1]
            assert positions[0] % 8 == 0
            assert [list(Fate)[code].final for code in decision.resolve().fate.tolist()] == [True]
        else:
            assert int(request.position[request.num_to_cache]) not in positions
    assert met >= 2


def test_a_row_says_what_may_be_filled_next() -> None:
    model: Any = tiny_diffusion_lm("shift")
    task = cast(TextTask, job(model, "abcdefg").task)
    row = BlockSequence(task, 8, part=4)
    assert (row.reuses_store_pass, row.open.tolist(), len(row.span)) == (True, [8], 0)
    row.fill([8], [5])
    assert (row.reuses_store_pass, row.open.tolist(), row.span.tolist(), row.sub_block_positions) == (
        False,
        [9, 10, 11],
        [9, 10, 11],
        slice(8, 12),
    )
    row.fill([9, 10, 11], [5, 5, 5])
    assert not row.block_is_full
    assert (row.block, row.sub_block_positions, row.open.tolist()) == (slice(8, 16), slice(12, 16), [12, 13, 14, 15])
    row.fill([12, 13, 14, 15], [5, 5, 5, 5])
    assert (row.block, row.reuses_store_pass, row.open.tolist()) == (slice(16, 24), True, [16])
    assert BlockSequence(task, 8, carry=False).open.tolist() == list(range(8, 16))
