"""Sweeps: grids are checked whole, rows say what was decoded, and a kill loses and repeats nothing."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from benchmarks._grid import Chunk, GridError, expand, key, solve
from benchmarks._problems import given, held_out, is_correct
from benchmarks._rows import Rows
from support.results import row
from support.tiny_diffusion_lm import tiny_diffusion_lm

from analysis.groups import gathered
from analysis.results import ResultRow, SweepError, read_line, read_results, read_rows, to_line
from benchmarks import _grid, sweep
from engines.methods import METHODS
from engines.models.diffusion_lm import DiffusionLM
from engines.protocol import Model
from engines.runtime.driver import Job, run_batch
from engines.settings import make_config
from traces.files import ROOT

CONFIGURATION = {"label": "confidence", "method": "blockwise", "config": {"block": ["4", "8"], "threshold": [0.5, 0.9]}}


def grid(**changed: Any) -> dict[str, Any]:
    return {"model": "text-target", "problems": 2, "length": 16, "configurations": [CONFIGURATION]} | changed


def again(label: str, block: str) -> dict[str, Any]:
    """What names a setting of the configuration a second time."""
    other = {"label": label, "method": "blockwise", "config": {"block": block, "threshold": 0.5}}
    return {"configurations": [CONFIGURATION, other]}


@cache
def roomy() -> Model:
    """The tiny model, with room for whole problems."""
    model = tiny_diffusion_lm()
    return DiffusionLM(model._network, model._tokenizer, replace(model.kind, longest=512), model.card, model.device)


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In this process, a tiny model with random weights takes the place of the studio language model."""

    def load(model_id: str, device: str = "cpu") -> Model:
        return roomy()

    monkeypatch.setattr(_grid, "load_model", load)
    _grid.ready.cache_clear()
    yield
    _grid.ready.cache_clear()


RIGHT = (
    *((text, "15") for text in ("5*3=15\n#### 15", "#### 15.0", "#### 14\n#### 15", "####15", "####  +15 \n")),
    *(("#### 1,200", "1200"), ("#### 1,200.50", "1200.5"), ("#### 12,345,678", "12345678"), ("#### -5", "-5")),
)
WRONG = (
    *("#### 15\n#### 14", "#### 15 or 14", "#### 15 14", "#### 15\n14", "#### 15/2", "#### -15", "#### 15%"),
    *("#### 1e15", "#### 1,5", "#### \u0661\u0665", "the answer is 15", "#### none", "####", "", "#### 15.01"),
)
OTHER = (("12,00", "1200"), ("1,2000", "12000"), ("1,200", "1"), ("5", "-5"), ("9007199254740993", "9007199254740992"))


def test_the_number_behind_the_last_mark_decides_by_its_value() -> None:
    assert [pair for pair in RIGHT if not is_correct(*pair)] == []
    assert [text for text in WRONG if is_correct(text, "15")] == []
    assert [pair for pair in OTHER if is_correct(f"#### {pair[0]}", pair[1])] == []
    assert len(held_out()) >= 200
    assert all(is_correct(f"so it is\n#### {problem.answer}", problem.answer) for problem in held_out())
    assert given("#### 1\n#### 2 \n") == "2"


