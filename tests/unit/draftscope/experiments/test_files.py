"""Experiments of files: they are checked completely, rows are of the runs, and a kill loses and repeats nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from support.tiny_diffusion_lm import tiny_diffusion_lm

from draftscope.analysis.groups import gathered
from draftscope.analysis.results import read_line, read_results, read_rows, to_line
from draftscope.cli.main import main
from draftscope.engines.methods import METHODS
from draftscope.engines.models import catalog
from draftscope.engines.models.diffusion_lm import DiffusionLM
from draftscope.engines.protocol import Model
from draftscope.engines.runtime.driver import Job, run_batch
from draftscope.engines.settings import ConfigError, config_values, make_config
from draftscope.experiments import Experiment, Processes, executors, files, problems
from draftscope.experiments import run as run_module
from draftscope.experiments.executors import decode_chunk
from draftscope.experiments.files import parse_experiment, read_experiments
from draftscope.experiments.problems import extract_answer, held_out, is_correct
from draftscope.traces.files import ROOT

CONFIGURATION = {"label": "confidence", "method": "blockwise", "config": {"block": ["4", "8"], "threshold": [0.5, 0.9]}}


def grid(**changed: Any) -> dict[str, Any]:
    return {"model": "text-target", "problems": 2, "length": 16, "configurations": [CONFIGURATION]} | changed


def again(label: str, block: str) -> dict[str, Any]:
    """Entries that name a setting of the configuration a second time."""
    other = {"label": label, "method": "blockwise", "config": {"block": block, "threshold": 0.5}}
    return {"configurations": [CONFIGURATION, other]}


@cache
def roomy() -> Model:
    """The tiny model, with room for whole problems."""
    model = tiny_diffusion_lm()
    return DiffusionLM(model.network, model._tokenizer, replace(model.kind, longest=512), model.card, model.device)


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In this process, a tiny model with random weights replaces the studio language model."""

    def load(model_id: str, device: str | None = None) -> Model:
        return roomy()

    monkeypatch.setattr(catalog, "load_model", load)
    executors._WARM.clear()
    yield
    executors._WARM.clear()


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
    assert extract_answer("#### 1\n#### 2 \n") == "2"


def configs(experiment: Experiment) -> list[dict[str, Any]]:
    """All settings of every arm."""
    return [config_values(make_config(METHODS[arm.method].config, arm.settings)) for arm in experiment.arms]


