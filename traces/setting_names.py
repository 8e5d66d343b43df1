"""Settings of methods that were renamed: old names in traces, results, links and command lines go on being read."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeVar

RENAMED_SETTINGS: Final = MappingProxyType(
    {
        "align": "same_noise_paths",
        "carry": "reuse_store_pass",
        "cost": "verification_cost",
        "cut": "estimator_cutoff",
        "distance": "max_embedding_distance",
        "edit": "edit_threshold",
        "ends": "at_ranking_ends",
        "first": "first_timestep",
        "initial": "initial_drafts",
        "last": "last_timestep",
        "likeness": "max_prob_difference",
        "parallel": "tokens_per_step",
        "passes": "max_edit_passes",
        "prefill": "prefill_share",
        "ramp": "linear_guidance",
        "stale": "reuse_old_probs",
        "tied": "coupled_steps",
        "tries": "max_tries",
    }
)
"""Present name of each old name. No method has a setting with an old name of another."""
METHODS_WITH_RENAMED_SETTINGS: Final = frozenset(
    {"blockwise", "continuous", "cspd", "cspd-block", "cspd-release", "editing", "gsd", "s2d2", "scd"}
)
"""Methods that have them; a custom method may use any name."""

T = TypeVar("T")


def current_settings(method: object, config: Mapping[str, T]) -> dict[str, T]:
    """Return the settings of a run with their present names.

    Args:
        method: Name of the method; those that are not of this project keep their names.
        config: Name -> value, under present or earlier names.

    Example:
        >>> current_settings("scd", {"initial": "random", "window": 16})
        {'initial_drafts': 'random', 'window': 16}
    """
    renamed = RENAMED_SETTINGS if method in METHODS_WITH_RENAMED_SETTINGS else {}
    return {renamed.get(name, name): value for name, value in config.items()}


def original_settings(method: object, config: Mapping[str, T]) -> dict[str, T]:
    """Return the settings of a run with their first names, from which the keys of results are made.

    Args:
        method: Name of the method; those that are not of this project keep their names.
        config: Name -> value, under present or earlier names.

    Example:
        >>> original_settings("scd", {"initial_drafts": "random", "window": 16})
        {'initial': 'random', 'window': 16}
    """
    first = {new: old for old, new in RENAMED_SETTINGS.items()} if method in METHODS_WITH_RENAMED_SETTINGS else {}
    return {first.get(name, name): value for name, value in config.items()}


def current_formula(method: object, formula: str) -> str:
    """Return the formula of a rule with the present names of settings.

    Args:
        method: Name of the method; those that are not of this project keep their names.
        formula: Formula of `Rule`, in which "set NAME" is a setting.

    Example:
        >>> current_formula("editing", "confidence {confidence} {confidence ? set edit} {set edit}")
        'confidence {confidence} {confidence ? set edit_threshold} {set edit_threshold}'
    """
    if method not in METHODS_WITH_RENAMED_SETTINGS:
        return formula
    return re.sub(r"(?<=\bset )\w+(?=\})", lambda found: RENAMED_SETTINGS.get(found.group(), found.group()), formula)