class TestGrids:
    def test_lists_become_all_combinations_with_labels_of_their_own(self) -> None:
        made = expand(grid()).configurations
        assert [one.label for one in made] == [
            f"confidence, block {block}, threshold {threshold}" for block in (4, 8) for threshold in (0.5, 0.9)
        ]
        assert made[1].config["block"] == "4" and made[1].config["threshold"] == 0.9
        assert all(one.config["length"] == 16 and one.config["rule"] == "confidence" for one in made)
        entry = {"label": "Spiffy", "curve": "Spiffy", "method": "psd", "preset": "Spiffy", "config": {"depth": [1, 3]}}
        made = expand(grid(configurations=[entry, {"label": "plain", "method": "blockwise"}])).configurations
        points = [("Spiffy, depth 1", "Spiffy"), ("Spiffy, depth 3", "Spiffy"), ("plain", "")]
        assert [(one.label, one.curve) for one in made] == points  # a curve joins points

    def test_presets_are_settings_that_config_overrules(self, monkeypatch: pytest.MonkeyPatch) -> None:
        presets = {"calm": {"threshold": 0.95, "block": "4"}, "bold": {"threshold": 0.6, "block": "4"}}
        monkeypatch.setattr(_grid, "METHODS", {"blockwise": replace(METHODS["blockwise"], presets=presets)})
        entry = {"label": "B", "method": "blockwise", "preset": ["calm", "bold"], "config": {"block": "8"}}
        made = expand(grid(configurations=[entry])).configurations
        assert [(one.label, one.config["threshold"], one.config["block"]) for one in made] == [
            ("B, calm", 0.95, "8"), ("B, bold", 0.6, "8")
        ]  # fmt: skip
        with pytest.raises(GridError, match=r"preset: blockwise has no 'wild'; there are calm, bold"):
            expand(grid(configurations=[entry | {"preset": "wild"}]))

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"model": "studio-image"}, r"^model: 'studio-image' is not valid; name one of smollm2, tally-target"),
            ({"problems": 10**4}, r"^problems: 10000 is not valid; give a whole number from 1 to \d"),
            ({"seeds": [1, 1]}, r"^seeds: \(1, 1\) is not valid; give a list of different"),
            ({"length": 7}, r"^configurations\[0\]\.config: length: 7 is not allowed; use a whole number from 8"),
            ({"speed": 1}, r"^speed: is no field of this record; remove it"),
            ({"method": "scd"}, r"^configurations\[0\]\.method: 'scd' is not valid; name one of blockwise"),
            ({"preset": "fast"}, r"^configurations\[0\]\.config: preset: blockwise has no 'fast'; there are Fast"),
            ({"config": {"blok": "8"}}, r"^configurations\[0\]\.config: blok: no such setting; there are"),
            ({"config": {"block": ["8", "8"]}}, r"^configurations\[0\]\.block: .* list different values"),
            (again("again", "4"), r"'again' has the settings of 'confidence, block 4, threshold 0.5'"),
            (again("confidence, block 4, threshold 0.5", "2"), r"label: .* used twice"),
        ],
    )
    def test_a_bad_grid_is_refused_by_place_value_and_remedy(self, changed: dict[str, Any], message: str) -> None:
        whole = changed.keys() & {*grid(), "seeds", "speed"}
        with pytest.raises(GridError, match=message):
            expand(grid(**changed) if whole else grid(configurations=[CONFIGURATION | changed]))

    @pytest.mark.usefixtures("letters")
    def test_the_model_refuses_before_any_work(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        wide = {"label": "wide", "method": "blockwise", "config": {"block": "16"}}
        file = tmp_path / "grid.json"
        file.write_text(json.dumps(grid(configurations=[wide])))
        assert sweep.main([str(file), "-o", str(tmp_path / "rows.jsonl")]) == 2
        assert "'wide': block: tiny knows no blocks of 16; use 1, 2, 4 or 8" in capsys.readouterr().err
        assert not (tmp_path / "rows.jsonl").exists()

    @pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "grids").glob("*.json")), ids=lambda path: path.stem)
    def test_the_grids_that_ship_are_sound(self, path: Path) -> None:
        made = expand(json.loads(path.read_text()))
        assert any(one.config["block"] == "1" for one in made.configurations), "speed-ups need ordinary decoding"
        if path.stem == "psd":  # the paper's configurations
            assert sum(bool(one.curve) and one.config["block"] == "16" for one in made.configurations) == 27


@pytest.mark.usefixtures("letters")
class TestRows:
    def chunk(self, *problems: int, seed: int = 3, **settings: object) -> Chunk:
        config = {"block": "4", "length": 16, "mode": "sample", "threshold": 0.3, **settings}
        (one,) = expand(grid(configurations=[{"label": "B 4", "method": "blockwise", "config": config}])).configurations
        return Chunk(model="text-target", device="cpu", configuration=one, seed=seed, problems=problems)

    @pytest.mark.slow
    def test_a_row_counts_what_the_trace_of_that_run_shows_up_to_its_end(self) -> None:
        chunk = self.chunk(*range(8), block="8")
        config = make_config(METHODS["blockwise"].config, chunk.configuration.config)
        jobs = [Job(METHODS["blockwise"], roomy(), held_out()[i].question, config, 3, sample=i) for i in range(8)]
        rows = solve(chunk)
        for one, trace in zip(rows, run_batch(jobs), strict=True):
            assert one.forwards == trace.summary.forwards == sum(one.forwards_by_mode.values())
            assert (one.row_forwards, one.query_tokens) == (trace.summary.row_forwards, trace.summary.query_tokens)
            tokens = trace.output.tokens
            assert one.tokens == (tokens.index(1) + 1 if 1 in tokens else 16)
            assert one.correct is is_correct(trace.output.text or "", held_out()[one.problem].answer)
            assert (one.seed, one.batch, one.draft_forwards) == (3, 8, 0)
            assert one.seconds > 0 and one.device.startswith("cpu")
            assert one.key == key("text-target", chunk.configuration, one.problem, 3)
            assert read_line(to_line(one), "line 1") == one
        assert min(row.tokens for row in rows) < 16, "some text must end early for this to test anything"

    def test_problems_of_a_batch_get_the_rows_they_get_alone_and_keys_tell_runs_apart(self) -> None:
        together = solve(self.chunk(0, 1, 2))
        alone = [row for i in range(3) for row in solve(self.chunk(i))]
        assert [replace(row, seconds=0, batch=1) for row in together] == [replace(row, seconds=0) for row in alone]
        assert [row.batch for row in together] == [3, 3, 3]
        one, two = expand(grid()).configurations[:2]
        keys = {key(model, each, problem, seed)
                for model in ("a", "b") for each in (one, two) for problem in (0, 1) for seed in (0, 1)}  # fmt: skip
        assert len(keys) == 16


