"""Methods with their settings, and models with what they need, as plain data."""

from dataclasses import asdict
from typing import Any

from engines.config import settings
from engines.methods import METHODS
from engines.models.catalog import MODELS
from engines.models.checkpoints.table import CHECKPOINTS


def methods() -> dict[str, dict[str, Any]]:
    """By name: title, summary, family, every setting, and the presets."""
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
    return [asdict(row) | {"state": row.state} for row in CHECKPOINTS]


def models() -> dict[str, dict[str, Any]]:
    """By id: everything that the catalogue says."""
    return {model.id: asdict(model) for model in MODELS.values()}
