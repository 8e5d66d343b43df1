"""What a pass of published models costs at their real sizes, on this machine, with random weights.

A model is built where it runs; nothing is fetched, and nothing is said about quality or acceptance. Ordinary decoding
and a window, or a block, are timed pass by pass, and so is `generate` of transformers on the same decoder, if there is
one, greedily and for as many tokens. A family that does not fit is left out with the reason. `--tiny` runs small
networks of the same form, so that all of it can be tried on a CPU.
"""

import gc
import statistics
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import torch

from benchmarks._results import Claim, Options, Row, finish
from benchmarks._sizes import REAL, TINY, Build, Built
from engines.models.devices import HELP, resolve
from engines.models.errors import ModelError
from engines.models.memory import DTYPES, usual
from engines.runtime.clock import Host
from engines.runtime.driver import Run
from engines.runtime.request import Request
from traces.streams import piped

WARM: Final = 4
"""Passes that are left out, as the first ones are slow."""
WINDOW: Final = 32
METHODS_OF: Final[dict[str, tuple[tuple[str, dict[str, Any]], ...]]] = {
    "discrete-ar": (("ar", {}), ("scd", {"window": WINDOW, "coupling": "none"})),
    "diffusion-lm": (
        ("blockwise", {"block": "1"}),
        ("blockwise", {"block": "32", "rule": "greedy"}),
        ("ar", {}),
    ),
    "continuous-ar": (("continuous", {"steps": 100}), ("cspd", {"steps": 100, "drafter": "itself"})),
}
"""What is timed on models of a family, ordinary decoding first."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report."""
    options = Options("gpu", __doc__, tiny=False, passes=24)
    options.add_argument("--families", nargs="+", metavar="NAME", help=f"of {', '.join(REAL)}; default: all")
    options.add_argument("--device", help=HELP)
    options.add_argument("--dtype", choices=sorted(DTYPES), help="default: float32 on a CPU, bfloat16 elsewhere")
    chosen = options.read(arguments)
    offered = TINY if chosen.tiny else REAL
    names = chosen.families or list(offered)
    if unknown := [name for name in names if name not in offered]:
        options.error(f"--families: there is no {unknown[0]!r}; use {', '.join(offered)}")
    place = resolve(chosen.device)
    device, dtype = torch.device(place), DTYPES[chosen.dtype] if chosen.dtype else usual(place)
    rows: list[Row] = []
    claims: list[Claim] = []
    for name in names:
        try:
            rows += list(measured(name, offered[name], device, dtype, chosen.passes))
        except (ModelError, torch.OutOfMemoryError) as error:
            reason = f"Not run: {str(error).splitlines()[0]}"
            claims.append(Claim(name=f"{name}: seconds a pass", measured=None, reason=reason))
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    finish(chosen, "Published sizes with random weights", claims, rows, device)
    return 0


def measured(name: str, build: Build, device: torch.device, dtype: torch.dtype, passes: int) -> Iterator[Row]:
    """The rows of one family."""
    torch.manual_seed(0)
    built = build(device, dtype)
    model = built.model

    about = {"family": name, "parameters": model.parameters, "dtype": str(model.dtype).removeprefix("torch.")}
    for method, settings in METHODS_OF[model.families[0]]:
        length = {"length": 8 * (2 + (passes + WARM) // 8)} if "diffusion-lm" in model.families else {}
        few = {"steps": 4} if "steps" in settings and model.parameters < 10**6 else {}
        job = Request(method, model, built.prompt, settings={**length, **settings, **few}).job()
        steps = list(islice(Run(job), passes + WARM))
        calls = [step.call for step in steps[WARM:] or steps]
        yield about | {
            "method": method,
            "settings": " ".join(f"{key}={value}" for key, value in {**settings, **few}.items()),
            "tokens_fed": statistics.median(call.query_tokens for call in calls),
            "seconds": statistics.median(call.milliseconds.forward / 1000 for call in calls),
            "whole_seconds": statistics.median(call.milliseconds.total / 1000 for call in calls),
        }
    if built.causal is not None:
        seconds = generating(built, passes)
        generate = {"method": "transformers' generate", "settings": "greedy, on the same decoder", "tokens_fed": 1}
        yield about | generate | {"seconds": seconds, "whole_seconds": seconds}


def generating(built: Built, passes: int) -> float:
    """Seconds a token of transformers' own loop on the same decoder: the difference of a long text and a short one."""
    prompt, clock = torch.zeros(1, 8, dtype=torch.long, device=built.model.device), Host()

    def seconds(count: int) -> float:
        begun = clock.mark(prompt)
        built.causal.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            min_new_tokens=count,
            max_new_tokens=count,
            pad_token_id=0,
        )
        return float(clock.mark(prompt) - begun)

    with torch.inference_mode():
        seconds(WARM + 1)
        return statistics.median(seconds(WARM + passes) - seconds(WARM) for _ in range(3)) / passes


if __name__ == "__main__":
    sys.exit(piped(main))
