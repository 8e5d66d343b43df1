"""Checkpoints of others of which one file is damaged or changed: tiny ones of every family of texts and of pictures."""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any, Final, NamedTuple

from benchmarks._attempts import Case
from benchmarks._mutation import as_json, changed, damaged
from engines.config import ConfigError, make_config

ROOT: Final = Path(__file__).parents[1]
_PROMPTS: Final = {"llamagen": "7", "mar": "207"}
"""Of those that draw a class; the others take words."""
_FEW: Final[Mapping[str, Mapping[str, Any]]] = {"continuous": {"steps": 2, "last": 100}}
"""Settings that make a pass short."""


class RunRefused(ValueError):
    """A model that refuses a prompt or a setting, in a sentence that names it."""


class _Pickled(NamedTuple):
    """A published model that is converted: its kind, the files, and what tensors do not tell."""

    kind: str
    folder: Path
    source: str
    pixels: str | None
    heads: int | None
    side: int | None


def texts() -> Callable[[Random], Case]:
    """Makes language models' checkpoints with one strange file."""
    from engines.models.hub import published

    made = _helper("checkpoints")
    home = Path(mkdtemp(prefix="fuzz-"))
    sound = []
    for family in made.SPECIAL:
        shards, pieces = 1 + (family == "Fast_dLLM_Qwen"), family == "Dream"
        sound.append(made.write(home / family, family, shards=shards, pieces=pieces))

    def make(chance: Random) -> Case:
        folder, name, shown = _strange(chance.choice(sound), home / "tried", chance)

        def load() -> None:
            published._load.cache_clear()  # as a process that begins
            _text_pass(published.load_folder(folder))

        return Case({name: shown}, load)

    return make


def pictures() -> Callable[[Random], Case]:
    """Makes checkpoints that draw, and pickles to be converted into some, with one strange file."""
    from engines.models.hub import picture_convert, published

    home = Path(mkdtemp(prefix="fuzz-"))
    pickled = _pickled(home)
    sound = _drawing(home)
    for one in pickled:
        target = home / one.kind
        place = target / "pixels" if one.kind in ("lumina-mgpt", "anole") else target
        if place != target:
            shutil.copytree(one.folder, target)
        picture_convert.convert(one.kind, _asked(one, one.folder), place)
        sound.append(target)

    def make(chance: Random) -> Case:
        if chance.random() < 0.25:
            return _converted(chance.choice(pickled), home, chance)
        chosen = chance.choice(sound)
        folder, name, shown = _strange(chosen, home / "tried", chance)

        def load() -> None:
            published._load.cache_clear()
            _picture_pass(published.load_folder(folder), _PROMPTS.get(chosen.name, "a red boot"))

        return Case({f"{chosen.name}/{name}": shown}, load)

    return make


def _converted(one: _Pickled, home: Path, chance: Random) -> Case:
    """A pickle that is damaged and converted."""
    from engines.models.hub import picture_convert

    folder, target = home / "pickled", home / "converted"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(one.folder, folder)
    file = folder / (one.source if one.pixels is None or chance.random() < 0.6 else one.pixels)
    data = file.read_bytes()
    data = damaged(data[:4000], chance) + data[4000:] if chance.random() < 0.7 else damaged(data, chance)
    file.write_bytes(data)

    def convert() -> None:
        shutil.rmtree(target, ignore_errors=True)
        picture_convert.convert(one.kind, _asked(one, folder), target)

    return Case({f"{one.kind}/{file.name}": f"{len(data)} bytes"}, convert)


def _asked(one: _Pickled, folder: Path) -> Any:
    from engines.models.hub.picture_convert import Asked

    return Asked(folder / one.source, folder / one.pixels if one.pixels else None, one.heads, one.side)


def _pickled(home: Path) -> list[_Pickled]:
    """The models that are published as pickles."""
    mar, llamagen, chameleon = (_helper(name) for name in ("mar", "llamagen", "chameleon"))
    classes = llamagen.write(home / "llamagen-published")
    denoising = mar.write(home / "mar-published")
    coded = chameleon.write(home / "chameleon-published", shared=True)
    return [
        _Pickled("llamagen", classes, "c2i_B_256.pt", "vq_ds16_c2i.pt", llamagen.DECODER.heads, llamagen.SIDE),
        _Pickled("mar", denoising, "checkpoint-last.pth", "kl16.ckpt", mar.HEADS, None),
        _Pickled("lumina-mgpt", coded, "vqgan.ckpt", None, None, chameleon.SIDE),
        _Pickled("anole", coded, "vqgan.ckpt", None, None, chameleon.SIDE),
    ]


