"""How far a method's output distribution is from ordinary decoding's: enumerated where it can be, and sampled.

Short texts of discrete tokens are enumerated, with all branches, and equal means up to 1e-12. What such tables are too
small for (many ids, long texts, as many drafts as settings allow) is sampled and put to chi-square tests. Likeliest
tokens leave no branches: their texts are compared on several models. Tokens that are vectors are sampled and put to a
test that is known to fail: with 600 fields of 8 cells and 3 components, a mean off by a tenth of a standard deviation
has a z-score of 4.2, and replacements drawn from the target in place of the residual raise the mean square above 3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

import torch
from torch import Tensor

from engines.methods import baseline
from engines.protocol import Decoder
from engines.runtime.driver import Job
from engines.sampling.random_source import RandomSource, SeededRandom
from engines.testing.case import ConformanceCase, decoded
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
from engines.testing.toy_models import NAMES, DepthModel, Table, ToyBlockModel
from engines.testing.toy_models import misfit as misfit_of_vectors

EXACT: Final = 1e-12
MAX_BRANCHES: Final = 20_000
TEXTS: Final = 8
"""Models on which likeliest tokens are compared."""
SAMPLES: Final = 600
LENGTH, VOCABULARY = 10, 24
"""Length and vocabulary size of sampled texts."""
PAIRS: Final = ((0, 0, 4.0), (1, 1, 4.0), (2, 3, 2.0), (3, 4, 2.0))
"""Seeds of target and drafter, and the drafter's sharpness: two drafters that agree with their target, and two that do
not."""
CELLS: Final = 16
PAIRED: Final = 6
"""Cells a side for pairs of neighbours."""
HIGHEST: Final = 5.0
"""Bound of the z-scores of sampled texts; a right distribution passes it with a probability of more than 0.9999."""
SQUARE, LARGEST = 1.9, 4.5
"""Bounds of the mean square and the largest of 44 z-scores. A right distribution passes either with a probability of
more than 0.9995."""


@dataclass(frozen=True, slots=True)
class ExactnessResult:
    """Result of a comparison with the baseline."""

    holds: bool
    message: str


def proof(subject: ConformanceCase, *, sampled: bool = True) -> ExactnessResult:
    """Compare a method with ordinary decoding as its family allows, if `sampled` on samples of longer texts, too."""
    if subject.method.family == "continuous-ar":
        return _sampled(subject)
    causal = subject.method.family == "discrete-ar"
    if not causal and subject.config.mode == "greedy":
        return _texts(subject)
    walked = _walked(subject, Table, ((4, 2), (2, 7))) if causal else _walked(subject, _Deep, ((3, 2), (2, 4)))
    if not (sampled and walked.holds):
        return walked
    return _tested(subject, Table, 2 * SAMPLES, walked) if causal else _tested(subject, _Deep, SAMPLES, walked)


class _Deep:
    """A `ToyBlockModel` whose texts have one length, as those of a `Table` have."""

    def __init__(self, length: int, vocabulary: int, seed: int, *, sharpness: float = 2.0) -> None:
        depth = ToyBlockModel(vocabulary, seed=seed, sharpness=sharpness)
        self.task, self.forward, self.conditionals = depth.task(length), depth.forward, replace(depth).conditionals
        self.joint = partial(replace(depth).joint, length)


Kind: TypeAlias = type[Table] | type[_Deep]


def _decoding(
    subject: ConformanceCase, target: Table | _Deep, target_as_drafter: Table | _Deep, small: Table | _Deep
) -> tuple[Callable[[RandomSource], Decoder], Answer]:
    """Return a factory of decoders, and the answers of its models.

    `small` drafts, or the target, which is `target_as_drafter` then.
    """
    drafting = small if subject.drafting is subject.small else target_as_drafter
    answer = by_role({"target": target, "self": target, "draft": drafting})
    return lambda chance: subject.method.decode(target.task, subject.config, chance), answer


def _walked(subject: ConformanceCase, model: Kind, shapes: Sequence[tuple[int, int]]) -> ExactnessResult:
    """By enumeration, of some positions with few tokens and of fewer with more; of what is too much, one less."""
    worst, outcomes, sizes = 0.0, 0, list[str]()
    for length, vocabulary in shapes:
        distributions = _walk(subject, model, length, vocabulary)
        if distributions is None:
            continue
        probs, wanted = distributions
        sizes.append(f"{len(next(iter(wanted)))} tokens of {vocabulary} ids")
        error = largest_error(probs, wanted)
        if error >= EXACT:
            message = f"TV {variation(probs, wanted):.2g}, largest error {error:.1g} over {len(wanted)} outcomes"
            return ExactnessResult(False, message)
        worst, outcomes = max(worst, error), outcomes + len(wanted)
    if not outcomes:
        return ExactnessResult(False, f"more than {MAX_BRANCHES:,} branches on two positions cannot be enumerated")
    return ExactnessResult(
        True, f"largest error {worst:.1g} over {outcomes} outcomes, enumerated for {' and '.join(sizes)}"
    )


def _walk(
    subject: ConformanceCase, model: Kind, length: int, vocabulary: int
) -> tuple[Distribution, Distribution] | None:
    """The method's distribution and ordinary decoding's, on the longest text that can be walked."""
    if model is Table and vocabulary > 2:  # with many tokens, what can be walked has one draft in flight
        maximum = {"window": 2, "gamma": 1}
        reduced = {
            name: min(maximum[name], getattr(subject.config, name)) for name in maximum if hasattr(subject.config, name)
        }
        subject = replace(subject, config=replace(subject.config, **reduced))
    for fewer in range(length, 1, -1):
        target, self_model, small = (model(fewer, vocabulary, seed) for seed in (3, 3, 4))
        make, answer = _decoding(subject, target, self_model, small)
        try:
            return exact_distribution(make, answer, max_branches=MAX_BRANCHES), target.joint()
        except TooManyBranchesError:
            continue
        except TooManyGumbelIdsError:
            return None
    return None


def _tested(subject: ConformanceCase, model: Kind, samples: int, walked: ExactnessResult) -> ExactnessResult:
    """By samples of longer texts of more ids, with as many drafts in flight as fit."""
    maximum = {"window": LENGTH, "gamma": LENGTH - 1}
    subject = replace(
        subject,
        config=replace(subject.config, **{name: maximum[name] for name in maximum if name in subject.shortened}),
    )
    largest = 0.0
    for seed, other, sharpness in PAIRS:
        target, self_model = (model(LENGTH, VOCABULARY, seed) for _ in "12")
        small = model(LENGTH, VOCABULARY, other, sharpness=sharpness)
        make, answer = _decoding(subject, target, self_model, small)
        texts = [run_decoder(make(SeededRandom(seed, i)), answer) for i in range(samples // len(PAIRS))]
        largest = max(largest, misfit(texts, target.conditionals))
        if largest >= HIGHEST:
            message = f"z-scores of samples of {LENGTH} tokens of {VOCABULARY} ids reach {largest:.2g}"
            return ExactnessResult(False, f"{message}; by chance at most {HIGHEST:g}")
    message = f"z-scores of {samples} samples of {LENGTH} tokens of {VOCABULARY} ids reach {largest:.2g}"
    return ExactnessResult(True, f"{walked.message}; {message}")


def _texts(subject: ConformanceCase) -> ExactnessResult:
    """Likeliest tokens: the texts of several models are those of ordinary decoding, up to their end."""
    method, config = baseline(subject.method.family, {"length": subject.config.length, "mode": "greedy"})
    other = 0
    for seed in range(TEXTS):
        model, small = DepthModel(seed), DepthModel(seed + TEXTS)
        job = replace(subject, model=model, small=small).job(seed)
        plain = replace(job, method=method, config=config)
        other += _text(job) != _text(plain)
    if other:
        return ExactnessResult(False, f"{other} of {TEXTS} texts of likeliest tokens are not those of one token a pass")
    return ExactnessResult(True, f"{TEXTS} of {TEXTS} texts of likeliest tokens are those of one token a pass")


def _text(job: Job) -> str | None:
    (tokens,) = decoded([job])
    return job.model.render_output([token if token < len(NAMES) else None for token in tokens.tolist()]).text


def _sampled(subject: ConformanceCase) -> ExactnessResult:
    """Vectors: z-scores of what is left to chance in each cell."""
    first = subject.job()
    samples = torch.stack(decoded([replace(first, sample=i) for i in range(SAMPLES)]))
    square, largest = misfit_of_vectors(samples)
    message = f"z-scores of {SAMPLES} samples have mean square {square:.2g} and reach {largest:.2g}"
    if square < SQUARE and largest < LARGEST:
        return ExactnessResult(True, f"{message}, as they do by chance")
    return ExactnessResult(False, f"{message}; by chance 1, and at most {LARGEST}")


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
