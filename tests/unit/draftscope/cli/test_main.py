"""The command `draftscope`: help, errors, exit codes, completion, and what works without torch."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer import Context
from typer.main import get_command
from typer.testing import CliRunner

import draftscope as ds
from draftscope.cli.main import NAME, app, main
from draftscope.traces.files import ROOT

RUNNER = CliRunner()
TABLE = {
    *("list", "run", "check", "view", "figure", "export", "animate", "site", "bench", "certify", "diff", "app"),
    *("model download", "model memory", "model convert", "model calibrate-graph"),
    *("hardware calibrate", "hardware predict", "experiment run", "dev record", "dev clip-cards"),
    *("trace validate", "trace show", "trace schema", "trace perfetto"),
}
MAX_LINES, MAX_COLUMNS = 30, 80


def commands() -> Iterator[tuple[str, Context]]:
    """All commands and groups by their words."""
    root = get_command(app)
    pending = [Context(root, info_name=NAME, terminal_width=MAX_COLUMNS)]
    while pending:
        context = pending.pop()
        yield context.command_path.removeprefix(NAME).strip(), context
        children = getattr(context.command, "commands", {})
        pending += [Context(child, context, name) for name, child in children.items()]


COMMANDS = dict(commands())


def test_the_commands() -> None:
    assert {name for name, context in COMMANDS.items() if not hasattr(context.command, "commands")} == TABLE


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_screen_and_describes_everything(name: str) -> None:
    context = COMMANDS[name]
    text = context.command.get_help(context)
    lines = text.splitlines()
    assert len(lines) <= MAX_LINES and max(map(len, lines)) <= MAX_COLUMNS
    assert context.command.help and context.command.help.split("\n")[0].endswith(".")
    undescribed = [one.name for one in context.command.params if not getattr(one, "help", "") and one.name != "help"]
    assert undescribed == []
    assert [
        one.opts[0] for one in context.command.params if one.opts[0].startswith("-") and one.opts[0] not in text
    ] == []
    for short in ("-h", "--help"):
        result = RUNNER.invoke(app, [*name.split(), short])
        assert (result.exit_code, result.stderr) == (0, "") and result.stdout.startswith(f"Usage: {NAME}")


def test_rare_options_are_described_by_a_longer_help() -> None:
    helps = [RUNNER.invoke(app, ["run", option, "scd"]).stdout for option in ("--help", "--help-all")]
    assert [text.count("Device of the drafter; default: as --device.") for text in helps] == [0, 1]
    assert "--help-all also describes --draft-device" in helps[0] and "also describes" not in helps[1]


def test_version() -> None:
    result = RUNNER.invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"draftscope {ds.__version__}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "draftscope: Missing command; use one of list, run, check, "),
        ("rnu", "draftscope: No such command 'rnu'. Did you mean 'run'?; use one of list, run, check, "),
        ("trace", "draftscope trace: Missing command; use one of validate, show, schema, perfetto."),
        ("trace vew", "draftscope trace: No such command 'vew'"),
        ("run", "draftscope run: Missing "),
        ("run ar -o x.json --sed 1", "draftscope run: No such option: --sed"),
        ("run ar -o x.json --record-top-k many", "draftscope run: Invalid value for '--record-top-k'"),
        ("app --port 1", "draftscope app: No such option: --port"),
        ("model download none-such", "draftscope model download: MODEL: 'none-such' is not valid; use one of smollm2."),
        ("model download smollm2 --source disk", "draftscope model download: Invalid value for '--source'"),
        (
            "model memory --model toy-raster --batch 0",
            "draftscope model memory: --batch: 0 is not allowed; use a",
        ),
        ("model convert rar a b c d", "draftscope model convert: SOURCE: 3 files or folders are too many"),
        ("model calibrate-graph --set depth=2", "draftscope model calibrate-graph: depth: calibration"),
        ("hardware calibrate -o here.txt", "draftscope hardware calibrate: -o: 'here.txt' must end in .json"),
        (
            "bench --prompts p --server URL --cluster C",
            "draftscope bench: --cluster: needs --target; leave it out with",
        ),
        ("bench --prompts p --server URL --draft-length 2", "draftscope bench: --draft-length: needs --target; "),
        ("bench --prompts p --server URL --baseline-set a=1", "draftscope bench: --baseline-set: needs --baseline; "),
        ("bench --prompts p --server URL --chat --route native", "draftscope bench: --chat: contradicts --route nat"),
        ("bench --prompts p --target M --warmup 2", "draftscope bench: --warmup: needs --server; leave it out with"),
        ("diff a.json b.json --limit 2", "draftscope diff: --limit: needs --prompts, for a server or a checkpoint; "),
        ("dev record none-such.json.gz", "draftscope dev record: FILE: 'none-such.json.gz' is not in"),
    ],
)
def test_wrong_usage_is_one_line(words: str, message: str) -> None:
    result = RUNNER.invoke(app, words.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(message) and result.stderr.count("\n") == 1, result.stderr


def test_exit_codes(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    bad = str(tmp_path / "bad.json")
    for words, code in (
        (["trace", "validate", bad], 1),
        (["view", bad, "-o", "-"], 1),
        (["hardware", "predict", bad, "--device", "H100"], 1),
        (["run", "none-such", "-o", "-"], 2),
        (["run", "ar", "--model", "none-such", "-o", "-"], 3),
        (["model", "memory", "--model", "nobody/nothing", "--device", "cpu"], 3),
    ):
        result = RUNNER.invoke(app, words)
        assert result.exit_code == code == main(words), words
        assert result.stderr.count("\n") == 1 and "Traceback" not in result.stderr


def test_an_interrupt_ends_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("draftscope.cli.trace.read_trace", interrupt)
    assert main(["trace", "show", "x.json"]) == 130


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "expected"), [("run s", "scd"), ("model ", "calibrate-graph"), ("figure ch", "churn")]
)
def test_completion(words: str, expected: str, tmp_path: Path) -> None:
    environment = {"_DRAFTSCOPE_COMPLETE": "complete_bash", "COMP_WORDS": f"draftscope {words}"}
    environment |= {"COMP_CWORD": str(len(words.split()) + words.endswith(" ")), "DRAFTSCOPE_CACHE": str(tmp_path)}
    command = [sys.executable, "-m", "draftscope"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True)
    assert expected in done.stdout.split(), done.stderr


@pytest.mark.parametrize("words", [["app"], ["dev", "record"]])
def test_outside_a_checkout_some_commands_are_absent(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("dev", "checkout"):
        monkeypatch.setattr(f"draftscope.cli.{module}.ROOT", tmp_path)
    result = RUNNER.invoke(app, words)
    name = " ".join(words[: 1 if words[0] == "app" else 2])
    assert result.exit_code == 2
    assert result.stderr == (
        f"draftscope {name}: is not part of the installed package; run it in a checkout of the repository.\n"
    )


def test_without_torch_run_names_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from draftscope.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "run", "ar", "-o", "-"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "draftscope run: needs torch, which is not installed; pip install 'draftscope[engines]'\n"


def test_traces_are_handled_without_torch() -> None:
    code = "import sys; from draftscope.cli.main import main; assert main(sys.argv[1:]) == 0; "
    code += "assert not {'torch', 'transformers', 'plotly', 'gradio'} & {*sys.modules}"
    trace = "assets/traces/speculative-juice.json.gz"
    predict = ["hardware", "predict", trace, "--device", "H100", "--target", "7e9", "--drafter", "1e9"]
    for words in (["trace", "show", trace], predict):
        done = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
