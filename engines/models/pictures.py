"""Pictures as a trace holds them."""

import base64
import io

from PIL import Image


def as_uri(picture: Image.Image, kind: str) -> str:
    """A picture as a data URI; WEBP is lossy and small, PNG exact."""
    buffer = io.BytesIO()
    picture.save(buffer, kind, **({"quality": 90} if kind == "WEBP" else {"optimize": True}))
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"
