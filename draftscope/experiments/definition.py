"""Definition of an experiment: arms, prompts or problems, seeds and repeats, and the runs that follow from them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from draftscope.analysis.results import digest
from draftscope.engines.methods import METHODS
from draftscope.engines.protocol import Family
from draftscope.engines.runtime.driver import Job
from draftscope.engines.runtime.run_request import RunRequest, read_method
from draftscope.engines.settings import ConfigError, Value, check_count, config_values
from draftscope.traces.setting_names import original_settings

T = TypeVar("T")
_CHAT: Final = ("chat", "system", "template")
PromptLike: TypeAlias = str | Sequence[Mapping[str, Any]]
"""A text, or the turns of a conversation up to the one to answer: {"role": ..., "content": ...} each."""


class Runner(Protocol):
    """Runs something other than a method of the registry, such as `generate` of transformers."""

    @property
    def name(self) -> str:
        """Name of the method in result rows."""

    def record(self, job: Job) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return the output tokens of a run, and fields of its `ResultRow`, such as the number of forward passes."""

    def decode(self, job: Job) -> object:
        """Run again without counting anything, to be timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A method with settings: a column of a grid, a curve of a figure, a row of a table.

    Example:
        >>> arm = Arm(label="SCD, 16 drafts", method="scd", settings={"window": 16})
    """

    label: str
    """Name in tables and figures; each arm has another."""
    method: str
    """A name of `ds.methods()`."""
    settings: Mapping[str, Value] = field(default_factory=dict)
    """Settings by name; they overrule those of the preset."""
    preset: str = ""
    """Named settings of the method; empty for its defaults."""
    model: Any = ""
    """Model id or object; empty for the model of the experiment."""
    draft: Any = None
    """Drafter instead of the catalogue's, by id or as an object."""
    curve: str = ""
    """Name of the curve that joins its point with others in figures; empty for the method."""
    prompt: str | None = None
    """Prompt of this arm alone; None for the prompts of the experiment."""
    seed: int | None = None
    """Seed of this arm alone; None for the seeds of the experiment."""
    chat: Mapping[str, Any] = field(default_factory=dict)
    """`chat`, `system` and `template` of this arm; they overrule those of the experiment."""
    runner: Runner | None = None
    """Runs the arm in place of the method, which then only prepares the prompt."""

    @classmethod
    def from_request(cls, label: str, request: RunRequest) -> "Arm":
        """Return an arm with the method, settings, model, prompt, chat options and seed of a run.

        Args:
            label: Name of the arm.
            request: The run.
        """
        return cls(
            label=label,
            method=request.method,
            settings=request.settings if request.config is None else config_values(request.config),
            preset=request.preset or "",
            model=request.model,
            draft=request.draft,
            prompt=request.prompt or "",
            seed=request.seed,
            chat={name: value for name in _CHAT if (value := getattr(request, name)) is not None},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemSet:
    """Numbered prompts, each with random draws of its own, and where known the rule by which an answer is correct."""

    prompts: tuple[PromptLike, ...]
    """Texts, or conversations as lists of turns."""
    answers: tuple[str, ...] = ()
    """Correct answers; empty where they are not known."""
    is_correct: Callable[[str, str], bool] | None = None
    """Takes the output text and the correct answer."""
    extract_answer: Callable[[str], str] | None = None
    """Takes the output text; returns the answer that it gives."""
    first: int = 0
    """Number of the first problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One run of an experiment. It can be sent to another process where its models are named by id."""

    arm: Arm
    request: RunRequest
    config: Mapping[str, Value]
    """All settings of the method, defaults included."""
    key: str
    """Hash of model, method, settings, prompt and seed. A store that contains it has done the run."""
    problem: int
    """Index of the prompt, or number of the problem."""
    order: tuple[int, int, int]
    """Indices of prompt, seed and arm, by which results are sorted."""
    repeats: int
    answer: str | None = None
    problems: ProblemSet = field(default_factory=lambda: ProblemSet(prompts=()))
    """Rules by which answers are scored, without the prompts."""

    @property
    def group(self) -> tuple[int, int]:
        """Indices of prompt and seed, which the runs of all arms share."""
        return self.order[:2]

    @property
    def arm_index(self) -> int:
        """Index of the arm."""
        return self.order[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Every arm runs on every prompt with every seed: `run_experiment` runs it.

    Example:
        >>> arms = [Arm(label=f"{W} drafts", method="scd", settings={"window": W}) for W in (8, 16, 32)]
        >>> experiment = Experiment(arms=tuple(arms), prompts=("an owl in the forest",), seeds=range(5))
        >>> len(experiment.runs())
        15
    """

    arms: tuple[Arm, ...]
    """At least one."""
    prompts: tuple[PromptLike, ...] | ProblemSet = ("",)
    """Prompts; ("",) for models without a prompt."""
    seeds: Sequence[int] = (0,)
    """Whole numbers from 0 to 2147483647; at least one."""
    model: Any = ""
    """Model id or object of all arms that name none; empty for the default model of the method."""
    repeats: int = 0
    """Timed repetitions of each run, of which the median counts. With 0, times are those of the recorded passes."""
    title: str = ""
    """Heading of its results."""
    question: str = ""
    """Question that it answers, as a sentence."""
    figure: str = ""
    """Name of the figure that answers the question; empty for the table alone."""
    device: str | None = None
    """Device of models that are named by id; None for the best available."""
    local: bool = False
    """Whether models may also be folders and OWNER/NAME."""
    chat: Mapping[str, Any] = field(default_factory=dict)
    """`chat`, `system` and `template` of all runs, as for `ds.run`."""

    @classmethod
    def read(cls, path: str | Path) -> "Experiment":
        """Read a JSON or TOML file as docs/benchmarks.md describes it; "-" is JSON on standard input.

        Raises:
            ConfigError: With field, value and remedy, for the first invalid field.
        """
        from draftscope.experiments.files import load, parse_experiment

        return parse_experiment(load(path))

    @property
    def family(self) -> Family:
        """Family of the models on which the first arm runs."""
        return METHODS[self.arms[0].method].family

    def with_settings(self, settings: Mapping[str, Value]) -> "Experiment":
        """Return the experiment with settings for all arms; those that an arm sets already stay."""
        arms = tuple(replace(arm, settings={**settings, **arm.settings}) for arm in self.arms)
        return replace(self, arms=arms)

    def runs(self) -> tuple[PlannedRun, ...]:
        """Return all runs in execution order.

        Arms alternate within each prompt and seed, and the first arm changes from one prompt or seed to the next, so
        that slow drift of the machine affects all arms equally.

        Raises:
            ConfigError: For an invalid setting, model or seed.
        """
        if not (self.arms and self.seeds):
            raise ConfigError("arms, seeds: an experiment needs at least one of each; add one.")
        check_count("repeats", self.repeats, minimum=0)
        bases = [self._base(arm) for arm in self.arms]
        problems = self.problems
        return tuple(
            self._plan(bases[arm], problems, (prompt, seed, arm))
            for prompt in range(len(problems.prompts))
            for seed in range(len(self.seeds))
            for arm in rotated(range(len(self.arms)), problems.first + prompt + seed)
        )

    @property
    def problems(self) -> ProblemSet:
        """The prompts as a problem set."""
        return self.prompts if isinstance(self.prompts, ProblemSet) else ProblemSet(prompts=self.prompts)

    def _base(self, arm: Arm) -> RunRequest:
        """Return the request of an arm with all its settings."""
        request = RunRequest(
            arm.method,
            arm.model or self.model or None,
            settings=arm.settings,
            preset=arm.preset or None,
            draft=arm.draft,
            device=self.device,
            local=self.local,
            **{**self.chat, **arm.chat},
        )
        resolved = request.resolve()
        return replace(request, model=resolved.model, config=resolved.config, settings={}, preset=None)

    def _plan(self, base: RunRequest, problems: ProblemSet, order: tuple[int, int, int]) -> PlannedRun:
        index, arm = order[0], self.arms[order[2]]
        numbered = isinstance(self.prompts, ProblemSet)
        prompt = problems.prompts[index] if arm.prompt is None else arm.prompt
        request = replace(
            base,
            seed=self.seeds[order[1]] if arm.seed is None else arm.seed,
            sample=problems.first + index if numbered else 0,
            **({"prompt": prompt} if isinstance(prompt, str) else {"messages": list(prompt)}),
        )
        answer = problems.answers[index] if problems.answers else None
        method, config = read_method(arm.method).name, config_values(base.config)
        model = base.model if isinstance(base.model, str) else base.model.card.id
        chat = {**self.chat, **arm.chat}
        what = [prompt, request.sample if answer is None else answer, *([chat] if chat else [])]
        runner = [arm.runner.name, arm.label] if arm.runner else []
        return PlannedRun(
            arm=arm,
            request=request,
            config=config,
            key=digest([model, method, original_settings(method, config), what, request.seed, *runner]),
            problem=problems.first + index,
            order=order,
            repeats=self.repeats,
            answer=answer,
            problems=replace(problems, prompts=(), answers=()),
        )


def rotated(items: Sequence[T], start: int) -> Sequence[T]:
    """Return items from index `start` on, continuing with the first after the last."""
    start %= len(items)
    return [*items[start:], *items[:start]]
