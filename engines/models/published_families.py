"""Families of published checkpoints, by what becomes of them: read, read once they are converted, or not read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from engines.models import licences

State = Literal["read", "converted first", "not read"]


@dataclass(frozen=True, slots=True)
class PublishedFamily:
    """A family."""

    name: str
    state: State
    licence: str
    """As far as it was seen; the model cards decide."""
    said: str
    """How it is read, or why it is not."""
    types: tuple[str, ...] = ()
    """`model_type` of its config.json, where it has one."""

    def __str__(self) -> str:
        """One line for a person."""
        return f"{self.name}: {self.state}; {self.licence}. {self.said}"


_DOCS: Final = "docs/models.md has the commands"
FAMILIES: Final = (
    PublishedFamily("Qwen2, Qwen2.5", "read", "Apache-2.0, those that are listed", "As published.", ("qwen2",)),
    PublishedFamily("Qwen3, dense", "read", "Apache-2.0", "As published.", ("qwen3",)),
    PublishedFamily(
        "Llama 2 and 3, SmolLM2, TinyLlama",
        "read",
        "Llama Community Licenses, to be accepted on the hub; SmolLM2 and TinyLlama Apache-2.0",
        "As published.",
        ("llama",),
    ),
    PublishedFamily("Mistral 7B", "read", "Apache-2.0", "As published.", ("mistral",)),
    PublishedFamily("SDAR", "read", "Apache-2.0", "As published.", ("sdar",)),
    PublishedFamily(
        "SDAR, with experts", "not read", "Apache-2.0", "Its mixture of experts was not compared.", ("sdar_moe",)
    ),
    PublishedFamily("Fast-dLLM v2", "read", "Apache-2.0", "As published.", ("Fast_dLLM_Qwen",)),
    PublishedFamily("LLaDA 8B, 1.5", "read", "MIT", "As published.", ("llada",)),
    PublishedFamily("LLaDA2.0, 2.1", "read", "Apache-2.0", "As published.", ("llada2_moe",)),
    PublishedFamily("Dream", "read", "Apache-2.0", "As published.", ("Dream",)),
    PublishedFamily(
        "openPangu-7B-Diffusion",
        "converted first",
        licences.OPENPANGU,
        f"Its tokenizer needs a tokenizer.json, written once; {_DOCS}.",
        ("PanguEmbedded",),
    ),
    PublishedFamily(
        "Janus-Pro",
        "read",
        "code MIT, weights DeepSeek Model License",
        f"As published; pickles are converted first, {_DOCS}.",
        ("janus", "multi_modality"),
    ),
    PublishedFamily(
        "Lumina-mGPT",
        "converted first",
        "Chameleon Research License",
        f"Chameleon's VQGAN is converted; {_DOCS}.",
        ("chameleon",),
    ),
    PublishedFamily(
        "Lumina-mGPT 2.0",
        "converted first",
        "Apache-2.0; that of MoVQGAN was not seen",
        f"MoVQGAN is converted; {_DOCS}.",
        ("chameleon",),
    ),
    PublishedFamily(
        "Anole", "read", "its card says Apache-2.0; it comes of Chameleon", "As published.", ("chameleon",)
    ),
    PublishedFamily("Chameleon", "not read", "Chameleon Research License", "As it was published it draws no pictures."),
    PublishedFamily("Emu3-Gen, in transformers' layout", "read", "Apache-2.0", "As published.", ("emu3",)),
    PublishedFamily(
        "Emu3-Gen, as BAAI published it first",
        "not read",
        "Apache-2.0",
        "Its tokenizer is code of its own, which is not run; BAAI/Emu3-Gen-hf is the same model.",
        ("Emu3",),
    ),
    PublishedFamily(
        "LlamaGen, of classes and of texts",
        "converted first",
        "MIT; the text encoder, google/flan-t5-xl, Apache-2.0",
        f"From its .pt files; {_DOCS}.",
        ("llamagen", "llamagen-t2i"),
    ),
    PublishedFamily("MAR", "converted first", licences.MAR, f"From its .pth and kl16.ckpt; {_DOCS}.", ("mar",)),
    PublishedFamily("xAR", "converted first", licences.XAR, f"From its .pth and kl16.ckpt; {_DOCS}.", ("xar",)),
    PublishedFamily(
        "Harmon", "read", licences.HARMON, f"As the hub has it; pickles are converted first, {_DOCS}.", ("harmon",)
    ),
    PublishedFamily(
        "Cosmos-1.0-Autoregressive 4B, 12B",
        "converted first",
        "code Apache-2.0, weights NVIDIA Open Model License",
        f"By convert-cosmos; {_DOCS}.",
    ),
    PublishedFamily(
        "Cosmos-1.0-Autoregressive 5B, 13B Video2World",
        "not read",
        "code Apache-2.0, weights NVIDIA Open Model License",
        "Their cross-attention to a text is not built.",
    ),
)
"""What `python -m engines list` says; docs/models.md says more."""
_META: Final = "Meta's Chameleon Research License covers it: research only, to be accepted with Meta."
ASKS: Final = {
    "Llama": "Checkpoints of Meta's Llama ask you to accept its Community License, and pages that offer one to display "
    '"Built with Llama".',
    "Llama 3": "You accept Meta's Llama Community License by using it; pages that offer it display "
    '"Built with Llama".',
    "Janus-Pro": "Its weights are under the DeepSeek Model License, which restricts what they may be used for.",
    "Harmon": f"{licences.HARMON}.",
    "xAR": f"xAR's repository has {licences.XAR}.",
    "Lumina-mGPT": f"It is made from Chameleon. {_META}",
    "Anole": f"It is made from Chameleon. {_META}",
    "Chameleon": f"Lumina-mGPT's first generation and Anole are made from Chameleon. {_META}",
    "Cosmos": "Its weights are under the NVIDIA Open Model License, which the model card asks you to accept.",
    "openPangu": "Its licence forbids any use within the European Union; pages that offer it display "
    '"Powered by openPangu" and that openPangu is a trademark of Huawei Technologies Co., Ltd.',
}
"""What a licence asks before a checkpoint is loaded, by the group that the catalogue shows it with."""
PICKLES: Final = (".pt", ".pth", ".ckpt", ".bin", ".jit")
"""How files end that are converted, if anything is done with them."""


def unread(model_type: Any) -> PublishedFamily | None:
    """The family of a `model_type` that is known and not read."""
    known = (family for family in FAMILIES if family.state == "not read")
    return next((family for family in known if isinstance(model_type, str) and model_type in family.types), None)


def names(state: State) -> Iterator[str]:
    """Names of the families in a state."""
    return (family.name for family in FAMILIES if family.state == state)
