"""Cost of a pass of published models at their real sizes, on this machine, with random weights.

A model is built on its device from its published config.json; nothing is downloaded, and quality and acceptance are not
measured. The baseline and a window, or a block, are timed pass by pass, and so is `generate` of transformers on the
same decoder, if there is one, greedily and for as many tokens. A family that does not fit is left out with the reason.
On a GPU the decoder alone is also replayed as a CUDA graph, without a KV cache, which shows the cost without launches.
`--tiny` runs small networks of the same form, so that everything can be tried on a CPU.
"""

import gc
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import torch
from diffusers import AutoencoderKL
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordLevel
from torch import nn
from transformers import JanusConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM
from transformers.models.janus.configuration_janus import JanusVQVAEConfig

from benchmarks._report_format import Claim, Options, Row, finish
from draftscope.cli.streams import exit_code_for_pipe
from draftscope.engines.models.checkpoints.images.cosmos import CosmosVideo, PlaceRotary
from draftscope.engines.models.checkpoints.images.cosmos_tokenizer import CosmosTokenizer, TokenizerSize
from draftscope.engines.models.checkpoints.images.janus import Janus, JanusPictures
from draftscope.engines.models.checkpoints.images.mar import MAR, MARModel, MARSize
from draftscope.engines.models.checkpoints.images.video_model import ClipShape, pack
from draftscope.engines.models.devices import HELP, resolve
from draftscope.engines.models.diffusion_lm import DiffusionLM, Traits
from draftscope.engines.models.errors import ModelError
from draftscope.engines.models.memory import DTYPES, default_dtype
from draftscope.engines.runtime.driver import Run
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.runtime.stage_timer import Host
from draftscope.traces.schema import ModelCard

_MASK, _END, _UNKNOWN = "<|MASK|>", "<|im_end|>", "<unk>"
_JANUS: Final = ("<｜begin▁of▁sentence｜>", "<｜▁pad▁｜>", "<begin_of_image>")  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class Built:
    """A model, and what else is measured on its network."""

    model: Any
    prompt: str
    causal: Any = None
    """A class of transformers around the same decoder that has `generate`; None where there is none."""


Build = Callable[[torch.device, torch.dtype], Built]


def decoder(width: int, inner: int, layers: int, heads: int, groups: int, words: int) -> dict[str, Any]:
    """Fields of the native config of a decoder of Llama's kind."""
    return {
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "head_dim": width // heads,
        "vocab_size": words,
        "attn_implementation": "sdpa",
        "pad_token_id": None,
    }


