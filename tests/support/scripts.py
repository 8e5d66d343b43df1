"""Texts of many scripts, cut into the tokens of a byte-level vocabulary, and runs that write them."""

import random
import re
from itertools import pairwise

from draftscope.traces.schema import Canvas, Legend, Trace
from support.handmade import make, step

TEXTS = {
    "chinese": "今天天气很好，我们去公园散步吧。",
    "japanese": "猫は庭で静かに眠っています。",
    "arabic": "مرحبا بالعالم، كيف حالك اليوم؟",
    "syriac": "ܫܠܡܐ ܥܠܡܐ، ܐܝܟܢܐ ܐܝܬܝܟ؟",
    "nko": "ߒߞߏ ߣߌ߫ ߓߊ߲ߓߊ߫ ߞߊ߲",
    "hebrew": "שלום עולם, מה שלומך היום?",
    "hindi": "नमस्ते दुनिया, आप कैसे हैं?",
    "thai": "สวัสดีชาวโลก วันนี้เป็นอย่างไรบ้าง",
    "emoji": "🦊 👩‍👩‍👧 🇯🇵🇩🇪 👍🏽!",
    "latin": "naïve café — 3 × 4",
}


def pieces(text: str, *cuts: int) -> list[str]:
    """The text in the notation of a legend, cut before these bytes."""
    data, ends = text.encode(), [0, *cuts, len(text.encode())]
    parts = (data[start:end].decode("utf-8", "surrogateescape") for start, end in pairwise(ends))
    return [re.sub("[\udc80-\udcff]", lambda byte: f"<0x{ord(byte[0]) - 0xDC00:02X}>", part) for part in parts]


def cut(text: str, seed: int) -> list[str]:
    """The text in tokens of one to four bytes."""
    chance, cuts = random.Random(seed), [0]
    while cuts[-1] < len(text.encode()):
        cuts.append(cuts[-1] + chance.randint(1, 4))
    return pieces(text, *cuts[1:-1])


def writing(texts: list[str], **fields: object) -> Trace:
    """A run that writes tokens of these texts, one a pass."""
    ids = {text: number for number, text in enumerate(dict.fromkeys(texts), 5)}
    steps = [step(f"{position}:{ids[text]}=sampled") for position, text in enumerate(texts)]
    legend = Legend(vocabulary={number: text for text, number in ids.items()})
    return make("ar", Canvas(kind="text", shape=(len(texts),)), steps, legend=legend, **fields)
