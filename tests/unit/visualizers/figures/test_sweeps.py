"""Sweeps: rows are read or refused with the field, gathered honestly, and drawn as they were gathered."""

import csv
import gzip
import json
from dataclasses import replace
from statistics import fmean, stdev

import pytest
from support.results import row, sweep

from draftscope.analysis.groups import SPEEDS, gathered, records, speeds
from draftscope.analysis.tradeoffs import on_frontier
from draftscope.visualizers import SWEEP_FIGURES, SweepError, SweepView, read_results, read_rows
from draftscope.visualizers.figures.sweep_results import curves, swept
from draftscope.visualizers.label_layout import arrange_labels
from draftscope.visualizers.tables import as_csv, as_latex, as_markdown

ROWS = read_rows(sweep())


class TestReading:
    def test_files_are_lines_or_lists_packed_or_not(self) -> None:
        data = sweep(2)
        lines = "".join(json.dumps(one) + "\n" for one in data).encode()
        for text in (lines, json.dumps(data).encode(), json.dumps({"rows": data}, indent=1).encode()):
            assert read_results(text).rows == read_results(gzip.compress(text)).rows == read_rows(data)
        half = len(lines) // 2
        assert read_results(gzip.compress(lines[:half]) + gzip.compress(lines[half:])).rows == read_rows(data)

    def test_a_last_line_that_was_cut_off_is_left_out_and_another_is_named(self) -> None:
        lines = [json.dumps(one).encode() for one in sweep(1)]
        assert len(read_results(b"\n".join([*lines, b'{"key":"0'])).rows) == len(lines)
        with pytest.raises(SweepError, match="line 2: is not JSON"):
            read_results(b"\n".join([lines[0], b'{"key":"0', lines[1]]))
        with pytest.raises(SweepError, match=f"line {len(lines) + 1}: is not JSON"):
            read_results(b"\n".join([*lines, b"{\n"]))

    def test_what_the_file_says_of_its_making_is_told(self) -> None:
        about = {"threads": 1, "libraries": {"torch": "2.0"}, "commit": "0123456789abcdef+dirty"}
        about["created"] = "2026-01-02T"
        lines = [{"about": about}, {"about": {"threads": [], "libraries": 3}}, row("a", "A", {}, device="a laptop")]
        machine = "a laptop, 1 thread a process, torch 2.0, commit 0123456789ab with changes, 2026-01-02"
        assert read_results("\n".join(map(json.dumps, lines)).encode()).location == machine
        assert read_results(json.dumps([row("a", "A", {})]).encode()).location == ""

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (b"[" * 100_000, "results: is not JSON"),
            (gzip.compress(b"[]", mtime=0)[:-4], "results: cannot be unpacked"),
            (gzip.compress(b" " * (65 * 2**20)), "results: has more than 64 MB"),
            (b"[" + b"[]," * 2**24 + b"1]", "results: holds more than 3000000 values; give one row a line"),
            (b'{"about": {}}\n' * 200_001, "rows: there are more than 200000"),
        ],
    )
    def test_hostile_files_are_refused(self, data: bytes, problem: str) -> None:
        with pytest.raises(SweepError, match=problem):
            read_results(data)

    @pytest.mark.parametrize(
        ("field", "value", "problem"),
        [
            ("correct", "yes", r"\.correct: 'yes' should be a valid boolean; correct the row"),
            ("forwards", -1, r"\.forwards: -1 should be greater than or equal to 0"),
            ("forwards", 10**400, r"\.forwards: a huge integer should be less than or equal to 9"),
            ("draft_forwards", 41, r"\.draft_forwards: adds up to 41, more than the 40"),
            ("config", {"x": {"y": 1}}, r"\.config\.x: an object of 1 should be a number"),
            ("config", dict.fromkeys(map(str, range(101)), 1), r"\.config: an object of 101: .* at most 100 "),
        ],
    )
    def test_a_broken_field_is_named_with_value_and_remedy(self, field: str, value: object, problem: str) -> None:
        with pytest.raises(SweepError, match=r"rows\[1\]" + problem) as caught:
            read_rows([row("ar", "AR", {}), row("ar", "AR", {}) | {field: value}])
        assert len(str(caught.value)) < 300


