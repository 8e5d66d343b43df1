"""Every benchmark writes its table in its brief and full form."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as bench
from benchmarks._report_format import Claim, result

RESULT = result("Made up", "python -m benchmarks.toy", [Claim(name="passes saved", measured=0.5)], [])
COMMANDS = {path.stem for path in Path(bench.__file__).parent.glob("[a-z]*.py")}


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that are run; text fails, the others write a result."""
    commands: list[list[str]] = []

    def run(command: Sequence[str], stdout: Any, **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(list(command)[1:])
        stdout.write("said")
        if "benchmarks.text" in command:
            return subprocess.CompletedProcess(command, 3)
        Path(command[-1]).write_text(json.dumps(RESULT), encoding="utf-8")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_no_benchmark_is_forgotten() -> None:
    assert set(bench.BRIEF) == COMMANDS - {"report", "sweep", "hardware", "families", "engines"} | {"claims"}
    assert set(bench.ALONE) < set(bench.BRIEF)


def test_brief_and_full_forms_write_their_tables(commands: list[list[str]], tmp_path: Path) -> None:
    assert bench.main(["toy", "app", "-o", str(tmp_path), "--jobs", "1"]) == 0
    assert commands[0] == ["-m", "benchmarks.toy", *bench.BRIEF["toy"].split(), "--json", str(tmp_path / "toy.json")]
    assert [command[1] for command in commands] == ["benchmarks.toy", "benchmarks.app"]
    assert RESULT["claims"][0]["name"] in (tmp_path / "measured.md").read_text(encoding="utf-8")
    assert (tmp_path / "app.log").read_text(encoding="utf-8") == "said"
    bench.main(["toy", "-o", str(tmp_path), "--full"])
    assert commands[-1] == ["-m", "benchmarks.toy", "--json", str(tmp_path / "toy.json")]


def test_one_that_fails_is_named_and_the_others_go_on(
    commands: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(["text", "toy", "-o", str(tmp_path)]) == 1
    output = capsys.readouterr().out
    assert f"text: ended with 3, see {tmp_path / 'text'}.log after" in output and "toy: done after" in output
    assert len(commands) == 2
    with pytest.raises(SystemExit) as ended:
        bench.main(["speeds", "-o", str(tmp_path)])
    assert ended.value.code == 2
    assert "name: 'speeds' is not a benchmark; use continuous," in capsys.readouterr().err
