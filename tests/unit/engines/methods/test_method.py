"""Methods have the names of the field."""

from draftscope.engines.methods import METHODS, SHARED, baseline
from draftscope.engines.settings import config_values
from draftscope.traces.labels import ORDINARY, name_for


def test_the_registry_and_the_table_of_names_agree() -> None:
    for name, method in METHODS.items():
        named = name_for(name, config_values(method.config()))
        assert named in method.title or named.startswith(method.title), name  # ours are named as such
    for family in SHARED:
        method, config = baseline(family, {})
        assert name_for(method.name, config_values(config)) == ORDINARY
