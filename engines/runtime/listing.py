"""Methods with their settings, models with what they need, and families of published checkpoints, as plain data.

`python -m engines.runtime.listing` writes the first two into `STORED`, so that listing them does not load torch.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from engines.models.checkpoints.families import CHECKPOINTS
from engines.paths import MODELS_VARIABLE
from engines.settings import settings

STORED: Final = Path(__file__).with_name("listing.json")


def everything() -> dict[str, Any]:
    """All of `methods`, `models` and `families`; the first two as stored, unless torch is there or folders are added.

    A family has its state and licence, and how it is read or why not.
    """
    from_modules = "torch" in sys.modules or os.environ.get(MODELS_VARIABLE)
    loaded: dict[str, Any] = current() if from_modules else json.loads(STORED.read_text(encoding="utf-8"))
    return loaded | {"families": [asdict(row) | {"state": row.state} for row in CHECKPOINTS]}


def current() -> dict[str, Any]:
    """Return the stored data, as computed from the modules."""
    return {"methods": methods(), "models": models()}


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
                    "allowed": s.describe_range,
                    **({"choices": list(s.choices)} if s.choices else {}),
                    **({"low": s.knob.low, "high": s.knob.high} if s.knob.low is not None else {}),
                    "help": s.knob.help,
                    "when": s.describe_condition,
                }
                for s in settings(method.config)
            },
            "presets": {preset: dict(values) for preset, values in method.presets.items()},
        }
        for name, method in METHODS.items()
    }


def models() -> dict[str, dict[str, Any]]:
    """By id: everything that the catalogue says."""
    from engines.models.catalog import MODELS

    return {model.id: asdict(model) for model in MODELS.values()}


if __name__ == "__main__":
    STORED.write_text(json.dumps(current(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
