"""Published language models by their configuration, from which parameters, KV cache and experts are derived.

A row has the numbers of a checkpoint's config.json. Nothing is rounded: the counts follow from the shapes, and a test
compares them with the counts that are published.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A decoder of the Llama form: attention, and a gated feed-forward network or experts, in every layer."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    """Width of the feed-forward network of dense layers; 0 if every layer has experts."""
    vocabulary: int
    tied: bool = False
    """Whether input embedding and output layer are one matrix."""
    experts: int = 0
    """Routed experts of a layer; 0 for a dense model."""
    active_experts: int = 0
    """Those of them that a token uses."""
    expert_width: int = 0
    shared_width: int = 0
    """Width of the expert that every token uses; 0 without one."""
    dense_layers: int = 0
    """Layers without experts, in a model that has them."""
    window: int = 0
    """Tokens that layers with a sliding window or chunks see; 0 without such layers."""
    window_layers: int = 0
    latent: tuple[int, int, int, int] | None = None
    """Multi-head latent attention: ranks of queries and of the KV cache, and sizes of a head with and without RoPE."""
    published: tuple[float, float]
    """Parameters in 10^9 as published, all and per token."""
    drafter: str
    """A published drafter with its vocabulary; empty for drafts by lookup."""
    source: str

    @property
    def attention(self) -> int:
        """Parameters of the attention of one layer."""
        if self.latent is None:
            return self.hidden * self.head_size * (2 * self.heads + 2 * self.kv_heads)
        queries, cached, rotated, plain = self.latent
        out = self.hidden * self.heads * self.head_size
        query = self.hidden * queries + queries * self.heads * (rotated + plain)
        return query + self.hidden * (cached + rotated) + cached * self.heads * (plain + self.head_size) + out

    @property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def expert(self) -> int:
        """Parameters of one routed expert, over all layers."""
        return 3 * self.hidden * self.expert_width * self.expert_layers

    @property
    def always(self) -> int:
        """Parameters that every token uses: all except routed experts and input embedding."""
        dense = 3 * self.hidden * self.feed_forward * (self.layers - self.expert_layers)
        shared = self.hidden * (3 * self.shared_width + self.experts) * self.expert_layers  # with the router
        return self.layers * self.attention + dense + shared + self.vocabulary * self.hidden

    @property
    def active(self) -> int:
        """Parameters that one token uses; the input embedding is looked up."""
        return self.always + self.active_experts * self.expert

    @property
    def total(self) -> int:
        """All parameters, in memory."""
        return self.always + self.experts * self.expert + (0 if self.tied else self.vocabulary * self.hidden)

    @property
    def width(self) -> int:
        """A query attends to a key in 4 * width flops, in one layer; queries of latent attention are projected first.

        Scores and sums of values take 2 flops each for every number of a head, which is the latent vector there.
        """
        if self.latent is None:
            return self.heads * self.head_size
        _, cached, rotated, _ = self.latent
        return self.heads * (2 * cached + rotated) // 2

    @property
    def kv_width(self) -> float:
        """Half of the numbers that a token takes in the KV cache of one layer."""
        return self.kv_heads * self.head_size if self.latent is None else (self.latent[1] + self.latent[2]) / 2


def _qwen(
    name: str, shape: tuple[int, int, int, int], heads: tuple[int, int], published: tuple[float, float], drafter: str
) -> ModelConfig:
    """`shape`: layers, hidden, width of the feed-forward network or of an expert, experts."""
    layers, hidden, width, experts = shape
    queries, groups = heads
    return ModelConfig(
        name=name, layers=layers, hidden=hidden, heads=queries, kv_heads=groups, head_size=128, vocabulary=151936,
        tied=hidden < 4096 and not experts, feed_forward=0 if experts else width, experts=experts,
        active_experts=8 if experts else 0, expert_width=width if experts else 0, published=published, drafter=drafter,
        source=f"config.json and model card of Qwen/{name.replace(' ', '-')}",
    )  # fmt: skip


def _llama(
    name: str, shape: tuple[int, int, int], heads: tuple[int, int], published: float, drafter: str
) -> ModelConfig:
    layers, hidden, width = shape
    queries, groups = heads
    return ModelConfig(
        name=name, layers=layers, hidden=hidden, heads=queries, kv_heads=groups, head_size=hidden // queries,
        feed_forward=width, vocabulary=128256, tied=hidden < 4096, published=(published, published), drafter=drafter,
        source=f"config.json and model card of meta-llama/{name.replace(' ', '-')}",
    )  # fmt: skip


def _llama4(name: str, experts: int, dense_layers: int, total: float) -> ModelConfig:
    return ModelConfig(
        name=name, layers=48, hidden=5120, heads=40, kv_heads=8, head_size=128, feed_forward=16384, vocabulary=202048,
        experts=experts, active_experts=1, expert_width=8192, shared_width=8192, dense_layers=dense_layers,
        window=8192, window_layers=36, published=(total, 17.0), drafter="Llama 3.2 1B",
        source=f"config.json of meta-llama/{name.replace(' ', '-')}; parameters with its image encoder, .9",
    )  # fmt: skip


def _gemma(
    name: str, shape: tuple[int, int, int], heads: tuple[int, int, int], window: tuple[int, int], published: float
) -> ModelConfig:
    """`window`: tokens, and layers that see no more."""
    layers, hidden, width = shape
    queries, groups, size = heads
    return ModelConfig(
        name=name, layers=layers, hidden=hidden, heads=queries, kv_heads=groups, head_size=size, feed_forward=width,
        vocabulary=262208 if queries > 4 else 262144, tied=True, window=window[0], window_layers=window[1],
        published=(published, published), drafter="" if queries == 4 else "Gemma 3 1B",
        source=f"config.json of google/{name.replace(' ', '-').lower()}; Gemma 3 report (2503.19786), Table 1",
    )  # fmt: skip


MODELS: Final[Mapping[str, ModelConfig]] = {
    each.name: each
    for each in (
        _qwen("Qwen3 0.6B", (28, 1024, 3072, 0), (16, 8), (0.6, 0.6), ""),
        _qwen("Qwen3 1.7B", (28, 2048, 6144, 0), (16, 8), (1.7, 1.7), "Qwen3 0.6B"),
        _qwen("Qwen3 4B", (36, 2560, 9728, 0), (32, 8), (4.0, 4.0), "Qwen3 0.6B"),
        _qwen("Qwen3 8B", (36, 4096, 12288, 0), (32, 8), (8.2, 8.2), "Qwen3 0.6B"),
        _qwen("Qwen3 14B", (40, 5120, 17408, 0), (40, 8), (14.8, 14.8), "Qwen3 0.6B"),
        _qwen("Qwen3 32B", (64, 5120, 25600, 0), (64, 8), (32.8, 32.8), "Qwen3 1.7B"),
        _qwen("Qwen3 30B A3B", (48, 2048, 768, 128), (32, 4), (30.5, 3.3), "Qwen3 0.6B"),
        _qwen("Qwen3 235B A22B", (94, 4096, 1536, 128), (64, 4), (235.0, 22.0), "Qwen3 1.7B"),
        _llama("Llama 3.2 1B", (16, 2048, 8192), (32, 8), 1.23, ""),
        _llama("Llama 3.2 3B", (28, 3072, 8192), (24, 8), 3.21, "Llama 3.2 1B"),
        _llama("Llama 3.1 8B", (32, 4096, 14336), (32, 8), 8.03, "Llama 3.2 1B"),
        _llama("Llama 3.3 70B", (80, 8192, 28672), (64, 8), 70.6, "Llama 3.2 1B"),
        _llama4("Llama 4 Scout", 16, 0, 109.0),
        _llama4("Llama 4 Maverick", 128, 24, 400.0),
        _gemma("Gemma 3 1B", (26, 1152, 6912), (4, 1, 256), (512, 22), 1.0),
        _gemma("Gemma 3 4B", (34, 2560, 10240), (8, 4, 256), (1024, 29), 3.88),
        _gemma("Gemma 3 12B", (48, 3840, 15360), (16, 8, 256), (1024, 40), 11.77),
        _gemma("Gemma 3 27B", (62, 5376, 21504), (32, 16, 128), (1024, 52), 27.02),
        ModelConfig(
            name="DeepSeek V3", layers=61, hidden=7168, heads=128, kv_heads=1, head_size=128, feed_forward=18432,
            vocabulary=129280, experts=256, active_experts=8, expert_width=2048, shared_width=2048, dense_layers=3,
            latent=(1536, 512, 64, 128), published=(671.0, 37.0), drafter="DeepSeek V3 MTP",
            source="config.json of deepseek-ai/DeepSeek-V3, as R1 has it; report (2412.19437), section 4.2",
        ),
        ModelConfig(
            name="DeepSeek V3 MTP", layers=1, hidden=7168, heads=128, kv_heads=1, head_size=128, feed_forward=0,
            vocabulary=129280, experts=256, active_experts=8, expert_width=2048, shared_width=2048,
            latent=(1536, 512, 64, 128), published=(13.3, 2.4), drafter="",
            source="README_WEIGHTS.md of deepseek-ai/DeepSeek-V3: 11.5 of its own, .9 embedding, .9 output",
        ),
        ModelConfig(
            name="Mixtral 8x7B", layers=32, hidden=4096, heads=32, kv_heads=8, head_size=128, feed_forward=0,
            vocabulary=32000, experts=8, active_experts=2, expert_width=14336, published=(46.7, 12.9), drafter="",
            source="config.json of mistralai/Mixtral-8x7B-v0.1; Mistral AI's announcement of it",
        ),
    )
}  # fmt: skip
"""By name."""
