"""The benchmarks: counts and verdicts of claims are right, and tables agree with the result files."""

import gzip
import json
import math
import re
from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import numpy as np
import pytest
import torch
from support.results import row as sweep_row
from support.tiny_diffusion_lm import tiny_diffusion_lm
from transformers import LlamaModel, Qwen3Config, Qwen3ForCausalLM

from benchmarks import _image_quality as _pictures
from benchmarks import _reference_loops as _by_hand
from benchmarks import _report_format as _results
from benchmarks import compare, continuous, gpu, patches, quality, report, speed, text, toy, verifiers, video
from benchmarks import overhead as lean
from benchmarks._report_format import Claim
from benchmarks._timing import decode, in_lockstep, job
from benchmarks.claims import papers
from benchmarks.claims.__main__ import conclusions
from benchmarks.claims.claim import RESULTS, Conclusion, Effect, Timing, difference, runs, timing
from benchmarks.gpu import SIZES, TINY
from draftscope.analysis.groups import gathered
from draftscope.analysis.results import read_rows
from draftscope.analysis.seeds import Estimate
from draftscope.analysis.shipped_results import measured
from draftscope.engines.methods import METHODS
from draftscope.engines.models.bundled.video import load
from draftscope.engines.models.catalog import MODELS, load_model
from draftscope.engines.models.toys import toy_field
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import make_config
from draftscope.engines.testing.toy_models import Table
from draftscope.experiments.problems import Problem
from draftscope.traces.files import ROOT
from draftscope.traces.schema import Trace

CLAIM = Claim(name="passes | time", measured=0.5, bound="at most", target=0.75, reason="eight pictures")


def written(claims: list[Claim], name: str = "speed") -> dict[str, Any]:
    return json.loads(json.dumps(_results.result("Speed", f"python -m benchmarks.{name}", claims, [])))


@pytest.mark.parametrize(
    ("bound", "measured", "target", "met"),
    [
        *(("at most", 0.75, 0.75, True), ("at most", 0.76, 0.75, False)),
        *(("at least", 0.75, 0.75, True), ("at least", 0.74, 0.75, False)),
        *(("at most", None, 0.75, None), ("at most", 0.5, None, None)),
    ],
)
def test_a_claim_is_met_up_to_and_including_its_target(bound: Any, measured: Any, target: Any, met: bool) -> None:
    assert Claim(name="", measured=measured, bound=bound, target=target).met is met


def test_decodings_are_counted_and_timed() -> None:
    model = Table(6, 3, seed=0)
    run = decode([job("ar", model, "", sample) for sample in range(3)], record=True)
    assert run.forwards == 6 and run.passes == (6, 6, 6) == tuple(len(steps) for steps in run.steps)
    assert 0 < run.forward_seconds < run.seconds
    assert decode([job("ar", model, "", 1)]).tokens[0] == run.tokens[1]
    texts = [RunRequest("blockwise", "text-draft", "a", settings={"length": 8}, sample=i).job() for i in range(3)]
    row = in_lockstep(texts, 1, "text")
    assert row["same_tokens"] == row["batch"] == 3
    assert 0.2 < row["bare_median"] < 1


@pytest.mark.slow
def test_the_toy_benchmark_writes_what_the_app_reads_and_misses_a_figure_off_the_reference(tmp_path: Path) -> None:
    file = tmp_path / "toy.json"
    toy.main(["--images", "1", "--drafts", "16", "--json", str(file)])
    result = json.loads(file.read_text())
    assert result["command"] == "python -m benchmarks.toy --images 1 --drafts 16"
    assert result["environment"]["libraries"]["torch"] == torch.__version__
    assert [row["nfe"] for row in result["rows"] if row["method"] == "ar"] == [256]
    assert {row["decoder"] for row in result["rows"]} == {"vanilla", "SJD", "MC-SJD", "GS-SJD"}
    (shown,) = measured("scd", tmp_path)
    assert shown.title == "Toy raster, 16x16"
    assert {row[0] for row in shown.rows} == {"SJD", "MC-SJD", "GS-SJD"}
    off = {"decoder": "SJD", "drafts": 16, "nfe": 95.0, "nfe_standard_error": 1.0, "nfe_reference": 87.7}
    assert toy.against_reference([off | {"off_percent": 4.9}]).met is True
    assert toy.against_reference([off | {"off_percent": 4.9}, off | {"off_percent": 8.3}]).met is False