def _on(device: torch.device, dtype: torch.dtype, build: Callable[[], nn.Module]) -> Any:
    """A network with random weights, made where it will be."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            return build().eval().requires_grad_(False)
    finally:
        torch.set_default_dtype(before)


def _qwen3(fields: Mapping[str, Any], base: float, device: torch.device, dtype: torch.dtype) -> Any:
    config = Qwen3Config(**fields, rope_parameters={"rope_type": "default", "rope_theta": base})
    return _on(device, dtype, lambda: Qwen3ForCausalLM(config))


def _card(name: str) -> ModelCard:
    return ModelCard(id=name, title=f"{name}, random weights", weights={})


def _words(count: int, *special: str) -> Tokenizer:
    """Return a tokenizer of `count` tokens, one letter each."""
    names = [_UNKNOWN, *special, *(f"t{i}" for i in range(count - 1 - len(special)))]
    tokenizer = Tokenizer(WordLevel({name: i for i, name in enumerate(names)}, unk_token=_UNKNOWN))
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in special])
    return tokenizer


def sdar(name: str, fields: Mapping[str, Any]) -> Build:
    """A block-diffusion language model on Qwen3, which also decodes as a causal model with blocks of one token."""

    def build(device: torch.device, dtype: torch.dtype) -> Built:
        network, words = _qwen3(fields, 1e6, device, dtype), fields["vocab_size"]
        tokenizer = _words(words, _MASK, _END)
        kind = Traits(tokenizer.get_vocab()[_MASK], (words,), longest=2048)
        plain = Qwen3ForCausalLM.__new__(Qwen3ForCausalLM)  # the wrapper puts a lean decoder into its own object
        plain.__dict__ = {**network.__dict__, "_modules": dict(network._modules)}
        return Built(DiffusionLM(network, tokenizer, kind, _card(name), device), "How many are left?", plain)

    return build


def janus(name: str, fields: Mapping[str, Any], codes: JanusVQVAEConfig, side: int) -> Build:
    """A Janus-Pro; `generate` writes text with the same decoder."""

    def build(device: torch.device, dtype: torch.dtype) -> Built:
        width, words = fields["hidden_size"], fields["vocab_size"]
        codes.projection_dim = codes.image_token_embed_dim = width
        cell = 1 << (len(codes.channel_multiplier) - 1)
        config = JanusConfig(
            text_config={"model_type": "llama", **fields, "max_position_embeddings": 4096},
            vq_config=codes.to_dict(),
            vision_config={"image_size": side * cell, "patch_size": cell},
        )
        parts = _on(device, dtype, lambda: JanusPictures(config))
        parts.model.vqmodel.float()
        model = Janus(parts, _words(words, *_JANUS), _card(name), str(device))
        causal = _on(torch.device("meta"), dtype, lambda: LlamaForCausalLM(config.text_config))
        causal.model = parts.model.language_model
        causal.lm_head = _on(device, dtype, lambda: nn.Linear(width, words, bias=False))
        return Built(model, "a red boot", causal)

    return build


def cosmos(name: str, fields: Mapping[str, Any], tokenizer: TokenizerSize, shape: tuple[int, int, int]) -> Build:
    """A Cosmos autoregressive model; `shape` is frames, and pixels each way."""

    def build(device: torch.device, dtype: torch.dtype) -> Built:
        network = _qwen3(fields, 5e5, device, dtype)
        pixels: CosmosTokenizer = _on(device, torch.float32, lambda: CosmosTokenizer(tokenizer))
        cell, frames = tokenizer.cell, shape[0]
        clip = ClipShape(frames, 9, tokenizer.span, shape[1] // cell, shape[2] // cell, cell, tokenizer.codes)
        angles = torch.rand(clip.latents * clip.plane + 1, fields["head_dim"], device=device)
        network.model.rotary_emb = PlaceRotary(angles)
        model = CosmosVideo(network, pixels, clip, _card(name), str(device))
        return Built(model, pack([0] * clip.num_given), network)

    return build


def mar(name: str, size: MARSize) -> Build:
    """A MAR, in float32; transformers has no counterpart."""

    def build(device: torch.device, dtype: torch.dtype) -> Built:
        del dtype
        network = _on(device, torch.float32, lambda: MAR(size))
        for weight in network.parameters():
            weight.normal_(std=0.02)

        autoencoder = AutoencoderKL(block_out_channels=(32,), latent_channels=size.token)  # not timed
        return Built(MARModel(network, autoencoder, _card(name), device), "207")

    return build


_LEVELS: Final = (8, 8, 8, 5, 5, 5)
_CODES: Final = JanusVQVAEConfig(embed_dim=8, num_embeddings=16384)
SIZES: Final = {
    "Janus-Pro 1B": decoder(2048, 5632, 24, 16, 16, 102_400),
    "Janus-Pro 7B": decoder(4096, 11_008, 30, 32, 32, 102_400),
    "SDAR 1.7B": decoder(2048, 6144, 28, 16, 8, 151_936),
    "SDAR 8B": decoder(4096, 12_288, 36, 32, 8, 151_936),
    "Cosmos 4B": decoder(4096, 14_336, 16, 32, 8, 64_000),
}
_LARGE_TOKENIZER: Final = TokenizerSize(4, (128, 256, 512, 512), 2, 16, (2, 1), _LEVELS)
REAL: Final[dict[str, Build]] = {
    **{name: janus(name, SIZES[name], _CODES, 24) for name in ("Janus-Pro 1B", "Janus-Pro 7B")},
    **{name: sdar(name, SIZES[name]) for name in ("SDAR 1.7B", "SDAR 8B")},
    "MAR-H": mar("MAR-H", MARSize(width=1280, depth=20, heads=16, head_width=1536, head_depth=12)),
    "Cosmos 4B": cosmos("Cosmos 4B", SIZES["Cosmos 4B"], _LARGE_TOKENIZER, (33, 640, 1024)),
}
_SMALL: Final = decoder(32, 48, 2, 4, 2, 64)
_FEW: Final = JanusVQVAEConfig(
    embed_dim=4, num_embeddings=24, base_channels=32, channel_multiplier=[1, 1], num_res_blocks=1, latent_channels=4
)
TINY: Final[dict[str, Build]] = {
    "Janus-Pro": janus("Janus-Pro", _SMALL, _FEW, 4),
    "SDAR": sdar("SDAR", _SMALL),
    "MAR": mar("MAR", MARSize(side=4, token=4, width=16, depth=1, heads=2, buffer=4, head_width=16, head_depth=1)),
    "Cosmos": cosmos(
        "Cosmos", decoder(32, 48, 2, 4, 2, 8), TokenizerSize(2, (32, 32), 1, 4, (1, 1), (2, 2, 2)), (17, 16, 16)
    ),
}


WARM: Final = 4
"""Passes that are left out, as the first ones are slow."""
WINDOW: Final = 32
METHODS_OF: Final[dict[str, tuple[tuple[str, dict[str, Any]], ...]]] = {
    "discrete-ar": (("ar", {}), ("scd", {"window": WINDOW, "coupling": "none"})),
    "diffusion-lm": (
        ("blockwise", {"block": "1"}),
        ("blockwise", {"block": "32", "rule": "greedy"}),
        ("ar", {}),
    ),
    "continuous-ar": (("continuous", {"steps": 100}), ("cspd", {"steps": 100, "drafter": "itself"})),
}
"""Runs that are timed on models of a family, the baseline first."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report."""
    options = Options("gpu", __doc__, tiny=False, passes=24)
    options.add_argument("--families", nargs="+", metavar="NAME", help=f"of {', '.join(REAL)}; default: all")
    options.add_argument("--device", help=HELP)
    options.add_argument("--dtype", choices=sorted(DTYPES), help="default: float32 on a CPU, bfloat16 elsewhere")
    chosen = options.read(arguments)
    offered = TINY if chosen.tiny else REAL
    names = chosen.families or list(offered)
    if unknown := [name for name in names if name not in offered]:
        options.error(f"--families: there is no {unknown[0]!r}; use {', '.join(offered)}")
    target_device = resolve(chosen.device)
    device, dtype = torch.device(target_device), DTYPES[chosen.dtype] if chosen.dtype else default_dtype(target_device)
    rows: list[Row] = []
    claims: list[Claim] = []
    for name in names:
        try:
            rows += list(measured(name, offered[name], device, dtype, chosen.passes))
        except (ModelError, RuntimeError) as error:
            reason = f"Not run: {str(error).splitlines()[0]}"
            claims.append(Claim(name=f"{name}: seconds a pass", measured=None, reason=reason))
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    finish(chosen, "Published sizes with random weights", claims, rows, device)
    return 0


