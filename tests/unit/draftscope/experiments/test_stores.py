"""Result stores: an interrupted file is resumed without loss, one process writes at a time, other files are refused."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.results import row

from draftscope.analysis.results import ResultRow, SweepError, read_line, read_rows, to_line
from draftscope.experiments import Arm, Experiment, JsonlStore, MemoryStore, RunOutcome

(RUN,) = Experiment(arms=(Arm(label="AR", method="ar"),), model="toy-raster").runs()


def line(**fields: Any) -> bytes:
    return json.dumps(row("m", "L", {}, **fields)).encode() + b"\n"


class TestJsonlStore:
    def row(self, name: str, **fields: Any) -> ResultRow:
        (result,) = read_rows([row("m", "L", {}, key=name, weights={"tiny": "0"}, **fields)])
        return result

    def outcome(self, name: str) -> RunOutcome:
        return RunOutcome(run=RUN, row=self.row(name))

    def append(self, path: Path, *names: str) -> JsonlStore:
        store = JsonlStore(path)
        store.open()
        for name in names:
            store.add(self.outcome(name))
        return store

    @pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
    def test_rows_outlive_a_line_that_was_cut_off(self, tmp_path: Path, ending: str) -> None:
        path = tmp_path / f"rows{ending}"
        self.append(path, "a", "b").close(complete=False)  # as a kill does
        torn = b'{"key": "c", "lab'
        with path.open("ab") as file:
            file.write(torn if ending == ".jsonl" else gzip.compress(torn)[:-9])
        assert list(JsonlStore(path).rows) == ["a", "b"]
        self.append(path, "c").close(complete=True)
        assert [path.name for path in tmp_path.iterdir()] == [path.name]
        assert list(JsonlStore(path).rows) == ["a", "b", "c"]
        more = self.append(path, "d")
        assert list(JsonlStore(path).rows) == ["a", "b", "c", "d"]
        more.close(complete=False)

    @pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
    def test_one_writes_at_a_time(self, tmp_path: Path, ending: str) -> None:
        path = tmp_path / f"rows{ending}"
        second, late = JsonlStore(path), JsonlStore(path)
        first = self.append(path, "a")
        with pytest.raises(SweepError, match=r"another process is writing to .*; wait until it is done, or name"):
            second.open()
        first.add(self.outcome("b"))
        first.close(complete=True)
        with pytest.raises(SweepError, match=r"another process has just written to .*; run the same command again"):
            late.open()
        self.append(path, "c").close(complete=True)
        assert list(JsonlStore(path).rows) == ["a", "b", "c"]

    def test_a_row_with_one_wrong_bit_is_not_taken(self) -> None:
        line = to_line(self.row("a", answer="12"))
        assert read_line(line, "line 1") == self.row("a", answer="12")
        end = line.index(b',"crc"')
        for at in range(end):
            for bit in range(8):
                wrong = line[:at] + bytes([line[at] ^ 1 << bit]) + line[at + 1 :]
                with pytest.raises(SweepError):
                    read_line(wrong, "line 1")
        with pytest.raises(
            SweepError, match=r"line 1\.crc: .* damaged; remove the line, and the same command decodes it again"
        ):
            read_line(line.replace(b'"answer":"12"', b'"answer":"13"'), "line 1")
        old = read_line(line[:end] + b"}\n", "line 1")
        assert old == self.row("a", answer="12"), "rows of older files have no checksum"

    @pytest.mark.parametrize(
        ("name", "content", "problem"),
        [
            ("rows.json", None, "use a name that ends in .jsonl or .jsonl.gz"),
            ("rows.jsonl", b"a diary\n", "rows.jsonl, line 1: is not JSON"),
            ("rows.jsonl", line(), "line 1.key: is missing, so no experiment wrote the row; name another output file"),
            ("rows.jsonl", line(key="a"), "line 1.weights: is missing"),
            ("rows.jsonl.gz", gzip.compress(b"{}\n", mtime=0)[:12] + b"a", "cannot be unpacked"),
        ],
    )
    def test_other_files_are_left_alone(self, tmp_path: Path, name: str, content: bytes | None, problem: str) -> None:
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(SweepError, match=problem.replace(".", r"\.")) as caught:
            JsonlStore(path)
        assert len(str(caught.value)) < 500
        assert content is None or path.read_bytes() == content

    def test_rows_by_another_label_or_of_other_weights_are_not_mixed(self, tmp_path: Path) -> None:
        path = tmp_path / "rows.jsonl"
        (result,) = read_rows([row("ar", "another", RUN.config, key="a", weights={"tiny": "0"})])
        store = JsonlStore(path)
        store.open()
        store.add(RunOutcome(run=RUN, row=result))
        store.close(complete=True)
        with pytest.raises(SweepError, match=r"label: 'AR' is 'another' in .*; keep that label or name another file"):
            JsonlStore(path).check([RUN], {})
        with pytest.raises(SweepError, match="contains rows of other weights of tiny; name another file"):
            JsonlStore(path).check([], {"tiny": "1"})
        JsonlStore(path).check([], {"tiny": "0"})


def test_results_in_memory_are_sorted_and_skipped_when_they_are_there() -> None:
    arms = (Arm(label="AR", method="ar"), Arm(label="SCD", method="scd"))
    runs = Experiment(arms=arms, model="toy-raster", seeds=(0, 1)).runs()
    store = MemoryStore()
    (row_,) = read_rows([row("m", "L", {})])
    for run in runs[:3]:
        store.add(RunOutcome(run=run, row=row_))
    assert [run in store for run in runs] == [True, True, True, False]
    assert [outcome.run.order for outcome in store.outcomes] == sorted(run.order for run in runs[:3])
    assert store.traces == () and len(store.rows) == 3
