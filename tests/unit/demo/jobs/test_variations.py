"""Variations of a run that the page offers."""

from draftscope.demo.jobs.variations import variations
from draftscope.engines.methods import METHODS
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.settings import config_values, make_config


def test_one_thing_is_changed_at_a_time_and_nothing_is_offered_twice() -> None:
    config = make_config(METHODS["scd"].config, {"window": 16})
    request = RunRequest("scd", "toy-raster", "", config, 0, chat=True, system="Be brief.")
    offered = variations(request)
    labels = [label for label, _ in offered]
    assert len(set(labels)) == len(offered) <= 8
    for label, changed in offered:
        before, after = config_values(config), config_values(changed.config)
        names = [name for name in before if before[name] != after[name]]
        assert len(names) + (changed.seed != request.seed) == 1, label
        assert (changed.model, changed.chat, changed.system) == ("toy-raster", True, "Be brief.")
    assert {"Coupling: none", "Window L: 8", "Window L: 32", "Seed: 1"} <= set(labels)
