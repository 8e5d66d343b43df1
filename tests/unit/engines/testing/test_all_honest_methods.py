"""Methods without a defect pass the proof on other models, with every event that it needs.

Every case runs with one number of models here. `scd` also passed with 0 to 19, and `s2d2` by ratio with 0 to 7.
"""

import pytest
from support.mutants import EXAMPLE, load_edited

from draftscope.engines.methods import METHODS
from draftscope.engines.testing.case import claims, subject
from draftscope.engines.testing.exactness import proof

RATIO = {"mode": "sample", "verdict": "ratio"}
CASES: list[tuple[str, dict[str, object]]] = [
    ("prompt-lookup", {}),
    ("speculative", {}),
    ("scd", {}),
    ("s2d2", RATIO),
    ("s2d2", {}),
    ("simsd", {**RATIO, "verifier": "exact", "draft_threshold": 1.0}),
    ("psd", {"policy": "localleap", "acceptance": "strict"}),
    ("cspd-block", {}),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "values"), CASES, ids=str)
def test_other_models_give_the_same_verdict(
    name: str, values: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    method = METHODS[name] if name in METHODS else load_edited(EXAMPLE, "", "", monkeypatch).METHOD
    assert claims(method, values) or method.reference(subject(method, values).config)
    result = proof(subject(method, values), sampled=False, seed=1)
    assert result.holds, result.message
    assert result.untested == ""
