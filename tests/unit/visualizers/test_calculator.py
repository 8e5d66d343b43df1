"""The calculator without a server computes what `SpeedupModel` computes, and says the same."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from support.node import in_node

from draftscope.analysis.acceptance_rate import hand_set
from draftscope.analysis.hardware import DEVICES, ENGINES, SIZES, HardwareError, presets
from draftscope.analysis.speedup_model import SpeedupModel
from draftscope.demo.components.calculator import _plan, curves_of, description, reasons_of, rows
from draftscope.visualizers.calculator import FIRST, FOLDER, NO_DRAFTER, calculator_html

COMPUTED = """
({ planOf, quantised, description, curvesOf, reasonsOf, tableOf, computed }, { presets, forms }) =>
 forms.map((form) => {
  const named = (list, name) => presets[list].find((each) => each.name === name);
  const size = (name) => (named("sizes", name) ? quantised(named("sizes", name), form.weights, form.cache) : null);
  const engine = { ...named("engines", form.engine), ...form.measured };
  const networks = { target: size(form.target), draft: size(form.draft) };
  const { plan, problem } = planOf({ ...form, ...networks, device: named("devices", form.device), engine });
  if (!plan) return { problem };
  const { acceptance: rate, spread } = form;
  const [low, high] = [Math.max(0, rate - spread), Math.min(1, rate + spread)];
  return {
    ...computed(plan),
    plan: [plan.drafts, plan.gpus],
    words: description(plan, { rate, low, high }, "set by hand"),
    curves: curvesOf(plan, presets.devices),
    reasons: reasonsOf(plan, { low, high }),
    table: tableOf(plan).rows,
  };
})
"""


def forms(count: int) -> list[dict[str, Any]]:
    draw = random.Random(7)
    return [dict(FIRST)] + [
        {
            "target": draw.choice([name for name in SIZES if not name.endswith("MTP")]),
            "draft": draw.choice([NO_DRAFTER, *SIZES]),
            "device": draw.choice([*DEVICES]),
            "gpus": draw.choice([0, 0, 1, 2, 8]),
            "weights": draw.choice([16, 8, 4]),
            "cache": draw.choice([16, 8]),
            "engine": draw.choice([*ENGINES]),
            "acceptance": draw.choice([0.0, 0.37, 0.62, 0.8, 0.93, 1.0]),
            "spread": draw.choice([0.0, 0.1, 0.5]),
            "drafts": draw.choice([0, 0, 1, 4, 17, 128]),
            "batch": draw.choice([1, 3, 64, 4096]),
            "context": draw.choice([0, 1024, 9000, 200_000]),
        }
        for _ in range(count)
    ]  # fmt: skip


@pytest.mark.slow
def test_every_figure_and_sentence_is_that_of_python() -> None:
    all_forms = forms(40)
    found = in_node(COMPUTED, {"presets": presets(), "forms": all_forms}, "speedup", folder=FOLDER)
    problems = 0
    for form, one in zip(all_forms, found, strict=True):
        try:
            plan = _plan(form)
        except HardwareError as error:
            problems += 1
            assert one == {"problem": str(error)}
            continue
        assert one["plan"] == [plan.drafts, plan.gpus]
        for name in ("tokens", "drafting"):
            assert one[name] == pytest.approx(getattr(plan, name), rel=1e-12)
        assert one["speedUp"] == pytest.approx(plan.speed_up, rel=1e-12)
        assert one["breakEven"] == (None if plan.break_even is None else pytest.approx(plan.break_even, rel=1e-9))
        for name, cost in (("ordinary", plan.baseline_pass), ("verification", plan.verification)):
            assert (one[name]["seconds"], one[name]["bound"]) == (pytest.approx(cost.seconds, rel=1e-12), cost.bound)
        assert one["curves"] == approximately(curves_of(plan))
        rate = hand_set(form["acceptance"], form["spread"])
        assert one["reasons"] == near(json.loads(json.dumps(reasons_of(plan, rate))))
        words = description(plan, rate, "set by hand")
        sentences = " ".join(one["words"].values())
        assert without_marks(sentences) == without_marks(words), form
        numbers = [[float(cell) for cell in line] for line in rows(plan)["rows"]]
        assert [[float(cell) for cell in line] for line in one["table"]] == numbers
    assert 8 < problems < 30


def without_marks(text: str) -> str:
    """Return a text without Markdown, and numbers such as 1.2e+03 as 1200."""
    words = text.translate(str.maketrans("", "", "*#")).split()
    return " ".join(f"{float(word):g}" if "e+" in word else word for word in words)


def approximately(curves: dict[str, Any]) -> dict[str, Any]:
    """Return curves as they are in JSON, with the last digits of speeds left open."""
    each = [
        {**one, "speeds": [[length, pytest.approx(speed, rel=1e-12)] for length, speed in one["speeds"]]}
        for one in curves["curves"]
    ]
    return {**curves, "most": pytest.approx(curves["most"], rel=1e-12), "curves": each}


def near(value: Any) -> Any:
    """Return a value of JSON with the last digits of its numbers left open."""
    if isinstance(value, dict):
        return {name: near(each) for name, each in value.items()}
    if isinstance(value, list):
        return [near(each) for each in value]
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


def test_an_engine_with_every_term_costs_what_python_computes() -> None:
    """Presets have no cache, no overhead of a pass, and overlap memory with arithmetic; calibrated machines do not."""
    terms: dict[str, Any] = {"base": 2e-4, "overlaps": False, "attention": 3.0, "several": 1e-5}
    form = {**FIRST, "drafts": 4, "measured": terms}
    (found,) = in_node(COMPUTED, {"presets": presets(), "forms": [form]}, "speedup", folder=FOLDER)
    plan = _plan(form)
    plan = replace(plan, engine=replace(plan.engine, **terms))
    assert found["speedUp"] == pytest.approx(plan.speed_up, rel=1e-12)
    assert isinstance(plan, SpeedupModel)


def test_the_page_is_small_and_offers_the_rates_it_is_given() -> None:
    page = calculator_html([("</script>", hand_set(0.75, 0.05))])
    assert len(page) < 120_000 and page.count("</script>") == 3
    assert '\\u003c/script>","rate":0.75,"low":0.7' in page
