"""Made-up runs of block-diffusion language models: self-speculation (S2D2) and a small drafter (SimSD) on a sum.

Nothing is decoded by a model. Distributions are drawn at random around a known answer, so that the records are
consistent and cost milliseconds: drafts gain confidence as their neighbours fill up, the verifier tends to agree with
what is right.
"""

import math
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from support.handmade import make

from traces.schema import Call, Canvas, Fate, Legend, Mask, Milliseconds, ModelCard, Output, Step, Trace
from traces.stats import summarise

PROMPT = (
    "Ana has 3 boxes with 12 pencils each. She gives 9 pencils to her brother and buys 2 more boxes.\n"
    "How many pencils does Ana have now?"
)
ANSWER = (
    "Ana starts with 3 * 12 = 36 pencils.\nShe gives 9 away, so 36 - 9 = 27 are left.\n"
    "Two more boxes hold 2 * 12 = 24 pencils.\nTogether that makes 27 + 24 = 51 pencils.\n#### 51<end>"
)
WORDS = re.findall(r"<end>|\n| ?[A-Za-z]+| ?\d+| ?[^\sA-Za-z\d]+", ANSWER)
VOCABULARY = tuple(dict.fromkeys(["<mask>", *WORDS, " 15", " 38", " pens", " has", " box", " 48", " -", " was"]))
IDS = {word: token for token, word in enumerate(VOCABULARY)}
END, FIRST = IDS["<end>"], 1
"""The id of the end, and the first id that may be drafted: never the mask itself."""
Law = dict[int, float]


@dataclass(frozen=True)
class Blocks:
    """What sets a made-up run of blocks apart."""

    block: int = 8
    length: int = 64
    seed: int = 0
    threshold: float = 0.75
    cost: float = 1.0
    """Verify when the drafts expected to pass exceed this many."""
    skill: float = 0.75
    """Confidence of the drafter, from 0 to 1."""
    endless: bool = False
    """Repeat the answer instead of ending, for a text that fills the canvas."""


def s2d2(run: Blocks = Blocks(), **fields: Any) -> Trace:
    """A model drafts a block, the router decides, and the same model judges the first open span token by token."""
    return _SelfSpeculation(run).trace("s2d2", {"threshold": run.threshold, "cost": run.cost}, **fields)


def diffusion(run: Blocks = Blocks(), **fields: Any) -> Trace:
    """The same model without verification: every pass unmasks what is confident enough."""
    return _SelfSpeculation(run, routed=False).trace("dynamic", {"threshold": run.threshold}, **fields)


def simsd(run: Blocks = Blocks(block=4), **fields: Any) -> Trace:
    """A small model reveals a block one token a pass, a large one judges the drafts in that order at once."""
    return _SmallDrafter(run).trace("simsd", {"gamma": run.block}, **fields)


