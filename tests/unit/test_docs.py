"""README and docs: what they link to is there, what they tell a reader to type exists, and README stays short."""

import ast
import re
import shlex
from pathlib import Path

import pytest

from draftscope.cli.main import main
from draftscope.traces import read
from draftscope.traces.files import ROOT
from draftscope.visualizers import FIGURES, SWEEP_FIGURES, TIMING_FIGURES

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "demo").rglob("*.md")])
MAX_README_WORDS = 800
LINK = re.compile(r"\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
MODULE = re.compile(r"python -m ([a-z_][\w.]*)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_readme_fits_one_reading() -> None:
    """Without front matter, code, tables and the addresses of links."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = BLOCK.sub("", re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL))
    text = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    assert len(re.sub(r"\]\([^)]*\)", "]", text).split()) <= MAX_README_WORDS


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere_and_code_can_be_parsed(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(BLOCK.sub("", text)):
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            continue
        assert (page.parent / target.partition("#")[0]).exists(), f"{name(page)} links to {target}, which is not there"
    for language, code in BLOCK.findall(text):
        if language == "python":
            ast.parse(code)


def test_every_file_and_folder_that_the_architecture_names_exists() -> None:
    text = BLOCK.sub("", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    named = [span for span in re.findall(r"`([^`]+)`", text) if "/" in span or span.endswith((".py", ".toml"))]
    assert len(named) > 30
    assert [path for path in named if not (ROOT / path.partition("NAME")[0]).exists()] == []


def test_every_module_that_is_to_be_run_answers_for_itself() -> None:
    # Those of docs/examples are run from their folder by another test; pip and pytest are not in this repository.
    ours = ("engines", "visualizers", "traces", "benchmarks", "training", "demo")
    modules = {module for page in PAGES for module in MODULE.findall(page.read_text(encoding="utf-8"))}
    named = sorted(module.rstrip(".") for module in modules if module.split(".")[0] in ours)
    assert len(named) > 10
    for module in named:
        path = ROOT.joinpath(*module.split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), (
            f"python -m {module}: no such module"
        )


def test_every_figure_is_in_the_list_of_figures() -> None:
    listed = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    drawn = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "visualizers" / "figures").glob("*.py"))
    names = set(re.findall(r'^ +name="([a-z-]+)",$', drawn, re.MULTILINE))
    assert {"tradeoffs", "windows", "race"} <= names
    assert not {name for name in names if f"`{name}`" not in listed}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_commands_and_options_of_a_page_exist(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "".join(code for _, code in BLOCK.findall(path.read_text(encoding="utf-8"))).replace("\\\n", " ")
    lines = [line.partition("#")[0].split()[1:] for line in code.splitlines() if line.startswith("draftscope ")]
    assert lines or path.name not in ("README.md", "python.md", "figures.md", "models.md")
    for words in lines:
        command = words[: 2 if words[0] in ("trace", "model", "hardware", "experiment", "dev") else 1]
        assert main([*command, "--help"]) == 0, words
        text = capsys.readouterr().out
        options = [word.strip("[]") for word in words if word.strip("[").startswith("-") and len(word) > 1]
        assert [option for option in options if option not in text.split() and f"{option}," not in text] == [], words


@pytest.mark.slow
def test_the_figures_of_the_papers_are_drawn_from_what_ships() -> None:
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    by_hand = page.partition("<!-- claims -->")[0] + page.partition("<!-- /claims -->")[2]
    rows = [line for line in by_hand.splitlines() if line.startswith("|") and not line.startswith(("|---", "| there"))]
    assert len(rows) > 50 and all(row.count(" | ") == 3 for row in rows)
    commands = [part.strip() for row in rows for code in re.findall(r"`([^`]*)`", row) for part in code.split("; ")]
    drawn = [shlex.split(command)[1:] for command in commands if command.startswith("V ")]
    assert len(drawn) > 25
    for words in drawn:
        named = words[0]
        traces = [ROOT / "assets" / "traces" / word.removeprefix("T/") for word in words if word.startswith("T/")]
        if traces:
            assert FIGURES[named].supports([read(trace) for trace in traces]) is None, words
        for word in words:
            assert not word.startswith("benchmarks/") or (ROOT / word).is_file(), word
        assert named in {*FIGURES, *SWEEP_FIGURES, *TIMING_FIGURES}, words
    for grid in re.findall(r"benchmarks/grids/\w[\w-]*\.json", page):
        assert (ROOT / grid).is_file()