class TestFiles:
    def test_lists_become_all_combinations_with_labels_of_their_own(self) -> None:
        experiment = parse_experiment(grid())
        assert [arm.label for arm in experiment.arms] == [
            f"confidence, block {block}, threshold {threshold}" for block in (4, 8) for threshold in (0.5, 0.9)
        ]
        settings = configs(experiment)
        assert settings[1]["block"] == "4" and settings[1]["threshold"] == 0.9
        assert all(one["length"] == 16 and one["rule"] == "confidence" for one in settings)
        entry = {"label": "Spiffy", "curve": "Spiffy", "method": "psd", "preset": "Spiffy", "config": {"depth": [1, 3]}}
        arms = parse_experiment(grid(configurations=[entry, {"label": "plain", "method": "blockwise"}])).arms
        points = [("Spiffy, depth 1", "Spiffy"), ("Spiffy, depth 3", "Spiffy"), ("plain", "")]
        assert [(arm.label, arm.curve) for arm in arms] == points  # a curve joins points

    def test_presets_are_settings_that_config_overrules(self, monkeypatch: pytest.MonkeyPatch) -> None:
        presets = {"calm": {"threshold": 0.95, "block": "4"}, "bold": {"threshold": 0.6, "block": "4"}}
        monkeypatch.setattr(files, "METHODS", {"blockwise": replace(METHODS["blockwise"], presets=presets)})
        entry = {"label": "B", "method": "blockwise", "preset": ["calm", "bold"], "config": {"block": "8"}}
        experiment = parse_experiment(grid(configurations=[entry]))
        pairs = zip(experiment.arms, configs(experiment), strict=True)
        assert [(arm.label, config["threshold"], config["block"]) for arm, config in pairs] == [
            ("B, calm", 0.95, "8"), ("B, bold", 0.6, "8")
        ]  # fmt: skip
        with pytest.raises(ConfigError, match=r"preset: blockwise has no 'wild'; there are calm, bold"):
            parse_experiment(grid(configurations=[entry | {"preset": "wild"}]))

    def test_prompts_in_place_of_problems_run_on_any_model(self, tmp_path: Path) -> None:
        path = tmp_path / "one.toml"
        path.write_text(
            'model = "studio-image"\nprompts = ["an owl", "a boot"]\nseeds = [3]\n'
            '[[configurations]]\nlabel = "SCD"\nmethod = "scd"\nconfig.window = [8, 16]\n'
        )
        runs = Experiment.read(path).runs()
        assert [(run.request.prompt, run.request.seed, run.config["window"]) for run in runs] == [
            ("an owl", 3, 8), ("an owl", 3, 16), ("a boot", 3, 16), ("a boot", 3, 8)
        ]  # fmt: skip
        path.write_text('[a]\nmodel = "toy-raster"\n[[a.configurations]]\nlabel = "AR"\nmethod = "ar"\n')
        assert read_experiments(path)["a"].prompts == ("",)
        for data, message in (
            (grid(prompts=["a"]), r"^prompts: \('a',\) is not valid; give problems or prompts, not both"),
            (grid(problems=None, model="unknown"), r"^model: 'unknown' is not valid; name one of "),
        ):
            with pytest.raises(ConfigError, match=message):
                parse_experiment(data)
        for name, problem in (
            ("gone.json", r"gone.json: cannot be read \(No such"),
            ("one.json", "one.json: is not JSON"),
        ):
            (tmp_path / "one.json").write_text("{")
            with pytest.raises(ConfigError, match=problem):
                Experiment.read(tmp_path / name)

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"model": "studio-image"}, r"^model: 'studio-image' is not valid; name one of smollm2, tally-target"),
            ({"problems": 10**4}, r"^problems: 10000 is not valid; give a whole number from 1 to \d"),
            ({"seeds": [1, 1]}, r"^seeds: \(1, 1\) is not valid; give a list of different"),
            ({"length": 7}, r"^configurations\[0\]\.config: length: 7 is not allowed; use a whole number from 8"),
            ({"speed": 1}, r"^speed: is not a field of this record; remove it"),
            ({"method": "scd"}, r"^configurations\[0\]\.method: 'scd' is not valid; name one of blockwise"),
            ({"preset": "fast"}, r"^configurations\[0\]\.config: preset: blockwise has no 'fast'; there are Fast"),
            ({"config": {"blok": "8"}}, r"^configurations\[0\]\.config: blok: no such setting; there are"),
            ({"config": {"block": ["8", "8"]}}, r"^configurations\[0\]\.block: .* list different values"),
            (again("again", "4"), r"'again' has the settings of 'confidence, block 4, threshold 0.5'"),
            (again("confidence, block 4, threshold 0.5", "2"), r"label: .* used twice"),
        ],
    )
    def test_a_bad_grid_is_refused_by_place_value_and_remedy(self, changed: dict[str, Any], message: str) -> None:
        replaces_all = changed.keys() & {*grid(), "seeds", "speed"}
        with pytest.raises(ConfigError, match=message):
            parse_experiment(grid(**changed) if replaces_all else grid(configurations=[CONFIGURATION | changed]))

    def test_problems_need_a_checkout(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(problems, "PATH", Path("gone.json"))
        problems.held_out.cache_clear()
        with pytest.raises(ConfigError, match=r"^problems: are not part of the installed package; use a checkout"):
            parse_experiment(grid())

    @pytest.mark.usefixtures("letters")
    def test_the_model_refuses_before_any_work(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        wide = {"label": "wide", "method": "blockwise", "config": {"block": "16"}}
        file = tmp_path / "grid.json"
        file.write_text(json.dumps(grid(configurations=[wide])))
        assert main(["experiment", "run", str(file), "-o", str(tmp_path / "rows.jsonl")]) == 2
        message = capsys.readouterr().err
        assert "block: tiny knows no blocks of 16; use 1, 2, 4 or 8. (wide, prompt " in message
        assert not (tmp_path / "rows.jsonl").exists()

    @pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "grids").glob("*.json")), ids=lambda path: path.stem)
    def test_the_grids_that_ship_are_valid(self, path: Path) -> None:
        experiment = Experiment.read(path)
        settings = configs(experiment)
        assert any(config["block"] == "1" for config in settings), "speed-ups need ordinary decoding"
        if path.stem == "psd":  # the paper's configurations
            pairs = zip(experiment.arms, settings, strict=True)
            assert sum(bool(arm.curve) and config["block"] == "16" for arm, config in pairs) == 19

    def test_results_of_earlier_versions_are_resumed(self) -> None:
        """Keys of the file that ships, so that no run of it is done again."""
        results = read_results((ROOT / "benchmarks" / "results" / "ablations.jsonl.gz").read_bytes())
        runs = Experiment.read(ROOT / "benchmarks" / "grids" / "ablations.json").runs()
        assert {run.key for run in runs} == {row.key for row in results.rows}


