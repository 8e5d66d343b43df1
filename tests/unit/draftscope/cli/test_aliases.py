"""Commands and options of earlier versions: each prints its current form and gives the same result."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support import handmade
from typer.testing import CliRunner

from draftscope.cli.aliases import translate
from draftscope.cli.errors import CommandError
from draftscope.cli.main import app, main
from draftscope.traces import read, write
from draftscope.traces.files import ROOT

FORMS = [
    ("engines", "list --json", "list --json"),
    ("engines", "run scd --likely 3 --draft-model a/b -o x", "run scd --record-top-k 3 --drafter a/b -o x"),
    ("engines", "run scd --likely=3 -o x", "run scd --record-top-k=3 -o x"),
    ("engines", "run scd --prompt --likely -o x", "run scd --prompt --likely -o x"),
    ("engines", "check scd", "check scd"),
    ("engines", "fetch smollm2 --from hub", "model download smollm2 --source hub"),
    ("engines", "expect --model m --sequences 2", "model memory --model m --batch 2"),
    ("engines", "convert mar a b c", "model convert mar a b c"),
    ("engines", "calibrate --count 4", "model calibrate-graph --count 4"),
    ("engines", "", ""),
    ("engines", "--help", "--help"),
    ("traces", "validate a b", "trace validate a b"),
    ("traces", "show a", "trace show a"),
    ("traces", "schema", "trace schema"),
    ("traces", "perfetto a", "trace perfetto a"),
    ("visualizers", "a.json -o x.html", "view a.json -o x.html"),
    ("visualizers", "a.json -o x.html --theme dark --step 3", "view a.json -o x.html --step 3"),
    ("visualizers", "- -o - --format html", "view - -o -"),
    ("visualizers", "- -o - --format gif", "animate - -o - --format gif"),
    ("visualizers", "a b --figure race -ox.pdf", "figure race a b -o x.pdf"),
    ("visualizers", "--figure=race a --output x.html", "figure race a -o x.html"),
    ("visualizers", "a -o x.zip --figure race --figure churn", "export a -o x.zip --figure race --figure churn"),
    ("visualizers", "a -o x.zip --no-traces --preset slide", "export a -o x.zip --no-traces --preset slide"),
    (
        "visualizers",
        "a -o x.mp4 --slow 2 --hold 1 --every 3 --name A --draft 1e9 --clip",
        "animate a -o x.mp4 --slowdown 2 --last-frame-seconds 1 --passes-per-frame 3 --title A --drafter 1e9 --clip",
    ),
    ("visualizers", "--sweep r --figure frontier -o x.pdf", "figure frontier --results r -o x.pdf"),
    ("visualizers", "--timings r --figure windows -o x.pdf", "figure windows --results r -o x.pdf"),
    ("visualizers", "--list", "figure --list"),
    ("demo", "record a", "dev record a"),
    ("demo", "cards", "dev clip-cards"),
    ("benchmarks.sweep", "grid.json -o x --jobs 2", "experiment run grid.json -o x --jobs 2"),
    ("draftscope", "fetch smollm2", "model download smollm2"),
    ("draftscope", "validate a", "trace validate a"),
    ("draftscope", "perfetto a", "trace perfetto a"),
    ("draftscope", "predict a --device H100 --draft 1e9", "hardware predict a --device H100 --drafter 1e9"),
    ("draftscope", "calibrate -o x", "hardware calibrate -o x"),
    ("draftscope", "sweep grid.json -o x", "experiment run grid.json -o x"),
    ("draftscope", "view a --figure race -o x.pdf", "figure race a -o x.pdf"),
    ("draftscope", "view a -o x.gif", "animate a -o x.gif"),
    (
        "draftscope",
        "bench --target m --draft d --gamma 2 4 8 --prompts p",
        "bench --target m --drafter d --draft-length 2 --draft-length 4 --draft-length 8 --prompts p",
    ),
]
CURRENT = [
    *("run ar -o x --set name=--likely --record-top-k 3", "view a -o x.html --step 3", "view a -o x.pdf"),
    *("figure race a -o x.pdf", "bench --target m --prompts p --draft-length 2", "model memory --model m --batch 2"),
]


@pytest.mark.parametrize(("program", "words", "expected"), FORMS)
def test_the_current_form(program: str, words: str, expected: str) -> None:
    assert shlex.join(translate(program, words.split())) == expected


@pytest.mark.parametrize("words", CURRENT)
def test_a_current_form_stays(words: str) -> None:
    assert translate("draftscope", words.split()) == words.split()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("a -o x.pdf --figure race --figure churn", "--figure churn: a .pdf file holds one figure"),
        ("--sweep r --timings t -o x.pdf", "--timings t: cannot be combined with --sweep"),
    ],
)
def test_contradicting_options_are_rejected(words: str, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        translate("visualizers", words.split())


def test_an_old_option_gives_the_same_trace_and_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    words = ["run", "scd", "--model", "toy-raster", "--set", "window=8"]
    assert main([*words, "--record-top-k", "2", "-o", str(new)]) == 0
    assert capsys.readouterr().err == ""
    assert main([*words, "--likely", "2", "-o", str(old)]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"use: draftscope {shlex.join([*words, '--record-top-k', '2', '-o', str(old)])}")
    assert [step.fate for step in read(old).steps] == [step.fate for step in read(new).steps]
    assert [step.likely for step in read(old).steps] == [step.likely for step in read(new).steps]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("engines list --json", "list --json"),
        ("traces show RUN", "trace show RUN"),
        ("visualizers RUN --figure race -o -", "figure race RUN -o -"),
        pytest.param("demo record none-such", "dev record none-such", marks=pytest.mark.nightly),
        pytest.param("benchmarks.sweep RUN -o x.jsonl", "experiment run RUN -o x.jsonl", marks=pytest.mark.nightly),
        ("visualizers a -o x.pdf --figure race --figure churn", None),
    ],
)
def test_old_modules_print_the_new_command_and_do_the_same(old: str, new: str | None, tmp_path: Path) -> None:
    run = str(tmp_path / "run.json")
    write(handmade.scd(), run)

    command = [sys.executable, "-m", *(run if word == "RUN" else word for word in old.split())]
    before = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if new is None:
        assert before.returncode == 2 and before.stderr.startswith("python -m visualizers: --figure churn: ")
        return
    line, *errors = before.stderr.splitlines()
    words = new.replace("RUN", run)
    assert line == f"draftscope: this form ends with the next release; use: draftscope {words}"
    after = CliRunner().invoke(app, words.split())
    assert (before.returncode, before.stdout, errors) == (after.exit_code, after.stdout, after.stderr.splitlines())
