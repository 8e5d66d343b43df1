"""Time per token of three engines on one GGUF file and one thread: Draftscope, `generate` and llama.cpp's server.

    python -m benchmarks.engines --gguf FILE [--json FILE] [--rounds N] [--bfloat16]

Draftscope and transformers decode the weights of the file in float32, llama.cpp as they are stored. Prompts go to every
engine in turn, greedily, by the clock; the time of a token is that after the first. The server is measured by
`bench_server`. Reported are also a pass over one token over reading its weights once, in the same process.
"""

import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoModelForCausalLM
from transformers.generation.streamers import BaseStreamer

from benchmarks._report_format import Claim, Options, Row, finish
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.models.catalog import open_model
from draftscope.engines.models.loading import source_of
from draftscope.engines.runtime.driver import Run
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.servers.bench import bench_server
from draftscope.servers.llama_cpp import llama_cpp_server, wheel_version

LENGTH: Final = 48
PROMPTS: Final = ("The capital of France is", "Once upon a time, a lighthouse keeper", "def fibonacci(n):\n")
MIN_FASTER: Final = 0.95
"""How many times as fast as `generate` Draftscope is at least.

Where memory is the limit both read the weights once a token, and which is faster changes from run to run.
"""
Times = Callable[[str], list[float]]
"""Seconds until each token of the answer to a prompt."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    chosen = Options("engines", __doc__, gguf=Path, rounds=5, bfloat16=False).read(arguments)
    if chosen.gguf is None or not chosen.gguf.is_file():
        raise SystemExit(f"gguf: {str(chosen.gguf)!r} is not a file; give --gguf FILE, a model of llama.cpp.")
    torch.set_num_threads(1)
    models = {"Draftscope, float32": open_model(str(chosen.gguf), "cpu", "float32")}
    if chosen.bfloat16:
        models["Draftscope, bfloat16"] = open_model(str(chosen.gguf), "cpu", "bfloat16")
    plain = AutoModelForCausalLM.from_pretrained(source_of(str(chosen.gguf)).folder, dtype=torch.float32).eval()
    engines: dict[str, Times] = {name: _draftscope(model) for name, model in models.items()}
    engines["transformers, float32"] = _generated(plain, next(iter(models.values())))
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    first: dict[str, list[float]] = {name: [] for name in engines}
    stored = re.split("[.-]", chosen.gguf.stem)[-1]
    served = f"llama.cpp, {stored} (xllamacpp {wheel_version()})"
    with llama_cpp_server(chosen.gguf) as url:
        for prompt in PROMPTS:
            for times in engines.values():
                times(prompt)  # warm-up
        for _ in range(chosen.rounds):
            for prompt in PROMPTS:
                for name, times in engines.items():
                    at = times(prompt)
                    first[name].append(at[0])
                    seconds[name].append((at[-1] - at[0]) / (len(at) - 1))
            result = bench_server(url, PROMPTS, length=LENGTH, route="native")
            seconds.setdefault(served, []).append(float(result.table()[0]["token_seconds"]))
            first.setdefault(served, []).append(float(result.table()[0]["first_token_seconds"]))
    finish(chosen, "engines", _claims(seconds, _reading_seconds(plain)), _rows(seconds, first, chosen.gguf))


def _rows(seconds: Mapping[str, list[float]], first: Mapping[str, list[float]], file: Path) -> list[Row]:
    base = statistics.median(seconds["Draftscope, float32"])
    return [
        {
            "engine": name,
            "model": file.stem,
            "milliseconds": 1e3 * statistics.median(values),
            "first_milliseconds": 1e3 * statistics.median(first[name]),
            "faster": base / statistics.median(values),
        }
        for name, values in seconds.items()
    ]


def _claims(seconds: Mapping[str, list[float]], reading: float) -> list[Claim]:
    token, generated = (statistics.median(seconds[f"{name}, float32"]) for name in ("Draftscope", "transformers"))
    times = f"{1e3 * token:.1f} ms a token; wall clock, one thread"
    return [
        Claim(
            name="A token in float32: times as fast as generate of transformers",
            measured=generated / token,
            target=MIN_FASTER,
            reason=f"{1e3 * generated:.1f} against {times}",
        ),
        Claim(
            name="A pass over one token in float32, over reading its weights once",
            measured=token / reading,
            reason=f"{1e3 * reading:.1f} ms to read the weights once, {times}",
        ),
    ]


def _draftscope(model: Any) -> Times:
    """Decode with Draftscope; the time of each pass is that of its token."""

    def times(prompt: str) -> list[float]:
        job = RunRequest("ar", model, prompt, settings={"top_k": 1, "length": LENGTH}, chat=False).job()
        began = time.perf_counter()
        return [time.perf_counter() - began for _ in Run(job).passes()]

    return times


class _Clock(BaseStreamer):  # type: ignore[misc]
    """Notes when `generate` has each token; the first call brings the prompt."""

    def __init__(self) -> None:
        self.began, self.times = time.perf_counter(), list[float]()

    def put(self, value: Any) -> None:
        """Take the prompt, then the tokens one by one."""
        self.times.append(time.perf_counter() - self.began)

    def end(self) -> None:
        """Take the end."""


def _generated(network: Any, model: Any) -> Times:
    """Decode with `generate`."""

    def times(prompt: str) -> list[float]:
        ids = torch.tensor([RunRequest("ar", model, prompt, chat=False).job().task.prompt_ids])
        clock = _Clock()
        options: dict[str, Any] = {"max_new_tokens": LENGTH, "do_sample": False, "streamer": clock}
        network.generate(ids, attention_mask=torch.ones_like(ids), **options)
        return clock.times[1:]

    return times


def _reading_seconds(network: torch.nn.Module, repeats: int = 7) -> float:
    """The shortest time in which one thread reads the weights once."""
    parts = [weight.detach().flatten() for weight in network.parameters()]
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        for part in parts:
            part.max()
        times.append(time.perf_counter() - began)
    return min(times)


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
