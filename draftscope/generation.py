"""One `generate` as its forward passes tell it, and the trace that they make."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
from torch import Tensor

from draftscope.builder import TraceBuilder
from draftscope.trace import Trace
from engines.models.checkpoints.causal_lm import CausalLM
from engines.runtime.environment import environment
from traces import Call, Fate, Milliseconds

_TOP: Final = 5
_NOTE: Final = (
    "Recorded from generate. p and q are the networks' own probabilities, before the temperature and truncation that "
    "generate applied."
)
_LOST: Final = (
    " The last token was drawn behind the last pass and is unknown: trace(output) takes what generate returned."
)

Best = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Drafted:
    """A pass of the drafter."""

    fed: int
    logits: Tensor | None
    """Of the token behind those fed [V]."""
    prepare: float
    """Milliseconds since the pass before."""
    forward: float
    """Milliseconds."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A pass of the target, with those of the drafter before it."""

    batch: int
    fed: tuple[int, ...]
    """Ids that were fed; drafts last."""
    start: int
    """Tokens that the cache held before."""
    kept: int | None
    """Logits that were asked for: one more than there are drafts. None where the model cannot leave any out."""
    drafts: tuple[Drafted, ...]
    p: tuple[float, ...]
    """Probability of every fed token but the first, as far as logits were kept, by the logits before it."""
    q: tuple[float, ...]
    best: tuple[Best, ...]
    """Likeliest tokens behind each of the last tokens fed, one more than there are drafts."""
    draft_best: tuple[Best, ...]
    prepare: float
    forward: float

    @classmethod
    def of(
        cls, fed: Sequence[Sequence[int]], start: int, kept: int | None, logits: Tensor, drafts: Sequence[Drafted],
        spent: tuple[float, float],
    ) -> "Verified":  # fmt: skip
        """What is kept of a pass: a few numbers of its logits."""
        row = tuple(fed[0]) if fed else ()
        rows = logits[0].detach()
        # Without a number all positions have logits; those of the prompt are of no use.
        rows = rows[-(kept or (len(drafts) + 1 if start == 0 else len(row))) :]
        probs = rows.float().softmax(-1)
        ids = torch.tensor(row[len(row) - len(rows) + 1 :], device=probs.device, dtype=torch.long)
        drawn = [each.logits.float().softmax(-1) for each in drafts if each.logits is not None]
        # An assistant of another vocabulary drafts tokens of its own, which are not those that are judged.
        paired = len(drawn) == len(ids) == len(drafts) and all(len(prob) == probs.shape[-1] for prob in drawn)
        q = [float(prob[token]) for prob, token in zip(drawn, ids.tolist(), strict=True)] if paired else []
        return cls(
            len(fed), row, start, kept, tuple(replace(each, logits=None) for each in drafts),
            tuple(probs[:-1].gather(1, ids[:, None].to(probs.device)).squeeze(1).tolist()), tuple(q), _best(probs),
            _best(torch.stack(drawn)) if paired and drawn else (), *spent,
        )  # fmt: skip


def _best(probs: Tensor) -> tuple[Best, ...]:
    found = probs.topk(min(_TOP, probs.shape[-1]))
    shares, ids = found.values.tolist(), found.indices.tolist()
    return tuple(
        tuple((token, float(f"{share:.6g}")) for token, share in zip(*row, strict=True))
        for row in zip(ids, shares, strict=True)
    )


