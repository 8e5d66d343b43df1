"""Fast-dLLM v2's way through a block: a first token carried over from the block before, and sub-blocks in order."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from support.language import END, MASK, TinyLM, tiny
from support.running import passes
from torch import Tensor

from engines.config import make_config
from engines.diffusion_lm.sequence import Row, TextTask
from engines.methods import METHODS
from engines.methods.s2d2 import PRESETS
from engines.runtime.driver import Job
from engines.testing.conformance import finish
from traces.schema import Fate

LENGTH = 24
PROMPTS = ["abc", "abcdefg"]
"""With the line break behind them they end inside a block of 8, or with it."""


def job(model: Any, prompt: str, method: str = "blockwise", **values: object) -> Job:
    config = make_config(METHODS[method].config, {"block": "8", "length": LENGTH, "threshold": 0.4, **values})
    return Job(METHODS[method], cast(Any, model), prompt, config)


def endless(kind: str, seed: int = 0, sizes: tuple[int, ...] = (1, 2, 4, 8)) -> TinyLM:
    """A model whose text never ends before the canvas does."""
    made = tiny(kind, seed=seed)
    traits = replace(made.kind, ends=(), sizes=sizes)
    return TinyLM(made._network, made._tokenizer, traits, made.card, made.device)


# ---------------------------------------------------------------- written out naively


class Released:
    """Greedy Fast-dLLM v2 on whole rows: no cache, a pass over prompt and all blocks up to the one under way."""

    def __init__(self, model: TinyLM, size: int, part: int, threshold: float) -> None:
        self.model, self.size, self.part, self.threshold = model, size, part, threshold
        self.ends, self.passes = model.kind.ends, 0

    def decode(self, prompt: list[int], length: int) -> list[int]:
        ids, last = list(prompt), len(prompt) + length
        while len(ids) < last and not self.ended(ids[len(prompt) :]):
            if len(ids) % self.size == 0:  # the pass that stores the finished blocks predicts one token more
                ids.append(int(self.logits(ids)[-1].argmax()))
                continue
            self.block(ids, len(prompt), min((len(ids) // self.size + 1) * self.size, last))
        return ids[len(prompt) :]

    def ended(self, answer: list[int]) -> bool:
        stops = [i for i, token in enumerate(answer) if token in self.ends]
        return bool(stops) and MASK not in answer[: stops[0]]

    def block(self, ids: list[int], asked: int, stop: int) -> None:
        """Fill `ids` up to `stop`, sub-block by sub-block, or until an end has nothing open before it."""
        start = len(ids) // self.size * self.size
        ids += [MASK] * (stop - len(ids))
        for first in range(start, stop, self.part):
            inside = range(first, min(first + self.part, stop))
            while any(ids[i] == MASK for i in inside):
                if self.ended(ids[asked:]):
                    return
                probs = self.logits(ids)[:-1].softmax(-1)  # row i - 1 predicts token i
                open_ = [i for i in inside if ids[i] == MASK]
                best = max(open_, key=lambda i: float(probs[i - 1].max()))
                for i in open_:
                    if i == best or float(probs[i - 1].max()) > self.threshold:
                        ids[i] = int(probs[i - 1].argmax())

    def logits(self, ids: list[int]) -> Tensor:
        self.passes += 1
        block = torch.arange(len(ids)) // self.size
        found = self.model.everything(torch.tensor(ids), torch.arange(len(ids)), block[:, None] >= block[None, :])
        found[:, MASK] = -torch.inf
        return found


def text(tokens: Sequence[int | None]) -> list[int | None]:
    """The tokens up to the end."""
    tokens = list(tokens)
    return tokens[: tokens.index(END) + 1] if END in tokens else tokens


DECODERS: list[tuple[str, dict[str, object]]] = [
    ("blockwise", {"rule": "confidence"}),
    ("blockwise", {"rule": "dynamic"}),
    ("s2d2", {"router": "never", "ar_cache": False}),
]


@pytest.mark.parametrize(("method", "values"), DECODERS)
@pytest.mark.parametrize(
    ("size", "part"), [(8, 4), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((8, 8), (8, 1), (4, 2)))]
)
def test_right_shifted_text_is_decoded_as_fast_dllm_v2_does(
    method: str, values: dict[str, object], size: int, part: int
) -> None:
    blocks = {"block": str(size), "sub_block": "block" if part == size else str(part)}
    values = values | ({"steps": size} if "dynamic" in values.values() else {})
    left_off = 0
    for model in (endless("shift"), endless("shift", seed=1), tiny("shift", seed=2)):
        for prompt in PROMPTS:
            asked, plain = job(model, prompt, method, **blocks, **values), Released(model, size, part, 0.4)
            trace = finish(asked)
            wanted = text(plain.decode(list(cast(TextTask, asked.task).prompt), LENGTH))
            assert text(trace.output.tokens) == wanted
            assert len(trace.steps) == plain.passes
            left_off += (
                text(finish(job(model, prompt, method, **blocks, **values, carry=False)).output.tokens) != wanted
            )
    assert left_off or part == 1, "carrying makes no difference here: nothing is tested"


@pytest.mark.parametrize("method", ["editing", "psd", "lopa", "ete-style", "fdm-style"])
def test_every_method_takes_a_blocks_first_token_from_the_pass_that_stores_the_block_before(method: str) -> None:
    model: Any = endless("shift")
    tau = "threshold" if method == "editing" else "tau"
    config = make_config(METHODS[method].config, {"block": "8", "length": LENGTH, tau: 0.4})
    asked = Job(METHODS[method], model, PROMPTS[0], config)
    count, met = len(cast(TextTask, asked.task).prompt), 0
    for request, _, decision in passes(asked):
        places = (decision.position + count).tolist()
        if request.keep == len(request.position):
            met += 1
            assert places == [int(request.position[-1]) + 1]
            assert places[0] % 8 == 0
            assert [list(Fate)[code].final for code in decision.fate.tolist()] == [True]
        else:
            assert int(request.position[request.keep]) not in places
    assert met >= 2


# ---------------------------------------------------------------- sub-blocks


@pytest.mark.parametrize("kind", ["aligned", "shift", "full"])
def test_sub_blocks_are_filled_in_order_and_all_of_the_block_is_seen(kind: str) -> None:
    asked = job(endless(kind), "abc", sub_block="2", mode="sample")
    task = cast(TextTask, asked.task)
    origin = len(task.prompt) if kind == "full" else 0
    filled: list[int] = []
    for request, _, decision in passes(asked):
        final = decision.readback.tolist()[len(decision.position) :]
        place = [p + len(task.prompt) for p, kept in zip(decision.position.tolist(), final, strict=True) if kept]
        parts = {(p - origin) // 2 for p in place}
        assert len(parts) == 1
        assert parts.pop() >= max(((p - origin) // 2 for p in filled), default=0)
        filled += place
        if request.keep != len(request.position):
            block = (place[0] - origin) // 8 * 8 + origin
            last = min(block + 8, len(task.prompt) + LENGTH)
            assert set(range(block, last)) <= set(request.position.tolist())
    assert len(filled) == LENGTH


def test_a_row_says_what_may_be_filled_next() -> None:
    model: Any = tiny("shift")
    task = cast(TextTask, job(model, "abcdefg").task)
    row = Row(task, 8, part=4)
    assert (row.carrying, row.open.tolist(), len(row.span)) == (True, [8], 0)
    row.fill([8], [5])
    assert (row.carrying, row.open.tolist(), row.span.tolist(), row.part) == (
        False,
        [9, 10, 11],
        [9, 10, 11],
        slice(8, 12),
    )
    row.fill([9, 10, 11], [5, 5, 5])
    assert not row.settled
    assert (row.block, row.part, row.open.tolist()) == (slice(8, 16), slice(12, 16), [12, 13, 14, 15])
    row.fill([12, 13, 14, 15], [5, 5, 5, 5])
    assert (row.block, row.carrying, row.open.tolist()) == (slice(16, 24), True, [16])
    assert Row(task, 8, carry=False).open.tolist() == list(range(8, 16))


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith("Fast-dLLM")])
def test_the_papers_presets_run_on_a_model_of_blocks_of_32_alone(name: str) -> None:
    model = endless("shift", sizes=(1, 32))
    config = make_config(METHODS["s2d2"].config, {**PRESETS[name], "length": 64})
    part = {"A": 4, "B": 16, "C": 32}[name[-1]]
    assert (config.size, config.part) == (32, part)
    trace = finish(Job(METHODS["s2d2"], cast(Any, model), "abcdeabcde", config))
    assert trace.summary.complete
    assert any(Fate.DRAFTED in step.fate for step in trace.steps)
    assert max(step.signals["open"] for step in trace.steps) <= part
    assert any(step.call.mode == "verify" for step in trace.steps) or config.router == "hysteresis"
