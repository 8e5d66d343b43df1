"""Published checkpoints for text that are listed by name: size, licence, and which small one drafts for them."""

from dataclasses import dataclass
from typing import Final, Literal

from engines.models import licences

Writing = Literal["causal", "blocks", "bidirectional"]
Drawing = Literal["codes of texts", "codes of classes", "vectors of texts", "vectors of classes", "clips"]
Kind = Writing | Drawing
"""What a checkpoint writes, or draws: the tokens of a picture, and what it is asked."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint."""

    name: str
    """OWNER/NAME of the hub, or a name of ours for what is converted into a folder."""
    title: str
    group: str
    """The family it is shown with."""
    kind: Kind
    gigabytes: float
    """What its parameters come to in bfloat16."""
    licence: str
    small: str = ""
    """The name of one that drafts for it."""
    files: str = ""
    """How it is had, where `hf download NAME` is not all of it."""
    note: str = ""
    """What is said of the licence, where its name is not all of it."""


TYPES: Final[dict[str, tuple[str, Kind]]] = {
    "qwen2": ("Qwen2", "causal"),
    "qwen3": ("Qwen3", "causal"),
    "llama": ("Llama", "causal"),
    "mistral": ("Mistral", "causal"),
    "sdar": ("SDAR", "blocks"),
    "Fast_dLLM_Qwen": ("Fast-dLLM v2", "blocks"),
    "llada2_moe": ("LLaDA2", "blocks"),
    "PanguEmbedded": ("openPangu", "blocks"),
    "llada": ("LLaDA", "bidirectional"),
    "Dream": ("Dream", "bidirectional"),
}
"""`model_type` of config.json -> family and kind, for what has not been loaded."""
TEXTS: Final = (
    Checkpoint("Qwen/Qwen3-0.6B", "Qwen3 0.6B", "Qwen3", "causal", 1.2, "Apache-2.0"),
    Checkpoint("Qwen/Qwen3-1.7B", "Qwen3 1.7B", "Qwen3", "causal", 3.4, "Apache-2.0", "Qwen/Qwen3-0.6B"),
    Checkpoint("Qwen/Qwen3-4B", "Qwen3 4B", "Qwen3", "causal", 8.0, "Apache-2.0", "Qwen/Qwen3-0.6B"),
    Checkpoint("Qwen/Qwen3-8B", "Qwen3 8B", "Qwen3", "causal", 16.4, "Apache-2.0", "Qwen/Qwen3-0.6B"),
    Checkpoint("Qwen/Qwen2.5-0.5B-Instruct", "Qwen2.5 0.5B Instruct", "Qwen2.5", "causal", 1.0, "Apache-2.0"),
    Checkpoint(
        "Qwen/Qwen2.5-7B-Instruct", "Qwen2.5 7B Instruct", "Qwen2.5", "causal", 15.2, "Apache-2.0",
        "Qwen/Qwen2.5-0.5B-Instruct",
    ),
    Checkpoint(
        "meta-llama/Llama-3.2-1B-Instruct", "Llama 3.2 1B Instruct", "Llama 3", "causal", 2.5,
        "Llama 3.2 Community License",
    ),
    Checkpoint(
        "meta-llama/Llama-3.1-8B-Instruct", "Llama 3.1 8B Instruct", "Llama 3", "causal", 16.1,
        "Llama 3.1 Community License", "meta-llama/Llama-3.2-1B-Instruct",
    ),
    Checkpoint(
        "HuggingFaceTB/SmolLM2-135M-Instruct", "SmolLM2 135M Instruct", "SmolLM2", "causal", 0.3, "Apache-2.0"
    ),
    Checkpoint(
        "HuggingFaceTB/SmolLM2-1.7B-Instruct", "SmolLM2 1.7B Instruct", "SmolLM2", "causal", 3.4, "Apache-2.0",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
    ),
    Checkpoint("mistralai/Mistral-7B-Instruct-v0.3", "Mistral 7B Instruct", "Mistral", "causal", 14.5, "Apache-2.0"),
    Checkpoint("JetLM/SDAR-1.7B-Chat", "SDAR 1.7B Chat", "SDAR", "blocks", 4.1, "Apache-2.0"),
    Checkpoint("JetLM/SDAR-4B-Chat", "SDAR 4B Chat", "SDAR", "blocks", 8.8, "Apache-2.0", "JetLM/SDAR-1.7B-Chat"),
    Checkpoint("JetLM/SDAR-8B-Chat", "SDAR 8B Chat", "SDAR", "blocks", 16.4, "Apache-2.0", "JetLM/SDAR-1.7B-Chat"),
    Checkpoint(
        "Efficient-Large-Model/Fast_dLLM_v2_1.5B", "Fast-dLLM v2 1.5B", "Fast-dLLM v2", "blocks", 3.1, "Apache-2.0"
    ),
    Checkpoint(
        "Efficient-Large-Model/Fast_dLLM_v2_7B", "Fast-dLLM v2 7B", "Fast-dLLM v2", "blocks", 15.2, "Apache-2.0"
    ),
    Checkpoint("inclusionAI/LLaDA2.0-mini", "LLaDA2.0 mini 16B", "LLaDA2", "blocks", 32.5, "Apache-2.0"),
    Checkpoint("inclusionAI/LLaDA2.1-mini", "LLaDA2.1 mini 16B", "LLaDA2", "blocks", 32.5, "Apache-2.0"),
    Checkpoint("GSAI-ML/LLaDA-8B-Instruct", "LLaDA 8B Instruct", "LLaDA", "bidirectional", 16.0, "MIT"),
    Checkpoint("GSAI-ML/LLaDA-1.5", "LLaDA 1.5 8B", "LLaDA", "bidirectional", 16.0, "MIT"),
    Checkpoint("Dream-org/Dream-v0-Instruct-7B", "Dream 7B Instruct", "Dream", "bidirectional", 15.2, "Apache-2.0"),
    Checkpoint(
        "openpangu-7b-diffusion-base", "openPangu 7B Diffusion, base", "openPangu", "blocks", 16.1, licences.OPENPANGU,
        files="the files of ai.gitcode.com/ascend-tribe/openPangu-7B-Diffusion-Base and a tokenizer.json, written once",
    ),
)  # fmt: skip