@dataclass
class _Decoding:
    """A canvas that fills up block by block."""

    run: Blocks
    steps: list[Step] = field(default_factory=list)
    held: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.run.seed)
        ids = [IDS[word] for word in WORDS]
        rest = ids[:-1] * self.run.length if self.run.endless else [END] * self.run.length
        self.goal = (ids[:-1] + ([] if self.run.endless else [END]) + rest)[: self.run.length]

    def trace(self, method: str, config: Mapping[str, Any], **fields: Any) -> Trace:
        """Decode block by block until a block holds the end, and record it."""
        self.record("prefill", tokens=32)
        for start in range(0, self.run.length, self.run.block):
            self.decode(range(start, min(start + self.run.block, self.run.length)))
            ended = END in (self.held[i] for i in range(start, min(start + self.run.block, self.run.length)))
            if ended and not self.run.endless:
                break
            self.record("commit", tokens=self.run.block)
        tokens = tuple(self.held.get(i) for i in range(self.run.length))
        text = "".join(VOCABULARY[t] for t in tokens if t is not None).partition("<end>")[0]
        head = {
            "model": ModelCard(id="synthetic-blocks", title="Synthetic block model"),
            "prompt": PROMPT,
            "config": {"block": self.run.block, **config},
            "seed": self.run.seed,
            "legend": Legend(vocabulary=dict(enumerate(VOCABULARY))),
            "output": Output(tokens=tokens, text=text),
            "summary": summarise(self.steps, self.run.length, complete=True),
        }
        canvas = Canvas(kind="text", shape=(self.run.length,), block=self.run.block)
        return make(method, canvas, self.steps, **head | fields)

    def decode(self, block: range) -> None:
        raise NotImplementedError

    def open(self, block: Iterable[int]) -> list[int]:
        return [i for i in block if i not in self.held]

    def probs(self, position: int, skill: float) -> Law:
        """A distribution around the goal, surer with every neighbour that is known."""
        known = sum(i in self.held for i in range(position - 3, position + 2)) + 3 * (position == 0)
        weight = min(0.995, max(0.05, skill * self.chance.betavariate(4 + 3 * known, 2.2)))
        others = self.chance.sample([t for t in range(FIRST, len(VOCABULARY)) if t != self.goal[position]], 4)
        shares = [self.chance.expovariate(1) for _ in others]
        return {self.goal[position]: weight} | {
            t: (1 - weight) * share / sum(shares) for t, share in zip(others, shares, strict=True)
        }

    def draw(self, probs: Law) -> int:
        return self.chance.choices(list(probs), list(probs.values()))[0]

    def record(self, mode: str, entries: Iterable[dict[str, Any]] = (), *, tokens: int, **fields: Any) -> None:
        """Add a step from one mapping an entry; columns that nobody fills are left out."""
        rows = list(entries)
        numbers = sorted({name for row in rows for name in row.get("numbers", {})})
        columns = {
            name: tuple(row.get(name) for row in rows)
            for name in ("draft", "p", "q", "accept_prob", "coin")
            if any(row.get(name) is not None for row in rows)
        }
        if any("probs" in row for row in rows):
            columns["top"] = tuple(tuple(_best(row.get("probs", {}))) for row in rows)
        call = Call(
            role=fields.pop("role", "self"),
            mode=mode,
            query_tokens=tokens,
            milliseconds=Milliseconds(prepare=0.2, forward=2 + 0.08 * tokens, logits=0.3, decide=0.2),
        )
        self.steps.append(
            Step(
                call=call,
                position=tuple(row["position"] for row in rows),
                token=tuple(row["token"] for row in rows),
                fate=tuple(row["fate"] for row in rows),
                numbers={name: tuple(row.get("numbers", {}).get(name) for row in rows) for name in numbers},
                **columns,
                **fields,
            )
        )
        self.held |= {row["position"]: row["token"] for row in rows if row["fate"].final}

    def judge(self, drafts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Judge drafts one after the other; what follows a rejection is dropped."""
        rejected = False
        judged = []
        for order, entry in enumerate(drafts):
            position, draft, drafted = entry["position"], entry["token"], entry["probs"]
            exact = self.probs(position, 0.5 + 0.5 * self.run.skill)
            mixed = {t: 0.3 * exact.get(t, 0) + 0.7 * drafted.get(t, 0) for t in {*exact, *drafted}}
            row = {"position": position, "draft": draft, "token": draft, "probs": mixed, "order": order}
            row |= {"p": mixed.get(draft, 0.0), "q": drafted[draft], "numbers": _compared(mixed, drafted, draft)}
            if rejected:
                row["fate"] = Fate.DISCARDED
            else:
                row["accept_prob"], row["coin"] = min(1.0, row["p"] / row["q"]), self.chance.random()
                rejected = row["coin"] >= row["accept_prob"]
                row["fate"] = Fate.RESAMPLED if rejected else Fate.ACCEPTED
                if rejected:
                    residual = {t: max(0.0, mixed[t] - drafted.get(t, 0)) for t in mixed}
                    row["token"] = self.draw(residual)
                    row["numbers"]["residual_mass"] = sum(residual.values())
            judged.append(row)
        return judged


@dataclass
class _SelfSpeculation(_Decoding):
    routed: bool = True

    def decode(self, block: range) -> None:
        while opened := self.open(block):
            drafts = self.drafts(opened)
            span = next((k for k, i in enumerate(opened) if i != opened[0] + k), len(opened))
            signals = self.signals(block, drafts, span)
            if signals.get("verify"):
                self.record("draft", [d | {"fate": Fate.DRAFTED} for d in drafts], tokens=len(block), signals=signals)
                self.verify(block, drafts, span)
                continue
            best = max(drafts, key=lambda draft: draft["numbers"]["confidence"])
            rows = []
            for draft in drafts:
                sure = draft["numbers"]["confidence"] > self.run.threshold
                fate = Fate.UNMASKED if sure else Fate.FALLBACK if draft is best else Fate.REJECTED
                rows.append(draft | {"fate": fate})
            if any(row["fate"] is Fate.UNMASKED for row in rows):
                rows = [row | {"fate": Fate.REJECTED} if row["fate"] is Fate.FALLBACK else row for row in rows]
            # What the policy leaves open was looked at, not judged: it is no part of the record.
            rows = [row for row in rows if row["fate"].final]
            self.record("draft", rows, tokens=len(block), signals=signals | {"committed": float(len(rows))})

    def drafts(self, opened: list[int]) -> list[dict[str, Any]]:
        drafts = []
        for position in opened:
            probs = self.probs(position, self.run.skill)
            token = self.draw(probs)
            first, second = sorted(probs.values(), reverse=True)[:2]
            share = _entropy(probs) / math.log(len(VOCABULARY))
            numbers = {"confidence": probs[token], "margin": first - second, "entropy_share": share}
            drafts.append({"position": position, "token": token, "probs": probs, "q": probs[token], "numbers": numbers})
        return drafts

    def signals(self, block: range, drafts: list[dict[str, Any]], span: int) -> dict[str, float]:
        numbers = [draft["numbers"] for draft in drafts]
        confident = sum(each["confidence"] > self.run.threshold for each in numbers)
        signals: dict[str, float] = {
            "block": block.start // self.run.block,
            "open": len(drafts),
            "confident": confident,
        }
        if not self.routed:
            return signals
        first = numbers[:span]
        guesses = {
            "random": [self.chance.random() for _ in first],
            "entropy": [math.exp(-each["entropy_share"]) for each in first],
            "power": [each["confidence"] for each in first],
            "renyi": [sum(p * p for p in draft["probs"].values()) for draft in drafts[:span]],
            "hard_entropy": [float(each["entropy_share"] < 0.1) for each in first],
            "margin": [float(each["margin"] > 0.1) for each in first],
        }
        for each, guess in zip(first, guesses["entropy"], strict=True):
            each["estimate"] = guess
        expected = {f"expected_accepted_{name}": _expected(guess) for name, guess in guesses.items()}
        score = expected["expected_accepted_entropy"] - self.run.cost
        signals |= {"span": span, "expected_accepted": expected["expected_accepted_entropy"], **expected}
        return signals | {"score": score, "verify": float(score >= 0)}

    def verify(self, block: range, drafts: list[dict[str, Any]], span: int) -> None:
        rows = self.judge(drafts[:span])
        # Order is a number of SimSD's; drafts beyond the span are open again.
        rows += [draft | {"fate": Fate.DISCARDED, "probs": {}, "q": None, "numbers": {}} for draft in drafts[span:]]
        accepted = sum(row["fate"] is Fate.ACCEPTED for row in rows)
        committed = sum(row["fate"].final for row in rows)
        signals = {"accepted": float(accepted), "window": float(span), "committed": float(committed)}
        self.record(
            "verify", rows, tokens=2 * len(block), signals=signals, mask=twofold(len(block), block.start, causal=True)
        )


class _SmallDrafter(_Decoding):
    def decode(self, block: range) -> None:
        drafts: list[dict[str, Any]] = []
        known = dict(self.held)
        for order in range(len(block)):
            all_probs = {i: self.probs(i, self.run.skill) for i in block if i not in self.held}
            position = max(all_probs, key=lambda i: max(all_probs[i].values()))
            probs, token = all_probs[position], self.draw(all_probs[position])
            numbers = {"order": float(order), "confidence": probs[token]}
            entry = {"position": position, "token": token, "probs": probs, "q": probs[token], "numbers": numbers}
            drafts.append(entry)
            self.record("small_draft", [entry | {"fate": Fate.DRAFTED}], tokens=len(block), role="draft")
            self.held[position] = token
        self.held = known
        rows = self.judge(drafts)
        for row in rows:
            row["numbers"]["order"] = float(row["order"])
        accepted = sum(row["fate"] is Fate.ACCEPTED for row in rows)
        mask = twofold(len(block), block.start, causal=False)
        signals = {"accepted": float(accepted), "window": float(len(rows)), "block": block.start / self.run.block}
        self.record("verify", rows, tokens=2 * len(block), role="target", signals=signals, mask=mask)
        for position in self.open(block):
            probs = self.probs(position, 1.0)
            row = {"position": position, "token": self.draw(probs), "probs": probs, "fate": Fate.FALLBACK}
            self.record("draft", [row], tokens=len(block), role="target")


def twofold(block: int, cached: int, *, causal: bool) -> Mask:
    """The mask of [cache | drafts D | masks M]; `causal` as in S2D2, else the temporal mask of SimSD."""
    cache = (f"cache {cached}",) if cached else ()
    queries = tuple(f"{half}{i}" for half in "DM" for i in range(block))
    rows = []
    for half in "DM":
        for i in range(block):
            sees = [True] * len(cache)
            sees += [j <= i if half == "D" else j < i for j in range(block)]
            if causal:
                sees += [half == "M" and j == i for j in range(block)]
            else:
                sees += [j > i if half == "D" else j >= i for j in range(block)]
            rows.append(_runs(sees))
    return Mask(queries=queries, keys=cache + queries, runs=tuple(rows))


def _runs(sees: list[bool]) -> tuple[int, ...]:
    runs, current = [0], False
    for each in sees:
        if each is not current:
            runs.append(0)
            current = each
        runs[-1] += 1
    return tuple(runs)


def _best(probs: Law) -> list[tuple[int, float]]:
    return sorted(probs.items(), key=lambda pair: -pair[1])[:4]


def _entropy(probs: Law) -> float:
    return -sum(p * math.log(p) for p in probs.values() if p > 0)


def _expected(guesses: list[float]) -> float:
    total, product = 0.0, 1.0
    for guess in guesses:
        product *= guess
        total += product
    return total


def _compared(judging: Law, drafting: Law, draft: int) -> dict[str, float]:
    floor = 1e-10
    return {
        "ratio": judging.get(draft, 0.0) / drafting[draft],
        "kl": sum(q * math.log(max(q, floor) / max(judging.get(t, 0), floor)) for t, q in drafting.items()),
        "cross_entropy": -math.log(max(judging.get(draft, 0), floor)),
        "agrees": float(max(judging, key=lambda t: judging[t]) == draft),
    }