def measured(name: str, build: Build, device: torch.device, dtype: torch.dtype, passes: int) -> Iterator[Row]:
    """The rows of one family."""
    torch.manual_seed(0)
    built = build(device, dtype)
    model = built.model

    about = {"family": name, "parameters": model.num_parameters, "dtype": str(model.dtype).removeprefix("torch.")}
    for method, settings in METHODS_OF[model.families[0]]:
        length = {"length": 8 * (2 + (passes + WARM) // 8)} if "diffusion-lm" in model.families else {}
        fewer_steps = {"steps": 4} if "steps" in settings and model.num_parameters < 10**6 else {}
        job = RunRequest(method, model, built.prompt, settings={**length, **settings, **fewer_steps}).job()
        steps = list(islice(Run(job), passes + WARM))
        calls = [step.call for step in steps[WARM:] or steps]
        yield about | {
            "method": method,
            "settings": " ".join(f"{key}={value}" for key, value in {**settings, **fewer_steps}.items()),
            "tokens_fed": statistics.median(call.query_tokens for call in calls),
            "seconds": statistics.median(call.milliseconds.forward / 1000 for call in calls),
            "whole_seconds": statistics.median(call.milliseconds.total / 1000 for call in calls),
        }
    if built.causal is not None:
        seconds = generating(built, passes)
        generate = {"method": "transformers' generate", "settings": "greedy, on the same decoder", "tokens_fed": 1}
        yield about | generate | {"seconds": seconds, "whole_seconds": seconds}
    if built.causal is not None and device.type == "cuda":
        for tokens in (1, WINDOW):
            seconds = replayed(built.causal, tokens, device, passes)
            graph = {"method": "CUDA graph", "settings": "the decoder alone, no KV cache", "tokens_fed": tokens}
            yield about | graph | {"seconds": seconds, "whole_seconds": seconds}


def generating(built: Built, passes: int) -> float:
    """Seconds a token of transformers' own loop on the same decoder: the difference of a long text and a short one."""
    prompt, clock = torch.zeros(1, 8, dtype=torch.long, device=built.model.device), Host()

    def seconds(count: int) -> float:
        begun = clock.mark(prompt)
        built.causal.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            min_new_tokens=count,
            max_new_tokens=count,
            pad_token_id=0,
        )
        return float(clock.mark(prompt) - begun)

    with torch.inference_mode():
        seconds(WARM + 1)
        return statistics.median(seconds(WARM + passes) - seconds(WARM) for _ in range(3)) / passes


def replayed(causal: Any, tokens: int, device: torch.device, passes: int) -> float:
    """Return the seconds of a pass over `tokens` tokens that is launched as one CUDA graph."""
    words, graph, clock = torch.zeros(1, tokens, dtype=torch.long, device=device), torch.cuda.CUDAGraph(), Host()
    with torch.inference_mode():
        side = torch.cuda.Stream(device)  # where torch wants what is captured to have run before
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM):
                causal(input_ids=words, use_cache=False)
        torch.cuda.current_stream(device).wait_stream(side)
        with torch.cuda.graph(graph):
            causal(input_ids=words, use_cache=False)

    def seconds() -> float:
        begun = clock.mark(words)
        graph.replay()
        return float(clock.mark(words) - begun)

    return statistics.median([seconds() for _ in range(WARM + passes)][WARM:])


if __name__ == "__main__":
    sys.exit(exit_code_for_pipe(main))