class TestGathering:
    def test_groups_are_models_methods_labels_and_configs(self) -> None:
        rows = read_rows(
            [row("a", "A", {"x": 1}), row("a", "A", {"x": 2}), row("a", "A", {"x": 1}, 1), row("b", "A", {"x": 1})]
        )
        sizes = [(group.method, group.config["x"], len(group.rows)) for group in gathered(rows)]
        assert sizes == [("a", 1, 2), ("a", 2, 1), ("b", 1, 1)]
        rows = read_rows([row("a", "A", {"x": x}, model=model) for model in ("small", "large") for x in (1, 2)])
        assert [group.model for group in gathered(rows)] == ["small", "small", "large", "large"]
        assert list(curves(gathered(rows), "x")) == ["a on small", "a on large"]
        names = {mark.name.partition(",")[0] for mark in SWEEP_FIGURES["frontier"].draw(rows).data}
        assert names == {"a on small", "a on large"}

    def test_points_are_joined_by_what_labels_have_before_their_comma(self) -> None:
        labels = ("routed, span 2", "routed, span 4", "always, block 8", "ordinary")
        groups = gathered(read_rows([row("s2d2", label, {"x": k}) for k, label in enumerate(labels)]))
        assert [group.curve for group in groups] == ["routed", "routed", "always", "s2d2"]
        named = [replace(one, curve="both") for group in groups for one in group.rows]
        assert {group.curve for group in gathered(named)} == {"both"}

    def test_only_what_no_method_beats_has_a_label(self) -> None:
        rows = [row("a", "a, quick", {"x": 1}, tokens=90), row("b", "b, slow", {"x": 1}, tokens=70)]
        drawn = SWEEP_FIGURES["frontier"].draw(read_rows(rows)).data
        assert [list(mark.text) for mark in drawn] == [["a, quick"], [""]]

    def test_accuracy_counts_problems_not_runs(self) -> None:
        rows = [row("a", "A", {}, 0, correct=correct) for correct in (True, True, True, False)]
        (group,) = gathered(read_rows([*rows, row("a", "A", {}, 1, correct=False)]))
        assert group.problems == 2
        assert group.accuracy == fmean([0.75, 0.0])
        assert group.accuracy_error == pytest.approx(stdev([0.75, 0.0]) / 2**0.5)

    def test_speed_is_a_ratio_of_totals(self) -> None:
        rows = [
            row("ar", "AR", {}, tokens=10, forwards=10, forwards_by_mode={"prefill": 1, "commit": 1}, seconds=5),
            row("x", "fast", {}, 0, tokens=10, forwards=2, forwards_by_mode={"prefill": 1}, seconds=1, query_tokens=50),
            row("x", "fast", {}, 1, tokens=30, forwards=8, forwards_by_mode={"commit": 2}, seconds=1, query_tokens=30),
        ]
        groups = gathered(read_rows(rows))
        rates = {"tokens-per-forward": (1, 4), "tokens-per-decoding-forward": (10 / 8, 40 / 7)}
        rates |= {"query-tokens-per-token": (40, 2), "milliseconds-per-token": (500, 50), "tokens-per-second": (2, 20)}
        rates |= {"speed-up-forwards": (1, 4), "speed-up-time": (1, 10)}
        assert {name: speeds(groups, name, "AR") for name in rates} == rates

    def test_records_hold_every_speed_and_no_formula(self) -> None:
        groups = gathered(ROWS)
        table = records(groups, "AR")
        for name in SPEEDS:
            assert [record[name] for record in table] == list(speeds(groups, name, "AR"))
        assert table[0]["accuracy"] == groups[0].accuracy and table[0]["problems"] == 60
        assert [record["speed-up-time"] for record in records(groups)] == [None] * len(groups)
        json.dumps(table, allow_nan=False)
        hostile = records(gathered(read_rows([row('=cmd|"x"', "-1,2", {"block": 4})])))
        heads, values = csv.reader(as_csv(list(hostile[0]), [list(hostile[0].values())]).splitlines())
        cells = dict(zip(heads, values, strict=True))
        assert (cells["method"], cells["label"], cells["config"]) == ('\'=cmd|"x"', "'-1,2", '{"block": 4}')
        strange = "[1] a|b\n\\input{x} $y_1^2$ <b> 50% & `c`"
        tex = as_latex(["Run", "Passes"], [[strange, 7]])
        header = (
            r"{[}1{]} a\textbar{}b \textbackslash{}input\{x\} \$y\_1\textasciicircum{}2\$ \textless{}b\textgreater{} "
        )
        assert tex.splitlines()[0] == r"\begin{tabular}{lr}" and header + r"50\% \& `c` & 7 \\" in tex.splitlines()
        *_, line = as_markdown(["Run", "Passes"], [[strange, 7]]).splitlines()
        assert line == r"| \[1\] a\|b \\input{x} \$y\_1^2\$ \<b\> 50% \& \`c\` | 7 |"

    def test_questions_without_an_answer(self) -> None:
        untimed = gathered(read_rows([row("ar", "AR", {}, seconds=0), row("x", "X", {})]))
        assert speeds(untimed, "tokens-per-second") == (None, 40)
        for groups, speed, baseline, problem in (
            (gathered(ROWS), "warp", None, "speed: 'warp' is unknown; choose one of tokens-per-forward"),
            (gathered(ROWS), "speed-up-time", None, "baseline: speed-up-time needs one"),
            (gathered(ROWS), "speed-up-time", "unknown", "baseline: 'unknown' names no group; choose one of AR, B 4"),
            (gathered(ROWS), "speed-up-time", "s2d2", "baseline: 's2d2' names 8 groups"),
            (untimed, "speed-up-time", "AR", "the rows of 'AR' have no cost"),
        ):
            with pytest.raises(SweepError, match=problem):
                speeds(groups, speed, baseline)

    def test_the_frontier_is_what_nothing_beats(self) -> None:
        assert on_frontier([(1, 5), (2, 4), (3, 4), (3, 1), (0.5, 5)]) == (True, False, True, False, False)
        assert on_frontier([(1, 1), (1, 1)]) == (True, True)

    def test_the_setting_is_the_wanted_or_the_only_one(self) -> None:
        one = read_rows([row("a", "A", {"gamma": gamma}) for gamma in (3, 4)])
        assert swept(one, None) == swept(one, "gamma") == "gamma"
        assert swept(ROWS, "verification_cost") == "verification_cost"
        for rows, setting, problem in (
            (ROWS, None, "2 vary; choose one of block, verification_cost"),
            (ROWS, "router", "'router' does not vary; choose one of"),
            (one[:1], None, "none varies"),
        ):
            with pytest.raises(SweepError, match=f"setting: {problem}"):
                swept(rows, setting)


