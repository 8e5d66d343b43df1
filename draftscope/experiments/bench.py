"""`draftscope bench`: your own models on your own prompts, timed with and without drafts.

An experiment in one process: each prompt is decoded once with each arm, to warm up and to be counted, then it is timed
with all arms alternately; the first arm changes from prompt to prompt.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, TypeAlias, cast

import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM

from analysis.acceptance import acceptance_by_draft_position
from analysis.break_even import best_length, break_even_analysis
from analysis.groups import Group, gathered
from analysis.results import ResultRow
from analysis.seeds import target_forwards
from draftscope.experiments.definition import Arm, Experiment, ProblemSet, PromptLike
from draftscope.experiments.executors import RunOutcome
from draftscope.experiments.run import run_experiment
from draftscope.experiments.stores import MemoryStore
from engines.methods import METHODS
from engines.methods.speculative import EAGLE_DRAFTERS
from engines.models.catalog import MODELS, has_eagle
from engines.models.checkpoints.causal_lm import CausalCheckpoint, CausalText
from engines.models.download import download_dir
from engines.models.errors import ModelError
from engines.models.loading import source_of
from engines.protocol import Model
from engines.runtime.driver import Job
from engines.runtime.environment import environment
from engines.runtime.run_request import RunRequest
from engines.settings import ConfigError, config_values, format_value, make_config
from traces import Trace
from traces.files import write_atomic
from visualizers.tables import as_latex, as_markdown

_OF_MODELS: Final = ("device", "dtype", "tokenizer")
"""Fields of a `RunRequest` among the settings."""
_ORDINARY: Final = "ordinary"
_DRAFTERS: Final = {"small": "the drafter", "lookup": "lookup", "eagle": "eagle", "lookup-eagle": "lookup or eagle"}
_COLUMNS: Final[Mapping[str, Callable[[dict[str, Any]], str]]] = {
    "Decoding": lambda line: line["label"],
    "Tokens per target pass": lambda line: f"{line['tokens_per_pass']:.2f}",
    "Acceptance": lambda line: "" if line["acceptance"] is None else f"{line['acceptance']:.2f}",
    "Acceptance by place": lambda line: " ".join(f"{rate:.2f}" for rate in line["acceptance_by_place"]),
    "Tokens per second": lambda line: f"{line['tokens_per_second']:.1f}",
    "Times as fast (quartiles)": lambda line: (
        f"{line['speed']:.2f} ({line['speed_low']:.2f} to {line['speed_high']:.2f})"
    ),
    "Same tokens": lambda line: "" if line["same"] is None else f"{line['same']} of {line['prompts']}",
}
"""Columns of the printed table: head -> cell of a line of `BenchResult.table`."""

Conversation: TypeAlias = str | Sequence[str]
"""A prompt, or the questions of a conversation, turn by turn."""


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Measured speed of several arms."""

    rows: tuple[ResultRow, ...]
    """One per prompt and arm. `seconds` is the median of the repetitions."""
    same: Mapping[str, int]
    """Number of prompts with the tokens of ordinary decoding, by arm; empty if tokens are sampled."""
    suggestions: Mapping[str, tuple[int, float]]
    """The fastest draft length by drafter, computed from acceptance and the cost of passes, and its speed relative to
    ordinary decoding. Length 0 is not to draft."""
    about: Mapping[str, Any]
    """Date, device and software."""

    def table(self) -> list[dict[str, Any]]:
        """Return a line per arm. `speed` is its tokens per second over those of ordinary decoding, by prompt."""
        groups = gathered(self.rows, judged=False)
        return [self._line(group, groups[0]) for group in groups]

    def fastest(self) -> dict[str, tuple[int, float]]:
        """Return the draft length measured as fastest, by drafter, and its speed relative to ordinary decoding."""
        lengths = {row.label: row.config for row in self.rows if row.method == "speculative"}
        found: dict[str, tuple[int, float]] = {}
        for line in self.table():
            if (config := lengths.get(line["label"])) is not None:
                drafter, gamma, speed = (
                    _DRAFTERS[str(config["drafter"])],
                    int(str(config["gamma"])),
                    float(line["speed"]),
                )
                if drafter not in found or speed > found[drafter][1]:
                    found[drafter] = gamma, speed
        return found

    def _line(self, group: Group, baseline: Group) -> dict[str, Any]:
        passes, positions = group.total("verifications"), group.by_place
        judged, accepted = (sum(column) for column in zip(*positions, strict=True)) if positions else (0, 0)
        pairs = zip(group.rows, baseline.rows, strict=True)
        ratios = [own.tokens * base.seconds / (own.seconds * base.tokens) for own, base in pairs]
        low, middle, high = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        return {
            "label": group.label,
            "prompts": len(group.rows),
            "tokens_per_pass": group.total("tokens") / (group.total("forwards") - group.total("draft_forwards")),
            "acceptance": accepted / judged if judged else None,
            "acceptance_by_place": [count / passes for _, count in positions],
            "tokens_per_second": group.total("tokens") / group.total("seconds"),
            "speed": middle,
            "speed_low": low,
            "speed_high": high,
            "same": self.same.get(group.label),
        }

    def _cells(self) -> list[list[str]]:
        return [[cell(line) for cell in _COLUMNS.values()] for line in self.table()]

    def markdown(self) -> str:
        """Return the table in Markdown, and a sentence per drafter on which draft length to use."""
        which = (
            f"With {drafter}, use gamma={gamma}: measured as {speed:.2f} times as fast as ordinary decoding."
            if speed > 1
            else f"With {drafter}, no draft length pays: the fastest, gamma={gamma}, was measured as {speed:.2f} times "
            "as fast as ordinary decoding."
            for drafter, (gamma, speed) in self.fastest().items()
        )
        return f"{as_markdown([*_COLUMNS], self._cells())}\n{' '.join(which)}\n"

    def latex(self) -> str:
        """Return the table in LaTeX, for the package booktabs."""
        return as_latex([*_COLUMNS], self._cells())

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write everything as JSON, which the app opens under Choose.

        Raises:
            OSError: If the file cannot be written.
        """
        known = {"title": "draftscope bench", "about": self.about, "suggestions": self.suggestions}
        content = known | {"table": self.table(), "rows": [asdict(row) for row in self.rows]}
        write_atomic(Path(path), f"{json.dumps(content, indent=1)}\n".encode())


def bench(
    target: Any,
    prompts: str | os.PathLike[str] | Sequence[Conversation],
    *,
    draft: Any = None,
    gammas: Sequence[int] = (4,),
    repeats: int = 1,
    **settings: Any,
) -> BenchResult:
    """Time several ways of decoding on your prompts.

    The arms are ordinary decoding, speculative decoding with the drafter and by lookup at every draft length of
    `gammas`, and `generate` of transformers alone, with the drafter as its assistant, and by lookup.

    Args:
        target: As `model` or `target` of `ds.run`: a causal language model by id, folder or OWNER/NAME, or as an
            object of transformers.
        prompts: Texts or lists of turns, or a file of them: JSON lines with a `prompt`, or with `turns` as MT-Bench
            and Spec-Bench have them. A turn follows the turns before it and the answers of ordinary decoding to them.
        draft: Drafter, in the same forms; by default the catalogue's small model for this target, if any.
        gammas: Draft lengths.
        repeats: Number of times that a prompt is timed with each arm.
        settings: `length`, `temperature`, `top_k` and `top_p`, by default greedy decoding; `seed`; `device`, `dtype`,
            and for objects `tokenizer`; `progress=True` shows a bar on standard error.

    Raises:
        ValueError: For an invalid prompt, setting or model; the message has field, value and remedy.
        ModelError: If a model cannot be loaded.
    """
    texts = list(prompts) if isinstance(prompts, Sequence) and not isinstance(prompts, str) else read_prompts(prompts)
    if not texts:
        raise ConfigError("prompts: there are none; give at least one text.")
    for field, smallest in (("repeats", repeats), ("gammas", min(gammas, default=0))):
        if smallest < 1:
            raise ConfigError(f"{field}: {smallest} is not allowed; use whole numbers from 1.")
    progress, seed = settings.pop("progress", False), settings.pop("seed", 0)
    first = texts[0] if isinstance(texts[0], str) else texts[0][0]
    arms = _arms(target, draft, first, list(gammas), settings)
    outcomes = list[RunOutcome]()
    total = sum(1 if isinstance(text, str) else len(text) for text in texts) * len(arms)
    with tqdm(total=total, disable=not progress, unit="run") as bar:
        for text in texts:
            turns: list[Mapping[str, str]] = []
            for question in [text] if isinstance(text, str) else text:
                turns.append({"role": "user", "content": question})
                prompt: PromptLike = turns if len(turns) > 1 else question
                problems = ProblemSet(prompts=(prompt,), first=len(outcomes) // len(arms))
                store = MemoryStore()
                experiment = Experiment(arms=arms, prompts=problems, seeds=(seed,), repeats=repeats, local=True)
                for message in run_experiment(experiment, store=store):
                    bar.update(message.finished is not None)
                outcomes += store.outcomes
                answer = arms[0].model.render_output(store.outcomes[0].tokens).text or ""
                turns.append({"role": "assistant", "content": answer})
    return _result(arms, outcomes)


def _result(arms: Sequence[Arm], outcomes: Sequence[RunOutcome]) -> BenchResult:
    """Compare arms with ordinary decoding, which is the first of each group of outcomes."""
    same: dict[str, int] = {}
    if arms[0].settings["top_k"] == 1:
        for position, outcome in enumerate(outcomes):
            ordinary = outcomes[position // len(arms) * len(arms)]
            equal = list(outcome.tokens) == list(ordinary.tokens)
            same[outcome.row.label] = same.get(outcome.row.label, 0) + equal
    traces: dict[str, list[Trace]] = {}
    for outcome in outcomes:
        traces.setdefault(outcome.row.label, []).extend([outcome.trace] if outcome.trace else [])
    model = arms[0].model
    created = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"created": created, **asdict(environment(model.device, model.dtype))}
    return BenchResult(tuple(outcome.row for outcome in outcomes), same, _suggestions(arms, traces), about)


def _arms(target: Any, draft: Any, text: str, gammas: Sequence[int], given: dict[str, Any]) -> tuple[Arm, ...]:
    """Return all arms, ordinary decoding first; raises ConfigError if a model is not a causal language model."""
    loading = {name: given.pop(name) for name in _OF_MODELS if name in given}
    sampled = given.keys() & {"temperature", "top_k", "top_p"}
    config = make_config(METHODS["ar"].config, given if sampled else {"top_k": 1, **given})
    settings = config_values(config)
    model = _causal("target", RunRequest("ar", target, text, config, local=True, **loading).job().model)
    draft = draft or (MODELS[model.card.id].default_drafter if model.card.id in MODELS else None)
    small = None
    if draft:
        about: dict[str, Any] = {"tokenizer": loading.get("tokenizer"), "dtype": loading.get("dtype")}
        request = RunRequest("speculative", model, text, draft=draft, local=True, **about)
        small = _causal("draft", request.job().drafter)
    arms = [Arm(label=_ORDINARY, method="ar", settings=settings, model=model)]
    reads_eagle = has_eagle(model.card.id) and model.dtype == torch.float32
    for drafter in (*(("small",) if small else ()), "lookup", *(EAGLE_DRAFTERS if reads_eagle else ())):
        for gamma in gammas:
            arms.append(
                Arm(
                    label=f"speculative, {_DRAFTERS[drafter]}, gamma {gamma}",
                    method="speculative",
                    settings=settings | {"drafter": drafter, "gamma": gamma},
                    model=model,
                    draft=small if drafter == "small" else None,
                )
            )
    network, assistant = _network(model, target), _network(small, draft)
    if network is None:
        return tuple(arms)
    sampling: dict[str, Any] = {"do_sample": settings["top_k"] != 1}
    if sampling["do_sample"]:
        sampling |= {name: settings[name] for name in ("temperature", "top_k", "top_p")}
    options: dict[str, dict[str, Any]] = {"generate": {}}
    options |= {"generate, assisted": {"assistant_model": assistant}} if assistant else {}
    options |= {f"generate, lookup, gamma {gamma}": {"prompt_lookup_num_tokens": gamma} for gamma in gammas}
    for label, own in options.items():
        runner = GenerateRunner(network, assistant, sampling | own)
        arms.append(Arm(label=label, method="ar", settings=settings, model=model, runner=runner))
    return tuple(arms)


def _causal(field: str, model: Model | None) -> Model:
    if isinstance(model, CausalText):
        return model
    name = model.card.id if model else ""
    raise ConfigError(f"{field}: {name} is not a causal language model; give one that AutoModelForCausalLM loads.")


def _network(model: Model | None, given: Any) -> Any:
    """Return the network of transformers that has `generate`, or None.

    It is read again if the model has its own form of it.
    """
    if not isinstance(model, CausalCheckpoint):
        return getattr(model, "_network", None)
    path = download_dir(given) if given in MODELS and MODELS[given].fetched else given
    try:
        folder = source_of(str(path)).folder
        network: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=model.dtype, local_files_only=True)
    except (ModelError, OSError):  # a folder without safetensors, for instance
        return None
    return network.eval().to(model.device)


@dataclass(frozen=True, slots=True)
class GenerateRunner:
    """`generate` of a network of transformers, alone or with an assistant."""

    network: Any
    assistant: Any
    options: Mapping[str, Any]
    name: str = "generate"

    def decode(self, job: Job) -> Sequence[int]:
        """Return what `generate` answers to the prompt of a run."""
        task, ends = job.task, list(job.task.eos_token_ids)
        ids = torch.tensor([task.prompt_ids], device=self.network.device)
        torch.manual_seed(job.seed + job.sample)
        end: dict[str, Any] = {"eos_token_id": ends, "pad_token_id": ends[0]} if ends else {}
        out = self.network.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=task.length,
            repetition_penalty=1.0,
            **end,
            **self.options,
        )
        return cast("list[int]", out[0, len(task.prompt_ids) :].tolist())

    def record(self, job: Job) -> tuple[Sequence[int], Mapping[str, Any]]:
        """Return the answer, the passes of target and assistant, and the tokens that these were fed."""
        with _counting(self.network) as targets, _counting(self.assistant) as drafts:
            tokens = self.decode(job)
        passes = len(targets) + len(drafts)
        return tokens, {
            "forwards": passes,
            "draft_forwards": len(drafts),
            "forwards_by_mode": {"verify": len(targets), "draft": len(drafts)},
            "row_forwards": passes,
            "query_tokens": sum(targets) + sum(drafts),
        }


@contextmanager
def _counting(network: Any) -> Iterator[list[int]]:
    """Count the tokens that each pass of a network is fed, inside the context."""
    fed: list[int] = []
    if network is None:
        yield fed
        return

    def passed(_: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], __: Any) -> None:
        fed.append(int((kwargs["input_ids"] if "input_ids" in kwargs else args[0]).shape[-1]))

    handle = network.register_forward_hook(passed, with_kwargs=True)
    try:
        yield fed
    finally:
        handle.remove()


def _suggestions(arms: Sequence[Arm], traces: Mapping[str, Sequence[Trace]]) -> dict[str, tuple[int, float]]:
    """Return the best draft length and its speed by drafter, from the longest drafts that were measured."""
    found = {}
    drafting = sorted((arm for arm in arms if "drafter" in arm.settings), key=lambda arm: int(arm.settings["gamma"]))
    longest = {str(arm.settings["drafter"]): arm for arm in drafting}
    for drafter, arm in longest.items():
        runs, gamma = traces[arm.label], int(arm.settings["gamma"])
        analyses = [break_even_analysis(run, base) for run, base in zip(runs, traces[_ORDINARY], strict=True)]
        costs = [one.break_even_tokens / one.ordinary_yield for one in analyses if one]
        positions = acceptance_by_draft_position([run.steps for run in runs])
        accepted = [position.accepted for position in positions.positions] if positions else []
        if costs:
            passes = sum(map(target_forwards, runs))
            rates = [count / passes for count in accepted[:gamma]] + [0.0] * (gamma - len(accepted))  # lookups go on
            found[_DRAFTERS[drafter]] = best_length(rates, median(costs))
    return found


def read_prompts(path: str | os.PathLike[str]) -> list[Conversation]:
    """Return the prompts of a file, see `bench`; raises ConfigError for a line without one, or a missing file."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"prompts: {str(path)!r} cannot be read ({why}); give a file of JSON lines.") from None
    prompts = list[Conversation]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"prompts: {str(path)!r}, line {number}"
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{where} is no JSON ({error}); give one object a line.") from None
        about = entry if isinstance(entry, dict) else {"prompt": entry}
        given = [about["prompt"]] if "prompt" in about else about.get("turns")
        turns = given if isinstance(given, list) else []
        if not turns or not all(isinstance(turn, str) and turn.strip() for turn in turns):
            raise ConfigError(
                f"{where} has {format_value(entry)}; give an object with a text as 'prompt', or with 'turns'."
            )
        prompts.append(turns if len(turns) > 1 else turns[0])
    if not prompts:
        raise ConfigError(f"prompts: {str(path)!r} holds none; give one object a line.")
    return prompts
