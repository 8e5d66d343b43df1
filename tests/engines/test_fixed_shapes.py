"""Passes at fixed shapes give what passes as wide as what is asked give, and each shape is captured once.

There is no GPU here. `Recorder` stands in for one: the operations of a captured pass are noted and repeated on the same
tensors, what it gives is overwritten by the next one, and values that cross over to the host or from it are refused.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, cast

import pytest
import torch
from support.language import tiny
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks._sizes import TINY
from engines.ar.request import Forward
from engines.config import ConfigError, make_config
from engines.diffusion_lm.request import BlockForward
from engines.methods import METHODS
from engines.models import fixed_shapes
from engines.models.accelerator import Host, Pass, accelerator_for
from engines.models.block_plan import PlanShape
from engines.models.catalog import load_model
from engines.models.fixed_shapes import padded_rows, padded_width
from engines.models.picture_session import Fed, PictureSession
from engines.models.studio.networks import CODES, Transformer, TransformerSize
from engines.runtime import driver
from engines.runtime.driver import Job, Run, run_batch
from traces.schema import Trace

CPU = torch.device("cpu")
READS = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "lift_fresh")
"""What CUDA refuses while it captures: values that the host waits for, and numbers of the host."""


class Tape(TorchDispatchMode):
    """Notes operations with the tensors they read and gave, as a graph does; Python has no say in their repetition."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operation.overloadpacket.__name__ in READS:
            raise RuntimeError(f"operation not permitted when stream is capturing: {operation}")
        out = operation(*args, **kwargs or {})
        self.calls.append((operation, args, kwargs or {}, out))
        return out

    def repeat(self) -> None:
        for operation, args, kwargs, out in self.calls:
            anew = operation(*args, **kwargs)
            for old, new in zip(tree_leaves(out), tree_leaves(anew), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class Recorder(Host):
    """Keeps what is captured, and says how often it was replayed."""

    def __init__(self) -> None:
        self.shapes: list[Any] = []
        """Of the buffers of each capture."""
        self.replays: list[int] = []
        self.staged = 0
        self._given: Tensor | None = None

    def capture(self, run: Pass) -> Pass:
        number = len(self.replays)
        self.replays.append(0)
        self.shapes.append(tuple(getattr(given, "shape", given) for given in cast(Any, run).args))
        with Tape() as tape:
            out = run()

        def replay() -> Tensor:
            if self._given is not None:
                self._given.fill_(torch.nan)
            tape.repeat()
            self.replays[number] += 1
            self._given = out
            return out

        return replay

    def stage(self, host: Tensor) -> Tensor:
        self.staged += 1
        return host


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> list[Recorder]:
    """Those of the sessions that are opened, in turn."""
    made: list[Recorder] = []

    def recorder(device: torch.device) -> Recorder:
        made.append(Recorder())
        return made[-1]

    monkeypatch.setattr(fixed_shapes, "accelerator_for", recorder)
    return made


def jobs(method: str, model: Any, prompts: Sequence[str], shapes: str, **settings: Any) -> list[Job]:
    chosen = METHODS[method]
    config = make_config(chosen.config, settings)
    return [Job(chosen, model, prompt, config, 5, i, shapes=shapes) for i, prompt in enumerate(prompts)]


def tokens(traces: Sequence[Trace]) -> list[Any]:
    return [(trace.output.tokens, [step.position for step in trace.steps]) for trace in traces]


def janus() -> Any:
    """Pictures of 16 codes, whose prompts have different lengths."""
    torch.manual_seed(0)
    model = TINY["Janus-Pro"](CPU, torch.float64).model
    for weight in model.network.generation_head.parameters():
        weight.mul_(30)  # distributions worth disagreeing about
    return model


def text(kind: str = "aligned") -> Any:
    model: Any = tiny.__wrapped__(kind)
    model._network.double()
    return model


CASES: dict[str, tuple[str, Callable[[], Any], tuple[str, ...], dict[str, Any]]] = {
    "pictures": ("scd", janus, ("a red boot", "a", "a b c d e f g"), {"guidance": 3, "window": 5}),
    "drafts of a block": ("s2d2", text, ("abc", "a", "hgfedcba" * 3), {"length": 16, "block": "4"}),
    "rows of drafts": ("psd", text, ("abc", "fed"), {"length": 16, "block": "4"}),
    "from left to right": ("scd", text, ("abc", "abcdefgh"), {"length": 24, "window": 4, "coupling": "none"}),
    "a shifted model": ("scd", lambda: text("shift"), ("abcd",), {"length": 16, "window": 4}),
    "no cache": ("blockwise", lambda: text("full"), ("abc", "b"), {"length": 16, "block": "8"}),
    "a stale cache": ("blockwise", lambda: text("full"), ("abc", "b"), {"length": 16, "block": "4", "cache": "prefix"}),
}


@pytest.mark.parametrize("case", CASES)
def test_fixed_shapes_change_no_token_and_each_is_captured_once(case: str, recorders: list[Recorder]) -> None:
    method, build, prompts, settings = CASES[case]
    model = build()
    expected = run_batch(jobs(method, model, prompts, "exact", **settings))
    assert not recorders
    met: list[torch.Size] = []
    network = getattr(model._network, "language_model", None) or model._network.model
    network.register_forward_pre_hook(lambda _, __, given: met.append(given["attention_mask"].shape), with_kwargs=True)
    found = run_batch(jobs(method, model, prompts, "fixed", **settings))
    assert tokens(found) == tokens(expected)
    (recorder,) = recorders
    assert recorder.replays and all(recorder.replays)
    assert len(set(recorder.shapes)) == len(recorder.shapes)
    passes = max(len(trace.steps) for trace in found)
    assert recorder.staged == passes, "one copy a pass goes to the device"
    assert all(mask[2] == padded_width(mask[2]) for mask in met)
    assert len(set(met)) <= 6, "the network sees few shapes"


def test_vectors_and_their_paths_come_out_the_same(recorders: list[Recorder]) -> None:
    model = load_model("patch-draft", "cpu")

    def begun(shapes: str) -> list[Any]:
        (one,) = jobs("cspd", model, ("a red boot",), shapes, steps=2, drafter="itself")
        return [step.token for step in islice(Run(one), 8)]

    found, expected = begun("fixed"), begun("exact")
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert len(recorders) == 2 and sum(map(sum, (each.replays for each in recorders))) > 4


@torch.inference_mode()
def test_lanes_that_leave_and_come_back_in_another_order_keep_their_own(recorders: list[Recorder]) -> None:
    torch.manual_seed(0)
    network = Transformer(TransformerSize(width=16, layers=2, heads=2, feed_forward=24)).eval()
    prompts = [[range(CODES, CODES + 1 + lane)] for lane in range(5)]
    with fixed_shapes.shapes("fixed"):
        fixed = PictureSession(network, prompts, Fed(5, 8), 2, CPU)
    exact = PictureSession(network, prompts, Fed(5, 8), 2, CPU)
    drawn = torch.randint(CODES, (5, 40))
    fed, compared = [0] * 5, []
    for lanes in ([0, 1, 2, 3, 4], [4, 2, 0], [2], [3, 1], [2, 3, 4], [0, 4, 3], [4, 0], [3, 2], [0, 4, 3, 2, 1]):
        asked = {}
        for lane in lanes:
            done = max(0, fed[lane] - lane)
            fed[lane] = done + 1 + 2 * lane
            asked[lane] = Forward(drawn[lane, : fed[lane]], done, max(0, done - 1))
        compared.append((asked, fixed.logits(asked), exact.logits(asked)))
    for asked, found, expected in compared:  # a later pass leaves what an earlier one gave
        for i, request in enumerate(asked.values()):
            torch.testing.assert_close(found[i, :, : request.wanted], expected[i, :, : request.wanted])
    assert sum(recorders[0].replays) > 3


def test_nobody_is_left_without_a_key() -> None:
    """In bfloat16 a row that sees nothing is not a number, and its value would be everybody's."""
    _, plan = PlanShape(2, 8, 5).blank()
    seen = torch.ones(3, 3, dtype=torch.bool).tril()
    request = BlockForward(torch.tensor([[3, 4, 5]]), torch.arange(3), torch.arange(3), 0, seen)
    plan.write(0, 1, request)
    assert plan.among.any(-1).all()


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize("wrong", ["refuses", "differs"])
def test_a_pass_that_cannot_be_captured_goes_on_without_and_says_so_once(
    wrong: str, recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried: list[Pass] = []

    def capture(_: Recorder, run: Pass) -> Pass:
        tried.append(run)
        if wrong == "refuses":
            raise RuntimeError("operation not permitted\nand a long tail")
        return lambda: run() + 1

    monkeypatch.setattr(Recorder, "capture", capture)
    model = text()
    settings: dict[str, Any] = {"length": 16, "block": "4"}
    with caplog.at_level(logging.WARNING):
        found = run_batch(jobs("s2d2", model, ("abc", "a"), "fixed", **settings))
    assert tokens(found) == tokens(run_batch(jobs("s2d2", model, ("abc", "a"), "exact", **settings)))
    assert len(tried) == 1
    (line,) = caplog.messages
    why = "operation not permitted" if wrong == "refuses" else "its replay does not give what the pass gives"
    assert line.startswith("No graph of the pass ") and line.endswith(f"so this run goes on without graphs: {why}")


def test_shapes_that_are_none_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"^shapes: 'wide' is not allowed; use exact or fixed\.$"):
        run_batch(jobs("ar", tiny(), ("a",), "wide"))
    monkeypatch.setenv(fixed_shapes.VARIABLE, "wide")
    with pytest.raises(ConfigError, match=r"^DRAFTSCOPE_SHAPES: 'wide'"):
        run_batch(jobs("ar", tiny(), ("a",), ""))


@pytest.mark.parametrize(
    ("asked", "variable", "fixed"),
    [("", "", False), ("", "fixed", True), ("exact", "fixed", False), ("fixed", "exact", True)],
)
def test_shapes_are_fixed_where_that_is_asked_for(
    asked: str, variable: str, fixed: bool, recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(fixed_shapes.VARIABLE, variable)
    with fixed_shapes.shapes(asked):
        assert (fixed_shapes.graphs_on(torch.device("cpu")) is not None) is fixed


@pytest.mark.parametrize(
    ("width", "padded"), [(1, 1), (2, 8), (8, 8), (9, 16), (33, 64), (128, 128), (129, 256), (300, 384)]
)
def test_widths_go_up_to_the_next_size(width: int, padded: int) -> None:
    assert padded_width(width) == padded


def test_rows_go_up_to_the_next_power_of_two() -> None:
    assert [padded_rows(count) for count in (1, 2, 3, 4, 5, 9)] == [1, 2, 4, 4, 8, 16]


# ---------------------------------------------------------------- time


class Stream(Host):
    """Work that goes on behind the host: a moment is known once something was fetched."""

    def __init__(self) -> None:
        self.fetched, self.moments, self.seen = 0, 0, 0

    def fetch(self, made: Tensor) -> Tensor:
        self.fetched, self.seen = self.fetched + 1, self.moments
        return made.cpu()

    def mark(self, made: Tensor | None = None) -> Any:
        self.moments += 1
        return self.moments

    def milliseconds(self, since: Any, until: Any) -> float:
        assert until <= self.seen + 1, "this moment has not come yet"
        return float(until - since)


def test_a_pass_reads_once_and_its_stages_are_told_by_moments_behind_that(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    monkeypatch.setattr(driver, "accelerator_for", lambda _: stream)
    (trace,) = run_batch(jobs("scd", text(), ("abc",), "fixed", length=16, window=4))
    assert stream.fetched == len(trace.steps) > 2
    assert stream.moments == 7 * (len(trace.steps) - 1) + 1
    for step in trace.steps[1:]:  # the first pass shows where verdicts lie
        took = step.call.milliseconds
        assert (took.prepare, took.forward, took.logits, took.decide) == (1, 1, 1, 2)


# ---------------------------------------------------------------- what CUDA is asked for


class FakeCuda:
    """As much of torch.cuda as `Cuda` uses; everything that is asked of it is noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.clock = 0.0
        fake = self

        class Graph:
            def pool(self) -> str:
                return "pool"

            def replay(self) -> None:
                fake.log.append("replay")

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self, stream: str) -> None:
                fake.clock += 0.5
                self.at = fake.clock
                fake.log.append(f"record on {stream}")

            def synchronize(self) -> None:
                fake.log.append("wait")

            def elapsed_time(self, other: "Event") -> float:
                return other.at - self.at

        def noted(name: str) -> Callable[..., Any]:
            @contextmanager
            def entered(*given: Any, **named: Any) -> Iterator[None]:
                shown = [each for each in given if isinstance(each, str | torch.device)]
                fake.log.append(" ".join(map(str, (name, *shown, *named.values()))))
                try:
                    yield
                finally:
                    fake.log.append(f"{name} left")

            return entered

        for name in ("device", "graph", "stream"):
            monkeypatch.setattr(torch.cuda, name, noted(name))
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: f"side of {device}")
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)


def test_a_pass_is_captured_beside_other_threads_and_replayed_on_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, out = FakeCuda(monkeypatch), torch.zeros(2)
    cuda = accelerator_for(torch.device("cuda"))
    replay = cuda.capture(lambda: out)
    side = "graph side of cuda:1 thread_local"
    assert fake.log == ["device cuda:1", "stream stream of cuda:1", side, "graph left", "stream left", "device left"]
    cuda.capture(lambda: out)
    assert fake.log[8] == "graph pool side of cuda:1 thread_local", "graphs share their memory"
    fake.log.clear()
    assert replay() is out and fake.log == ["device cuda:1", "replay", "device left"]
    with pytest.raises(RuntimeError, match="not permitted"):
        cuda.capture(lambda: (_ for _ in ()).throw(RuntimeError("not permitted")))
    assert fake.log[-3:] == ["graph left", "stream left", "device left"]


def test_a_result_is_fetched_with_one_wait_and_time_is_told_without(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, made = FakeCuda(monkeypatch), torch.arange(3.0)
    pinned: list[dict[str, Any]] = []
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, **how: pinned.append(how) or empty(*size, dtype=how["dtype"]))
    cuda = accelerator_for(torch.device("cuda:0"))
    since = cuda.mark(made)
    until = cuda.mark()
    assert fake.log == ["record on stream of cuda:0"] * 2
    assert cuda.fetch(made).tolist() == [0, 1, 2]
    assert pinned == [{"dtype": torch.float32, "pin_memory": True}] and fake.log.count("wait") == 1
    assert cuda.milliseconds(since, until) == 0.5
