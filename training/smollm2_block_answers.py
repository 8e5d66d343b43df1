"""Write answers of smollm2 that its block adapter learns from, as token ids.

    python -m training.smollm2_block_answers [--shards N] [--first I --step S]
    python -m training.smollm2_block_answers --pack [FILE]

Two thirds of the prompts are those of `training.smollm2_answers`, with the same words held out. The others ask about
functions of Python's standard library: to explain, document, test or rewrite their source, or to summarize their
documentation; these depend on the version of Python. Half of the answers are greedy, half are sampled at temperature 1.

Shards that exist are skipped, so an interrupted run goes on, and with `--first` and `--step` several processes share
the work. `--pack` writes all shards into the one file that `training.smollm2_block` reads.
"""

import argparse
import importlib
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from draftscope.engines.methods.ar import Config
from draftscope.engines.models.catalog import load_model
from draftscope.engines.models.download import download_dir
from draftscope.engines.paths import cache_dir
from draftscope.traces.files import atomic_path
from training.smollm2_answers import HELD, MODEL, Writer, prompts

FOLDER: Final = cache_dir() / f"{MODEL}-block-answers"
PACKED: Final = Path(__file__).with_name("smollm2_block_answers.safetensors")
"""All shards in one file."""
ROWS: Final = 96
"""Answers of a shard."""
MAX_ANSWER: Final = 224
"""Tokens of an answer."""
MAX_PROMPT: Final = 320
"""Tokens of a prompt; longer ones are skipped."""
MIN_ROWS: Final = 8
"""A shard ends when at most this number of its answers are unfinished; these are cut off."""
SORTED_SHARDS: Final = 8
"""Shards whose prompts are sorted by length together, so that those of a shard need little padding."""
HELD_SHARDS: Final = 2
LINES: Final = range(3, 19)
"""Lines of the functions that prompts quote."""
MODULES: Final = (
    "ast",
    "base64",
    "bisect",
    "calendar",
    "cmd",
    "code",
    "codecs",
    "collections",
    "colorsys",
    "configparser",
    "contextlib",
    "copy",
    "csv",
    "datetime",
    "decimal",
    "difflib",
    "dis",
    "email.utils",
    "enum",
    "fileinput",
    "filecmp",
    "fnmatch",
    "fractions",
    "functools",
    "getpass",
    "gettext",
    "glob",
    "graphlib",
    "gzip",
    "heapq",
    "html",
    "imaplib",
    "inspect",
    "io",
    "ipaddress",
    "json",
    "linecache",
    "locale",
    "logging",
    "mailbox",
    "mimetypes",
    "ntpath",
    "numbers",
    "opcode",
    "operator",
    "os",
    "pathlib",
    "pickletools",
    "platform",
    "plistlib",
    "posixpath",
    "pprint",
    "profile",
    "queue",
    "quopri",
    "random",
    "re",
    "reprlib",
    "sched",
    "secrets",
    "shelve",
    "shlex",
    "shutil",
    "smtplib",
    "socket",
    "statistics",
    "string",
    "stringprep",
    "subprocess",
    "symtable",
    "tarfile",
    "tempfile",
    "textwrap",
    "threading",
    "timeit",
    "token",
    "tokenize",
    "traceback",
    "types",
    "typing",
    "unittest.case",
    "urllib.parse",
    "uuid",
    "warnings",
    "wave",
    "weakref",
    "webbrowser",
    "xml.dom.minidom",
    "zipfile",
)
ABOUT_SOURCE: Final = (
    "Explain what this Python function does:\n\n```python\n{source}\n```",
    "Add a docstring to this function:\n\n```python\n{source}\n```",
    "Rewrite this function with type annotations:\n\n```python\n{source}\n```",
    "Write unit tests for this function:\n\n```python\n{source}\n```",
    "Add a comment to every line of this code:\n\n```python\n{source}\n```",
    "Rename the variables of this function so that they are easier to read:\n\n```python\n{source}\n```",
    "Translate this Python function to JavaScript:\n\n```python\n{source}\n```",
    "Simplify this code:\n\n```python\n{source}\n```",
)
ABOUT_TEXT: Final = (
    "Summarize this documentation in one sentence:\n\n{text}",
    "Rewrite this documentation in simpler words:\n\n{text}",
    "Repeat this text and correct its mistakes:\n\n{text}",
    "Give an example of how to use `{name}`:\n\n{text}",
    "Turn this documentation into a list of bullet points:\n\n{text}",
    "What does `{name}` of Python do? Its documentation says:\n\n{text}",
    "Write three questions and answers about this text:\n\n{text}",
)
ABOUT_NAME: Final = (
    "What does `{name}` do in Python?",
    "Show me an example that uses `{name}` of Python's standard library.",
    "Write a short tutorial about `{name}` in Python.",
    "What are common mistakes with `{name}` in Python?",
)


