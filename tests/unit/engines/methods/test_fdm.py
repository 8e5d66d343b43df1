"""FDM-style decoding reveals the candidate with the best prospect."""

from typing import Any, cast

import torch
from support.passes import passes
from support.tiny_diffusion_lm import tiny_diffusion_lm

from draftscope.engines.runtime.driver import Job
from draftscope.engines.runtime.run_request import RunRequest


def job(method: str, kind: str = "aligned", prompt: str = "abcde", **values: object) -> Job:
    shared = {"block": "8", "length": 24, "temperature": 0.35}
    return RunRequest(method, tiny_diffusion_lm(kind), prompt, settings=shared | values).job()


def open_in(request: Any, mask: int) -> torch.Tensor:
    return request.tokens[:, request.output_index] == mask


def test_the_candidate_with_the_best_prospect_is_revealed() -> None:
    run_job = job("fdm-style", "full", k=3, tau=0.95)
    mask = cast(Any, run_job.task).mask
    compared, before = 0, None
    for request, probs, decision in passes(run_job):
        probs = probs.view(*request.tokens.shape[:1], len(request.output_index), -1)
        if len(request.tokens) > 1:
            entropies = torch.special.entr(probs).sum(-1)
            still = open_in(request, mask)
            entropies_left = [float(row[left].sum()) for row, left in zip(entropies, still, strict=True)]
            sure = before[1].amax(-1)[before[0]]
            first = sorted(sure.tolist(), reverse=True)[: len(entropies_left)]
            scores = [torch.tensor(c).log().item() - h for c, h in zip(first, entropies_left, strict=True)]
            assert int(decision.step_measures["winner"]) == scores.index(max(scores))
            compared += 1
        winner = int(decision.step_measures["winner"])
        before = (open_in(request, mask)[winner], probs[winner])
    assert compared >= 3