@pytest.mark.usefixtures("letters")
class TestRows:
    def experiment(self, problems: int, seed: int = 3, **settings: object) -> Experiment:
        config = {"block": "4", "length": 16, "mode": "sample", "threshold": 0.3, **settings}
        entry = {"label": "B 4", "method": "blockwise", "config": config}
        return parse_experiment(grid(problems=problems, seeds=[seed], configurations=[entry]))

    @pytest.mark.slow
    def test_a_row_counts_what_the_trace_of_that_run_shows_up_to_its_end(self) -> None:
        runs = self.experiment(8, block="8").runs()
        config = make_config(METHODS["blockwise"].config, runs[0].config)
        jobs = [Job(METHODS["blockwise"], roomy(), held_out()[i].question, config, 3, sample=i) for i in range(8)]
        rows = [outcome.row for outcome in decode_chunk(runs)]
        for run, one, trace in zip(runs, rows, run_batch(jobs), strict=True):
            assert one.forwards == trace.summary.forwards == sum(one.forwards_by_mode.values())
            assert (one.row_forwards, one.query_tokens) == (trace.summary.row_forwards, trace.summary.query_tokens)
            tokens = trace.output.tokens
            assert one.tokens == (tokens.index(1) + 1 if 1 in tokens else 16)
            assert one.correct is is_correct(trace.output.text or "", held_out()[one.problem].answer)
            assert (one.seed, one.batch, one.draft_forwards) == (3, 8, 0)
            assert one.seconds > 0 and one.device.startswith("cpu")
            assert one.key == run.key
            assert read_line(to_line(one), "line 1") == one
        assert min(row.tokens for row in rows) < 16, "some text must end early for this to test anything"

    def test_problems_of_a_batch_get_the_rows_they_get_alone_and_keys_tell_runs_apart(self) -> None:
        runs = self.experiment(3).runs()
        together = [outcome.row for outcome in decode_chunk(runs)]
        alone = [outcome.row for run in runs for outcome in decode_chunk([run])]
        assert [replace(row, seconds=0, batch=1) for row in together] == [replace(row, seconds=0) for row in alone]
        assert [row.batch for row in together] == [3, 3, 3]
        arms = parse_experiment(grid(seeds=[0, 1])).arms[:2]
        keys = {
            run.key
            for model in ("text-target", "text-draft")
            for run in replace(parse_experiment(grid(seeds=[0, 1])), arms=arms, model=model).runs()
        }
        assert len(keys) == 16


@pytest.mark.usefixtures("letters")
class TestCommandLine:
    def run(self, tmp_path: Path, data: dict[str, Any], *arguments: str, target: str = "") -> int:
        (tmp_path / "grid.json").write_text(json.dumps(data))
        to = target or str(tmp_path / "rows.jsonl")
        return main(["experiment", "run", str(tmp_path / "grid.json"), "-o", to, "--jobs", "1", *arguments])

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
        monkeypatch.setattr(run_module, "weights_of", lambda job: {"tiny": "another"})
        assert self.run(tmp_path, data) == 2
        assert "contains rows of other weights of tiny; name another file" in capsys.readouterr().err

    def test_rows_go_to_standard_output_once_they_are_there(
        self, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        assert self.run(tmp_path, grid(problems=1, length=8), target="-") == 0
        written, messages = capfdbinary.readouterr()
        assert b"% right on 1 problems" in messages and not Path("-").exists()
        results = read_results(written)
        assert len(results.rows) == 4 and results.about[0]["grid"] == "grid.json"

    def test_a_full_disk_keeps_what_is_there(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        execute = Processes.execute

        def interrupted(self: Processes, runs: Any, stop: Any) -> Any:
            yield from islice(execute(self, runs, stop), 1)
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Processes, "execute", interrupted)
        assert self.run(tmp_path, grid()) == 74
        assert "(No space left on device); make room: 1 rows are kept" in capsys.readouterr().err
        assert len(self.lines(tmp_path)) == 2


@pytest.mark.slow
@pytest.mark.nightly
def test_a_killed_sweep_goes_on_without_loss_or_repeats(tmp_path: Path) -> None:
    """Two processes, the studio language model, and a kill that nothing can catch."""
    file, target = tmp_path / "grid.json", tmp_path / "rows.jsonl"
    blocks = {"label": "B", "method": "blockwise", "config": {"block": ["8", "32"]}}
    file.write_text(json.dumps(grid(problems=60, length=64, configurations=[blocks])))
    arguments = [str(file), "-o", str(target), "--jobs", "2"]
    command = [sys.executable, "-m", "benchmarks.sweep", *arguments]  # the old name
    late = time.monotonic() + 120
    # A group is killed: the workers of a process that is killed alone idle on for minutes.
    where: dict[str, Any] = {"cwd": ROOT, "stdout": subprocess.DEVNULL, "process_group": 0}
    with (tmp_path / "said.txt").open("wb") as log, subprocess.Popen(command, stderr=log, **where) as process:
        while not target.exists() or target.read_bytes().count(b"\n") < 5:
            assert process.poll() is None and time.monotonic() < late, (tmp_path / "said.txt").read_text()
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
    content = target.read_bytes()
    num_rows = content.count(b"\n") - 1
    assert 4 <= num_rows < 120
    with target.open("ab") as torn:
        torn.write(b'{"key":"0')
    assert main(["experiment", "run", *arguments, "--problems", "3", "--jobs", "1"]) == 0
    assert target.read_bytes().startswith(content[: content.rfind(b"\n") + 1])
    rows = [row for row in map(json.loads, target.read_text().splitlines()) if "about" not in row]
    assert len({row["key"] for row in rows}) == len(rows) >= num_rows
    assert {(row["label"], row["problem"]) for row in rows} >= {(f"B, block {b}", i) for b in (8, 32) for i in range(3)}
