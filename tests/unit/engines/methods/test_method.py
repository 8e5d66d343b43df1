"""Methods have the names of the field."""

from engines.methods import METHODS, SHARED, baseline
from engines.settings import config_values
from traces.labels import ORDINARY, name_for


def test_the_registry_and_the_table_of_names_agree() -> None:
    for name, method in METHODS.items():
        assert name_for(name, config_values(method.config())) in method.title, name
    for family in SHARED:
        method, config = baseline(family, {})
        assert name_for(method.name, config_values(config)) == ORDINARY
