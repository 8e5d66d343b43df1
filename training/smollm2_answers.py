"""Answers of smollm2 to prompts of this project, with hidden states: the training data of its drafter.

    python -m training.smollm2_answers [--shards N]

Prompts are put together from the templates and words of smollm2_prompts.json, no prompt twice; those of the held-out
shard have words of their own. Half of the answers take the likeliest token, half are drawn at temperature 1. Weights
are rounded to bfloat16, which halves the time. A shard has ROWS answers, some 12,500 tokens and with their prompts
21,000, of 4.6 kB each; shards that are in the cache folder already are not written again.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM
from transformers.cache_utils import Cache

from draftscope.engines.methods.ar import Config
from draftscope.engines.models.catalog import load_model
from draftscope.engines.models.download import download_dir
from draftscope.engines.models.eagle import EagleSize
from draftscope.engines.models.fast_decoder import FastDecoder, HalfLinear, Linear, packs
from draftscope.engines.models.sessions.causal import CacheSlots, SlotLayer
from draftscope.engines.paths import cache_dir
from draftscope.engines.protocol import Task
from draftscope.traces.files import atomic_path

MODEL: Final = "smollm2"
FOLDER: Final = cache_dir() / f"{MODEL}-answers"
PARTS: Final = json.loads(Path(__file__).with_name("smollm2_prompts.json").read_text(encoding="utf-8"))
WEIGHTS: Final = {"story": 22, "explanation": 26, "code": 16, "summary": 12, "rewriting": 14, "question": 10}
ROWS: Final = 96
"""Answers of a shard, which are written together."""
SORTED: Final = 8
"""Shards that share prompts out in order of length, so that those of a shard need little padding."""
LONGEST: Final = 224
"""Tokens of an answer."""
_OF_TEXTS: Final = ("summary", "rewriting")
HELD: Final = 10
"""One word in `HELD` is held out."""
_FEWEST: Final = 8
"""The fewest unfinished answers that justify a pass; the remaining ones are cut off."""


def prompts(held_out: bool) -> Iterator[str]:
    """Prompts of training or of held-out words, without end, all of them different."""
    rng, met = Random(int(held_out)), set[str]()
    while True:
        kind = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        ending = rng.choice(PARTS["endings"]) if kind not in _OF_TEXTS and rng.random() < 0.6 else ""
        prompt = _filled(f"{rng.choice(PARTS['kinds'][kind])} {ending}".strip(), held_out, {}, rng)
        if prompt not in met:
            met.add(prompt)
            yield prompt


def _filled(template: str, held_out: bool, chosen: dict[str, str], rng: Random) -> str:
    """A template whose every {slot} has a word, the same wherever the slot stands."""

    def word(match: re.Match[str]) -> str:
        slot = match[1]
        if slot not in chosen:
            kind = slot.rstrip("2")
            if kind in ("text", "wrong"):
                lines = rng.sample(PARTS["sentences"], rng.randint(3, 6))
                text = " ".join(_filled(line, held_out, chosen, rng) for line in lines)
                text = re.sub(r"(^|\. )([a-z])", lambda found: found[1] + found[2].upper(), text)
                chosen[slot] = _misspelt(text, rng) if kind == "wrong" else text
            else:
                words = PARTS["words"][kind]
                allowed = [
                    one for i, one in enumerate(words) if (i % HELD == 0) == held_out and one not in chosen.values()
                ]
                chosen[slot] = rng.choice(allowed or words)
        return chosen[slot]

    return re.sub(r"\{(\w+)\}", word, template)


def _misspelt(text: str, rng: Random) -> str:
    """The text with a letter left out, doubled or exchanged in one long word of six."""

    def wrong(match: re.Match[str]) -> str:
        word, at = match[0], rng.randint(1, len(match[0]) - 2)
        if rng.random() > 1 / 6:
            return word
        part = rng.choice(("", word[at] * 2, word[at + 1] + word[at]))
        return word[:at] + part + word[at + (2 if len(part) == 2 and part[0] == word[at + 1] else 1) :]

    return re.sub(r"[a-z]{5,}", wrong, text)


class Writer:
    """Writes many answers together."""

    def __init__(self, network: Any, ends: Sequence[int], taps: Sequence[int]) -> None:
        """A causal language model of the shape of Llama, whose layers it takes, and the ids that end a text.

        `taps` are the layers whose output states are kept.
        """
        head, linear = network.lm_head.weight, HalfLinear if packs(HalfLinear) else Linear
        self._model, self._head, self._ends = FastDecoder(network.model, linear), linear(head), torch.tensor(ends)
        self._layers, self._taps = network.config.num_hidden_layers, taps

    @torch.inference_mode()
    def write(
        self, prompts: Sequence[Sequence[int]], drawn: Tensor, longest: int, min_rows: int, generator: torch.Generator
    ) -> list[tuple[Tensor, Tensor]]:
        """Answer prompts, until no more than `min_rows` answers are unfinished.

        Args:
            prompts: The prompts as ids.
            drawn: Whether an answer is drawn [B], or takes the likeliest tokens.
            longest: Tokens of an answer at most.
            min_rows: Answers that may be left unfinished.
            generator: For what is drawn.

        Returns:
            For every prompt its ids [N] with the answer's, and the hidden states [N, S] of all of them: those of the
            taps and the last, side by side.
        """
        count, width = len(prompts), max(map(len, prompts))
        room, before = width + longest, torch.tensor([width - len(ids) for ids in prompts])
        slots = CacheSlots(count, room)
        layers = [SlotLayer(slots) for _ in range(self._layers)]
        cache, texts, states = Cache(layers=layers), torch.zeros(count, room, dtype=torch.long), list[Tensor]()
        for row, ids in enumerate(prompts):
            texts[row, width - len(ids) : width] = torch.tensor(ids)
        results: list[Any] = [None] * count
        live, stops, end = torch.arange(count), torch.full((count,), room), width
        while True:
            slots.contiguous, slots.end = slice(slots.end, end), end
            last, tapped = self._pass(texts[live], before[live], cache, slots)
            states.append(torch.cat([*tapped, last], -1).bfloat16())
            if int((stops[live] > end).sum()) <= min_rows:
                stops[live] = stops[live].clamp(max=end)
            done = stops[live] <= end
            if int(done.sum()) > len(live) / 4 or bool(done.all()):  # caches are copied, which takes time
                states_of_all = torch.cat(states, 1)
                for row in done.nonzero()[:, 0].tolist():
                    number = int(live[row])
                    part = slice(int(before[number]), int(stops[number]))
                    results[number] = (texts[number, part].clone(), states_of_all[row, part].clone())
                live, last, states = live[~done], last[~done], [states_of_all[~done]]
                for layer in layers:
                    layer.keys, layer.values = layer.keys[~done], layer.values[~done]  # type: ignore[index]
                slots.used = slice(len(live))
            if not len(live):
                return results
            probs = self._head(last[:, -1]).softmax(-1)
            token = torch.where(drawn[live], torch.multinomial(probs, 1, generator=generator)[:, 0], probs.argmax(-1))
            texts[live, end], end = token, end + 1
            ended = torch.isin(token, self._ends) & (stops[live] == room)
            stops[live] = torch.where(ended, end, stops[live])

    def _pass(
        self, texts: Tensor, before: Tensor, cache: Cache, slots: CacheSlots
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Hidden states of the slots that a pass writes, the last [B, T, W] and those of the taps."""
        slot_indices = torch.arange(slots.end)
        fed = slot_indices[slots.contiguous]
        hidden = (slot_indices > fed[:, None]) | (
            slot_indices < before[:, None, None]
        )  # what comes later, and what pads the prompt
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, torch.finfo(torch.float32).min)[:, None]
        positions = (fed - before[:, None]).clamp(min=0)
        out = self._model(texts[:, slots.contiguous], None, positions, mask, cache, self._taps)
        return out.last_hidden_state, out.tapped


