"""One's own models on one's own prompts, by the clock: ordinary decoding, drafts, and transformers' `generate`.

All run in one process and in turns. Every prompt is decoded once in each way to warm up and to be counted, then to be
timed; which goes first changes from prompt to prompt.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, TypeAlias, cast

import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM

from analysis.acceptance import acceptance_by_draft_position
from analysis.break_even import best_length, break_even_analysis
from analysis.groups import Group, gathered
from analysis.results import ResultRow, row_of
from analysis.seeds import target_forwards
from engines.methods import METHODS
from engines.methods.speculative import EAGLE_DRAFTERS
from engines.models.catalog import MODELS, has_eagle
from engines.models.checkpoints.causal_lm import CausalCheckpoint, CausalText
from engines.models.download import download_dir
from engines.models.errors import ModelError
from engines.models.loading import source_of
from engines.protocol import Model
from engines.runtime.driver import Job, Run, decode
from engines.runtime.environment import environment
from engines.runtime.run_request import RunRequest
from engines.settings import ConfigError, config_values, format_value, make_config
from traces import Trace
from traces.files import write_atomic
from visualizers.tables import as_latex, as_markdown

USAGE, NO_MODEL = 2, 3
_OF_MODELS: Final = ("device", "dtype", "tokenizer")
"""Fields of a `RunRequest` that stand among the settings."""
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
"""Of the printed table: head -> what a line of `BenchResult.table` shows there."""

Conversation: TypeAlias = str | Sequence[str]
"""A prompt, or what is asked turn by turn."""
PromptLike: TypeAlias = str | Sequence[Mapping[str, str]]
"""A prompt, or all that was said up to the turn that is to be answered."""


@dataclass(frozen=True, slots=True)
class DecodingSetup:
    """A way of decoding."""

    label: str
    method: str
    settings: Mapping[str, Any]
    job: Callable[[PromptLike, int], Job]
    """The run of a prompt, with its number."""
    decode: Callable[[Job], Sequence[Any]]
    """The tokens of a run that is not recorded, to be timed."""
    watch: Callable[[Job], tuple[Sequence[Any], Mapping[str, Any], Trace | None]]
    """The tokens, fields of a `ResultRow` and the trace, where there is one, of a run that is recorded."""


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What was measured."""

    rows: tuple[ResultRow, ...]
    """One a prompt and way of decoding. `seconds` is the median of the repetitions."""
    same: Mapping[str, int]
    """Way -> prompts with the tokens of ordinary decoding; empty where tokens are drawn."""
    suggestions: Mapping[str, tuple[int, float]]
    """Drafter -> the draft length that is the fastest, reckoned from acceptance and the cost of passes, and how many
    times as fast as ordinary decoding it would be. 0 is not to draft."""
    about: Mapping[str, Any]
    """When, where and with which software."""

    def table(self) -> list[dict[str, Any]]:
        """What every way came to. `speed` is its tokens a second over those of ordinary decoding, prompt by prompt."""
        groups = gathered(self.rows, judged=False)
        return [self._line(group, groups[0]) for group in groups]

    def _line(self, group: Group, usual: Group) -> dict[str, Any]:
        passes, places = group.total("verifications"), group.by_place
        judged, accepted = (sum(column) for column in zip(*places, strict=True)) if places else (0, 0)
        pairs = zip(group.rows, usual.rows, strict=True)
        ratios = [own.tokens * base.seconds / (own.seconds * base.tokens) for own, base in pairs]
        low, middle, high = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        return {
            "label": group.label,
            "prompts": len(group.rows),
            "tokens_per_pass": group.total("tokens") / (group.total("forwards") - group.total("draft_forwards")),
            "acceptance": accepted / judged if judged else None,
            "acceptance_by_place": [count / passes for _, count in places],
            "tokens_per_second": group.total("tokens") / group.total("seconds"),
            "speed": middle,
            "speed_low": low,
            "speed_high": high,
            "same": self.same.get(group.label),
        }

    def _cells(self) -> list[list[str]]:
        return [[cell(line) for cell in _COLUMNS.values()] for line in self.table()]

    def markdown(self) -> str:
        """The table in Markdown, and which draft length to use, in a sentence a drafter."""
        which = (
            f"With {drafter}, use gamma={gamma}: reckoned from acceptance and the cost of passes, that is {speed:.2f} "
            "times as fast as ordinary decoding."
            if gamma
            else f"With {drafter}, no draft length pays."
            for drafter, (gamma, speed) in self.suggestions.items()
        )
        return f"{as_markdown([*_COLUMNS], self._cells())}\n{' '.join(which)}\n"

    def latex(self) -> str:
        """The table in LaTeX, for the package booktabs."""
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
    """Decode prompts in every way, and say what each came to.

    Ordinary decoding, speculative decoding with the drafter and by lookup at every draft length of `gammas`, and
    `generate` of transformers alone, with the drafter as its assistant, and by lookup.

    Args:
        target: As `model` or `target` of `ds.run`: a causal language model by id, folder or OWNER/NAME, or as an
            object of transformers.
        prompts: Texts or lists of turns, or a file of them: JSON lines with a `prompt`, or with `turns` as MT-Bench
            and Spec-Bench have them. A turn stands behind the ones before it and what ordinary decoding answered.
        draft: The model that drafts, likewise; by default the catalogue's small one for this target, if any.
        gammas: Draft lengths.
        repeats: How often a prompt is timed in every way.
        settings: `length`, `temperature`, `top_k` and `top_p`, by default those that take the likeliest token; `seed`;
            `device`, `dtype`, and for objects `tokenizer`; `progress=True` shows a bar on standard error.

    Raises:
        ValueError: For what cannot be; the message says what can.
        ModelError: For a model that cannot be had.
    """
    texts = list(prompts) if isinstance(prompts, Sequence) and not isinstance(prompts, str) else read_prompts(prompts)
    if not texts:
        raise ConfigError("prompts: there are none; give at least one text.")
    for field, least in (("repeats", repeats), ("gammas", min(gammas, default=0))):
        if least < 1:
            raise ConfigError(f"{field}: {least} is not allowed; use whole numbers from 1.")
    progress = settings.pop("progress", False)
    first = texts[0] if isinstance(texts[0], str) else texts[0][0]
    ways = _ways(target, draft, first, list(gammas), settings)
    watched: dict[str, list[Trace]] = {}
    same, rows = dict.fromkeys((way.label for way in ways), 0), list[ResultRow]()
    model = ways[0].job(first, 0).model
    total = sum(1 if isinstance(text, str) else len(text) for text in texts) * len(ways)
    with tqdm(total=total, disable=not progress, unit="run") as bar:
        for text in texts:
            said: list[Mapping[str, str]] = []
            for turn in [text] if isinstance(text, str) else text:
                said.append({"role": "user", "content": turn})
                number = len(rows) // len(ways)
                k = number % len(ways)
                made = _measure([*ways[k:], *ways[:k]], said if len(said) > 1 else turn, number, repeats, bar)
                ordinary = made[ways[0].label][0]
                for way in ways:
                    tokens, row, trace = made[way.label]
                    rows.append(row)
                    same[way.label] += list(tokens) == list(ordinary)
                    watched.setdefault(way.label, []).extend([trace] if trace else [])
                said.append({"role": "assistant", "content": model.render_output(ordinary).text or ""})
    created = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"created": created, **asdict(environment(model.device, model.dtype))}
    return BenchResult(tuple(rows), same if ways[0].settings["top_k"] == 1 else {}, _suggestions(ways, watched), about)


