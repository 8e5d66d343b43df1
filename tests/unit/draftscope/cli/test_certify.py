"""`draftscope certify`: verdicts as exit codes, files and commands."""

from pathlib import Path

import pytest

from draftscope.analysis.certificates import read_certificate
from draftscope.cli.main import main


@pytest.mark.slow
def test_verdict_files_and_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(tmp_path / name) for name in ("a.json", "a.html")]
    arguments = ["certify", "transformers", "--tokens", "320", "--top-k", "3", "-o", paths[0], "-o", paths[1]]
    assert main(arguments) == 4
    out = capsys.readouterr().out
    assert out.startswith("refused: no draft was verified") and "transformers 5" in out
    assert read_certificate(Path(paths[0]).read_bytes()).sampling == {"temperature": 1.0, "top_k": 3, "top_p": 1.0}
    assert Path(paths[1]).read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_the_known_model_is_written_with_the_commands_that_serve_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certify", "--write", str(tmp_path / "known")]) == 0
    assert f"llama-server -m {tmp_path}/known/target.gguf" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "known").iterdir()} == {"target", "draft", "target.gguf", "draft.gguf"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give either ENGINE or --write FOLDER"),
        (["vllm"], "engine: 'vllm' is not known"),
        (["http://127.0.0.1:9"], "does not answer; start the server"),
        (["transformers", "--top-k", "1"], "top_k: 1 is not allowed"),
        (["transformers", "--drafter", "lookup"], "--drafter: is for the address of a server; leave it out"),
        (["--write", "known", "--tokens", "9"], "--tokens: needs ENGINE; leave it out with --write"),
        (["transformers", "-o", "a.txt"], "'a.txt' must end in .json or .html"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["certify", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("draftscope certify: ") and words in line
