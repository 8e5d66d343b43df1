"""The baseline of a run, among other runs."""

from dataclasses import replace

import pytest
from support import handmade

from draftscope.analysis.baselines import TOKEN_SAMPLING, VECTOR_SAMPLING, baseline_of
from draftscope.engines.methods import SHARED
from draftscope.engines.settings import settings


def test_sampling_is_what_the_methods_of_each_family_share() -> None:
    shared = {family: {setting.name for setting in settings(config)} for family, config in SHARED.items()}
    assert shared.pop("continuous-ar") == VECTOR_SAMPLING
    assert set().union(*shared.values()) == TOKEN_SAMPLING


def test_the_baseline_has_the_same_model_prompt_seed_and_sampling() -> None:
    run, base = handmade.scd(), handmade.ar()
    base = replace(base, model=run.model, prompt=run.prompt, seed=run.seed, config={"temperature": 1.0})
    run = replace(run, config={"temperature": 1.0, "window": 3})
    assert baseline_of(run, [run, base]) is base
    assert baseline_of(base, [run, base]) is None
    others = [
        replace(base, seed=99),
        replace(base, prompt="another"),
        replace(base, model=replace(base.model, id="another")),
        replace(base, model=replace(base.model, weights={"a": "0" * 64})),
        replace(base, config={"temperature": 0.5}),
    ]
    assert baseline_of(run, others) is None


@pytest.mark.parametrize("files", [{}, {"tokenizer.json": "1" * 64}])
def test_older_traces_name_no_files_in_addition_to_the_weights(files: dict[str, str]) -> None:
    run, base = handmade.scd(), handmade.ar()
    run = replace(run, model=replace(run.model, files={"tokenizer.json": "0" * 64}))
    base = replace(base, prompt=run.prompt, seed=run.seed, model=replace(run.model, files=files))
    assert (baseline_of(run, [base]) is base) == (not files)
