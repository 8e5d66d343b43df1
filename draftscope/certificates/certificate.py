"""`draftscope certify`: is an engine lossless? Its texts of a known model against the exact distribution."""

import os
from dataclasses import asdict
from datetime import UTC, datetime
from math import log
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from jaxtyping import Float, Int64
from tqdm import tqdm

from draftscope.analysis.certificates import Certificate, Fit
from draftscope.certificates.evidence import FALSE_ALARM, FILTERS, MISSED, Bettor, defects, lookup_guesses
from draftscope.certificates.known_model import LENGTH, LETTERS, PROMPTS, Sampling, exact_logits, softmax
from draftscope.certificates.sources import Drawn, FunctionSource, Source, served
from draftscope.engines.runtime.environment import environment
from draftscope.engines.testing.chi_square import CELLS, HIGHEST, misfit
from draftscope.engines.testing.power import sampled_variation
from draftscope.servers.client import ServerClient, ServerError
from draftscope.traces import limits
from draftscope.traces.files import write_atomic

CERTIFIED, BIASED, UNDECIDED, REFUSED = "certified", "biased", "undecided", "refused"
TOKENS: Final = 64_000
"""Tokens that are drawn by default."""
MIN_EVENTS: Final = 50
"""Drafts that have to be accepted, and that have to be lost, for a certificate."""
COARSEST: Final = 0.1
"""The largest total variation that a certificate may leave open."""
FLOOR: Final = 0.002
"""Largest total variation of a token between the reference and llama.cpp's own float32 passes, measured on 400 texts;
nothing smaller is claimed."""
_FIRST, _BATCH = 16, 64
"""Texts that are drawn before the first look, and before each further one."""
_FURTHER: Final = 1024
"""Tokens after a bias is found, to tell which defect it is."""
_EDGE: Final = 0.01, 0.002
"""Relative size of a probability, and size of `top_p`, by which a token at the edge of the filters may be off."""
_FITS: Final = 100.0
"""Factor by which a defect must explain tokens better than the exact distribution to be named."""


def write_certificate(certificate: Certificate, path: str | os.PathLike[str]) -> None:
    """Write a certificate to a file.

    Args:
        certificate: The certificate.
        path: File, whose ending chooses JSON or, if it is .html, a page with pictures.

    Raises:
        ValueError: For another ending.
        OSError: If the file cannot be written.
    """
    target = check_path(path)
    if target.suffix == ".html":
        from draftscope.visualizers.certificate_page import certificate_page

        write_atomic(target, certificate_page(certificate).encode())
    else:
        write_atomic(target, certificate.dumps())


