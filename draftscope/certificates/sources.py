"""Engines that can be certified: each draws texts of the known model and counts its drafts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

import torch

from draftscope.certificates.known_model import Sampling, network, to_ids
from draftscope.engines.models.transformers_api import fed_token_counts
from draftscope.servers.client import ServerClient, ServerError
from draftscope.servers.engines import METRICS, identify

DrafterKind: TypeAlias = Literal["", "model", "lookup"]
DRAFTS: Final = 4
"""Drafts of a pass, where the engine lets one choose."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Texts, and what the engine counted."""

    texts: list[list[int]]
    drafted: int = 0
    accepted: int = 0


class Source(Protocol):
    """An engine that serves the known model."""

    @property
    def name(self) -> str:
        """Name for the certificate."""
        ...

    @property
    def temperature_last(self) -> bool:
        """Whether its filters see logits without the temperature."""
        ...

    @property
    def drafter(self) -> DrafterKind:
        """Kind of its drafter, as far as it is known."""
        ...

    @property
    def counts(self) -> bool:
        """Whether it reports the number of its drafts."""
        ...

    def draw(self, prompts: Sequence[str], seeds: Sequence[int], length: int, sampling: Sampling) -> Drawn:
        """Continue each prompt.

        Args:
            prompts: Texts of the known model's letters.
            seeds: Seed of each prompt.
            length: Tokens of each continuation.
            sampling: Temperature, top_k and top_p.
        """
        ...


@dataclass(slots=True)
class FunctionSource:
    """A function of prompt ids, length and seed that returns the new ids, or ids with drafted and accepted drafts."""

    function: Callable[[list[int], int, int], Any]
    name: str = "function"
    temperature_last: bool = False
    drafter: DrafterKind = "model"
    counts: bool = field(default=False, init=False)

    def draw(self, prompts: Sequence[str], seeds: Sequence[int], length: int, sampling: Sampling) -> Drawn:
        """Call the function for each prompt; it has to sample as `sampling` says."""
        texts, drafted, accepted = [], 0, 0
        for prompt, seed in zip(prompts, seeds, strict=True):
            drawn = self.function(to_ids(prompt), length, seed)
            if isinstance(drawn, tuple):
                drawn, *events = drawn
                drafted, accepted = drafted + int(events[0]), accepted + int(events[1])
                self.counts = True
            texts.append([int(token) for token in drawn])
        return Drawn(texts, drafted, accepted)


@dataclass(slots=True)
class TransformersSource:
    """`generate` of the installed transformers: alone, with prompt lookup, or with the drafter as its assistant."""

    mode: Literal["plain", "lookup", "assisted"]
    temperature_last: bool = field(default=False, init=False)
    counts: bool = field(default=True, init=False)

    @property
    def name(self) -> str:
        """Engine, version and mode."""
        import transformers

        return f"transformers {transformers.__version__}, {self.mode}"

    @property
    def drafter(self) -> DrafterKind:
        """Kind of the drafter."""
        choices: dict[str, DrafterKind] = {"lookup": "lookup", "assisted": "model"}
        return choices.get(self.mode, "")

    def draw(self, prompts: Sequence[str], seeds: Sequence[int], length: int, sampling: Sampling) -> Drawn:
        """Continue each prompt on its own, or in one batch if nothing is drafted."""
        options: dict[str, Any] = {
            "do_sample": True, "max_new_tokens": length, "temperature": sampling.temperature,
            "top_k": sampling.top_k, "top_p": sampling.top_p,
        }  # fmt: skip
        target = network("target")
        if self.mode == "plain":
            torch.manual_seed(seeds[0])
            ids = torch.tensor([to_ids(prompt) for prompt in prompts])
            out = target.generate(ids, attention_mask=torch.ones_like(ids), **options)
            return Drawn(out[:, ids.shape[1] :].tolist())
        if self.mode == "lookup":
            options["prompt_lookup_num_tokens"] = DRAFTS
        else:
            assistant = network("draft")
            about = assistant.generation_config
            about.num_assistant_tokens, about.num_assistant_tokens_schedule = DRAFTS, "constant"
            about.assistant_confidence_threshold = 0.0
            options["assistant_model"] = assistant
        texts, drafted, accepted = [], 0, 0
        for prompt, seed in zip(prompts, seeds, strict=True):
            ids = torch.tensor([to_ids(prompt)])
            torch.manual_seed(seed)
            with fed_token_counts(target) as passes:
                out = target.generate(ids, attention_mask=torch.ones_like(ids), **options)
            texts.append(out[0, ids.shape[1] :].tolist())
            # A pass is fed its drafts and one token, the first the prompt and its drafts; each gives one of its own.
            drafted += sum(passes) - ids.shape[1] - (len(passes) - 1)
            accepted += max(0, len(texts[-1]) - len(passes))
        return Drawn(texts, drafted, accepted)


