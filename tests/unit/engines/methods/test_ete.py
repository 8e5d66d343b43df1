"""ETE-style decoding explores the least confident candidates."""

from support.tiny_diffusion_lm import tiny_diffusion_lm

from draftscope.engines.runtime.driver import Job
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.testing.conformance import finish
from draftscope.traces.schema import Fate


def job(method: str, kind: str = "aligned", prompt: str = "abcde", **values: object) -> Job:
    shared = {"block": "8", "length": 24, "temperature": 0.35}
    return RunRequest(method, tiny_diffusion_lm(kind), prompt, settings=shared | values).job()


def test_exploring_reveals_the_least_sure_above_the_floor() -> None:
    explored = 0
    for step in finish(job("ete-style", "full", k=1, tau=0.95, floor=0.3)).steps:
        confidence = dict(zip(step.position, step.numbers["confidence"], strict=True))
        rescued = [p for p, fate in zip(step.position, step.fate, strict=True) if fate is Fate.FALLBACK]
        eligible = {p: c for p, c in confidence.items() if c is not None and 0.3 <= c < 0.95}
        sure = [p for p, c in confidence.items() if c is not None and c >= 0.95]
        if len(sure) < 2 and eligible:
            assert rescued == [min(eligible, key=lambda p: (eligible[p], p))]
            explored += 1
        elif len(sure) >= 2:
            assert rescued == []
    assert explored
