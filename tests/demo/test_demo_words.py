import json
import re
import shlex
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from support.raster import decoded

from demo.__main__ import main
from demo.app import build
from demo.panels.methods import method_text
from demo.runs.measured import measured
from demo.runs.outcome import outcome
from demo.runs.recordings import FOLDER, listed, record, recordings
from demo.server.sessions import Visitors
from engines.__main__ import main as engines_main
from engines.config import make_config
from engines.methods import METHODS
from engines.models.catalog import load_model
from engines.runtime.environment import device_name
from traces import read, write
from visualizers.bundle.words import command


def test_the_outcome_says_what_the_summaries_say() -> None:
    ordinary, coupled = decoded("ar"), decoded("scd", window=16)
    passes, time, rate, acceptance = outcome([ordinary, coupled])
    assert passes.figure == str(coupled.summary.forwards)
    ratio = ordinary.summary.forwards / coupled.summary.forwards
    assert passes.note == f"{ratio:.2f} × fewer; ordinary: {ordinary.summary.forwards}"
    assert time.figure == f"{coupled.summary.seconds:.2g} s"
    assert ("faster" in time.note) == (coupled.summary.seconds < ordinary.summary.seconds)
    assert rate.figure == f"{coupled.summary.tokens_per_forward:.2f}"
    made = coupled.summary
    assert made.drafts and made.drafts > made.judged
    assert acceptance.note == (
        f"{made.accepted} of {made.judged} judged drafts; {made.accepted / made.drafts:.0%} of {made.drafts} that "
        "passes evaluated"
    )


def test_the_command_repeats_the_run_and_nothing_in_a_trace_breaks_out_of_it(tmp_path: Path) -> None:
    trace = decoded("scd", seed=7, window=16, coupling="gumbel")
    words = shlex.split(command(trace))
    assert words[:3] == ["python", "-m", "engines"]
    target = tmp_path / "again.json.gz"
    assert engines_main([*words[3:-1], str(target)]) == 0
    assert read(target).output == trace.output
    trace = replace(decoded("ar"), prompt="a; rm -rf '~'", method="ar; rm -rf ~")
    words = shlex.split(command(replace(trace, model=replace(trace.model, id="$(reboot)"))), posix=True)
    assert words[4:7] == ["ar; rm -rf ~", "--model", "$(reboot)"] and words[-1] == "ar; rm -rf ~.json.gz"
    assert "a; rm -rf '~'" in words


def test_a_baseline_from_before_there_was_a_setting_is_one_still(tmp_path: Path) -> None:
    ordinary = decoded("ar")
    older = {name: value for name, value in ordinary.config.items() if name != "top_p"}
    assert len(older) < len(ordinary.config)
    write(replace(ordinary, config=older), tmp_path / "ar.json.gz")
    write(decoded("scd", window=16), tmp_path / "scd.json.gz")
    (entry,) = recordings(tmp_path)
    assert [trace.method for trace in entry.traces] == ["ar", "scd"]
    write(decoded("scd", seed=2, window=16), tmp_path / "scd.json.gz")  # of another seed, it stands alone
    assert [len(entry.paths) for entry in recordings(tmp_path)] == [1, 1]


def test_the_list_names_and_orders_recordings(tmp_path: Path) -> None:
    listed: list[dict[str, object]] = [
        {"file": "z.json.gz", "method": "scd", "model": "toy-raster", "title": "First", "about": "Look here.",
         "settings": {"window": 16}},
        {"file": "a.json.gz", "method": "ar", "model": "toy-raster", "seed": 5},
    ]  # fmt: skip
    (tmp_path / "gallery.json").write_text(json.dumps(listed))
    for entry in listed:
        record(entry, tmp_path)
    write(decoded("gsd", window=16), tmp_path / "0-unlisted.json.gz")
    first, second, third = recordings(tmp_path)
    assert (first.title, first.about, first.method) == ("First", "Look here.", "scd")
    assert first.traces[0].config["window"] == 16
    assert (second.method, third.method, third.traces[0].seed) == ("gsd", "ar", 5)


def test_a_recording_is_made_anew_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("demo.__main__.FOLDER", tmp_path)
    entries = [{"file": f"{name}.json.gz", "method": "ar", "model": "toy-raster"} for name in ("one", "two")]
    (tmp_path / "gallery.json").write_text(json.dumps(entries))
    assert main(["record", "two.json.gz"]) == 0
    assert [path.name for path in tmp_path.glob("*.gz")] == ["two.json.gz"]
    with pytest.raises(SystemExit, match="2"):
        main(["record", "none-such.json.gz"])
    assert "file: 'none-such.json.gz' is not in gallery.json; use one.json.gz, " in capsys.readouterr().err


@pytest.mark.slow
def test_what_the_gallery_lists_is_there_and_as_listed() -> None:
    for entry in listed(FOLDER):
        trace = read(FOLDER / entry["file"])
        assert trace.summary.complete
        assert (trace.method, trace.seed) == (entry["method"], entry.get("seed", 0))
        made = METHODS[trace.method].config
        settings = asdict(make_config(made, entry.get("settings", {})))
        assert trace.config.keys() <= settings.keys()
        assert asdict(made()) | dict(trace.config) == settings, entry["file"]  # one that came since has its default
        assert trace.model.weights == load_model(trace.model.id).card.weights, "weights have changed: make traces"


def test_measured_rows_are_those_of_the_method_with_errors_and_quartiles_beside_their_figure(tmp_path: Path) -> None:
    row = {"method": "scd", "window": 32, "seconds": 0.123456, "nfe": 36.417, "nfe_standard_error": 1.305}
    row |= {"as_asked_percent": 66.67, "as_asked_error": 3.411}
    row |= {f"time_{name}": value for name, value in (("median", 0.4), ("low_quartile", 0.3), ("high_quartile", 0.5))}
    rows = [row, {"method": "ar", "seconds": 1.0}]
    written = {"title": "Speed", "environment": {"device": "a|b"}, "rows": rows}
    (tmp_path / "speed.json").write_text(json.dumps(written))
    (result,) = measured("scd", tmp_path)
    assert (result.title, result.place) == ("Speed", "device a|b")
    assert result.heads == ("window", "seconds", "nfe", "as asked percent", "time median")
    (cells,) = ([cell.replace("\N{NO-BREAK SPACE}", " ") for cell in cells] for cells in result.rows)
    assert cells == ["32", "0.1235", "36.42 ± 1.3", "66.67 ± 3.4", "0.4 (0.3 to 0.5)"]


@pytest.mark.parametrize("name", METHODS)
def test_a_description_opens_in_plain_sentences_and_closes_its_formulas(name: str) -> None:
    text = method_text(name)
    assert len(re.findall(r"(?<!\$)\$(?!\$)", text)) % 2 == text.count("$$") % 2 == 0
    _, opening, _ = text.split("\n\n", 2)
    assert opening.count(".") >= 3 and len(opening) < 700
    assert not re.search(r"\$|arXiv|(?<!\w)[A-Z]{2,}(?!\w)", opening.replace("PSD", ""))


@pytest.mark.slow
def test_the_page_names_its_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTSCOPE_DEVICE", "cpu")
    page = build(Visitors(), ())
    (said,) = [block.value for block in page.blocks.values() if getattr(block, "elem_id", "") == "device"]
    assert said == f"Models run on {device_name(torch.device('cpu'))}."