def _drawing(home: Path) -> list[Path]:
    """The models that are published as safetensors; one of them in two files."""
    janus, emu3 = _helper("janus"), _helper("emu3")
    folders = [janus.write(home / f"janus-{released}", released=released) for released in (False, True)]
    folders.append(_in_two(shutil.copytree(folders[0], home / "janus-shards")))
    return [*folders, *(emu3.write(home / f"emu3-{older}", older) for older in (False, True))]


def _in_two(folder: Path) -> Path:
    """The same checkpoint with its tensors in two files and an index."""
    from safetensors.torch import load_file, save_file

    whole = folder / "model.safetensors"
    tensors = load_file(whole)
    names = sorted(tensors)
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, held in parts.items():
        save_file({name: tensors[name].clone() for name in held}, folder / file)
    whole.unlink()
    found = {name: file for file, held in parts.items() for name in held}
    index = {"metadata": {"total_size": 1}, "weight_map": found}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder


def _helper(name: str) -> Any:
    """One of the suite's helpers, which write checkpoints."""
    if str(ROOT / "tests") not in sys.path:
        sys.path.append(str(ROOT / "tests"))
    return import_module(f"support.{name}")


def _strange(sound: Path, folder: Path, chance: Random) -> tuple[Path, str, object]:
    """A copy of a folder, in which one file is strange: the folder, the file, and what it holds where that is short."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sound, folder)
    files = sorted(
        path for path in folder.rglob("*") if path.is_file() and path.suffix in (".json", ".safetensors", ".txt")
    )
    file = chance.choice(files)
    data = _damaged_part(file, chance)
    file.unlink() if data is None else file.write_bytes(data)
    shown = data if data is None or len(data) < 5000 else f"{len(data)} bytes"
    return folder, str(file.relative_to(folder)), shown


def _damaged_part(file: Path, chance: Random) -> bytes | None:
    """What becomes of one file of a checkpoint; None where it goes."""
    data = file.read_bytes()
    kind = chance.random()
    if kind < 0.05:
        return None
    if file.suffix == ".json" and kind < 0.8:
        return as_json(changed(json.loads(data), chance, 2))
    if file.suffix == ".safetensors" and kind < 0.8:
        size = int.from_bytes(data[:8], "little")
        if kind < 0.5:
            head = as_json(changed(json.loads(data[8 : 8 + size]), chance, 2))
            return len(head).to_bytes(8, "little") + head + data[8 + size :]
        return damaged(data[: 8 + size], chance) + data[8 + size :]
    return damaged(data, chance)


def _text_pass(model: Any) -> None:
    """One forward pass of a checkpoint that writes."""
    writes_blocks = "diffusion-lm" in model.families
    size = max(model.kind.sizes or (1,))
    block = {"block": str(min(size, 8))} if writes_blocks else {}
    _pass(model, "blockwise" if writes_blocks else "ar", "a", {"length": 8, **block})


def _picture_pass(model: Any, prompt: str) -> None:
    """One forward pass of a checkpoint that draws."""
    name = "continuous" if "continuous-ar" in model.families else "ar"
    _pass(model, name, prompt, _FEW.get(name, {}))


def _pass(model: Any, name: str, prompt: str, settings: Mapping[str, Any]) -> None:
    from engines.methods import METHODS
    from engines.runtime.driver import Job, Run

    method = METHODS[name]
    with suppress(StopIteration):
        try:
            next(iter(Run(Job(method, model, prompt, make_config(method.config, dict(settings))))))
        except ConfigError:
            raise
        except ValueError as error:
            raise named(error) from error


def named(error: ValueError) -> Exception:
    """A refusal names its field; anything else is what it is."""
    field, colon, _ = str(error).partition(": ")
    return RunRefused(str(error)) if colon and field.replace("_", "").isalnum() else RuntimeError(repr(error))