def _measure(
    ways: Sequence[DecodingSetup], asked: PromptLike, number: int, repeats: int, bar: Any
) -> dict[str, tuple[Sequence[Any], ResultRow, Trace | None]]:
    """Count a prompt in every way, then time it in turns."""
    jobs = {way.label: way.job(asked, number) for way in ways}
    counted = {way.label: way.watch(jobs[way.label]) for way in ways}
    seconds: dict[str, list[float]] = {way.label: [] for way in ways}
    for _ in range(repeats):
        for way in ways:
            begun = time.perf_counter()
            way.decode(jobs[way.label])
            seconds[way.label].append(time.perf_counter() - begun)
    bar.update(len(ways))
    made = {}
    for way in ways:
        (tokens, fields, trace), job = counted[way.label], jobs[way.label]
        about: dict[str, Any] = {
            "method": way.method,
            "label": way.label,
            "config": dict(way.settings),
            "problem": number,
            "correct": None,
            "tokens": len(tokens),
            "seconds": median(seconds[way.label]),
            "model": job.model.card.id,
            "device": environment(job.model.device, torch.float32).device,
            "seed": job.seed,
        }
        made[way.label] = tokens, row_of(trace.steps if trace else (), **about, **fields), trace
    return made


def _ways(target: Any, draft: Any, text: str, gammas: Sequence[int], given: dict[str, Any]) -> list[DecodingSetup]:
    """All ways of decoding, ordinary decoding first; raises ConfigError for no causal language model."""
    loading = {name: given.pop(name) for name in _OF_MODELS if name in given}
    seed = given.pop("seed", 0)
    sampled = given.keys() & {"temperature", "top_k", "top_p"}
    config = make_config(METHODS["ar"].config, given if sampled else {"top_k": 1, **given})
    settings = config_values(config)
    model = _causal("target", RunRequest("ar", target, text, config, local=True, **loading).job().model)
    draft = draft or (MODELS[model.card.id].default_drafter if model.card.id in MODELS else None)
    small = None
    if draft:
        about: dict[str, Any] = {"tokenizer": loading.get("tokenizer"), "dtype": loading.get("dtype")}
        small = _causal("draft", RunRequest("speculative", model, text, draft=draft, local=True, **about).job().drafter)

    def ours(method: str, **own: Any) -> Callable[[PromptLike, int], Job]:
        def job(asked: PromptLike, number: int) -> Job:
            drafts = small if own.get("drafter") == "small" else None
            about: dict[str, Any] = {"settings": settings | own, "draft": drafts, "sample": number}
            about |= {"prompt": asked} if isinstance(asked, str) else {"messages": list(asked)}
            return RunRequest(method, model, seed=seed, local=True, **about).job()

        return job

    ordinary = ours("ar")
    ways = [DecodingSetup(_ORDINARY, "ar", settings, ordinary, _decoded, _watched)]
    reads = has_eagle(model.card.id) and model.dtype == torch.float32
    for drafter in (*(("small",) if small else ()), "lookup", *(EAGLE_DRAFTERS if reads else ())):
        for gamma in gammas:
            own = {"drafter": drafter, "gamma": gamma}
            label = f"speculative, {_DRAFTERS[drafter]}, gamma {gamma}"
            ways.append(
                DecodingSetup(label, "speculative", settings | own, ours("speculative", **own), _decoded, _watched)
            )
    network, helper = _network(model, target), _network(small, draft)
    if network is None:
        return ways
    alike: dict[str, Any] = {"do_sample": settings["top_k"] != 1}
    if alike["do_sample"]:
        alike |= {name: settings[name] for name in ("temperature", "top_k", "top_p")}
    options: dict[str, dict[str, Any]] = {"generate": {}}
    options |= {"generate, assisted": {"assistant_model": helper}} if helper else {}
    options |= {f"generate, lookup, gamma {gamma}": {"prompt_lookup_num_tokens": gamma} for gamma in gammas}
    for label, own in options.items():
        do = partial(_generated, network, alike | own)
        watch = partial(_generated_and_counted, do, network, helper)
        ways.append(DecodingSetup(label, "generate", settings, ordinary, do, watch))
    return ways


