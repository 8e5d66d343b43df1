"""Comparisons of a method with its reference: by enumeration, by samples, or text by text.

Every comparison returns what it found and what happened to the drafts, table by table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Final

import torch

from draftscope.engines.diffusion_lm.block_sequence import BlockSequence
from draftscope.engines.methods import METHODS, baseline
from draftscope.engines.methods.method import DRAFT_ORDER, POLICY
from draftscope.engines.protocol import Decoder
from draftscope.engines.runtime.driver import Job
from draftscope.engines.sampling.random_source import RandomSource, SeededRandom
from draftscope.engines.settings import make_config
from draftscope.engines.testing.case import ConformanceCase, decoded
from draftscope.engines.testing.chi_square import CELLS, HIGHEST, misfit
from draftscope.engines.testing.draft_events import (
    ALL_ACCEPTED,
    BONUS,
    ENDED,
    LIKELY,
    UNLIKELY,
    DraftEvents,
    observe,
    required,
)
from draftscope.engines.testing.enumeration import (
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
from draftscope.engines.testing.power import (
    FOUND,
    compared_rate,
    enumerated_variation,
    sampled_shift,
    sampled_variation,
)
from draftscope.engines.testing.toy_models import (
    NAMES,
    NO_END,
    DepthModel,
    Table,
    ToyBlockModel,
    share_of_drafter,
    until_end,
)
from draftscope.engines.testing.toy_models import misfit as misfit_of_vectors
from draftscope.engines.testing.toy_texts import (
    BLOCKS,
    CAUSAL,
    LENGTH,
    REPEATING,
    SAMPLED,
    VOCABULARY,
    BlockTable,
    Kind,
    ToyText,
    build_model,
    more_texts,
)

EXACT: Final = 1e-12
MAX_BRANCHES: Final = 20_000
MIN_PROBABILITY: Final = 0.001
"""Probability per text that each required event must have on one of the enumerated tables."""
MIN_COUNT: Final = 20
"""Occurrences that each required event must have in texts that are not enumerated."""
MIN_TEXTS, MAX_TEXTS = 8, 600
"""Models on which likeliest tokens are compared."""
FEW_TEXTS: Final = 4
"""Texts that are enumerated where events are not counted."""
AGREED: Final = (0.0, 0.5, 0.75)
"""Shares of positions at which a drafter agrees with its target, one after the other, so that long runs of drafts are
accepted and long ones are rejected."""
SAMPLES, FEW_SAMPLES = 600, 200
"""Samples of vectors, and of those whose events are not counted."""
SQUARE, LARGEST = 1.9, 4.5
"""Bounds of the mean square and the largest of 44 z-scores. A right distribution passes either with a probability of
more than 0.9995."""
MORE_SAMPLES, MAX_SHARE = 2400, 4.0
"""Samples for one z-score, of the share that follows the drafter, and its bound."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of one kind of comparison."""

    name: str
    holds: bool
    message: str
    texts: Sequence[tuple[str, DraftEvents]]
    """Tables in words, and what happened to the drafts there."""
    untested: str = ""
    """Events that are needed and did not occur often enough; empty if none."""
    power: str = ""
    """The smallest bias that would have been found."""
    events: DraftEvents = field(init=False)
    """The events of all texts together."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", total_of(self.texts))


def total_of(texts: Sequence[tuple[str, DraftEvents]]) -> DraftEvents:
    """Return the events of all texts together."""
    total = DraftEvents()
    for _, events in texts:
        total.include(events)
    return total


def is_baseline(subject: ConformanceCase) -> bool:
    """Return whether the method is ordinary decoding, which makes no drafts."""
    return subject.method.decode is baseline(subject.method.family, {})[0].decode


def missing_events(subject: ConformanceCase, events: DraftEvents, further: Sequence[str], minimum: float) -> str:
    """Return the required events that did not reach the minimum, in words; empty if all did.

    Args:
        subject: Method and settings; ordinary decoding makes no drafts.
        events: What happened.
        further: Events without a draft position that must occur.
        minimum: Probability per text below 1, or else occurrences.
    """
    if is_baseline(subject):
        return ""
    if not events.reach:
        return "nothing was tested: no draft was made; choose settings under which short texts have drafts"
    values, unit = (events.weight, "probability") if minimum < 1 else (events.count, "occurrences")
    missing = [event for event in required(events, further) if values[event] < minimum]
    lines = [f"{event} ({unit} {values[event]:.2g}, {minimum:g} needed)" for event in missing]
    return f"nothing was tested about drafts {', '.join(lines)}" if lines else ""


def _observed(subject: ConformanceCase, events: DraftEvents) -> ConformanceCase:
    """Return the case with a decoder whose texts add their events to `events`."""
    return replace(subject, method=replace(subject.method, decode=observe(subject.method.decode, events)))


def _decoding(
    subject: ConformanceCase, kind: Kind, text: ToyText
) -> tuple[Table | BlockTable, Callable[[RandomSource], Decoder], Answer]:
    """Return the target, a factory of decoders, and the answers of the models.

    The target drafts where the settings choose so and the text allows it; else another model drafts.
    """
    target, same, small = (
        build_model(kind, text, *row)
        for row in ((text.seed, text.sharpness), (text.seed, text.sharpness), text.drafter)
    )
    drafting = small if text.other_drafts or subject.drafting is subject.small else same
    answer = by_role({"target": target, "self": target, "draft": drafting})
    return target, lambda rng: subject.method.decode(target.task, subject.config, rng), answer


def _kind(subject: ConformanceCase) -> tuple[Kind, Sequence[ToyText]]:
    if subject.method.family == "discrete-ar":
        return Table, CAUSAL
    return partial(BlockTable, shift=subject.method.shifted), BLOCKS


def enumerate_texts(subject: ConformanceCase, *, counted: bool, seed: int) -> Comparison:
    """Compare a method with the reference by enumeration of small texts.

    Args:
        subject: Method under some settings.
        counted: Whether to go on until every required event has occurred; else a few are enough.
        seed: Number of the texts and samples: another one compares others.
    """
    kind, texts = _kind(subject)
    texts = texts if counted else texts[:FEW_TEXTS]
    further, walked = (ALL_ACCEPTED, ENDED, UNLIKELY, LIKELY), list[tuple[str, DraftEvents]]()
    events, worst, outcomes, largest = DraftEvents(), 0.0, 0, 0
    for small_text in chain(texts, more_texts(texts)):
        text = small_text.numbered(seed)
        if len(walked) >= len(texts) and not (counted and missing_events(subject, events, further, MIN_PROBABILITY)):
            break
        if len(walked) >= 2 * len(texts) and not events.reach:
            break  # other models would not change that
        walk = _walk(subject, kind, text)
        if walk is None:
            continue
        found, (probs, wanted) = walk
        events.include(found)
        walked.append((str(text), found))
        error = largest_error(probs, wanted)
        if error >= EXACT:
            message = (
                f"TV {variation(probs, wanted):.2g}, largest error {error:.1g} over {len(wanted)} outcomes, {text}"
            )
            return Comparison("enumerated", False, message, walked)
        worst, outcomes, largest = max(worst, error), outcomes + len(wanted), max(largest, len(wanted))
    if not outcomes:
        message = f"more than {MAX_BRANCHES:,} branches on two positions cannot be enumerated"
        return Comparison("enumerated", False, message, walked)
    tv = enumerated_variation(EXACT, largest)
    rare = min(filter(None, (events.weight[event] for event in required(events, further))), default=1.0)
    return Comparison(
        "enumerated",
        True,
        f"largest error {worst:.1g} over {outcomes} outcomes of {len(walked)} tables, enumerated",
        walked,
        missing_events(subject, events, further, MIN_PROBABILITY) if counted else "",
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
        smaller = _observed(replace(subject, config=replace(subject.config, **reduced)), events)
        target, make, answer = _decoding(smaller, kind, shorter)
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


def sample_texts(subject: ConformanceCase, seed: int) -> Comparison:
    """Compare a method with the reference by samples of longer texts.

    The texts have more ids and as many drafts in flight as fit; some have few ids after a prompt.

    Args:
        subject: Method under some settings.
        seed: Number of the texts and samples: another one compares others.
    """
    kind, _ = _kind(subject)
    maximum = {"window": LENGTH, "gamma": LENGTH - 1} if kind is Table else {}
    longer = {name: maximum[name] for name in maximum if name in subject.shortened}
    decoded_texts, largest, samples = list[tuple[str, DraftEvents]](), 0.0, 300 if kind is Table else 150
    subject = replace(subject, config=replace(subject.config, **longer))
    texts = (*SAMPLED, *REPEATING) if kind is Table else SAMPLED
    for text in (each.numbered(seed) for each in texts):
        decoded_texts.append((str(text), events := DraftEvents()))
        target, make, answer = _decoding(_observed(subject, events), kind, text)
        outputs = [run_decoder(make(SeededRandom(text.seed, i)), answer) for i in range(samples)]
        largest = max(largest, misfit(outputs, target.conditionals))
        if largest >= HIGHEST:
            message = f"z-scores of samples of {text} reach {largest:.2g}; by chance at most {HIGHEST:g}"
            return Comparison("sampled", False, message, decoded_texts)
    tv = sampled_variation(samples * LENGTH, CELLS, HIGHEST)
    return Comparison(
        "sampled",
        True,
        f"z-scores of {samples * len(texts)} samples of {LENGTH} tokens of up to {VOCABULARY} ids reach {largest:.2g}",
        decoded_texts,
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


def compare_texts(subject: ConformanceCase, *, counted: bool, seed: int) -> Comparison:
    """Compare the most likely texts of several models with those of the reference, up to their end.

    Args:
        subject: Method under some settings.
        counted: Whether to go on until every required event has occurred; else a few are enough.
        seed: Number of the texts and samples: another one compares others.
    """
    method, config = baseline(subject.method.family, {"length": subject.config.length, "mode": "greedy"})
    plain_name = "of one token a pass"
    if subject.method.reference(subject.config) == POLICY:
        values = {"rule": subject.config.policy, "threshold": subject.config.tau}
        values |= {"block": subject.config.block, "length": subject.config.length}
        method, plain_name = METHODS["blockwise"], "of the policy without drafts"
        config = make_config(method.config, values)
    events, differing, num_texts, tokens = DraftEvents(), 0, 0, 0
    observed, further = _observed(subject, events), (ALL_ACCEPTED, ENDED)
    while num_texts < MIN_TEXTS or (
        counted and not differing and num_texts < MAX_TEXTS and missing_events(subject, events, further, MIN_COUNT)
    ):
        number = num_texts + 2 * MAX_TEXTS * seed
        agreed = number, AGREED[num_texts % len(AGREED)]
        model, small = (
            DepthModel(i, shift=subject.method.shifted, is_sure=num_texts // len(AGREED) % 2 == 1, agreed=agreed)
            for i in (number, number + MAX_TEXTS)
        )
        job = replace(observed, model=model, small=small).job(num_texts)
        text, plain = _text(job), _text(replace(job, method=method, config=config))
        differing, num_texts, tokens = differing + (text != plain), num_texts + 1, tokens + len(plain or "")
    count, negation = (differing, "not ") if differing else (num_texts, "")
    message = f"{count} of {num_texts} texts of likeliest tokens are {negation}those {plain_name}"
    return Comparison(
        "compared",
        not differing,
        message,
        [(f"{num_texts} models of {len(NAMES)} ids", events)],
        missing_events(subject, events, further, MIN_COUNT) if counted else "",
        f"compared: wrong tokens at a rate of {compared_rate(tokens):.1g}, with probability {FOUND:g}",
    )


def _text(job: Job) -> str | None:
    (tokens,) = decoded([job])
    return job.model.render_output([token if token < len(NAMES) else None for token in tokens.tolist()]).text


def sample_vectors(subject: ConformanceCase, *, counted: bool, seed: int) -> Comparison:
    """Compare vectors with the reference by z-scores of what is left to chance in each cell.

    Args:
        subject: Method under some settings.
        counted: Whether to go on until every required event has occurred; else a few are enough.
        seed: Number of the texts and samples: another one compares others.
    """
    events = DraftEvents()
    first = _observed(subject, events).job(seed)
    count = SAMPLES if counted else FEW_SAMPLES
    samples = torch.stack(decoded([replace(first, sample=i) for i in range(count)]))
    square, largest = misfit_of_vectors(samples)
    name = f"{samples.shape[1]} vectors of {samples.shape[2]} numbers"
    message = f"z-scores of {count} samples have mean square {square:.2g} and reach {largest:.2g}"
    if square >= SQUARE or largest >= LARGEST:
        return Comparison("sampled", False, f"{message}; by chance 1, and at most {LARGEST}", [(name, events)])
    shift = sampled_shift(count * samples.shape[-1], LARGEST)
    return Comparison(
        "sampled",
        True,
        f"{message}, as they do by chance",
        [(name, events)],
        missing_events(subject, events, (ALL_ACCEPTED, BONUS), MIN_COUNT) if counted else "",
        f"sampled: a mean shifted by {shift:.2f} standard deviations, or a correlation off by {shift:.2f}, "
        f"with probability {FOUND:g}",
    )


def sample_drafter_share(subject: ConformanceCase, seed: int) -> Comparison:
    """Estimate from more samples the share of vectors that follow the drafter instead of the target.

    Args:
        subject: Method under some settings.
        seed: Number of the texts and samples: another one compares others.
    """
    events = DraftEvents()
    first = _observed(subject, events).job(seed)
    share, error = share_of_drafter(torch.stack(decoded([replace(first, sample=i) for i in range(MORE_SAMPLES)])))
    message = f"of {MORE_SAMPLES} samples {100 * share:.1f} ± {100 * error:.2g} % follow the drafter"
    holds = abs(share) < MAX_SHARE * error
    return Comparison(
        "sampled",
        holds,
        message if holds else f"{message}; by chance at most {MAX_SHARE:g} standard errors",
        [(f"{MORE_SAMPLES} samples", events)],
        power=f"sampled: {100 * sampled_shift(1, MAX_SHARE) * error:.1f} % of the tokens drawn from the drafter, "
        f"with probability {FOUND:g}",
    )