def line(**fields: Any) -> bytes:
    return json.dumps(row("m", "L", {}, **fields)).encode() + b"\n"


class TestFiles:
    def row(self, name: str, **fields: Any) -> ResultRow:
        (made,) = read_rows([row("m", "L", {}, key=name, weights={"tiny": "0"}, **fields)])
        return made

    def append(self, path: Path, *names: str) -> Rows:
        writer = Rows(path)
        writer.begin({})
        writer.append([self.row(name) for name in names])
        return writer

    @pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
    def test_rows_outlive_a_line_that_was_cut_off(self, tmp_path: Path, ending: str) -> None:
        path = tmp_path / f"rows{ending}"
        self.append(path, "a", "b").release()  # as a kill does
        torn = b'{"key": "c", "lab'
        with path.open("ab") as file:
            file.write(torn if ending == ".jsonl" else gzip.compress(torn)[:-9])
        assert list(Rows(path).rows) == ["a", "b"]
        self.append(path, "c").finish()
        assert [path.name for path in tmp_path.iterdir()] == [path.name]
        assert list(Rows(path).rows) == ["a", "b", "c"]
        more = self.append(path, "d")
        assert list(Rows(path).rows) == ["a", "b", "c", "d"]
        more.release()

    @pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
    def test_one_writes_at_a_time(self, tmp_path: Path, ending: str) -> None:
        path = tmp_path / f"rows{ending}"
        second, late = Rows(path), Rows(path)
        first = self.append(path, "a")
        with pytest.raises(SweepError, match=r"another sweep is writing to .*; wait until it is done, or name another"):
            second.begin({})
        first.append([self.row("b")])
        first.finish()
        with pytest.raises(SweepError, match=r"another sweep wrote to .* just now; give the same command again"):
            late.begin({})
        self.append(path, "c").finish()
        assert list(Rows(path).rows) == ["a", "b", "c"]

    def test_a_row_with_one_wrong_bit_is_not_taken(self) -> None:
        line = to_line(self.row("a", answer="12"))
        assert read_line(line, "line 1") == self.row("a", answer="12")
        end = line.index(b',"crc"')
        for at in range(end):
            for bit in range(8):
                wrong = line[:at] + bytes([line[at] ^ 1 << bit]) + line[at + 1 :]
                with pytest.raises(SweepError):
                    read_line(wrong, "line 1")
        with pytest.raises(SweepError, match=r"line 1\.crc: .* damaged; remove the line, and the sweep solves it anew"):
            read_line(line.replace(b'"answer":"12"', b'"answer":"13"'), "line 1")
        old = read_line(line[:end] + b"}\n", "line 1")
        assert old == self.row("a", answer="12"), "rows of older files have no checksum"

    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            ("rows.json", None, "must end in .jsonl or .jsonl.gz"),
            ("rows.jsonl", b"a diary\n", "rows.jsonl, line 1: is no JSON"),
            ("rows.jsonl", line(), "line 1.key: is missing, so no sweep wrote the row; name another file with -o"),
            ("rows.jsonl", line(key="a"), "line 1.weights: is missing"),
            ("rows.jsonl.gz", gzip.compress(b"{}\n", mtime=0)[:12] + b"a", "cannot be unpacked"),
        ],
    )
    def test_other_files_are_left_alone(self, tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(SweepError, match=said.replace(".", r"\.")) as caught:
            Rows(path)
        assert len(str(caught.value)) < 500
        assert content is None or path.read_bytes() == content


@pytest.mark.usefixtures("letters")
class TestCommandLine:
    def run(self, tmp_path: Path, data: dict[str, Any], *arguments: str, target: str = "") -> int:
        (tmp_path / "grid.json").write_text(json.dumps(data))
        to = target or str(tmp_path / "rows.jsonl")
        return sweep.main([str(tmp_path / "grid.json"), "-o", to, "--jobs", "1", *arguments])

    def lines(self, tmp_path: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]

    @pytest.mark.slow
    def test_a_sweep_has_a_row_a_run_and_a_larger_grid_adds(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        two = {"label": "B", "method": "blockwise", "config": {"block": ["4", "8"], "threshold": 0.5}}
        data = grid(seeds=[0, 1], length=8, configurations=[two])
        assert self.run(tmp_path, data, "--batch", "2") == 0
        printed = capsys.readouterr()
        assert printed.out.count("on 2 problems") == 2 and "8/8" in printed.err
        about, *rows = self.lines(tmp_path)
        assert about["about"]["grid"] == "grid.json" and about["about"]["libraries"]
        assert len({row["key"] for row in rows}) == len(rows) == 8
        assert {len(group.rows) for group in gathered(read_rows(rows))} == {4}
        larger = data | {"problems": 3}
        assert self.run(tmp_path, larger, "--batch", "2") == 0
        assert "4 runs to go, 8 are there already" in capsys.readouterr().err
        assert self.lines(tmp_path)[1:9] == rows
        assert self.run(tmp_path, larger) == 0
        assert len(self.lines(tmp_path)) == 2 + 12

    def test_rows_by_another_name_or_of_other_weights_are_not_mixed(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = grid(problems=1, length=8)
        assert self.run(tmp_path, data) == 0
        renamed = CONFIGURATION | {"label": "new name"}
        assert self.run(tmp_path, data | {"configurations": [renamed]}) == 2
        assert "label: 'new name, block 4, threshold 0.5' is 'confidence, block 4" in capsys.readouterr().err
        monkeypatch.setattr(_grid, "weights_of", lambda job: {"tiny": "another"})
        assert self.run(tmp_path, data) == 2
        assert "holds rows of other weights of tiny; name another file" in capsys.readouterr().err

    def test_rows_go_to_standard_output_once_they_are_there(
        self, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        assert self.run(tmp_path, grid(problems=1, length=8), target="-") == 0
        written, said = capfdbinary.readouterr()
        assert b"% right on 1 problems" in said and not Path("-").exists()
        results = read_results(written)
        assert len(results.rows) == 4 and results.about[0]["grid"] == "grid.json"

    def test_a_full_disk_keeps_what_is_there(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(chunks: Any, jobs: int) -> Any:
            yield solve(chunks[0])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(sweep, "solve_all", interrupted)
        assert self.run(tmp_path, grid()) == 74
        assert "(No space left on device); make room: 1 rows are kept" in capsys.readouterr().err
        assert len(self.lines(tmp_path)) == 2


@pytest.mark.slow
def test_a_killed_sweep_goes_on_without_loss_or_repeats(tmp_path: Path) -> None:
    """Two processes, the studio language model, and a kill that nothing can catch."""
    file, target = tmp_path / "grid.json", tmp_path / "rows.jsonl"
    blocks = {"label": "B", "method": "blockwise", "config": {"block": ["8", "32"]}}
    file.write_text(json.dumps(grid(problems=60, length=64, configurations=[blocks])))
    command = [sys.executable, "-m", "benchmarks.sweep", str(file), "-o", str(target), "--jobs", "2"]
    late = time.monotonic() + 120
    # A group is killed: the workers of a process that is killed alone idle on for minutes.
    where: dict[str, Any] = {"cwd": ROOT, "stdout": subprocess.DEVNULL, "start_new_session": True}
    with (tmp_path / "said.txt").open("wb") as said, subprocess.Popen(command, stderr=said, **where) as process:
        while not target.exists() or target.read_bytes().count(b"\n") < 5:
            assert process.poll() is None and time.monotonic() < late, (tmp_path / "said.txt").read_text()
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    kept = target.read_bytes()
    there = kept.count(b"\n") - 1
    assert 4 <= there < 120
    with target.open("ab") as torn:
        torn.write(b'{"key":"0')
    assert sweep.main([*command[3:], "--problems", "3", "--jobs", "1"]) == 0
    assert target.read_bytes().startswith(kept[: kept.rfind(b"\n") + 1])
    rows = [row for row in map(json.loads, target.read_text().splitlines()) if "about" not in row]
    assert len({row["key"] for row in rows}) == len(rows) >= there
    assert {(row["label"], row["problem"]) for row in rows} >= {(f"B, block {b}", i) for b in (8, 32) for i in range(3)}