def _causal(field: str, model: Model | None) -> Model:
    if isinstance(model, CausalText):
        return model
    name = model.card.id if model else ""
    raise ConfigError(f"{field}: {name} is no causal language model; give one that AutoModelForCausalLM loads.")


def _network(model: Model | None, given: Any) -> Any:
    """The network of transformers that has `generate`: read once more where a model has its own form of it, or None."""
    if not isinstance(model, CausalCheckpoint):
        return getattr(model, "_network", None)
    place = download_dir(given) if given in MODELS and MODELS[given].fetched else given
    try:
        folder = source_of(str(place)).folder
        network: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=model.dtype, local_files_only=True)
    except (ModelError, OSError):  # a folder without safetensors, for instance
        return None
    return network.eval().to(model.device)


def _decoded(job: Job) -> Sequence[Any]:
    return decode([job])[0].result[0].tolist()


def _watched(job: Job) -> tuple[Sequence[Any], Mapping[str, Any], Trace]:
    run = Run(job)
    run.finish()
    trace = run.trace()
    return trace.output.tokens[: trace.summary.tokens], {}, trace


def _generated(network: Any, options: Mapping[str, Any], job: Job) -> Sequence[int]:
    """What `generate` answers to the prompt of a run."""
    task, ends = job.task, list(job.task.eos_token_ids)
    ids = torch.tensor([task.prompt_ids], device=network.device)
    torch.manual_seed(job.seed + job.sample)
    end: dict[str, Any] = {"eos_token_id": ends, "pad_token_id": ends[0]} if ends else {}
    out = network.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=task.length,
        repetition_penalty=1.0,
        **end,
        **options,
    )
    return cast("list[int]", out[0, len(task.prompt_ids) :].tolist())