def test_bits_per_token_are_those_of_the_joint_distribution() -> None:
    model = Table(4, 3, seed=1)
    codes = torch.tensor([[0, 2, 1, 1], [2, 2, 0, 1]])
    bits = quality.bits_per_token([job("ar", model, "", sample) for sample in range(2)], codes)
    assert bits == pytest.approx([-math.log2(model.joint()[tuple(row)]) / 4 for row in codes.tolist()])


def test_a_kernel_tells_two_distributions_apart_and_one_from_itself_rarely() -> None:
    draws = torch.randn(40, 2, 48, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    same = [_pictures.kernel_test(one, other, 199) for one, other in draws]
    assert fmean(test.p_value <= 0.05 for test in same) <= 0.15, "a true null is rejected as often as stated"
    assert fmean(test.distance for test in same) == pytest.approx(0, abs=0.01)
    shifted, wider = draws.clone(), draws.clone()
    shifted[:, 0, :, 0] += 1
    wider[:, 0] *= 1.5
    for moved in (shifted, wider):
        assert fmean(_pictures.kernel_test(one, other, 199).p_value <= 0.05 for one, other in moved) > 0.9
    one, other = draws[0]
    assert _pictures.kernel_test(one, one, 99).p_value == 1
    assert _pictures.kernel_test(one, other, 99) == _pictures.kernel_test(one, other, 99), "seeded"


def test_a_target_that_drafts_for_itself_is_no_further_from_itself_than_its_verifier() -> None:
    measured: dict[str, list[dict[str, float]]] = defaultdict(list)
    for label, _, numbers in verifiers.compare(tiny_diffusion_lm(), tiny_diffusion_lm(), "abcdefg", "abcdefgabcdhgfa"):
        measured[label].append(numbers)
    assert {label: len(numbers) for label, numbers in measured.items()} == dict.fromkeys(verifiers.VERIFIERS, 16)
    assert max(numbers["kl"] for numbers in measured["exact"]) < 1e-9
    for label in ("eq1", "2L", "eq1, no RoPE copy"):
        assert max(numbers["kl"] for numbers in measured[label]) > 1e-5
        for numbers in measured[label]:
            assert numbers["kl"] == pytest.approx(numbers["kl_of_exact"], abs=1e-5)


@pytest.mark.slow
def test_the_text_benchmark_pairs_every_decoder_with_block_size_one(monkeypatch: pytest.MonkeyPatch) -> None:
    kept_rows = (text.ORDINARY, text.POLICY)
    small = {
        "S2D2": ("s2d2", {"router": "always", "block": "8"}),
        "SimSD": ("simsd", {"drafter": "itself", "block": "8", "gamma": 2}),
    }
    monkeypatch.setattr(text, "DECODERS", {label: text.DECODERS[label] for label in kept_rows} | small)
    monkeypatch.setattr(text, "LENGTH", 16)
    model = cast(Any, tiny_diffusion_lm())
    problems = [Problem("abc", "", "1"), Problem("bcd", "", "2")]
    baseline, *others = text.table(model, problems)
    assert [baseline["decoder"], *(row["decoder"] for row in others)] == [*kept_rows, *small]
    assert baseline["faster_median"] == baseline["fewer_passes"] == 1
    for row in others:
        assert row["problems"] == 2 and row["accuracy"] == 0
        assert row["fewer_passes"] == pytest.approx(baseline["nfe"] / row["nfe"])
        assert (row["fewer_target_passes"] > row["fewer_passes"]) == (row["decoder"] == "SimSD")


def test_sweeps_compare_two_settings_problem_by_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(label: str, forwards: int, solved: str) -> list[dict[str, Any]]:
        return [
            sweep_row("psd", label, {"depth": forwards}, i, correct=mark == "x", forwards=forwards, forwards_by_mode={})
            for i, mark in enumerate(solved)
        ]

    lines = [json.dumps(each) for each in (*rows("slow", 40, "xxxx.x.."), *rows("fast", 20, "xxx.xx.."))]
    (tmp_path / "psd.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    monkeypatch.setattr(compare, "PAIRS", (compare.Pair("psd", "fast", "slow", 1.25), compare.Pair("other", "a", "b")))
    compare.main(["--folder", str(tmp_path), "--json", str(tmp_path / "out.json")])
    written = json.loads((tmp_path / "out.json").read_text())
    faster, equal = written["claims"]
    assert (faster["measured"], faster["met"]) == (2.0, True)
    assert [faster["numbers"][name] for name in ("accuracy", "baseline_accuracy", "problems")] == [0.625, 0.625, 8]
    assert (equal["measured"], equal["met"]) == (0.0, True)
    assert [each["accuracy"] for each in written["rows"]] == [0.625, 0.625]
    both = read_rows([json.loads(line) for line in lines] + rows("bad", 20, "........"))
    groups = {group.label: group for group in gathered(both)}
    assert compare.accuracy_difference(groups["bad"], groups["slow"]) == (
        pytest.approx(0.625 / (0.51755 / 8**0.5), rel=1e-3),
        8,
    )
    with pytest.raises(ValueError, match="psd: has no 'none'; it has slow, fast, bad"):
        compare.compare(compare.Pair("psd", "none", "slow"), [*groups.values()])


@pytest.mark.parametrize("method", ["cspd-block", "cspd"])
def test_continuous_decoding_is_counted_beside_ordinary_decoding(method: str) -> None:
    model, small = (
        toy_field.ToyField(name, weights, torch.device("cpu"), (3, 5)) for name, weights in toy_field.MODELS.items()
    )
    settings = {"gamma": 3, "steps": 4, "prefill_share": 0, "last_timestep": 50}
    jobs = [RunRequest(method, model, "", seed=seed, settings=settings).job() for seed in range(3)]
    row = continuous.measure([replace(one, drafter=small) for one in jobs], len(jobs))
    assert row["target_calls"] * row["tokens_per_verification"] == pytest.approx(15, abs=4)
    assert 0 < row["accepted_of_drafted"] <= row["acceptance"] < 1
    assert row["tokens_expected"] == pytest.approx(sum(row["acceptance"] ** i for i in range(4)))
    assert row["spread"] == pytest.approx(1, abs=0.3)
    assert row["spread_ordinary"] == pytest.approx(1, abs=0.3)
    parts = [row[f"share_{name}"] for name in ("draft", "target", "head", "deciding")]
    assert sum(parts) == pytest.approx(1) and min(parts) > 0
    parts = row["target_calls"] * row["verify_cost"] + row["draft_calls"] * row["draft_cost"]
    assert 0 < parts * row["seconds_ordinary"] / 15 < 1.01 * row["seconds"]  # passes are a part of the whole
    assert continuous.combinations(method, "patch-target")[-1]["drafter"] == "mixture"
    assert {way["drafter"] for way in continuous.combinations(method, "toy-field")} == {"small"}
    assert row["method"] == method


def test_every_part_of_the_speed_benchmark_measures() -> None:
    model = Table(6, 3, seed=0)
    rows = speed.table(model, ["", ""], (8, 32), 1.0)
    assert [(row["decoder"], row.get("window")) for row in rows][:3] == [("vanilla", None), ("SJD", 8), ("MC-SJD", 8)]
    assert rows[0]["nfe"] == 6
    for row in rows[1:]:
        assert 1 <= row["nfe"] <= 6 and row["fewer_passes"] == pytest.approx(6 / row["nfe"])
    by_sjd, by_vanilla = speed.against_targets(rows, 1.0)
    plain, coupled = (next(r for r in rows if r["decoder"] == d and r["window"] == 32) for d in ("SJD", "MC-SJD"))
    error = math.hypot(plain["nfe_standard_error"], coupled["nfe_standard_error"])
    assert error > 0 and by_sjd.measured == pytest.approx((plain["nfe"] - coupled["nfe"]) / error)
    assert by_vanilla.measured == coupled["nfe"] / 6


def test_a_biased_decoder_is_a_missed_claim_and_a_lossy_one_is_not() -> None:
    def pictures(bits: float, period: int) -> quality.Pictures:
        right = torch.tensor([[True, False]] * 12)
        return quality.Pictures(torch.zeros(12, 3, 48, 48), right, [bits + 0.1 * (i % period) for i in range(12)])

    fair, noisy, sharp = pictures(5, 3), pictures(5, 4), pictures(4, 4)

    def verdicts(**changed: quality.Pictures) -> list[bool | None]:
        results = dict.fromkeys(("ar", "none", "maximal", "gumbel", "gsd"), fair) | changed
        return [c.met for c in quality.claims([quality.row(name, results[name], fair) for name in results])]

    assert verdicts(none=noisy, gsd=sharp) == [False, True, True]
    assert verdicts(maximal=sharp) == [False, True, False]


@pytest.mark.parametrize(("name", "module"), [("video", video), ("patches", patches), ("quality", quality)])
def test_what_is_claimed_is_what_was_measured(name: str, module: Any) -> None:
    content = json.loads((RESULTS / f"{name}.json").read_text())
    for claim, stored in zip(module.claims(content["rows"]), content["claims"], strict=True):
        assert (claim.name, claim.measured, claim.met) == (stored["name"], stored["measured"], stored["met"])
    if name == "patches":
        rows = [row | {"as_asked_off_errors": -3.5, "as_asked_percent": 10.0} for row in content["rows"]]
        assert [claim.met for claim in patches.claims(rows)] == [False] * len(content["claims"])


class TestReport:
    def test_tables_say_what_the_results_say(self) -> None:
        claims = [CLAIM, replace(CLAIM, name="slow", measured=0.8, unit="%"), replace(CLAIM, name="no", measured=None)]
        content = written(claims) | {"rows": [{"decoder": "SJD", "fewer_passes": 2.0, "faster_median": 1.234}, {}]}
        text = report.tables({"speed": content, "app": written([replace(CLAIM, target=None)], "app")})
        lines = [line.replace("\\|", "¦").strip("|").split("|") for line in text.splitlines()]
        rows = [[cell.strip() for cell in line] for line in lines]
        assert ["SJD", "", "", "2.0", "1.23"] in rows and [""] * 5 not in rows
        assert ["passes ¦ time", "0.5", "at most 0.75: met", "eight pictures"] in rows
        assert ["passes ¦ time", "0.5", "", "eight pictures"] in rows
        assert ["slow", "0.8 %", "at most 0.75: **missed**", "eight pictures"] in rows
        assert ["no", "not measured", "at most 0.75", "eight pictures"] in rows
        assert text.index("slow") < text.index("## The app") and "`python -m benchmarks.speed`: cpu" in text

    def test_the_readme_says_of_each_method_what_its_result_says(self) -> None:
        named = ("drafter", "fewer_target_passes", "faster_median")
        drafted = (("text-draft", 2.0, 0.8), ("text-draft", 3.0, 1.5), ("lookup", 16.0, 9.0))
        same = {"method": "speculative", "model": "text-target"}
        rows = [{**same, **dict(zip(named, each, strict=True))} for each in drafted]
        (line,) = report.headlines({"draft_models": {"rows": rows}}).splitlines()[2:]
        assert "| 3.0 |  | 1.50× (0.80 to 1.50) | same distribution |" in line  # the fastest row of the small drafter
        (headline,) = (line for line in report.HEADLINES if line.method == "PSD")
        psd = {**headline.row, "fewer_passes": 5.72, "faster_median": 0.5, "accuracy": 0.75}
        rows = [{"accuracy": 0.8, "accuracy_standard_error": 0.01}, {**psd, "accuracy_standard_error": 0.02}]
        cells = report._headline(headline, rows)
        assert cells[3:7] == ["5.7", "", "0.50×", "75.0% solved, ordinary 80.0% (± 2.0%)"]

    def test_what_is_written_follows_from_the_shipped_results(self) -> None:
        results = {path.stem: report.read(path) for path in RESULTS.glob("*.json")}
        manifest = json.loads((ROOT / "assets" / "models" / "MANIFEST.json").read_text())
        table = report.headlines(results)
        measured = report.tables(results)
        for path, marker, content in (
            ("README.md", "methods", report.brief(results)),
            ("docs/measured.md", "methods", table),
            ("docs/measured.md", "benchmarks", measured),
            ("docs/reproduction.md", "claims", report.verdicts(results["claims"])),
            ("docs/training.md", "models", report.models_table(manifest)),
        ):
            page = (ROOT / path).read_text()
            assert page == report.replace_marked_section(page, marker, content), "run: python -m benchmarks.report"
        assert len(table.splitlines()) == 2 + len(report.HEADLINES)
        assert "(ours)" in table and "(ours)" not in report.brief(results)
        numbers = re.findall(r"\d+\.\d+", " ".join(" ".join(row.split(" | ")[3:7]) for row in table.splitlines()[2:]))
        assert len(numbers) >= 2 * len(report.HEADLINES)
        for line in report.HEADLINES:
            if line.result == "text":
                name, values = text.DECODERS[str(line.row.get("decoder", "SimSD"))]
                deviation = METHODS[name].deviation(make_config(METHODS[name].config, values))
                assert (line.exact == "yes, proved") == (not deviation), line.method
        assert [number for number in numbers if not re.search(rf"\| {number}%? \|", measured)] == []


@pytest.mark.nightly
def test_passes_are_those_of_every_clip_on_its_own() -> None:
    model, cell = load(), ("gumbel", 128)
    two, one = (video.decode_all(video.jobs(model, cell, clips), 2) for clips in (["clip 1", "clip 2"], ["clip 1"]))
    assert two.passes[:1] == one.passes and torch.equal(two.tokens[:1], one.tokens)


def test_a_sheet_has_two_rows_a_clip_and_frames_what_was_given() -> None:
    held_out = torch.zeros(9, 3, 16, 16, 3, dtype=torch.uint8)
    page = torch.from_numpy(np.asarray(video.sheet(held_out, held_out + 100))[:, :, 0].copy())
    first, second, gap = page.view(video.SHEET_ROWS, 32 + video.GAP, 48).split([16, 16, video.GAP], 1)
    assert bool((gap == 255).all()) and bool((first[:, :2, :32] == 255).all()), "between clips, and around two frames"
    assert bool((first[:, 2:, 32:] == 0).all()) and bool((second[:, :14, 2:30] == 100).all())


@pytest.mark.slow
@pytest.mark.nightly
def test_every_family_is_timed_pass_by_pass_and_beside_transformers(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    assert gpu.main(["--tiny", "--passes", "2", "--device", "cpu", "--json", str(file)]) == 0
    result = json.loads(file.read_text())
    assert not result["claims"], result["claims"]
    rows = result["rows"]
    methods = {name: [row["method"] for row in rows if row["family"] == name] for name in TINY}
    plain = ["ar", "scd", "transformers' generate"]
    assert methods == {
        "Janus-Pro": plain,
        "SDAR": ["blockwise", "blockwise", "ar", "transformers' generate"],
        "MAR": ["continuous", "cspd"],
        "Cosmos": plain,
    }
    assert all(row["parameters"] > 0 for row in rows)
    # Of `generate` it is the difference of two timings, which on a tiny network may come out below 0.
    passes = [row for row in rows if row["method"] in METHODS]
    assert all(row["whole_seconds"] >= row["seconds"] > 0 for row in passes)
    windows = [row["tokens_fed"] for row in rows if row["method"] == "scd"]
    assert all(fed > 1 for fed in windows)


@pytest.mark.parametrize(
    ("name", "listed", "other_gigabytes"),
    [
        ("SDAR 1.7B", "JetLM/SDAR-1.7B-Chat", 0.0),
        ("SDAR 8B", "JetLM/SDAR-8B-Chat", 0.0),
        ("Cosmos 4B", "nvidia/Cosmos-1.0-Autoregressive-4B", 0.0),
        ("Janus-Pro 1B", "deepseek-community/Janus-Pro-1B", 0.4),
        ("Janus-Pro 7B", "deepseek-community/Janus-Pro-7B", 0.5),
    ],
)
def test_sizes_are_those_of_the_catalogue(name: str, listed: str, other_gigabytes: float) -> None:
    """`other_gigabytes` are those of a Janus outside its decoder: the heads for codes, and the pixels in float32."""
    kind = LlamaModel if other_gigabytes else Qwen3ForCausalLM
    config = kind.config_class(**SIZES[name]) if other_gigabytes else Qwen3Config(**SIZES[name])
    with torch.device("meta"):
        parameters = sum(weight.numel() for weight in kind(config).parameters())
    assert abs(parameters * 2 / 1e9 + other_gigabytes - MODELS[listed].gigabytes) < 0.15


@pytest.mark.slow
def test_loops_written_by_hand_decode_what_the_engine_decodes() -> None:
    words: Any = load_model("text-target")
    one = lean.text_job(lean.ORDINARY, words, lean.held_out()[0], length=16)
    assert _by_hand.text(words, one.prompt, one.config)[:8] == list(decode([one]).tokens[0][:8])
    counts = []
    for do in (partial(decode, [one]), partial(_by_hand.text, words, one.prompt, one.config)):
        with torch.profiler.profile() as profile:
            do()
        counts.append(len(profile.events()))
    assert counts[0] < 1.2 * counts[1]  # nested operations are counted, too
    model: Any = load_model("studio-image")
    ordinary = job("ar", model, "an owl in the forest", 0, temperature=0.1, top_k=1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch, "multinomial", lambda probs, count, generator: probs.argmax(-1, keepdim=True))
        drawn = _by_hand.picture(model, ordinary.prompt, 0)
    assert tuple(drawn[0].tolist()) == decode([ordinary]).tokens[0]


PLUS, MINUS, NONE = (Effect("", Estimate(mean, 1.0, 4)) for mean in (1.5, -1.5, 1.4))
LESS = Effect("", Estimate(0.2, 1.0, 4), reported=2)


@pytest.mark.parametrize(
    ("effects", "verdict"),
    [
        *(((PLUS,), "holds"), ((PLUS, PLUS), "holds"), ((PLUS, NONE), "partly"), ((PLUS, MINUS), "partly")),
        *(((NONE,), "undecided"), ((MINUS, NONE), "fails"), ((MINUS, MINUS), "opposite"), ((), "fails")),
        *(((NONE, NONE), "undecided"), ((LESS,), "fails"), ((LESS, NONE), "fails")),
    ],
)
def test_three_standard_errors_decide(effects: tuple[Effect, ...], verdict: str) -> None:
    assert Conclusion("Fig. 1", "It works", effects).verdict == verdict


def test_undecided_effects_say_how_many_runs_would_decide() -> None:
    effect = Effect("passes", Estimate(0.5, 4.0, 64))  # 0.5 ± 0.5
    assert effect.undecided and str(effect) == "passes: +0.5 ± 0.5 (undecided; 576 runs would decide)"
    assert effect._replace(size=Estimate(0.5, 4.0, 576)).sign == 1
    small = Effect("accuracy", Estimate(0.002, 0.1, 400), reported=0.32)
    assert not small.undecided and str(small) == "accuracy: +0.002 ± 0.005 (reported: +0.32)"


def test_quartiles_decide_on_a_machine_where_only_they_are_known() -> None:
    faster, slower = (4.78, 5.01, 5.2), (3.69, 3.86, 4.2)
    assert [Timing(*pair).verdict for pair in ((faster, slower), (slower, faster))] == ["holds", "opposite"]
    assert Timing(faster, (4.0, 4.5, 4.8)).verdict == "undecided"
    row = Conclusion("Table 1", "Faster", (MINUS,), h100=Timing(faster, slower)).row("S2D2")
    assert (row["verdict"], row["verdict_h100"]) == ("opposite", "holds")
    assert row["found_h100"] == "5.01 (4.78 to 5.20) times, against 3.86 (3.69 to 4.20)"
    assert timing("text_h100", {"decoder": "S2D2, block 32"}).other == (1, 1, 1)
    assert Conclusion("Table 1", "Faster", cpu=Timing(slower, faster)).verdict == "opposite"


def test_what_has_no_error_decides_only_where_it_is_the_same_each_time() -> None:
    assert difference("", [2.0], [1.0]).sign == 0, "a single run"
    assert difference("", [2.0, 3.0], [1.0, 2.0]).sign == 1
    assert difference("", [1.0, 1.0], [1.0, 1.0]).sign == 0
    assert difference("", [1.0, 1.0], [1.0, 1.0], margin=0.1).sign == 1
    assert Conclusion("Table 3", "", needs="weights").verdict == "needs weights"


@pytest.mark.slow
def test_what_ships_is_what_the_shipped_sweeps_say() -> None:
    rows = json.loads((RESULTS / "claims.json").read_text())["rows"]
    read = [each.row(paper) for paper in ("S2D2", "PSD", "SimSD") for each in conclusions(paper, 2)]
    shipped = [row for row in rows if row["method"] in ("s2d2", "psd", "simsd")]
    anew = [(row["method"], row["place"]) for row, again in zip(shipped, read, strict=True) if row != again]
    assert anew == [("s2d2", "Table 4"), ("s2d2", "Figs. 2, 5, 6"), ("psd", "Fig. 6")]
    found = {row["method"] for row in rows}
    assert found == {"scd", "s2d2", "psd", "simsd", "cspd"}


@pytest.mark.slow
def test_pictures_are_decoded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers, "MOST", 4)
    monkeypatch.setattr(papers, "IMAGE_MODEL", "toy-raster")  # the next test decodes with a network
    sizes = [effect.size for conclusion in conclusions("SCD", 2) for effect in conclusion.effects]
    assert all(math.isfinite(size.mean) for size in sizes)
    assert {size.runs for size in sizes} == {2, 2 * papers.TWICE, 2 * papers.MOST}


@pytest.mark.nightly
def test_vectors_are_decoded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_the_plane(method: str, count: int, **values: object) -> list[Trace]:
        """Patches take a minute; tests of their own decode them."""
        return runs(method, "toy-field", [None] * count, gamma=4, **values)

    monkeypatch.setattr(papers, "_pictures", in_the_plane)
    monkeypatch.setattr(papers, "MANY", 3)
    found = conclusions("CSpD", 2)
    masked = next(conclusion for conclusion in found if conclusion.section == "Table 9")
    assert masked.verdict == "holds", "read from the shipped result"
    (start,) = next(conclusion.effects for conclusion in found if conclusion.section.startswith("Table 5"))
    assert start.sign == -1 and start.size.runs == 3, "read from recorded runs"
    decoded = [effect for each in found if each is not masked for effect in each.effects if effect != start]
    sizes = [effect.size for effect in decoded]
    assert all(math.isfinite(size.mean) for size in sizes)
    assert {size.runs for size in sizes} == {2, 2 * papers.MANY}
    aligned = next(conclusion for conclusion in found if conclusion.section == "Table 4")
    assert aligned.effects[0].size.mean > 0.4


@pytest.mark.slow
def test_passes_are_those_of_the_runs_that_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(papers, "BATCH", 2)
    monkeypatch.setattr(papers, "IMAGE_MODEL", "studio-image-draft")
    recorded = [trace.summary.forwards for trace in papers._runs(3, coupling="gumbel")]
    assert papers._passes(3, coupling="gumbel") == recorded and len(set(recorded)) > 1
