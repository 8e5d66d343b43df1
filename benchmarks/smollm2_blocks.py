"""Methods for diffusion language models on smollm2-block, on 40 prompts of five kinds, compared with the baseline.

    python -m benchmarks.smollm2_blocks [--json FILE] [--prompts N] [--length N]

Greedy, and sampled at temperature 1. All decoders of a prompt alternate in running first; a ratio is of tokens per
second of processor time, one thread in float32, over ordinary decoding of smollm2 on the same prompt. Quality is the
share of greedy texts that equal ordinary decoding's, and the mean log probability of a token under smollm2.
"""

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final, NamedTuple

import torch

from benchmarks._report_format import Claim, Options, Row, finish, lower_limit, spread
from benchmarks._timing import Decoded, decode
from benchmarks.smollm2_drafts import Prompt, read
from draftscope.analysis.acceptance import acceptance_by_draft_position
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.methods import METHODS
from draftscope.engines.models.catalog import load_model
from draftscope.engines.runtime.driver import Job
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import make_config

MODEL: Final = "smollm2-block"
BASE: Final = "smollm2"
BLOCKS: Final = ("4", "8", "16")
THRESHOLDS: Final = (0.5, 0.7, 0.9, 0.95)
GAMMAS: Final = (1, 2, 3)
MIN_TOKENS_PER_PASS: Final = {"overall": 1.25, "code": 1.25, "rewriting": 1.25}
"""Target of S2D2, greedy, at its best block: a quarter fewer passes, whatever is asked."""
MIN_FASTER: Final = 1.1
"""Times as fast as ordinary decoding: self-speculation in one pass, greedy, at its best setting. A race of ten seconds
then ends a second apart."""


class Way(NamedTuple):
    """A method with settings."""

    method: str
    setting: str
    values: Mapping[str, object]

    def job(self, prompt: Prompt, sample: int, length: int, mode: str) -> Job:
        """The run of a prompt."""
        settings: dict[str, object] = {"length": length, **self.values}
        if self.method == "ar":
            settings |= {"top_k": 1} if mode == "greedy" else {}
            return RunRequest("ar", BASE, prompt.text, settings=settings, sample=sample).job()
        settings["mode"] = mode
        if self.method in ("s2d2", "simsd") and mode == "sample":
            settings["verdict"] = "ratio"
        return RunRequest(self.method, MODEL, prompt.text, settings=settings, sample=sample).job()


ORDINARY: Final = Way("ar", "", {})