def _generated_and_counted(
    do: Callable[[Job], Sequence[int]], network: Any, helper: Any, job: Job
) -> tuple[Sequence[int], Mapping[str, Any], None]:
    """The same, with how many passes it took of the target and its assistant, and tokens that they were fed."""
    with _counting(network) as targets, _counting(helper) as drafts:
        tokens = do(job)
    counted = {"verify": len(targets), "draft": len(drafts)}
    fed = sum(targets) + sum(drafts)
    fields: dict[str, Any] = {"forwards": len(targets) + len(drafts), "draft_forwards": len(drafts)}
    return tokens, fields | {"forwards_by_mode": counted, "row_forwards": fields["forwards"], "query_tokens": fed}, None


@contextmanager
def _counting(network: Any) -> Iterator[list[int]]:
    """The tokens that each pass of a network is fed, while this is open."""
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


def _suggestions(ways: Sequence[DecodingSetup], watched: Mapping[str, Sequence[Trace]]) -> dict[str, tuple[int, float]]:
    """Drafter -> the best draft length and its speed, from the longest drafts that were measured."""
    found = {}
    drafted = sorted((way for way in ways if "drafter" in way.settings), key=lambda way: int(way.settings["gamma"]))
    longest = {way.settings["drafter"]: way for way in drafted}
    for drafter, way in longest.items():
        runs = watched[way.label]
        accounts = [break_even_analysis(run, usual) for run, usual in zip(runs, watched[_ORDINARY], strict=True)]
        costs = [one.break_even_tokens / one.ordinary_yield for one in accounts if one]
        places = acceptance_by_draft_position([run.steps for run in runs])
        accepted = [place.accepted for place in places.places] if places else []
        if costs:
            passes = sum(map(target_forwards, runs))
            gamma = int(way.settings["gamma"])
            passed = [count / passes for count in accepted[:gamma]] + [0.0] * (gamma - len(accepted))  # lookups go on
            found[_DRAFTERS[drafter]] = best_length(passed, median(costs))
    return found


def read_prompts(path: str | os.PathLike[str]) -> list[Conversation]:
    """The prompts of a file, see `bench`; raises ConfigError for a line without one, or no such file."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text in UTF-8"
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