def check_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a certificate; raises ValueError if its name has another ending."""
    target = Path(path)
    if target.suffix not in (".json", ".html"):
        raise ValueError(f"path: {target.name!r} must end in .json or .html.")
    return target


def certify(
    engine: Any,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    tokens: int = TOKENS,
    **options: Any,
) -> Certificate:
    """Compare an engine's texts with the exact distribution of the model that it serves.

    Args:
        engine: A function of prompt ids, length and seed that returns the new ids, or ids with the drafted and the
            accepted drafts; a source of `draftscope.certificates.sources`; or the address of a server of the known
            model (`draftscope certify --write FOLDER` writes it).
        temperature: Of the sampling.
        top_k: Likeliest tokens that are kept; 0 for all.
        top_p: Mass of likeliest tokens that is kept.
        tokens: Tokens to draw, unless a bias is found before.
        options: `seed` of the first text; `drafter`, "model" or "lookup", which a server uses; `progress=True`.

    Returns:
        The verdict, the number of tokens that it rests on, and the defect that fits best where a bias was found.

    Raises:
        ValueError: For a server that does not answer, another model, or an engine that ignores the seed.
    """
    seed, progress = options.pop("seed", 0), options.pop("progress", False)
    drafter = options.pop("drafter", "")
    if options:
        raise TypeError(f"{min(options)}: is not an option of certify; there are drafter, progress, seed.")
    if tokens < LENGTH:
        raise ValueError(f"tokens: {tokens} is not allowed; use {LENGTH} or more.")
    if isinstance(engine, str):
        with ServerClient(engine) as client:
            about: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "tokens": tokens}
            return certify(served(client, drafter), **about, seed=seed, progress=progress)
    source: Source = engine
    if callable(engine) and not hasattr(engine, "draw"):
        source = FunctionSource(engine, getattr(engine, "__name__", "function"), drafter=drafter or "model")
    judge = _Judge(source, Sampling(temperature, top_k, top_p))
    wanted = -(-tokens // LENGTH)
    with tqdm(total=wanted * LENGTH, disable=not progress, unit="token", desc="certify") as bar:
        while judge.texts < wanted and not judge.is_done:
            size = min(_FIRST if not judge.texts else _BATCH, wanted - judge.texts)
            try:
                judge.take(range(seed + judge.texts, seed + judge.texts + size))
            except (KeyboardInterrupt, ServerError) as error:
                if not judge.texts:
                    raise
                judge.ended = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error).rstrip(".")
                break
            bar.update(size * LENGTH)
    return judge.certificate()


class _Judge:
    """Collects texts of an engine and the evidence in them."""

    def __init__(self, source: Source, sampling: Sampling) -> None:
        self._source, self._sampling = source, sampling
        self._bettor = Bettor()
        self._rows: list[tuple[tuple[int, ...], Float[np.ndarray, "N V"]]] = []
        self._drafted = self._accepted = self._forbidden = 0
        self._prompts: list[str] = []
        self.ended = ""
        """Why it ended before all tokens were drawn; empty if it did not."""

    @property
    def texts(self) -> int:
        """Texts so far."""
        return len(self._rows)

    @property
    def is_biased(self) -> bool:
        """Whether the sequential test has found a bias, or a token came that cannot come."""
        return self._bettor.found_after is not None or self._forbidden > 0

    @property
    def is_done(self) -> bool:
        """Whether a bias was found, and enough tokens came after it to tell which."""
        first = self._bettor.found_after
        return self._forbidden > 0 or (first is not None and self._bettor.tokens >= first + _FURTHER)

    def take(self, seeds: range) -> None:
        """Draw texts with these seeds and weigh them."""
        prompts = [PROMPTS[seed % len(PROMPTS)] for seed in seeds]
        drawn = self._source.draw(prompts, seeds, LENGTH, self._sampling)
        texts = self._checked(drawn)
        logits = exact_logits("target", prompts, texts)
        p = self._filtered(logits)
        self._forbidden += self._count_forbidden(texts, logits, p)
        self._rows += [(tuple(text), row) for text, row in zip(texts.tolist(), p, strict=True)]
        self._prompts += prompts
        self._refuse_repeats()
        self._drafted += drawn.drafted
        self._accepted += drawn.accepted
        alternatives = defects(_flat(p), _flat(self._drafts(prompts, texts, p)), self._unfiltered(logits))
        flat = texts.reshape(-1)
        is_possible = np.take_along_axis(_flat(p), flat[:, None], -1)[:, 0] > 0
        chosen = {name: d[is_possible] for name, d in alternatives.items()}
        self._bettor.bet(flat[is_possible], _flat(p)[is_possible], chosen)

    def _checked(self, drawn: Drawn) -> Int64[np.ndarray, "B N"]:
        for text in drawn.texts:
            if len(text) != LENGTH:
                problem = f"gave {len(text)} tokens where {LENGTH} were requested"
                raise ValueError(f"engine: {problem}; let it ignore the end of the sequence.")
            if wrong := next((token for token in text if not 0 <= token < len(LETTERS)), None):
                raise ValueError(f"engine: gave the id {wrong}, which the known model does not have; serve that model.")
        return np.array(drawn.texts, dtype=np.int64)

    def _refuse_repeats(self) -> None:
        """Raise ValueError if all texts of each prompt are equal."""
        if self.texts >= _FIRST:
            different = {(prompt, text) for prompt, (text, _) in zip(self._prompts, self._rows, strict=True)}
            if len(different) == len(set(self._prompts)):
                remedy = "let it sample, with the seed of the request"
                raise ValueError(f"engine: gives one text for each prompt whatever the seed; {remedy}.")

    def _filtered(self, logits: Float[np.ndarray, "B N V"]) -> Float[np.ndarray, "B N V"]:
        return self._sampling.apply(logits, temperature_last=self._source.temperature_last)

    def _unfiltered(self, logits: Float[np.ndarray, "B N V"]) -> Float[np.ndarray, "T V"] | None:
        """The distribution without the filters."""
        if not self._sampling.filters:
            return None
        return _flat(softmax(logits / self._sampling.temperature))

    def _drafts(
        self, prompts: list[str], texts: Int64[np.ndarray, "B N"], p: Float[np.ndarray, "B N V"]
    ) -> Float[np.ndarray, "B N V"]:
        """The distribution of drafts: the drafter's, or one-hot for a lookup, and p where nothing is looked up."""
        if self._source.drafter != "lookup":
            return self._filtered(exact_logits("draft", prompts, texts))
        guesses = lookup_guesses(prompts, texts, LETTERS)[..., None]
        return np.where(guesses >= 0, np.eye(len(LETTERS))[np.maximum(guesses[..., 0], 0)], p)

    def _count_forbidden(
        self, texts: Int64[np.ndarray, "B N"], logits: Float[np.ndarray, "B N V"], p: Float[np.ndarray, "B N V"]
    ) -> int:
        """Tokens of probability 0 that are not at the edge of the filters, where rounding decides."""
        at = texts[..., None]
        is_out = np.take_along_axis(p, at, -1)[..., 0] == 0
        if not is_out.any():
            return 0
        raised = logits[is_out].copy()
        chosen = at[is_out]
        np.put_along_axis(raised, chosen, np.take_along_axis(raised, chosen, -1) + _EDGE[0], -1)
        wider = Sampling(self._sampling.temperature, self._sampling.top_k, min(1.0, self._sampling.top_p + _EDGE[1]))
        wider_probs = wider.apply(raised, temperature_last=self._source.temperature_last)
        return int((np.take_along_axis(wider_probs, chosen, -1) == 0).sum())

    def certificate(self) -> Certificate:
        """Return the verdict on all texts."""
        texts = [text for text, _ in self._rows]
        p = np.stack([row for _, row in self._rows])
        rows = (torch.from_numpy(row) for _, row in self._rows)
        score = None if self.is_biased else misfit(texts, lambda _: next(rows))
        fits = self._bettor.fits()
        variation = max(FLOOR, sampled_variation(p.shape[0] * LENGTH, CELLS, HIGHEST))
        verdict, reason = self._verdict(score, fits, variation)
        if self.ended:
            reason = f"{reason.rstrip('.')}; ended early: {self.ended}."[: limits.NAME_CHARACTERS]
        counts = self._source.counts
        ids = np.array(texts)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        return Certificate(
            engine=self._source.name,
            verdict=verdict,
            reason=reason,
            total_variation=None if verdict == BIASED else variation,
            defect=self._defect(fits) if verdict == BIASED else "",
            found_after=self._bettor.found_after,
            texts=len(texts),
            tokens=ids.size,
            drafted=self._drafted if counts else None,
            accepted=self._accepted if counts else None,
            sampling=asdict(self._sampling),
            score=score,
            forbidden=self._forbidden,
            fits=tuple(fits),
            curve=tuple(self._bettor.curve),
            expected=_nested(p.mean(0)),
            observed=_nested(np.eye(len(LETTERS))[ids].mean(0)),
            spread=_nested(np.sqrt((p * (1 - p)).sum(0)) / len(texts)),
            false_alarm=FALSE_ALARM,
            missed=MISSED,
            about={"created": created, **asdict(environment(torch.device("cpu"), torch.float32))},
        )

    def _verdict(self, score: float | None, fits: list[Fit], variation: float) -> tuple[Any, str]:
        if self._forbidden:
            return BIASED, f"{self._forbidden} tokens came that the filters exclude."
        defect = self._defect(fits)
        fit = f"what fits best: {defect}" if defect else "no known defect fits"
        if self._bettor.found_after is not None:
            return BIASED, f"found after {self._bettor.found_after} tokens; {fit}."
        if score is not None and score > HIGHEST:
            return BIASED, f"frequencies of tokens are off by {score:.1f} standard deviations; {fit}."
        agrees = f"no difference found; a total variation of {variation:.3f} per token would have been found"
        if not self._source.counts:
            return UNDECIDED, f"the engine does not count drafts, so it may have verified none; {agrees}."
        if not self._drafted:
            return REFUSED, f"no draft was verified, so nothing can be certified; {agrees}."
        lost = self._drafted - self._accepted
        if min(self._accepted, lost) < MIN_EVENTS:
            return UNDECIDED, f"only {self._accepted} drafts were accepted and {lost} lost; draw more tokens; {agrees}."
        if variation > COARSEST:
            return UNDECIDED, f"too few tokens: only a total variation of {variation:.2f} would have been found."
        return CERTIFIED, f"to a total variation of {variation:.3f} per token."

    def _defect(self, fits: list[Fit]) -> str:
        """The known defect that explains the tokens; empty if none does."""
        if self._forbidden:
            return FILTERS
        return fits[0].name if fits[0].log_wealth > log(_FITS) else ""


def _flat(rows: Float[np.ndarray, "B N V"]) -> Float[np.ndarray, "T V"]:
    return rows.reshape(-1, rows.shape[-1])


def _nested(rows: Float[np.ndarray, "N V"]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(round(float(value), 6) for value in row) for row in rows)