@dataclass(slots=True)
class Generation:
    """The passes of one generate, gathered while it runs."""

    passes: list[Verified] = field(default_factory=list)
    complete: bool = True
    exit: int | None = None
    """Layers behind which the target left off to draft; None where something else drafts."""
    _cache: Any = None
    _length: int = 0

    def begins_anew(self, cache: Any, start: int) -> bool:
        """Whether a pass with this cache belongs to another generate."""
        return cache is not self._cache or start == 0

    def take(self, made: Verified, cache: Any) -> None:
        """Add a pass."""
        self.passes.append(made)
        self._cache = cache

    def close(self, *, complete: bool) -> None:
        """No pass will follow; what the cache holds now says how many drafts of the last one passed."""
        self._length = self._cache.get_seq_length() if self._cache is not None else 0
        self._cache, self.complete = None, complete

    def trace(self, target: CausalLM, draft: CausalLM | None, output: Sequence[int] | None) -> Trace:
        """The trace of these passes.

        Raises:
            ValueError: Where they cannot be told apart: a batch, embeddings in place of ids, or no cache.
        """
        self._check()
        finals = [one.start + 1 for one in self.passes[1:]] + [self._length + 1]
        first = self._first(finals[0])
        lookup = any(len(one.best) > 1 for one in self.passes)
        prompt = self.passes[0].fed[: first - self.passes[0].start]
        early = self.exit is not None
        builder = TraceBuilder(
            "assisted generation" if draft else "early exit" if early else "prompt lookup" if lookup else "generate",
            target.card,
            config={"assistant_early_exit": self.exit} if early else {},
            prompt=target.text_of(prompt),
            draft_model=None if draft is None else draft.card,
            environment=environment(target.device, target.dtype),
        )
        tokens, last = self._tokens(first, finals, output)
        for one, before, behind in zip(self.passes, [first, *finals[:-1]], finals, strict=True):
            _add(builder, one, before - first, min(behind - first, len(tokens)), tokens)
        ids = {token for one in self.passes for token in (*one.fed, *tokens)}
        ids |= {token for one in self.passes for best in (*one.best, *one.draft_best) for token, _ in best}
        legend = target.legend({}, ids)
        note = _NOTE + ("" if last else _LOST)
        complete = (self.complete or output is not None) and last
        built = builder.trace(text=target.output(tokens).text, complete=complete, legend=replace(legend, ends=()))
        return replace(built, note=note)

    def _check(self) -> None:
        for one in self.passes:
            if one.batch != 1:
                problem = f"hold {one.batch} texts" if one.batch else "are missing, embeddings were fed"
                raise ValueError(f"input_ids: {problem}; only generate with one text of ids can be recorded.")
            if one.start < 0:
                raise ValueError("past_key_values: there is no cache to tell accepted drafts by; set use_cache=True.")

    def _first(self, behind: int) -> int:
        """Tokens of the prompt."""
        one = self.passes[0]
        if one.kept is not None:
            return one.start + len(one.fed) - one.kept + 1
        if one.drafts:  # The drafter began with the prompt.
            return one.start + one.drafts[0].fed
        if behind < one.start + len(one.fed) + 1:
            raise ValueError("target: does not leave out logits, so prompt and drafts of its first pass look alike.")
        return one.start + len(one.fed)

    def _tokens(self, first: int, finals: Sequence[int], output: Sequence[int] | None) -> tuple[list[int], bool]:
        """Ids of the final tokens behind the prompt, and whether the very last one is known."""
        if output is not None:
            if len(output) < finals[-1]:
                raise ValueError(
                    f"output: has {len(output)} tokens where {finals[-1]} became final; give what generate returned."
                )
            return list(output[first : finals[-1]]), True
        tokens: list[int] = []
        greedy = True
        following = [one.fed[0] for one in self.passes[1:]]
        for index, (one, behind) in enumerate(zip(self.passes, finals, strict=True)):
            passed = behind - 1 - (first + len(tokens))
            at = first + len(tokens) - one.start
            tokens += one.fed[at : at + passed]
            likeliest = one.best[passed][0][0]
            if index < len(following):
                greedy = greedy and following[index] == likeliest
                tokens.append(following[index])
            elif greedy and self.complete:
                tokens.append(likeliest)
            else:
                return tokens, False
        return tokens, True


def _add(builder: TraceBuilder, one: Verified, before: int, behind: int, tokens: Sequence[int]) -> None:
    """Add a pass of the target and the drafts before it; `before` and `behind` count final tokens."""
    drafts = one.fed[len(one.fed) - len(one.best) + 1 :]
    for index, made in enumerate(one.drafts):
        spent = Milliseconds(prepare=made.prepare, forward=made.forward)
        call = Call(role="draft", mode="draft", query_tokens=made.fed, milliseconds=spent)
        if one.draft_best:
            top = (one.draft_best[index],)
            builder.step([before + index], [Fate.DRAFTED], [drafts[index]], call=call, top=top)
        else:  # The drafter speaks of other tokens, or of tokens that no one judged.
            builder.step([], [], call=call)
    gained = behind - before
    accepted = max(0, min(gained - 1, len(drafts)))
    own = [tokens[before + accepted]] if gained > accepted else []
    if own and accepted < len(drafts) and own[0] == drafts[accepted]:
        accepted, own = accepted + 1, []  # The draft ended the text, and nothing was drawn behind it.
    fates = [Fate.ACCEPTED] * accepted
    after = Fate.RESAMPLED if accepted < len(drafts) else Fate.BONUS if drafts else Fate.SAMPLED
    fates += [after] * len(own)
    fates += [Fate.DISCARDED] * (len(drafts) - len(fates))
    held = [*drafts[:accepted], *own, *drafts[accepted + len(own) :]]
    gap = [None] * (len(fates) - len(drafts))
    spent = Milliseconds(prepare=one.prepare, forward=one.forward)
    judged: dict[str, Any] = {}
    if drafts:
        judged = {"draft": [*drafts, *gap], "p": [*one.p, *gap]} | ({"q": [*one.q, *gap]} if one.q else {})
        judged["signals"] = {"accepted": float(accepted), "window": float(len(drafts))}
    builder.step(
        range(before, before + len(fates)),
        fates,
        held,
        call=Call(role="target", mode="verify" if drafts else "causal", query_tokens=len(one.fed), milliseconds=spent),
        top=one.best[: len(fates)],
        **judged,
    )
