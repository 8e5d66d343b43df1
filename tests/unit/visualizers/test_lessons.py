"""The lessons as a page, with all they need in the file; their modules compute what Python computes."""

import json
import random
import re
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import torch
from support.node import in_node

from draftscope.analysis.break_even import acceptance_for, tokens_of
from draftscope.engines.sampling import coupling
from draftscope.visualizers.lessons import FOLDER, LESSONS, lesson_html
from draftscope.visualizers.lessons.data import recorded


def data(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="lesson-data">(.*?)</script>', page, re.DOTALL)
    assert found
    return dict(json.loads(found.group(1)))


@pytest.mark.slow
def test_a_page_holds_all_lessons_or_one_and_needs_no_other_file() -> None:
    page = lesson_html()
    assert list(data(page)) == [*LESSONS] == re.findall(r'<article class="lesson" id="(\w+)"', page)
    assert [*LESSONS.values()] == re.findall(r'<li><a href="#\w+">([^<]+)</a></li>', page)
    for name in LESSONS:
        one = lesson_html(name)
        assert [*data(one)] == [name] == re.findall(r'<article class="lesson" id="(\w+)"', one)
        assert "<nav" not in one and f"<title>{LESSONS[name]}</title>" in one
        assert len(re.findall('class="task"', one)) == 1
    outside = (
        r"""(?:src|href)=["'](?!#)|url\((?!#|data:)|@import|\bfetch\(|^import |https?://(?!www\.w3\.org/2000/svg")"""
    )
    assert re.findall(outside, page, re.MULTILINE) == []


def test_a_lesson_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ValueError, match="name: there is no lesson 'x'; use one of exact, passes, jacobi, blocks"):
        lesson_html("x")


def computed(function: str, value: Any) -> Any:
    return in_node(function, value, "arithmetic", folder=FOLDER)


RULES = ("exact", "always", "refill", "greedy")
COUPLED = """({ acceptance, output, residual, totalVariation }, { pairs, rules }) => pairs.map(([p, q]) => ({
  acceptance: acceptance(p, q), residual: residual(p, q), variation: totalVariation(p, q),
  outputs: rules.map((rule) => output(rule, p, q)),
}))"""


def test_verdicts_and_outputs_are_those_of_the_coupling() -> None:
    chance = random.Random(0)
    drawn = (torch.tensor([[chance.random() ** 3 for _ in range(size)] for _ in "pq"]).double() for size in (2, 5, 40))
    pairs = [pair / pair.sum(1, keepdim=True) for pair in drawn]
    pairs += [torch.tensor([[0.5, 0.5, 0], [0, 0, 1]]).double(), torch.tensor([[0.5, 0.5], [0.5, 0.5]]).double()]
    for pair, seen in zip(
        pairs, computed(COUPLED, {"pairs": [pair.tolist() for pair in pairs], "rules": RULES}), strict=True
    ):
        p, q = pair[:1], pair[1:]
        tv = coupling.total_variation(q, p)
        assert seen["variation"] == pytest.approx(tv.item(), abs=1e-12)
        assert seen["acceptance"] == pytest.approx(1 - tv.item(), abs=1e-12)
        assert seen["residual"] == pytest.approx(coupling.residual(q, p)[0].tolist(), abs=1e-12)
        likeliest = torch.nn.functional.one_hot(p.argmax(1), p.shape[1])
        outputs = (p, q, torch.minimum(p, q) + tv * p, likeliest)
        for rule, output, wanted in zip(RULES, seen["outputs"], outputs, strict=True):
            assert output == pytest.approx(wanted[0].tolist(), abs=1e-12), rule


SPEEDS = """({ bestLength, breakEven, expectedTokens, speedUp }, settings) => settings.map(([alpha, gamma, cost]) =>
  [expectedTokens(alpha, gamma), speedUp(alpha, gamma, cost), breakEven(gamma, cost), bestLength(alpha, cost, 16)])"""


def test_tokens_speed_and_break_even_are_those_of_python() -> None:
    settings = [
        (alpha, gamma, cost)
        for alpha in (0, 0.37, 0.8, 0.999999, 1)
        for gamma, cost in ((1, 0.0), (4, 0.15), (16, 0.5), (3, 1.2))
    ]
    for (alpha, gamma, cost), (tokens, speed, even, best) in zip(settings, computed(SPEEDS, settings), strict=True):
        assert tokens == pytest.approx(tokens_of(alpha, gamma))
        assert speed == pytest.approx(tokens_of(alpha, gamma) / (1 + gamma * cost))
        wanted = acceptance_for(1 + gamma * cost, gamma)
        assert even == (None if wanted is None else pytest.approx(wanted, abs=1e-8))
        assert best == max(range(1, 17), key=lambda length: tokens_of(alpha, length) / (1 + length * cost))


MEASURED = """({ expectedNoise, experiment, output, totalVariation }, setting) => setting.rules.map((rule) => {
  const { p, q, draws, repeats } = setting;
  const wanted = output(rule, p, q);
  const off = Array.from({ length: repeats }, (_, seed) => {
    const { kept, replaced } = experiment(rule, p, q, draws, seed + 1);
    return totalVariation(kept.map((count, token) => (count + replaced[token]) / draws), wanted);
  });
  return [expectedNoise(wanted, draws), off];
})"""


def test_draws_follow_the_rule_and_their_distance_is_the_expected_noise() -> None:
    setting = {"rules": RULES, "p": [0.5, 0.3, 0.15, 0.05], "q": [0.1, 0.2, 0.3, 0.4], "draws": 2000, "repeats": 200}
    results = computed(MEASURED, setting)
    for rule, (noise, seen) in zip(RULES, results, strict=True):
        assert np.mean(seen) == pytest.approx(noise, abs=4 * float(np.std(seen)) / len(seen) ** 0.5 + 1e-12), rule
    counts = np.random.default_rng(0).multinomial(2000, np.array(setting["p"]), 20_000)
    reference = np.abs(counts / 2000 - np.array(setting["p"])).sum(1).mean() / 2
    assert results[0][0] == pytest.approx(reference, rel=0.02)


PATHS = """({ density, logWeights }, { paths, bells }) => ({
  weights: paths.map((ratios) => Math.exp(logWeights(ratios).at(-1))),
  heights: bells.map(([x, mean, std]) => density(x, mean, std)),
})"""


@pytest.mark.slow
def test_weights_of_paths_are_the_acceptance_probabilities_of_a_recorded_run() -> None:
    steps = [step for step in recorded("cspd-patch").steps if step.paths]
    drafts = [
        (path.log_ratio, accept_prob)
        for step in steps
        for path, accept_prob in zip(step.paths or (), step.accept_prob or (), strict=True)
        if path and path.log_ratio and accept_prob is not None
    ]
    assert len(drafts) > 130
    bells = [(0.3, -0.1, 0.2), (0.0, 0.0, 1.0), (-4.0, 2.0, 0.7)]
    seen = computed(PATHS, {"paths": [path for path, _ in drafts], "bells": bells})
    assert seen["weights"] == pytest.approx([accept_prob for _, accept_prob in drafts], abs=2e-5)
    assert seen["heights"] == pytest.approx([NormalDist(mean, std).pdf(x) for x, mean, std in bells])