class TestDrawing:
    @pytest.mark.parametrize("speed", SPEEDS)
    def test_the_frontier_joins_the_best_settings_of_a_method(self, speed: str) -> None:
        drawn = SWEEP_FIGURES["frontier"].draw(ROWS, SweepView(speed=speed, baseline="AR"))
        groups = gathered(ROWS)
        of = dict(zip([group.label for group in groups], speeds(groups, speed, "AR"), strict=True))
        marks = [zip(mark.x, mark.y, mark.customdata, strict=True) for mark in drawn.data]
        points = [(x, y, label) for each in marks for x, y, (label, _) in each]
        assert sorted(points) == sorted((of[group.label], 100 * group.accuracy, group.label) for group in groups)
        for mark in drawn.data:
            if mark.mode.startswith("lines"):
                assert list(mark.x) == sorted(mark.x)
                assert list(mark.y) == sorted(mark.y, reverse=not SPEEDS[speed].falling)
        assert drawn.layout.xaxis.title.text.startswith(SPEEDS[speed].axis)
        assert ("less is better" in drawn.layout.xaxis.title.text) == SPEEDS[speed].falling
        (star,) = [mark for mark in drawn.data if mark.marker.symbol == "star"]
        assert (star.name, star.y[0]) == ("AR, the baseline", drawn.layout.shapes[0].y0)
        assert ("against AR" in drawn.layout.title.subtitle.text) == SPEEDS[speed].relative

    def test_a_setting_has_a_curve_of_accuracy_and_one_of_speed(self) -> None:
        view = SweepView(setting="block", speed="speed-up-forwards", baseline="AR")
        drawn = SWEEP_FIGURES["setting"].draw(ROWS, view)
        accuracy, speed = drawn.data[0], drawn.data[1]
        group = curves(gathered(ROWS), "block")["dynamic"][2]
        assert (accuracy.name, accuracy.x[2], accuracy.y[2]) == ("dynamic", 16, 100 * group.accuracy)
        assert speed.y[2] == pytest.approx(speeds((group, gathered(ROWS)[0]), "speed-up-forwards", "AR")[0])
        rows = read_rows([row("a", "A", {"block": block}) for block in ("16", "4", "32")])
        drawn = SWEEP_FIGURES["setting"].draw(rows)
        assert list(drawn.data[0].x) == [4, 16, 32]
        assert drawn.layout.xaxis.type == "linear"


def test_labels_are_written_over_no_mark_and_no_other_label() -> None:
    points = [(0.3, 0.5), (0.301, 0.5), (0.8, 0.5), (0.34, 0.55), (0.9, 0.9)]
    wanted = [(0, "gamma 4", "top right"), (1, "gamma 3", "top right"), (4, "beyond the edge", "top right")]
    placed = arrange_labels(points, wanted)
    assert placed[0] != placed[1] and placed[4] == "top left"
    assert placed[0] != "top right"  # a mark is there
    crowd = [(0.5 + i / 1000, 0.5) for i in range(9)]
    assert 0 in arrange_labels(crowd, [(i, "a long label of a setting", "top right") for i in range(9)])
    assert len(arrange_labels(crowd, [(i, "a long label of a setting", "top right") for i in range(9)])) < 9