def library(modules: Sequence[str] = MODULES) -> list[tuple[str, str, str]]:
    """Return name, source and documentation of short functions of modules, sorted by name."""
    found = {}
    for module in modules:
        imported = importlib.import_module(module)
        owners = [imported, *(one for one in vars(imported).values() if inspect.isclass(one))]
        for owner in owners:
            if getattr(owner, "__module__", module) != module:
                continue
            for name, function in sorted(vars(owner).items()):
                if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != module:
                    continue
                if not Path(function.__code__.co_filename).is_file():  # such as those of a namedtuple
                    continue
                source = inspect.getsource(function)
                if source.count("\n") in LINES:
                    full = f"{module}.{function.__qualname__}"
                    found[full] = (full, inspect.cleandoc("\n" + source), inspect.getdoc(function) or "")
    return [found[name] for name in sorted(found)]


def varied_prompts(held_out: bool, modules: Sequence[str] = MODULES) -> Iterator[str]:
    """Yield prompts without end, all different: of `smollm2_answers` and about functions of modules, two to one."""
    rng, seen, shared = Random(7 + held_out), set[str](), prompts(held_out)
    functions = [one for i, one in enumerate(library(modules)) if (i % HELD == 0) == held_out]
    while True:
        if rng.random() < 2 / 3:
            yield next(shared)
            continue
        name, source, text = rng.choice(functions)
        kind = rng.choices((ABOUT_SOURCE, ABOUT_TEXT if text else ABOUT_SOURCE, ABOUT_NAME), (6, 3, 1))[0]
        prompt = rng.choice(kind).format(name=name, source=source, text=text)
        if prompt not in seen:
            seen.add(prompt)
            yield prompt


def write_shards(held_out: bool, numbers: Sequence[int], total: int) -> None:
    """Write those of some shards that are missing.

    Args:
        held_out: Whether to use held-out words and functions.
        numbers: Of the shards.
        total: Shards that the prompts are drawn for, which is part of what makes them reproducible.
    """
    model: Any = load_model(MODEL, "cpu")
    network = AutoModelForCausalLM.from_pretrained(download_dir(MODEL), dtype=torch.float32).eval()
    writer, texts, prompts = Writer(network, model.ends, ()), varied_prompts(held_out), list[Sequence[int]]()
    while len(prompts) < total * ROWS:
        prompt = model.make_task(next(texts), Config()).prompt_ids
        if len(prompt) <= MAX_PROMPT:
            prompts.append(prompt)
    for start in range(0, len(prompts), SORTED_SHARDS * ROWS):
        prompts[start : start + SORTED_SHARDS * ROWS] = sorted(prompts[start : start + SORTED_SHARDS * ROWS], key=len)
    for number in numbers:
        file = FOLDER / f"{'held_out' if held_out else 'train'}-{number:04d}.safetensors"
        if file.exists():
            continue
        generator = torch.Generator().manual_seed(2 * number + held_out)
        sampled = torch.rand(ROWS, generator=generator) < 0.5
        part = prompts[number * ROWS : (number + 1) * ROWS]
        answers = writer.write(part, sampled, MAX_ANSWER, MIN_ROWS, generator)
        store(file, [ids for ids, _ in answers], [len(prompt) for prompt in part], sampled)


def store(file: Path, texts: Sequence[Tensor], prompts: Sequence[int], sampled: Tensor) -> None:
    """Write a shard, whole or not at all.

    Args:
        file: Its path.
        texts: Ids [N] of prompts with their answers.
        prompts: How many tokens of each are the prompt.
        sampled: Whether each answer was sampled [B], or is greedy.
    """
    columns = {
        "ids": torch.cat([*texts]).to(torch.uint16),
        "lengths": torch.tensor([len(text) for text in texts], dtype=torch.int16),
        "prompts": torch.tensor(prompts, dtype=torch.int16),
        "sampled": sampled,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(file) as part:
        save_file(columns, part)
    count = len(columns["ids"])
    print(f"{file.name}: {count - sum(prompts)} tokens of answers, {count} in all", flush=True)


def pack(path: Path) -> None:
    """Write all shards into one file, with a column that tells which answers are held out."""
    files = sorted(FOLDER.glob("*.safetensors"))
    shards = [load_file(file) for file in files]
    if not shards:
        raise SystemExit(f"{FOLDER} has no answers; run: python -m training.smollm2_block_answers")
    columns = {name: torch.cat([shard[name] for shard in shards]) for name in sorted(shards[0])}
    rows = [len(shard["lengths"]) for shard in shards]
    held_out = torch.tensor([file.name.startswith("held") for file in files])
    columns["held"] = held_out.repeat_interleave(torch.tensor(rows))
    with atomic_path(path) as part:
        save_file(columns, part)
    print(f"{path}: {len(columns['held'])} answers, {len(columns['ids'])} tokens with their prompts")


def main() -> None:
    """Write shards, or pack them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=64, help="shards to learn from, of 96 answers each")
    parser.add_argument("--first", type=int, default=0, help="number of the first shard to write")
    parser.add_argument("--step", type=int, default=1, help="from one shard to the next one to write")
    parser.add_argument("--pack", type=Path, nargs="?", const=PACKED, metavar="FILE", help="only pack the shards")
    options = parser.parse_args()
    if options.pack:
        pack(options.pack)
        return
    if options.first == 0:
        write_shards(True, range(HELD_SHARDS), HELD_SHARDS)
    write_shards(False, range(options.first, options.shards, options.step), options.shards)


if __name__ == "__main__":
    main()
