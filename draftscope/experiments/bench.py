"""`draftscope bench`: your own models on your own prompts, timed with and without drafts.

An experiment in one process: each prompt is decoded once with each arm, to warm up and to be counted, then it is timed
with all arms alternately; the first arm changes from prompt to prompt.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, cast

import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM, GenerationConfig

from draftscope.engines.methods import METHODS
from draftscope.engines.methods.speculative import EAGLE_DRAFTERS
from draftscope.engines.models.catalog import MODELS, has_eagle
from draftscope.engines.models.chat import Turn
from draftscope.engines.models.checkpoints.causal_lm import CausalCheckpoint, CausalLM, CausalText
from draftscope.engines.models.download import download_dir
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.loading import source_of
from draftscope.engines.models.transformers_api import fed_token_counts
from draftscope.engines.protocol import Model
from draftscope.engines.runtime.driver import Job
from draftscope.engines.runtime.environment import environment
from draftscope.engines.runtime.run_request import CHAT_FIELDS, RunRequest
from draftscope.engines.settings import ConfigError, check_count, config_values, from_transformers, make_config
from draftscope.experiments.bench_result import DRAFTERS, BenchResult
from draftscope.experiments.cluster import connected, results
from draftscope.experiments.definition import Arm, Experiment, ProblemSet, PromptLike
from draftscope.experiments.executors import RunOutcome, check_weights
from draftscope.experiments.prompt_files import BenchPrompt, PromptEntry, parse_prompts
from draftscope.experiments.run import check_runs, run_experiment
from draftscope.experiments.stores import MemoryStore

_OF_MODELS: Final = ("device", "dtype", "tokenizer")
"""Fields of a `RunRequest` among the settings."""
_ORDINARY: Final = "ordinary"
_MAX_CHARACTERS: Final = 300
"""Maximum length of a reason in results."""
_CHATML: Final = "The model has no chat template, so conversations were put in ChatML."
_REPORT_SECONDS: Final = 10
"""Between lines of progress where these go to a file."""


class _Refused(Exception):
    """An arm that cannot run; the message has the reason."""

    def __init__(self, label: str, reason: object) -> None:
        super().__init__(" ".join(str(reason).split())[:_MAX_CHARACTERS])
        self.label = label


def bench(
    target: Any,
    prompts: str | os.PathLike[str] | Sequence[PromptEntry],
    *,
    draft: Any = None,
    gammas: Sequence[int] = (4,),
    repeats: int = 1,
    **settings: Any,
) -> BenchResult:
    """Time several ways of decoding on your prompts.

    The arms are ordinary decoding, speculative decoding with the drafter and by lookup at every draft length of
    `gammas`, and `generate` of transformers alone, with the drafter as its assistant, and by lookup. An arm that cannot
    run, such as one that `generate` refuses for a model, is left out and named with the reason.

    Args:
        target: As `model` or `target` of `ds.run`: a causal language model by id, folder or OWNER/NAME, or as an
            object of transformers.
        prompts: A file as `read_prompts` describes it, or a list of its entries: texts, lists of questions, or objects.
            A question of several follows those before it and the answers of ordinary decoding to them, without their
            special tokens.
        draft: Drafter, in the same forms; by default the catalogue's small model for this target, if any.
        gammas: Draft lengths.
        repeats: Number of times that a prompt is timed with each arm.
        settings: `length`, `temperature`, `top_k` and `top_p`, by default greedy decoding; `seed`; `device`, `dtype`,
            and for objects `tokenizer`; `chat`, `system` and `template` as for `ds.run`; `progress=True` shows
            progress on standard error; `cluster`, the address of a Dask scheduler, whose workers measure a prompt each.

    Returns:
        Times in seconds and counts by arm and prompt; `.table()` has a line for each arm.

    Raises:
        ValueError: For an invalid prompt, setting or model; the message has field, value and remedy.
        ModelError: If a model cannot be loaded.
        SweepError: If the cluster is lost, or a worker cannot run this.
    """
    texts = parse_prompts(prompts)
    check_count("repeats", repeats)
    check_count("gammas", min(gammas, default=0))
    progress, seed, cluster = (settings.pop(name, None) for name in ("progress", "seed", "cluster"))
    chat = {name: settings.pop(name) for name in CHAT_FIELDS if name in settings}
    if "messages" in chat:
        raise ConfigError("messages: are prompts of their own; give them in prompts.")
    options = {"seeds": (seed or 0,), "repeats": repeats, "chat": chat, "local": True}
    quiet = {"mininterval": _REPORT_SECONDS, "ascii": True} if not sys.stderr.isatty() else {}
    plan = (target, draft, list(gammas), settings)
    measured = (
        _measure_on_cluster(cluster, (*plan, options), texts)
        if cluster
        else _measure_here(_arms(*plan), options, texts)
    )
    parts: dict[int, BenchResult] = {}
    total = sum(map(_num_questions, texts))
    with tqdm(total=total, disable=not progress, unit="prompt", desc="bench", **quiet) as bar:
        for index, part in measured:
            parts[index] = part
            bar.update(_num_questions(texts[index]))
    return _joined([parts[index] for index in sorted(parts)], {"cluster": cluster} if cluster else {})


def _num_questions(text: BenchPrompt) -> int:
    return len(text.questions) or 1


def _measure_here(
    arms: tuple[Arm, ...], options: Mapping[str, Any], texts: Sequence[BenchPrompt]
) -> Iterator[tuple[int, BenchResult]]:
    """Measure one prompt after the other; an arm that cannot run is not tried again."""
    first = 0
    for index, text in enumerate(texts):
        part = _Conversation(arms, options, first).measure(text, index + 1)
        first += len({row.problem for row in part.rows})
        arms = tuple(arm for arm in arms if arm.label not in part.left_out)
        yield index, part


def _measure_on_cluster(
    address: str, what: tuple[Any, ...], texts: Sequence[BenchPrompt]
) -> Iterator[tuple[int, BenchResult]]:
    """Have each prompt measured by one worker of a cluster, all arms alternately."""
    try:
        plan = json.dumps(what)
    except TypeError:
        raise ConfigError("cluster: workers load models themselves; give target and draft by name.") from None
    firsts = accumulate(map(_num_questions, texts), initial=0)
    tasks = [(plan, text, first, number) for number, (text, first) in enumerate(zip(texts, firsts, strict=False), 1)]
    with connected(address) as client:
        yield from filter(None, results(client, _measure_prompt, tasks, lambda: False))


def _measure_prompt(plan: str, text: BenchPrompt, first: int, number: int) -> BenchResult:
    """Measure one prompt in a worker, which keeps the models; `first` is the number of its first question."""
    return _Conversation(*_planned(plan), first).measure(text, number)


@lru_cache(maxsize=1)
def _planned(plan: str) -> tuple[tuple[Arm, ...], Mapping[str, Any]]:
    *what, options = json.loads(plan)
    return _arms(*what), options


def _joined(parts: Sequence[BenchResult], about: Mapping[str, Any]) -> BenchResult:
    """Return the results of several prompts as one, without the arms that did not run on all of them.

    Raises:
        SweepError: If the workers have different weights.
    """
    left_out = {label: reason for part in parts for label, reason in part.left_out.items()}
    rows = [row for part in parts for row in part.rows if row.label not in left_out]
    for row in rows:
        check_weights(row.weights, rows[0].weights)
    same = sum((Counter(part.same) for part in parts), Counter[str]())
    found = {name: value for part in reversed(parts) for name, value in part.about.items()}
    return BenchResult(
        rows=tuple(rows),
        same={label: same[label] for label in parts[0].same if label not in left_out},
        about={**found, **about},
        left_out=left_out,
        categories={number: category for part in parts for number, category in part.categories.items()},
    )


class _Conversation:
    """Asks all arms the questions of one prompt, and leaves out arms that cannot run."""

    def __init__(self, arms: tuple[Arm, ...], options: Mapping[str, Any], first: int) -> None:
        self._arms, self._options, self._first = arms, options, first
        self._outcomes: list[dict[str, RunOutcome]] = []
        """Outcomes of each question, by arm."""
        self._left_out: dict[str, str] = {}
        self._form = ""

    def measure(self, text: BenchPrompt, number: int) -> BenchResult:
        """Ask one question after the other; a later one that cannot be asked ends the conversation."""
        turns: list[Turn] = []
        for index, question in enumerate(text.questions or ("",)):
            turns.append({"role": "user", "content": question})
            prompt: PromptLike = text.messages or (turns if len(turns) > 1 else question)
            try:
                answer = self._answer(prompt, bool(text.messages or text.questions[1:]))
            except ConfigError as error:
                if not index:
                    raise
                self._left_out[f"prompt {number} from question {index + 1} on"] = str(error)
                break
            turns.append({"role": "assistant", "content": answer})
        return self._result(text.category)

    def _answer(self, prompt: PromptLike, in_conversation: bool) -> str:
        """Ask one question and return the answer of ordinary decoding."""
        options = self._options
        if in_conversation and not self._arms[0].model.has_template and options["chat"].get("chat") is None:
            options, self._form = {**options, "chat": {**options["chat"], "chat": True}}, _CHATML
        problems = ProblemSet(prompts=(prompt,), first=self._first + len(self._outcomes))
        while True:
            experiment = Experiment(arms=self._arms, prompts=problems, **options)
            try:
                for arm in self._arms:
                    _check(arm, replace(experiment, arms=(arm,)))
                store = MemoryStore()
                for _ in run_experiment(experiment, store=store):
                    pass
            except _Refused as refused:
                self._left_out[refused.label] = str(refused)
                self._arms = tuple(arm for arm in self._arms if arm.label != refused.label)
                continue
            break
        self._outcomes.append({outcome.row.label: outcome for outcome in store.outcomes})
        return str(self._arms[0].model.answer_text(self._outcomes[-1][_ORDINARY].tokens))

    def _result(self, category: str) -> BenchResult:
        """Compare the arms that ran on every question with ordinary decoding."""
        labels = [arm.label for arm in self._arms]
        same = {
            label: sum(list(each[label].tokens) == list(each[_ORDINARY].tokens) for each in self._outcomes)
            for label in labels
            if self._arms[0].settings["top_k"] == 1
        }
        model = self._arms[0].model
        about = {"created": datetime.now(UTC).isoformat(timespec="seconds")}
        about |= asdict(environment(model.device, model.dtype)) | ({"chat": self._form} if self._form else {})
        return BenchResult(
            rows=tuple(outcomes[label].row for outcomes in self._outcomes for label in labels),
            same=same,
            about=about,
            left_out=self._left_out,
            categories={self._first + index: category for index in range(len(self._outcomes)) if category},
        )


def _check(arm: Arm, experiment: Experiment) -> None:
    """Raise _Refused for an arm that cannot run; of ordinary decoding, the error itself."""
    try:
        check_runs(experiment.runs())
    except (ValueError, ModelError) as error:
        if arm.label == _ORDINARY:
            raise
        raise _Refused(arm.label, error) from error


def _arms(target: Any, draft: Any, gammas: Sequence[int], limits: dict[str, Any]) -> tuple[Arm, ...]:
    """Return all arms, ordinary decoding first; raises ConfigError if a model is not a causal language model."""
    loading = {name: limits.pop(name) for name in _OF_MODELS if name in limits}
    limits = from_transformers(limits)
    sampled = limits.keys() & {"temperature", "top_k", "top_p"}
    config = make_config(METHODS["ar"].config, limits if sampled else {"top_k": 1, **limits})
    settings = config_values(config)
    model = _causal("target", RunRequest("ar", target, "a", config, local=True, **loading).job().model)
    draft = draft or (MODELS[model.card.id].default_drafter if model.card.id in MODELS else None)
    small = None
    if draft:
        about: dict[str, Any] = {"tokenizer": loading.get("tokenizer"), "dtype": loading.get("dtype")}
        request = RunRequest("speculative", model, "a", draft=draft, local=True, **about)
        small = _causal("draft", request.job().drafter)
    arms = [Arm(label=_ORDINARY, method="ar", settings=settings, model=model)]
    reads_eagle = has_eagle(model.card.id) and model.dtype == torch.float32
    for drafter in (*(("small",) if small else ()), "lookup", *(EAGLE_DRAFTERS if reads_eagle else ())):
        for gamma in gammas:
            arms.append(
                Arm(
                    label=f"speculative, {DRAFTERS[drafter]}, gamma {gamma}",
                    method="speculative",
                    settings=settings | {"drafter": drafter, "gamma": gamma},
                    model=model,
                    draft=small if drafter == "small" else None,
                )
            )
    network, assistant = _with_generate(model, target), _with_generate(small, draft)
    if network is None:
        return tuple(arms)
    sampling: dict[str, Any] = {"do_sample": settings["top_k"] != 1}
    if sampling["do_sample"]:
        sampling |= {name: settings[name] for name in ("temperature", "top_k", "top_p")}
    options: dict[str, dict[str, Any]] = {"generate": {}}
    options |= {"generate, assisted": {"assistant_model": assistant}} if assistant else {}
    options |= {f"generate, lookup, gamma {gamma}": {"prompt_lookup_num_tokens": gamma} for gamma in gammas}
    for label, values in options.items():
        runner = GenerateRunner(network, assistant, sampling | values, label)
        arms.append(Arm(label=label, method="ar", settings=settings, model=model, runner=runner))
    return tuple(arms)


def _causal(field: str, model: Model | None) -> Model:
    if isinstance(model, CausalText):
        return model
    name = model.card.id if model else ""
    raise ConfigError(f"{field}: {name} is not a causal language model; give one that AutoModelForCausalLM loads.")


def _with_generate(model: Model | None, named: Any) -> Any:
    """Return the network of transformers that has `generate`, or None.

    It is read again if the model has its own form of it.
    """
    if isinstance(model, CausalLM):
        return model.network
    if not isinstance(model, CausalCheckpoint):
        return None
    path = download_dir(named) if named in MODELS and MODELS[named].fetched else named
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
    label: str = ""
    """Name of its arm, by which it is left out where `generate` refuses."""
    name: str = "generate"

    def decode(self, job: Job) -> Sequence[int]:
        """Return what `generate` answers to the prompt of a run."""
        task, ends = job.task, list(job.task.eos_token_ids)
        ids = torch.tensor([task.prompt_ids], device=self.network.device)
        torch.manual_seed(job.seed + job.sample)
        end: dict[str, Any] = {"eos_token_id": ends, "pad_token_id": ends[0]} if ends else {}
        options = {"max_new_tokens": task.length, "use_cache": True, **end, **self.options}
        try:
            with _default_generation(self.network), _default_generation(self.assistant):
                out = self.network.generate(ids, attention_mask=torch.ones_like(ids), **options)
        except Exception as error:  # of many kinds: a recurrent state, another device, a method of its own
            raise _Refused(self.label, error) from error
        return cast("list[int]", out[0, len(task.prompt_ids) :].tolist())

    def record(self, job: Job) -> tuple[Sequence[int], Mapping[str, Any]]:
        """Return the answer, the passes of target and assistant, and the tokens that these were fed."""
        with fed_token_counts(self.network) as targets, fed_token_counts(self.assistant) as drafts:
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
def _default_generation(network: Any) -> Iterator[None]:
    """Give a network the defaults of `generate` in place of the options of its checkpoint, inside the context."""
    config = getattr(network, "generation_config", None)
    if config is None:
        yield
        return
    network.generation_config = GenerationConfig()
    try:
        yield
    finally:
        network.generation_config = config
