"""Index of methods with their settings, models with what they need, and families of checkpoints, as plain data.

Computing it imports torch. The wheel contains the result, which `setup.py` writes; a checkout keeps it in the cache
folder until a source file changes. So `draftscope list` and completion answer at once.
"""

import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from draftscope.engines.models.checkpoints.families import CHECKPOINTS
from draftscope.engines.paths import ASSETS, MODELS_VARIABLE, cache_dir
from draftscope.engines.settings import settings
from draftscope.traces.files import write_atomic

FILE_NAME: Final = "method_index.json"
_IN_WHEEL: Final = Path(__file__).with_name(FILE_NAME)
_ENGINES: Final = Path(__file__).parents[1]


def method_index() -> dict[str, Any]:
    """Return `methods`, `models` and `families` by these names.

    The first two are read from a file, unless torch is imported already or DRAFTSCOPE_MODELS adds models. A family has
    its state and licence, and how it is read or why not.
    """
    imported = sys.modules.get("torch") or os.environ.get(MODELS_VARIABLE)
    index = compute_index() if imported else _read_index()
    return index | {"families": [asdict(row) | {"state": row.state} for row in CHECKPOINTS]}


def _read_index() -> dict[str, Any]:
    """Return the index of the wheel or of the cache folder; compute and store it where there is none."""
    if _IN_WHEEL.is_file():
        index: dict[str, Any] = json.loads(_IN_WHEEL.read_text(encoding="utf-8"))
        return index
    path, digest = cache_dir() / FILE_NAME, _digest()
    with suppress(OSError, ValueError, TypeError, KeyError):
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["digest"] == digest:
            return {"methods": stored["methods"], "models": stored["models"]}
    index = compute_index()
    with suppress(OSError):  # a cache folder that cannot be written costs time only
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps({"digest": digest, **index}).encode())
    return index


def _digest() -> str:
    """Return a hash of all that the index depends on: the source of the engines, and which weights are there."""
    digest = sha256()
    for path in sorted(_ENGINES.rglob("*.py")):
        digest.update(path.read_bytes())
    for path in sorted((ASSETS / "models").glob("*.safetensors")):
        digest.update(path.name.encode())
    return digest.hexdigest()


def compute_index() -> dict[str, Any]:
    """Return `methods` and `models` by these names, as the modules define them."""
    return {"methods": methods(), "models": models()}


def methods() -> dict[str, dict[str, Any]]:
    """Return by name of a method: title, summary, family, every setting, and the presets."""
    from draftscope.engines.methods import METHODS

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
    """Return by id of a model: all fields of the catalogue."""
    from draftscope.engines.models.catalog import MODELS

    return {model.id: asdict(model) for model in MODELS.values()}