def store(file: Path, answers: Sequence[tuple[Tensor, Tensor]], prompts: Sequence[int], drawn: Tensor) -> None:
    """Write answers to prompts of the given lengths to a file, atomically."""
    ids, states = (torch.cat(parts) for parts in zip(*answers, strict=True))
    lengths = torch.tensor([len(text) for text, _ in answers])
    shard = {"ids": ids.int(), "states": states, "lengths": lengths, "prompts": torch.tensor(prompts), "drawn": drawn}
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(file) as part:
        save_file(shard, part)
    print(f"{file.name}: {len(ids) - sum(prompts)} tokens of answers, {len(ids)} in all", flush=True)


def write_shards(held_out: bool, count: int) -> None:
    """Write those of the first shards that are missing."""
    model: Any = load_model(MODEL, "cpu")
    network = AutoModelForCausalLM.from_pretrained(download_dir(MODEL), dtype=torch.float32).eval()
    writer = Writer(network, model.ends, EagleSize().taps)
    texts, waiting = prompts(held_out), list[list[Task]]()
    for number in range(count):
        if not waiting:
            several = [model.make_task(next(texts), Config()) for _ in range(min(SORTED, count) * ROWS)]
            several.sort(key=lambda task: len(task.prompt_ids))
            waiting = [several[i : i + ROWS] for i in range(0, len(several), ROWS)]
            Random(number).shuffle(waiting)
        tasks = waiting.pop()
        file = FOLDER / f"{'held_out' if held_out else 'train'}-{number:04d}.safetensors"
        generator = torch.Generator().manual_seed(2 * number + held_out)
        if file.exists():
            continue
        drawn = torch.rand(ROWS, generator=generator) < 0.5
        prompt_ids = [task.prompt_ids for task in tasks]
        answers = writer.write(prompt_ids, drawn, LONGEST, _FEWEST, generator)
        store(file, answers, [len(prompt) for prompt in prompt_ids], drawn)


def main() -> None:
    """Write the held-out shards, then those to learn from."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=360, help="to learn from, 12,500 tokens of answers each")
    chosen = parser.parse_args()
    write_shards(True, 2)
    write_shards(False, chosen.shards)


if __name__ == "__main__":
    main()