def ways(mode: str) -> list[Way]:
    """Return all ways of decoding, ordinary decoding first."""
    found = [ORDINARY]
    found += [Way("s2d2", f"block {block}, always", {"block": block, "router": "always"}) for block in BLOCKS]
    found += [Way("s2d2", f"block {block}, routed", {"block": block, "router": "score"}) for block in BLOCKS[1:]]
    found += [Way("self-spec", f"γ = {gamma}", {"gamma": gamma}) for gamma in GAMMAS]
    found += [Way("self-spec", f"γ = {gamma}, linear", {"gamma": gamma, "layout": "linear"}) for gamma in GAMMAS[1:]]
    found += [Way("blockwise", f"block 8, {each}", {"block": "8", "threshold": each}) for each in THRESHOLDS]
    found += [Way("simsd", "block 8, drafts for itself", {"block": "8", "drafter": "itself"})]
    return [*found, *([Way("psd", "block 8", {"block": "8"})] if mode == "greedy" else [])]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and report."""
    chosen = Options("smollm2_blocks", __doc__, prompts=40, length=48).read(arguments)
    rows = [row for mode in ("greedy", "sample") for row in measured(read(chosen.prompts), mode, chosen.length)]
    finish(chosen, "smollm2 in blocks", claims(rows), rows)


def measured(prompts: Sequence[Prompt], mode: str, length: int) -> list[Row]:
    """A row for every way of decoding in one mode."""
    by_setting: dict[tuple[str, str], list[Decoded]] = defaultdict(list)
    order = ways(mode)
    decode([order[1].job(prompts[0], 0, length, mode)])  # loads kernels
    for number, prompt in enumerate(prompts):
        turn = number % len(order)
        for way in [*order[turn:], *order[:turn]]:
            by_setting[way[:2]].append(
                decode([way.job(prompt, number, length, mode)], record=way.method == "self-spec")
            )
        print(f"{mode}, {number + 1} of {len(prompts)} prompts", file=sys.stderr, flush=True)
    base = by_setting[ORDINARY[:2]]
    rows = [_row(way, mode, prompts, by_setting[way[:2]], base) for way in order]
    for way, row in zip(order, rows, strict=True):
        if way.method == "self-spec" and way.values["gamma"] == max(GAMMAS) and "layout" not in way.values:
            jobs = [way.job(prompt, i, length, mode) for i, prompt in enumerate(prompts)]
            acceptance = acceptance_by_draft_position([decode([job], record=True).steps[0] for job in jobs])
            row["acceptance_by_place"] = [position.marginal for position in acceptance.positions] if acceptance else []
    return [*rows]


def _row(
    way: Way, mode: str, prompts: Sequence[Prompt], runs: Sequence[Decoded], base: Sequence[Decoded]
) -> dict[str, Any]:
    texts = [written(run) for run in runs]
    tokens, others = [len(text) for text in texts], [len(written(run)) for run in base]
    faster = [
        count / run.seconds * other.seconds / before
        for count, run, other, before in zip(tokens, runs, base, others, strict=True)
    ]
    per_pass = [count / run.forwards for count, run in zip(tokens, runs, strict=True)]
    by_kind: dict[str, list[int]] = defaultdict(list)
    for number, prompt in enumerate(prompts):
        by_kind[prompt.kind].append(number)
    row: dict[str, Any] = {
        "method": way.method,
        "model": MODEL if way.method != "ar" else BASE,
        "sampling": mode,
        "decoder": f"{METHODS[way.method].title}, {way.setting}" if way.setting else METHODS[way.method].title,
        "prompts": len(prompts),
        "tokens_per_target_pass": sum(tokens) / sum(run.forwards - run.draft_forwards for run in runs),
        "faster_overall": sum(tokens)
        / sum(run.seconds for run in runs)
        * sum(run.seconds for run in base)
        / sum(others),
        **spread(faster).row("faster"),
        "log_likelihood": fmean(log_likelihood(prompt, text) for prompt, text in zip(prompts, texts, strict=True)),
        **{f"tokens_per_pass_{kind}": fmean(per_pass[i] for i in numbers) for kind, numbers in by_kind.items()},
        **{f"faster_{kind}": spread([faster[i] for i in numbers]).median for kind, numbers in by_kind.items()},
    }
    if mode == "greedy":
        row["same_percent"] = 100 * fmean(text == written(other) for text, other in zip(texts, base, strict=True))
    return row


def seconds(runs: Sequence[Decoded]) -> float:
    """Return the time of some runs together."""
    return sum(run.seconds for run in runs)


def written(run: Decoded) -> list[int]:
    """Return the tokens of a text up to its end, or all of them."""
    model: Any = load_model(BASE, "cpu")
    ids = [int(token) for token in run.tokens[0]]
    ids = ids[: next((i for i, token in enumerate(ids) if token == model._width), len(ids))]
    return ids[: next((i + 1 for i, token in enumerate(ids) if token in model.ends), len(ids))]


@torch.inference_mode()
def log_likelihood(prompt: Prompt, text: Sequence[int]) -> float:
    """Return the mean log probability of the tokens of an answer under smollm2, in nats."""
    model: Any = load_model(BASE, "cpu")
    before = model.make_task(prompt.text, make_config(METHODS["ar"].config, {"length": 64})).prompt_ids
    ids = torch.tensor([[*before, *text]])
    states = model.network.model(ids, position_ids=torch.arange(ids.shape[1])[None]).last_hidden_state[0]
    logits = model.network.logits(states[len(before) - 1 : -1])
    return float(logits.log_softmax(-1).gather(1, ids[0, len(before) :, None]).mean())


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Tokens per pass of S2D2 and the speed of self-speculation in one pass, greedy, at their best settings."""
    greedy: list[Any] = [row for row in rows if row["sampling"] == "greedy"]
    found = []
    always = [row for row in greedy if row["method"] == "s2d2"]
    for what, minimum in MIN_TOKENS_PER_PASS.items():
        field = "tokens_per_target_pass" if what == "overall" else f"tokens_per_pass_{what}"
        best = max(always, key=lambda row, field=field: float(row.get(field, 0)))  # type: ignore[misc]
        if field in best:
            name = f"S2D2 on smollm2-block, greedy, {what}: tokens per pass"
            found.append(
                lower_limit(name, best[field], minimum, reason=f"{best['decoder']}; {best['prompts']} prompts")
            )
    best = max((row for row in greedy if row["method"] == "self-spec"), key=lambda row: float(row["faster_overall"]))
    name = "Self-speculation in one pass on smollm2-block, greedy: times as fast as ordinary decoding"
    reason = f"{best['decoder']}; processor time of one thread, measured alternately; {best['prompts']} prompts"
    return [*found, lower_limit(name, best["faster_overall"], MIN_FASTER, reason=reason)]


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
