"""Cost of smollm2 on this machine: passes over few tokens, and the baseline.

    python -m benchmarks.smollm2 [--json FILE] [--rounds N]

Passes are over tokens after 150 cached ones, by transformers' own class and by the form that decodes here, alternately.
The baseline is compared with a hand-written loop over the same network and with `generate`. Times are processor time of
one thread, in float32.
"""

import statistics
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch
from transformers import AutoModelForCausalLM, DynamicCache

from benchmarks._report_format import Claim, Options, Row, finish
from benchmarks._timing import decode
from benchmarks.overhead import claim, cost, ratios, time_alternating
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.models.catalog import MODELS, load_model
from draftscope.engines.models.download import download_dir
from draftscope.engines.models.sessions.causal import SlotCache
from draftscope.engines.models.transformers_api import cache_argument
from draftscope.engines.runtime.run_request import RunRequest

CACHED: Final = 150
MAX_OF_ONE: Final = {2: None, 4: 1.25, 8: 1.55, 16: 2.1}
"""Tokens of a pass, and the most that it may take of one over a single token."""
MAX_OF_A_LOOP, MIN_OF_GENERATE = 1.1, 1.6
LENGTH: Final = 48
PROMPTS: Final = (
    "Why is the sky blue?",
    "Write a short story about a lighthouse keeper and a lost whale.",
    MODELS["smollm2"].default_prompt,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    chosen = Options("smollm2", __doc__, rounds=20).read(arguments)
    model: Any = load_model("smollm2", "cpu")
    plain = AutoModelForCausalLM.from_pretrained(download_dir("smollm2"), dtype=torch.float32).eval()
    rows, claims = passes(model.network, plain, chosen.rounds)
    claims += ordinary(model, plain, max(chosen.rounds // 5, 1))
    finish(chosen, "smollm2", claims, rows)


def passes(model: Any, plain: Any, rounds: int) -> tuple[list[Row], list[Claim]]:
    """Milliseconds of a pass by tokens and network, and what a pass over several takes of one over a single one."""
    ids = torch.randint(10, 40_000, (1, CACHED + max(MAX_OF_ONE)), generator=torch.Generator().manual_seed(0))
    caches = (SlotCache(len(model.model.layers), ids.shape[1]), DynamicCache())

    @torch.inference_mode()
    def once(network: Any, cache: Any, count: int) -> None:
        network(input_ids=ids[:, CACHED : CACHED + count], **{cache_argument(network): cache}, logits_to_keep=count)
        cache.crop(-count)

    for network, cache in zip((model, plain), caches, strict=True):
        with torch.inference_mode():
            network(input_ids=ids[:, :CACHED], **{cache_argument(network): cache}, logits_to_keep=1)
        for count in (1, *MAX_OF_ONE):
            once(network, cache, count)
    mine, theirs = partial(once, model, caches[0]), partial(once, plain, caches[1])
    times = {n: time_alternating(partial(mine, n), partial(theirs, n), rounds) for n in (1, *MAX_OF_ONE)}
    against = {n: time_alternating(partial(mine, n), partial(mine, 1), rounds) for n in MAX_OF_ONE}
    rows: list[Row] = [
        {
            "method": "ar",
            "tokens": count,
            "milliseconds": 1e3 * statistics.median(one for one, _ in pairs),
            "milliseconds_transformers": 1e3 * statistics.median(other for _, other in pairs),
            "faster": statistics.median(1 / ratio for ratio in ratios(pairs)),
            "of_one_token": statistics.median(ratios(against[count])) if count in against else 1.0,
        }
        for count, pairs in times.items()
    ]
    named = "A pass of smollm2 over {} tokens, over a pass over one"
    return rows, [
        claim(named.format(count), ratios(against[count]), maximum) for count, maximum in MAX_OF_ONE.items() if maximum
    ]


def ordinary(model: Any, plain: Any, rounds: int) -> list[Claim]:
    """Return claims on the baseline compared with a loop over the network, and with `generate` of transformers."""
    pairs, times = list[tuple[float, float]](), list[float]()
    count = 0
    for prompt in PROMPTS:
        job = RunRequest("ar", model, prompt, settings={"top_k": 1, "length": LENGTH}).job()
        ids, count = list(job.task.prompt_ids), count + decode([job]).forwards
        pairs += time_alternating(
            partial(decode, [job]), partial(by_hand, model.network, ids, job.task.eos_token_ids), rounds
        )
        both = time_alternating(partial(decode, [job]), partial(generated, plain, ids), rounds)
        times += [1 / ratio for ratio in ratios(both)]
    comparison = cost(pairs, count / len(PROMPTS), MAX_OF_A_LOOP - 1, "the loop")
    return [
        claim(
            "Ordinary decoding of smollm2: time over a loop written by hand",
            ratios(pairs),
            MAX_OF_A_LOOP,
            cost=comparison,
        ),
        claim(
            "Ordinary decoding of smollm2: times faster than generate of transformers",
            times,
            MIN_OF_GENERATE,
            bound="at least",
        ),
    ]


@torch.inference_mode()
def by_hand(network: Any, prompt: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Greedy decoding, as one would write it over this network."""
    cache = SlotCache(len(network.model.layers), len(prompt) + LENGTH)
    ids, tokens = torch.tensor([prompt]), list[int]()
    while len(tokens) < LENGTH and not (tokens and tokens[-1] in ends):
        best = network(ids, cache, 1).logits[0, -1].argmax()
        tokens.append(int(best))
        ids = best[None, None]
    return tokens


def generated(network: Any, prompt: Sequence[int]) -> Any:
    """Decode with `generate`."""
    ids = torch.tensor([prompt])
    return network.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=LENGTH, do_sample=False)


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
