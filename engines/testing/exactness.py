"""How far a method's output distribution is from ordinary decoding's, and how much of the method a proof has tested.

Short texts of discrete tokens are enumerated, with all branches, and equal means up to 1e-12. Prompts that repeat
themselves, ids that end a text and nearly certain distributions are among them, and every integer setting is also
tested at its smallest value. Long texts of many ids are sampled and put to chi-square tests. Likeliest tokens leave no
branches: their texts are compared on several models. Tokens that are vectors are sampled and put to a test of means and
covariances.

Equal distributions prove nothing about drafts that were never made. What happens to drafts is counted
(`draft_events`), and a proof holds only where each event that the method can reach reached a minimum.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, Protocol, TypeAlias

import torch
from torch import Tensor

from engines.diffusion_lm.block_sequence import BlockSequence
from engines.methods import METHODS, baseline, own_settings
from engines.methods.method import DRAFT_ORDER, POLICY
from engines.protocol import Decoder
from engines.runtime.driver import Job
from engines.sampling.random_source import RandomSource, SeededRandom
from engines.settings import ConfigError, make_config
from engines.testing.case import ConformanceCase, claims, decoded
from engines.testing.case import subject as subject_of
from engines.testing.draft_events import (
    ALL_ACCEPTED,
    BONUS,
    ENDED,
    LIKELY,
    OVERALL,
    UNLIKELY,
    DraftEvents,
    observe,
    report,
    required,
)
from engines.testing.enumeration import (
    Answer,
    Distribution,
    TooManyBranchesError,
    TooManyGumbelIdsError,
    by_role,
    exact_distribution,
    largest_error,
    run_decoder,
    variation,
)
from engines.testing.power import FOUND, compared_rate, enumerated_variation, sampled_shift, sampled_variation
from engines.testing.toy_models import NAMES, NO_END, DepthModel, Table, ToyBlockModel, until_end
from engines.testing.toy_models import misfit as misfit_of_vectors

EXACT: Final = 1e-12
MAX_BRANCHES: Final = 20_000
MIN_PROBABILITY: Final = 0.001
"""Probability per text that each required event must have on one of the enumerated tables."""
MIN_COUNT: Final = 20
"""Occurrences that each required event must have in texts that are not enumerated."""
MIN_TEXTS, MAX_TEXTS = 8, 600
"""Models on which likeliest tokens are compared."""
AGREED: Final = (0.0, 0.5, 0.75)
"""Shares of positions at which a drafter agrees with its target, one after the other, so that long runs of drafts are
accepted and long ones are rejected."""
SAMPLES: Final = 600
LENGTH, VOCABULARY = 10, 24
"""Length and vocabulary size of sampled texts."""
CELLS: Final = 16
PAIRED: Final = 6
"""Cells a side for pairs of neighbours."""
HIGHEST: Final = 5.0
"""Bound of the z-scores of sampled texts; a right distribution passes it with a probability of more than 0.9999."""
SQUARE, LARGEST = 1.9, 4.5
"""Bounds of the mean square and the largest of 44 z-scores. A right distribution passes either with a probability of
more than 0.9995."""


@dataclass(frozen=True, slots=True)
class ToyText:
    """A small model, or a pair of them, and the text that it decodes."""

    length: int
    vocabulary: int
    sharpness: float = 2.0
    prompt: tuple[int, ...] = ()
    end: int | None = None
    seed: int = 3
    drafter: tuple[int, float] = (4, 2.0)
    """The drafter's seed and sharpness; with the target's own, drafter and target are equal."""
    other_drafts: bool = True
    """Whether that drafter drafts even where the settings have the target draft for itself."""

    def __str__(self) -> str:
        details = [f"after {len(self.prompt)} of a prompt"] if self.prompt else []
        details += [f"sharpness {self.sharpness:g}"] if self.sharpness != 2 else []
        details += [f"id {self.end} ends it"] if self.end is not None else []
        return f"{self.length} tokens of {self.vocabulary} ids" + (f" ({', '.join(details)})" if details else "")


PAIR, LOOP, WAVE, CYCLE = (0, 1) * 6, (0,) * 12, (0, 0, 1, 1) * 4, (0, 1, 2, 3) * 3
"""Prompts that repeat themselves, so that look-ups have something to copy."""
CAUSAL: Final = (
    ToyText(4, 2, other_drafts=False),
    ToyText(2, 7),
    ToyText(5, 2, prompt=WAVE),
    ToyText(4, 2, 8.0, prompt=PAIR, end=1),
    ToyText(4, 2, 8.0, prompt=LOOP, drafter=(4, 8.0)),
    ToyText(3, 3, 4.0, prompt=(0, 1, 2) * 4),
)
BLOCKS: Final = (
    ToyText(3, 2, other_drafts=False),
    ToyText(2, 4),
    ToyText(4, 2, 6.0),
    ToyText(3, 2, 6.0, end=1),
)
SAMPLED: Final = (
    ToyText(LENGTH, VOCABULARY, seed=0, drafter=(0, 4.0), other_drafts=False),
    ToyText(LENGTH, VOCABULARY, seed=1, drafter=(1, 4.0)),
    ToyText(LENGTH, VOCABULARY, seed=2, drafter=(3, 2.0)),
    ToyText(LENGTH, VOCABULARY, seed=3, drafter=(4, 2.0)),
)
"""Two drafters that agree with their target, and two that do not."""
REPEATING: Final = (
    ToyText(LENGTH, 4, 6.0, prompt=CYCLE, seed=5, drafter=(6, 2.0)),
    ToyText(LENGTH, 4, 2.0, prompt=CYCLE, seed=7, drafter=(7, 4.0)),
)
"""Few ids after a prompt that repeats itself: look-ups draft here, and not in texts of many ids."""


def _further(texts: Sequence[ToyText]) -> Iterator[ToyText]:
    """The same texts of other models, more and less certain ones, until all events have occurred."""
    for seed in range(5, 13, 2):
        for text in texts:
            sharpness = 8.0 if text.sharpness == 2 else 2.0
            yield replace(text, sharpness=sharpness, seed=seed, drafter=(seed + 1, sharpness))


@dataclass(frozen=True, slots=True)
class ExactnessResult:
    """Result of a comparison with a reference."""

    holds: bool
    """Whether no difference was found."""
    message: str
    untested: str = ""
    """Events that the proof needs and that did not occur often enough; empty if none."""
    tested: str = ""
    """Occurrences of the events, in words."""
    power: str = ""
    """The smallest bias that each test would have found."""
    never: str = ""
    """What no test has exercised."""


def proof(subject: ConformanceCase, *, sampled: bool = True, counted: bool = True) -> ExactnessResult:
    """Compare a method with its reference as its family allows.

    Args:
        subject: Method, settings and models.
        sampled: Whether every integer setting is also tested at its smallest, and longer texts are sampled.
        counted: Whether texts are added until every event that the proof needs has reached its minimum.
    """
    run = _test_of(subject)
    parts = [run(subject, counted=counted)]
    from_left = subject.method.reference(subject.config) != DRAFT_ORDER or claims(subject.method, subject.given)
    if sampled and parts[0].holds and run is _enumerated and from_left:
        parts.append(_tested(subject))
    others = list(_smallest(subject)) if sampled else []
    for name, case in others:
        part = run(case, counted=False)
        if not part.holds:
            return ExactnessResult(False, f"with {name}: {part.message}")
    failed = next((part for part in parts if not part.holds), None)
    if failed is not None:
        return ExactnessResult(False, failed.message)
    exact = f"; the same with {', '.join(name for name, _ in others)}" if others else ""
    return ExactnessResult(
        True,
        "; ".join(part.message for part in parts) + exact,
        untested=parts[0].untested,
        tested="; ".join(f"{part.name}: {report(part.events)}" for part in parts if part.events.reach),
        power="; ".join(part.power for part in parts),
        never="" if _is_baseline(subject) else _never(subject, parts, others),
    )


def _test_of(subject: ConformanceCase) -> "_PartTest":
    """The test that the family allows."""
    if subject.method.family == "continuous-ar":
        return _sampled
    return _texts if subject.method.family == "diffusion-lm" and subject.config.mode == "greedy" else _enumerated


@dataclass(frozen=True, slots=True)
class _Part:
    """One test of a proof."""

    name: str
    holds: bool
    message: str
    events: DraftEvents
    untested: str = ""
    power: str = ""


class _PartTest(Protocol):
    """A test; texts are added until the events reach their minimums if they are `counted`."""

    def __call__(self, subject: ConformanceCase, *, counted: bool) -> _Part: ...


def _smallest(case: ConformanceCase) -> Iterator[tuple[str, ConformanceCase]]:
    """The same case with each integer setting of the method that was not given at its smallest value."""
    for setting in own_settings(case.method):
        if setting.kind != "int" or setting.name in case.given or setting.knob.low is None:
            continue
        value = int(setting.knob.low)
        given = {**case.given, setting.name: value}
        with suppress(ConfigError, ValueError):  # a value that the other settings do not allow
            other = subject_of(case.method, given)
            same = claims(case.method, given) == claims(case.method, case.given)
            if same and getattr(case.config, setting.name) != value:
                yield f"{setting.name}={value}", other


def _never(subject: ConformanceCase, parts: Sequence[_Part], others: Sequence[tuple[str, ConformanceCase]]) -> str:
    """What no test has exercised, in words."""
    reach = [f"{part.events.reach} ({part.name})" for part in parts]
    lines = [f"draft positions after {' and '.join(reach)}"]
    met = {event.kind for part in parts for event in part.events.count}
    kinds = (ALL_ACCEPTED, BONUS) if subject.method.family == "continuous-ar" else OVERALL
    lines += [kind for kind in kinds if kind not in met]
    varied = {name.split("=")[0] for name, _ in others}
    fixed = [setting.name for setting in own_settings(subject.method) if setting.name not in varied]
    lines += [f"other values of {', '.join(fixed)}"] if fixed else []
    return "; ".join(lines)


def _is_baseline(subject: ConformanceCase) -> bool:
    return subject.method.decode is baseline(subject.method.family, {})[0].decode


def _untested(subject: ConformanceCase, events: DraftEvents, further: Sequence[str], minimum: float) -> str:
    """The required events that did not reach the minimum, in words.

    Args:
        subject: Method and settings; ordinary decoding makes no drafts.
        events: What happened.
        further: Events without a draft position that must occur.
        minimum: Probability per text below 1, or else occurrences.
    """
    if _is_baseline(subject):
        return ""
    if not events.reach:
        return "nothing was tested: no draft was made; choose settings under which short texts have drafts"
    values, unit = (events.weight, "probability") if minimum < 1 else (events.count, "occurrences")
    missing = [event for event in required(events, further) if values[event] < minimum]
    lines = [f"{event} ({unit} {values[event]:.2g}, {minimum:g} needed)" for event in missing]
    return f"nothing was tested about drafts {', '.join(lines)}" if lines else ""


class _Deep:
    """A `ToyBlockModel` whose texts have one length, as those of a `Table` have."""

    def __init__(self, length: int, vocabulary: int, seed: int, *, sharpness: float = 2.0) -> None:
        depth = ToyBlockModel(vocabulary, seed=seed, sharpness=sharpness)
        self.task, self.forward, self.conditionals = depth.task(length), depth.forward, replace(depth).conditionals
        self._model = replace(depth)

    def joint(self) -> Distribution:
        """The distribution of ordinary decoding."""
        return self._model.joint(self.task.length, end=self.task.eos_token_ids[0])


Kind: TypeAlias = type[Table] | type[_Deep]


def _model(kind: Kind, text: ToyText, seed: int, sharpness: float) -> Table | _Deep:
    """The model of a text."""
    model = kind(text.length, text.vocabulary, seed, sharpness=sharpness)
    if isinstance(model, Table):
        ends = () if text.end is None else (text.end,)
        model.task = replace(model.task, prompt_ids=text.prompt, eos_token_ids=ends)
    elif text.end is not None:
        model.task = replace(model.task, eos_token_ids=(text.end,))
    return model


def _decoding(
    subject: ConformanceCase, kind: Kind, text: ToyText
) -> tuple[Table | _Deep, Callable[[RandomSource], Decoder], Answer]:
    """Return the target, a factory of decoders, and the answers of the models.

    The target drafts where the settings choose so and the text allows it; else another model drafts.
    """
    target, same, small = (
        _model(kind, text, *row) for row in ((text.seed, text.sharpness), (text.seed, text.sharpness), text.drafter)
    )
    drafting = small if text.other_drafts or subject.drafting is subject.small else same
    answer = by_role({"target": target, "self": target, "draft": drafting})
    return target, lambda chance: subject.method.decode(target.task, subject.config, chance), answer


def _kind(subject: ConformanceCase) -> tuple[Kind, Sequence[ToyText]]:
    return (Table, CAUSAL) if subject.method.family == "discrete-ar" else (_Deep, BLOCKS)


def _enumerated(subject: ConformanceCase, *, counted: bool) -> _Part:
    """By enumeration of small texts; of more of them until every required event has occurred."""
    kind, texts = _kind(subject)
    events, further = DraftEvents(), (ALL_ACCEPTED, ENDED, UNLIKELY, LIKELY)
    worst, outcomes, largest, sizes = 0.0, 0, 0, list[str]()
    for text in chain(texts, _further(texts)):
        if len(sizes) >= len(texts) and not (counted and _untested(subject, events, further, MIN_PROBABILITY)):
            break
        walk = _walk(subject, kind, text)
        if walk is None:
            continue
        found, (probs, wanted) = walk
        events.include(found)
        error = largest_error(probs, wanted)
        if error >= EXACT:
            message = (
                f"TV {variation(probs, wanted):.2g}, largest error {error:.1g} over {len(wanted)} outcomes, {text}"
            )
            return _Part("enumerated", False, message, events)
        worst, outcomes, largest = max(worst, error), outcomes + len(wanted), max(largest, len(wanted))
        sizes.append(str(text))
    if not outcomes:
        message = f"more than {MAX_BRANCHES:,} branches on two positions cannot be enumerated"
        return _Part("enumerated", False, message, events)
    tv = enumerated_variation(EXACT, largest)
    rare = min(filter(None, (events.weight[event] for event in required(events, further))), default=1.0)
    return _Part(
        "enumerated",
        True,
        f"largest error {worst:.1g} over {outcomes} outcomes of {len(sizes)} tables, enumerated",
        events,
        _untested(subject, events, further, MIN_PROBABILITY) if counted else "",
        f"enumerated: a total variation of {tv:.0e}" + (f", {tv / rare:.0e} at the rarest event" if rare < 1 else ""),
    )


def _walk(
    subject: ConformanceCase, kind: Kind, text: ToyText
) -> tuple[DraftEvents, tuple[Distribution, Distribution]] | None:
    """The events, the method's distribution and the reference's, on the longest text that can be enumerated."""
    for length in range(text.length, 1, -1):
        shorter, events = replace(text, length=length), DraftEvents()
        # With many ids, what can be enumerated has fewer drafts in flight.
        drafts = min({2: 3, 3: 2}.get(text.vocabulary, 1), length - 1)
        maximum = {"window": drafts + 1, "gamma": drafts} if kind is Table else {}
        reduced = {
            name: min(k, getattr(subject.config, name)) for name, k in maximum.items() if hasattr(subject.config, name)
        }
        method = replace(subject.method, decode=observe(subject.method.decode, events))
        target, make, answer = _decoding(
            replace(subject, method=method, config=replace(subject.config, **reduced)), kind, shorter
        )
        try:
            probs = exact_distribution(make, answer, max_branches=MAX_BRANCHES)
        except TooManyBranchesError:
            continue
        except TooManyGumbelIdsError:
            return None
        task = target.task
        mask = getattr(task, "mask", None)
        cut: Distribution = {}
        for tokens, prob in probs.items():
            key = until_end(tokens, task.eos_token_ids, mask) if mask is not None else tokens
            cut[key] = cut.get(key, 0.0) + prob
        in_order = subject.method.reference(subject.config) == DRAFT_ORDER
        return events, (cut, _in_draft_order(subject, shorter) if in_order else target.joint())
    return None


def _tested(subject: ConformanceCase) -> _Part:
    """By samples of longer texts of more ids, with as many drafts in flight as fit, and of few ids after a prompt."""
    kind, _ = _kind(subject)
    maximum = {"window": LENGTH, "gamma": LENGTH - 1} if kind is Table else {}
    longer = {name: maximum[name] for name in maximum if name in subject.shortened}
    events, largest, samples = DraftEvents(), 0.0, 300 if kind is Table else 150
    decode = observe(subject.method.decode, events)
    subject = replace(subject, config=replace(subject.config, **longer), method=replace(subject.method, decode=decode))
    texts = (*SAMPLED, *REPEATING) if kind is Table else SAMPLED
    for text in texts:
        target, make, answer = _decoding(subject, kind, text)
        outputs = [run_decoder(make(SeededRandom(text.seed, i)), answer) for i in range(samples)]
        largest = max(largest, misfit(outputs, target.conditionals))
        if largest >= HIGHEST:
            message = f"z-scores of samples of {text} reach {largest:.2g}; by chance at most {HIGHEST:g}"
            return _Part("sampled", False, message, events)
    tv = sampled_variation(samples * LENGTH, CELLS, HIGHEST)
    return _Part(
        "sampled",
        True,
        f"z-scores of {samples * len(texts)} samples of {LENGTH} tokens of up to {VOCABULARY} ids reach {largest:.2g}",
        events,
        power=f"sampled: a total variation of {tv:.2f} of the tokens, with probability {FOUND:g}",
    )


def _in_draft_order(subject: ConformanceCase, text: ToyText) -> Distribution:
    """The distribution of the target, one token a pass at the open position of which the drafter is surest."""
    seed, sharpness = text.drafter
    target = ToyBlockModel(text.vocabulary, seed=text.seed, sharpness=text.sharpness)
    small = ToyBlockModel(text.vocabulary, seed=seed, sharpness=sharpness)
    drafter = small if text.other_drafts or subject.drafting is subject.small else replace(target)
    task = target.task(text.length, text.prompt, NO_END if text.end is None else text.end)
    probs: Distribution = {}
    todo: list[tuple[tuple[tuple[int, int], ...], float]] = [((), 1.0)]
    while todo:
        filled, weight = todo.pop()
        rows = [BlockSequence(task, subject.config.size) for _ in "12"]
        for row in rows:
            for position, token in filled:
                row.fill([position], [token])
        if rows[0].ended:
            key = until_end(tuple(rows[0].tokens[rows[0].prompt_length :].tolist()), task.eos_token_ids, task.mask)
            probs[key] = probs.get(key, 0.0) + weight
            continue
        open_ = rows[0].before_end(rows[0].tokens)
        p, q = (
            model.all_probs(row.request_open_positions(read=open_))[0]
            for model, row in zip((target, drafter), rows, strict=True)
        )
        surest = int(q.amax(-1).argmax())
        todo += [
            ((*filled, (int(open_[surest]), token)), weight * prob) for token, prob in enumerate(p[surest].tolist())
        ]
    return probs


def _texts(subject: ConformanceCase, *, counted: bool) -> _Part:
    """Likeliest tokens: the texts of several models are those of the reference, up to their end."""
    method, config = baseline(subject.method.family, {"length": subject.config.length, "mode": "greedy"})
    plain_name = "of one token a pass"
    if subject.method.reference(subject.config) == POLICY:
        values = {"rule": subject.config.policy, "threshold": subject.config.tau}
        values |= {"block": subject.config.block, "length": subject.config.length}
        method, plain_name = METHODS["blockwise"], "of the policy without drafts"
        config = make_config(method.config, values)
    events, differing, num_texts, tokens = DraftEvents(), 0, 0, 0
    watched = replace(subject.method, decode=observe(subject.method.decode, events))
    further = (ALL_ACCEPTED, ENDED)
    while num_texts < MIN_TEXTS or (
        counted and not differing and num_texts < MAX_TEXTS and _untested(subject, events, further, MIN_COUNT)
    ):
        agreed = num_texts, AGREED[num_texts % len(AGREED)]
        model, small = (
            DepthModel(seed, is_sure=num_texts // len(AGREED) % 2 == 1, agreed=agreed)
            for seed in (num_texts, num_texts + MAX_TEXTS)
        )
        job = replace(subject, model=model, small=small, method=watched).job(num_texts)
        text, plain = _text(job), _text(replace(job, method=method, config=config))
        differing, num_texts, tokens = differing + (text != plain), num_texts + 1, tokens + len(plain or "")
    count, negation = (differing, "not ") if differing else (num_texts, "")
    message = f"{count} of {num_texts} texts of likeliest tokens are {negation}those {plain_name}"
    return _Part(
        "compared",
        not differing,
        message,
        events,
        _untested(subject, events, further, MIN_COUNT) if counted else "",
        f"compared: wrong tokens at a rate of {compared_rate(tokens):.1g}, with probability {FOUND:g}",
    )


def _text(job: Job) -> str | None:
    (tokens,) = decoded([job])
    return job.model.render_output([token if token < len(NAMES) else None for token in tokens.tolist()]).text


def _sampled(subject: ConformanceCase, *, counted: bool) -> _Part:
    """Vectors: z-scores of what is left to chance in each cell."""
    events = DraftEvents()
    watched = replace(subject.method, decode=observe(subject.method.decode, events))
    first = replace(subject, method=watched).job()
    samples = torch.stack(decoded([replace(first, sample=i) for i in range(SAMPLES)]))
    square, largest = misfit_of_vectors(samples)
    message = f"z-scores of {SAMPLES} samples have mean square {square:.2g} and reach {largest:.2g}"
    if square >= SQUARE or largest >= LARGEST:
        return _Part("sampled", False, f"{message}; by chance 1, and at most {LARGEST}", events)
    shift = sampled_shift(SAMPLES * samples.shape[-1], LARGEST)
    return _Part(
        "sampled",
        True,
        f"{message}, as they do by chance",
        events,
        _untested(subject, events, (ALL_ACCEPTED, BONUS), MIN_COUNT) if counted else "",
        f"sampled: a mean shifted by {shift:.2f} standard deviations, or a correlation off by {shift:.2f}, "
        f"with probability {FOUND:g}",
    )


def misfit(texts: Sequence[tuple[int, ...]], conditionals: Callable[[tuple[int, ...]], Tensor]) -> float:
    """Return the largest statistic, as a z-score, of texts of one length N whose `conditionals` are [N, V].

    Given the tokens before it, a token x sampled from p has u = F(x - 1) + v p(x), with p's distribution function F and
    v uniform. If every token follows p, all u are uniform on (0, 1) and independent; Pearson's statistic of their
    counts in cells is chi-square distributed. It is computed over all tokens, position by position, and over pairs of
    neighbours, once with tokens ordered by id and once by probability.
    """
    probs = torch.stack([conditionals(text) for text in texts])  # [B, N, V]
    tokens = torch.tensor(texts)[..., None]
    order = probs.argsort(dim=-1, descending=True, stable=True)
    by_rank = probs.gather(-1, order), (order == tokens).long().argmax(-1, keepdim=True)
    scores = []
    for seed, (ordered, index) in enumerate(((probs, tokens), by_rank)):
        v = torch.rand(index.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        u = (ordered.cumsum(-1).gather(-1, index) - v * ordered.gather(-1, index)).squeeze(-1)
        pairs = (u[:, :-1] * PAIRED).long() * PAIRED + (u[:, 1:] * PAIRED).long()
        cells = (u * CELLS).long().clamp(0, CELLS - 1)
        scores += [_score(cells.flatten(), CELLS), _score(pairs.flatten().clamp(0, PAIRED**2 - 1), PAIRED**2)]
        scores += [_score(column, CELLS) for column in cells.T]
    return max(scores)


def _score(cells: Tensor, count: int) -> float:
    """Pearson's statistic of equally likely cells, as a standard normal number (Wilson and Hilferty 1931)."""
    expected = len(cells) / count
    square = float((torch.bincount(cells, minlength=count) - expected).square().sum()) / expected
    spread = 2 / (9 * (count - 1))
    return float(((square / (count - 1)) ** (1 / 3) - 1 + spread) / spread**0.5)
