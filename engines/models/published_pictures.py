"""Published checkpoints for pictures and video that are listed by name: size, licence, and how they are had."""

from typing import Final

from engines.models import licences
from engines.models.published_texts import Checkpoint

_CONVERTED: Final = "converted once by python -m engines"
_DEEPSEEK: Final = "DeepSeek Model License"
_META: Final = "Chameleon Research License"
_NVIDIA: Final = "NVIDIA Open Model License"
_LLAMAGEN: Final = f"of github.com/FoundationVision/LlamaGen, {_CONVERTED} convert-picture llamagen"

PICTURES: Final = (
    *(
        Checkpoint(
            f"deepseek-community/Janus-Pro-{size}",
            f"Janus-Pro {size}, 384x384",
            "Janus-Pro",
            "codes of texts",
            gigabytes,
            _DEEPSEEK,
            small,
            note=f"its code is MIT, its weights are under the {_DEEPSEEK}",
        )
        for size, gigabytes, small in (("1B", 3.3, ""), ("7B", 13.5, "deepseek-community/Janus-Pro-1B"))
    ),
    Checkpoint(
        "leloy/Anole-7b-v0.1-hf",
        "Anole 7B, 512x512",
        "Anole",
        "codes of texts",
        13.8,
        _META,
        note=f"its card says Apache-2.0, and it comes of Meta's Chameleon, under the {_META}",
    ),
    Checkpoint(
        "BAAI/Emu3-Gen-hf",
        "Emu3-Gen, 720x720",
        "Emu3-Gen",
        "codes of texts",
        16.4,
        "Apache-2.0",
        note="Apache-2.0; a picture is 8,100 codes, for a GPU",
    ),
    *(
        Checkpoint(
            f"lumina-mgpt-7b-{side}",
            f"Lumina-mGPT 7B, {side}x{side}",
            "Lumina-mGPT",
            "codes of texts",
            13.8,
            _META,
            files=f"hf download Alpha-VLLM/Lumina-mGPT-7B-{side} --local-dir FOLDER, and Chameleon's vqgan.ckpt, "
            f"{_CONVERTED} convert-picture lumina-mgpt",
            note=f"both come of Meta's Chameleon, under the {_META}",
        )
        for side in (512, 768, 1024)
    ),
    Checkpoint(
        "lumina-mgpt-2.0",
        "Lumina-mGPT 2.0 7B, 768x768",
        "Lumina-mGPT 2.0",
        "codes of texts",
        14.0,
        "Apache-2.0",
        files="hf download Alpha-VLLM/Lumina-mGPT-2.0 --local-dir FOLDER, and movqgan_270M.ckpt of ai-forever/MoVQGAN, "
        f"{_CONVERTED} convert-picture lumina-mgpt-2",
        note="Apache-2.0, the licence of MoVQGAN was not seen",
    ),
    *(
        Checkpoint(
            f"llamagen-c2i-{size.lower()}",
            f"LlamaGen {size} of classes, 256x256 or 384x384",
            "LlamaGen",
            "codes of classes",
            gigabytes,
            "MIT",
            files=f"c2i_{size}_256.pt or _384.pt and vq_ds16_c2i.pt {_LLAMAGEN}",
        )
        for size, gigabytes in (("B", 0.5), ("L", 1.0), ("XL", 1.8), ("XXL", 3.1), ("3B", 6.5))
    ),
    *(
        Checkpoint(
            f"llamagen-t2i-xl-{side}",
            f"LlamaGen XL of texts, {side}x{side}",
            "LlamaGen",
            "codes of texts",
            4.3,
            "MIT, encoder Apache-2.0",
            files="hf download google/flan-t5-xl, whose encoder is 2.4 GB of it, and "
            f"t2i_XL_stage{stage}_{side}.pt and vq_ds16_t2i.pt {_LLAMAGEN}",
        )
        for stage, side in ((1, 256), (2, 512))
    ),
    *(
        Checkpoint(
            f"mar-{size.lower()}",
            f"MAR-{size}, 256x256",
            "MAR",
            "vectors of classes",
            gigabytes,
            licences.MAR,
            files=f"checkpoint-last.pth and kl16.ckpt of github.com/LTH14/mar, {_CONVERTED} convert-picture mar",
        )
        for size, gigabytes in (("B", 1.0), ("L", 2.1), ("H", 4.0))
    ),
    *(
        Checkpoint(
            f"xar-{size.lower()}",
            f"xAR-{size}, 256x256",
            "xAR",
            "vectors of classes",
            gigabytes,
            licences.XAR,
            files=f"xAR-{size}.pth of huggingface.co/OliverRen/xAR and MAR's kl16.ckpt, "
            f"{_CONVERTED} convert-picture xar",
            note=f"its repository has {licences.XAR}",
        )
        for size, gigabytes in (("B", 0.8), ("L", 2.6), ("H", 4.9))
    ),
    *(
        Checkpoint(
            f"wusize/Harmon-{size.replace('.', '_')}",
            f"Harmon {size}, 256x256",
            "Harmon",
            "vectors of texts",
            gigabytes,
            licences.HARMON,
            small,
        )
        for size, gigabytes, small in (("0.5B", 2.9, ""), ("1.5B", 10.1, "wusize/Harmon-0_5B"))
    ),
    *(
        Checkpoint(
            f"nvidia/Cosmos-1.0-Autoregressive-{size}",
            f"Cosmos 1.0 Autoregressive {size}, 33 frames of 640x1024",
            "Cosmos",
            "clips",
            gigabytes,
            _NVIDIA,
            files=f"hf download nvidia/Cosmos-1.0-Autoregressive-{size}, {_CONVERTED} convert-cosmos",
            note=f"its code is Apache-2.0, its weights are under the {_NVIDIA}",
        )
        for size, gigabytes in (("4B", 8.0), ("12B", 23.1))
    ),
)
