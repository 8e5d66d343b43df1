"""Methods with their settings, and models with what they need, as plain data.

`python -m engines.runtime.listing` writes them into `STORED`, so that a command that lists them need not load torch.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from engines.assets import FOLDERS_VARIABLE
from engines.config import settings

STORED: Final = Path(__file__).with_name("listing.json")


def everything() -> dict[str, Any]:
    """All of `methods`, `models` and `families`: what is stored, unless torch is there or folders are added to it."""
    if "torch" in sys.modules or os.environ.get(FOLDERS_VARIABLE):
        return {"methods": methods(), "models": models(), "families": families()}
    stored: dict[str, Any] = json.loads(STORED.read_text(encoding="utf-8"))
    return stored


def methods() -> dict[str, dict[str, Any]]:
    """By name: title, summary, family, every setting, and the presets."""
    from engines.methods import METHODS

    return {
        name: {
            "title": method.title,
            "summary": method.summary,
            "family": method.family,
            "settings": {
                s.name: {
                    "kind": s.kind,
                    "default": s.default,
                    "allowed": s.allowed,
                    **({"choices": list(s.choices)} if s.choices else {}),
                    **({"low": s.knob.low, "high": s.knob.high} if s.knob.low is not None else {}),
                    "help": s.knob.help,
                    "when": s.scope,
                }
                for s in settings(method.config)
            },
            "presets": {preset: dict(values) for preset, values in method.presets.items()},
        }
        for name, method in METHODS.items()
    }


def families() -> list[dict[str, Any]]:
    """Families of published checkpoints: state, licence, and how they are read or why not."""
    from engines.models.checkpoints.table import CHECKPOINTS

    return [asdict(row) | {"state": row.state} for row in CHECKPOINTS]


def models() -> dict[str, dict[str, Any]]:
    """By id: everything that the catalogue says."""
    from engines.models.catalog import MODELS

    return {model.id: asdict(model) for model in MODELS.values()}


if __name__ == "__main__":
    import torch  # noqa: F401 (what is written is as the modules have it)

    STORED.write_text(json.dumps(everything(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
