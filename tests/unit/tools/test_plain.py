"""The wording check: what it finds, what it leaves alone, and its baseline that only falls."""

import json
import subprocess
from pathlib import Path

import pytest

from tools import plain


def findings(text: str, suffix: str = ".py") -> list[tuple[int, str, str]]:
    return [(found.line, found.kind, found.rule) for found in plain.READERS[suffix](f"file{suffix}", text)]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    for command in ("init -q", "config user.name a", "config user.email a@b.c"):
        subprocess.run(["git", "-C", tmp_path, *command.split()], check=True)
    (tmp_path / "a.py").write_text('"""Whoever asks."""\n')
    (tmp_path / "tools" / "plain.py").write_text("")
    commit(tmp_path, "tools: add the check")
    return tmp_path


def commit(checkout: Path, subject: str) -> None:
    subprocess.run(["git", "-C", checkout, "add", "."], check=True)
    subprocess.run(["git", "-C", checkout, "commit", "-q", "--allow-empty", "-m", subject], check=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('"""What the model said."""', [(1, "docstring", "who")], id="first word of a docstring"),
        pytest.param('x = 1\n"""What is behind."""', [(2, "docstring", "behind"), (2, "docstring", "who")], id="both"),
        pytest.param("x = 1  # the coin of a draft", [(1, "comment", "coin")], id="comment"),
        pytest.param("print('nobody waits for this any more')", [(1, "string", "somebody")], id="string"),
        pytest.param("def f(place): ...", [(1, "name", "name")], id="argument"),
        pytest.param("x = 1  # the coin, plain: ignore", [], id="exempted"),
        pytest.param('"""Return `place` behind a reverse proxy."""', [], id="code spans and proxies"),
        pytest.param("x = 'B V'", [], id="not prose"),
        pytest.param('"""Return the mask, shape [V]."""', [], id="plain"),
    ],
)  # fmt: skip
def test_findings_in_python(text: str, expected: list[tuple[int, str, str]]) -> None:
    assert sorted(findings(text)) == sorted(expected)


def test_functions_of_described_packages_have_args() -> None:
    source = """
def one(a): ...
def two(a, *, b): ...
def described(a, b):
    \"\"\"Add.

    Args:
        a: Shape [N].
    \"\"\"
def load(source, settings): ...
def _two(a, b): ...
class A:
    @override
    def same(self, a, b): ...
    def less(self, a): ...
    def make_task(self, prompt, config): ...
    def method(self, a, b): ...
class _A:
    def method(self, a, b): ...
"""
    for folder, expected in ((plain.DESCRIBED[0], ["two", "method"]), ("elsewhere/", [])):
        assert [found.text for found in plain.in_python(f"{folder}a.py", source)] == expected


def test_markdown_code_is_skipped() -> None:
    assert findings("a\n```\nbehind\n```\n`behind` behind", ".md") == [(5, "markdown", "behind")]


def test_javascript_comments_and_strings_are_read() -> None:
    assert findings('// behind\nlet a = "stands in for it"', ".js") == [
        (1, "comment", "behind"),
        (2, "string", "stand"),
    ]


@pytest.mark.parametrize(
    ("subject", "rules"),
    [
        ("player: disable Run while a run is live", []),
        ("server: tell of handlers that fail", ["told", "vague verb"]),
        ("Fix it", ["form"]),
        (f"docs: {'a' * 80}", ["form"]),
    ],
)
def test_commit_subjects(subject: str, rules: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(found.rule for found in plain.in_subjects([("1234", subject)])) == rules
    message = tmp_path / "message"
    message.write_text(f"{subject}\n\nWhatever the body says is free.\n")
    assert plain.main(["--message", str(message)]) == bool(rules)
    assert capsys.readouterr().out.count("\n") == len(rules)


def test_the_baseline_only_falls(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    baseline = checkout / "tools" / "plain.json"
    assert plain.main([str(checkout)]) == 1
    assert plain.main([str(checkout), "--update"]) == 0
    assert json.loads(baseline.read_text()) == {"a.py": 1}
    assert plain.main([str(checkout)]) == 0

    (checkout / "a.py").rename(checkout / "b.py")
    commit(checkout, "b: move a")
    assert plain.main([str(checkout)]) == 0, "findings may move with a file"

    (checkout / "b.py").write_text('"""Whoever asks, and whoever answers."""\n')
    capsys.readouterr()
    assert plain.main([str(checkout)]) == 1
    assert "b.py:1: docstring: whoever" in capsys.readouterr().out
    assert plain.main([str(checkout), "--update"]) == 1
    assert "never rises" in capsys.readouterr().out

    (checkout / "b.py").write_text('"""Client."""\n')
    assert plain.main([str(checkout), "--update"]) == 0
    assert json.loads(baseline.read_text()) == {}


def test_subjects_since_the_check_was_added_are_checked(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "a.py").unlink()
    commit(checkout, "a: say what it came to")
    assert plain.main([str(checkout)]) == 1
    assert "vague verb" in capsys.readouterr().out


def test_a_folder_without_history_is_not_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plain.main([str(tmp_path)]) == 0
    assert "not a Git checkout" in capsys.readouterr().err


def test_names_in_javascript_are_read_but_not_uses_or_keys() -> None:
    source = """// place
const { asked, chosen: place, most: highest } = row;
for (const [own, index] of pairs) use(told, "held", `${said} ${row.rest}`);
const join = (kept, least = rest) => items.map((whole) => whole.made);
class View {
  say(given) {
    this.gone = { usual: 1 };
  }
}
"""
    names = [found.text for found in plain.in_script("a.js", source) if found.rule == "name"]
    assert sorted(names) == ["asked", "given", "gone", "kept", "least", "own", "place", "say", "whole"]


def test_the_text_of_javascript_templates_is_read_but_not_their_code() -> None:
    assert [found.rule for found in plain.in_script("a.js", "f(`${told} runs stand beside it`)")] == ["stand", "beside"]
    assert [*plain.in_script("a.js", "f(`${held} of ${counted(behind)}`)")] == []
    nested = 'f(`${one ? `${1} runs stand beside it` : "nobody waits for it"} of\n them all lie in it`)'
    assert sorted(findings(nested, ".js")) == [
        (1, "string", "beside"),
        (1, "string", "somebody"),
        (1, "string", "stand"),
        (2, "string", "lie"),
    ]


def test_first_words_of_jsdoc_are_read() -> None:
    source = "/** What it shows. */\n/**\n * Of two lanes.\n */\n// What follows is no JSDoc.\n/** Width of `what`. */"
    assert [found for found in findings(source, ".js") if found[1] == "docstring"] == [
        (1, "docstring", "who"),
        (2, "docstring", "fragment"),
    ]


def test_text_of_html_is_read_with_labels_scripts_and_style_sheets() -> None:
    source = """<!doctype html>
<style>p { color: red } /* beside it */</style>
<p class="a place" title="Nobody waits here">It stands in <b>for</b> it.</p>
<script>
const told = "runs lie in it"; // anew
</script>
"""
    assert sorted(findings(source, ".html")) == [
        (2, "comment", "beside"),
        (3, "markup", "somebody"),
        (3, "markup", "stand"),
        (5, "comment", "anew"),
        (5, "name", "name"),
        (5, "string", "lie"),
    ]