@dataclass(slots=True)
class LlamaCppSource:
    """llama.cpp's server by its native route, which takes and gives ids."""

    client: ServerClient
    name: str = "llama.cpp"
    drafter: DrafterKind = ""
    temperature_last: bool = field(default=True, init=False)
    counts: bool = field(default=True, init=False)

    def draw(self, prompts: Sequence[str], seeds: Sequence[int], length: int, sampling: Sampling) -> Drawn:
        """Continue each prompt by a request of its own."""
        texts, drafted, accepted = [], 0, 0
        for prompt, seed in zip(prompts, seeds, strict=True):
            body = {
                "prompt": to_ids(prompt), "n_predict": length, "seed": seed, "return_tokens": True,
                "cache_prompt": False, "temperature": sampling.temperature, "top_k": sampling.top_k,
                "top_p": sampling.top_p, "min_p": 0.0, "repeat_penalty": 1.0, "ignore_eos": True,
            }  # fmt: skip
            answer = self.client.post("/completion", body)
            timings = answer.get("timings") if isinstance(answer, dict) else None
            tokens = answer.get("tokens") if isinstance(answer, dict) else None
            if not isinstance(tokens, list) or not isinstance(timings, dict):
                raise ServerError(f"{self.client.url}/completion: gives no ids; use a release with return_tokens.")
            texts.append([int(token) for token in tokens])
            drafted += int(timings.get("draft_n") or 0)
            accepted += int(timings.get("draft_n_accepted") or 0)
        return Drawn(texts, drafted, accepted)


@dataclass(slots=True)
class OpenAISource:
    """A server by `/v1/completions`, as vLLM and SGLang have it; texts are letters, and drafts are in its counters."""

    client: ServerClient
    model: str
    name: str
    drafter: DrafterKind = ""
    metrics: str = ""
    """Prefix of its counters of drafts; empty if it has none."""
    temperature_last: bool = field(default=False, init=False)

    @property
    def counts(self) -> bool:
        """Whether there are counters of drafts."""
        return bool(self.metrics)

    def draw(self, prompts: Sequence[str], seeds: Sequence[int], length: int, sampling: Sampling) -> Drawn:
        """Continue each prompt by a request of its own."""
        before = self._counters()
        texts = []
        for prompt, seed in zip(prompts, seeds, strict=True):
            body: dict[str, Any] = {
                "model": self.model, "prompt": prompt, "max_tokens": length, "seed": seed,
                "temperature": sampling.temperature, "top_p": sampling.top_p, "ignore_eos": True,
            }  # fmt: skip
            body["top_k"] = sampling.top_k or -1
            answer = self.client.post("/v1/completions", body)
            try:
                texts.append(to_ids("".join(str(answer["choices"][0]["text"]).split())))
            except (KeyError, IndexError, TypeError):
                problem = "gives no choices[0].text; use a server that has OpenAI's routes"
                raise ServerError(f"{self.client.url}/v1/completions: {problem}.") from None
        drafted, accepted = (now - then for now, then in zip(self._counters(), before, strict=True))
        return Drawn(texts, drafted, accepted)

    def _counters(self) -> tuple[int, int]:
        from draftscope.serving_formats import draft_counters, parsed

        if not self.metrics:
            return 0, 0
        try:
            counters = draft_counters(parsed(self.client.get_text("/metrics")), (), self.metrics)
        except ServerError:
            raise
        except ValueError:  # no drafts yet
            return 0, 0
        return counters.draft_tokens, counters.accepted_tokens


def served(client: ServerClient, drafter: DrafterKind) -> Source:
    """Return the engine at an address.

    Args:
        client: Client of the server.
        drafter: Kind of drafter that the engine was started with.

    Raises:
        ServerError: If no engine answers there.
    """
    kind, model = identify(client)
    if kind == "llamacpp":
        return LlamaCppSource(client, f"llama.cpp at {client.url}", drafter)
    return OpenAISource(client, model, f"{kind or 'server'} at {client.url}", drafter, METRICS.get(kind, ""))
