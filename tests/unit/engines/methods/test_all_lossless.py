"""Every lossless claim, proved: the output distribution by enumeration of all branches equals ordinary decoding's."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from scipy import stats
from support.merged_enumeration import exact_distribution
from torch import Tensor

from draftscope.engines.ar.jacobi_window import InitialDrafter, Window
from draftscope.engines.methods import METHODS, scd
from draftscope.engines.protocol import Decoder
from draftscope.engines.runtime.driver import sample_tokens
from draftscope.engines.runtime.run_request import RunRequest
from draftscope.engines.sampling.random_source import DrawKey, RandomSource
from draftscope.engines.settings import make_config
from draftscope.engines.testing import enumeration
from draftscope.engines.testing.enumeration import Enumerator, largest_error
from draftscope.engines.testing.toy_models import Table

# Defects that let a draft keep too old a distribution show only from three drafts in flight on: a position must survive
# two rounds to the right of a rejection, and the first round, out of a point mass, cancels exactly. Keep window >= 4.
THREE_DRAFTS = 4
FOUR_DRAFTS = 5
EXACT = 1e-12
WRONG = 1e-4
LIVE = {"ar": ("done",), "scd": ("done", "window"), "gsd": ("done", "window")}


def decoder(method: str, table: Table, **values: object) -> Callable[[RandomSource], Decoder]:
    chosen = METHODS[method]
    config = make_config(chosen.config, values)
    return lambda rng: chosen.decode(table.task, config, rng)


def error(method: str, table: Table, **values: object) -> float:
    probs = exact_distribution(decoder(method, table, **values), table.forward, LIVE[method])
    return largest_error(probs, table.joint())


def total_variation(method: str, table: Table, **values: object) -> float:
    return enumeration.variation(
        exact_distribution(decoder(method, table, **values), table.forward, LIVE[method]), table.joint()
    )


@pytest.mark.parametrize(("length", "vocabulary"), [(4, 2), (4, 3), (3, 4)])
def test_ordinary_decoding_draws_the_joint(length: int, vocabulary: int) -> None:
    assert error("ar", Table(length, vocabulary, seed=0)) < EXACT


@pytest.mark.one_quick
@pytest.mark.parametrize(
    ("coupling", "initial"),
    [
        ("maximal", "random"),
        *[("maximal", initial) for initial in ("uniform", "repeat-left", "left-argmax")],
        *[(coupling, "uniform") for coupling in ("none", "gumbel")],  # which leave the fewest branches
        *[
            pytest.param(coupling, initial, marks=pytest.mark.nightly)
            for coupling in ("none", "gumbel")
            for initial in ("random", "repeat-left", "left-argmax")
        ],
    ],
)
def test_scd_is_lossless(coupling: str, initial: str) -> None:
    assert error("scd", Table(4, 2, seed=1), coupling=coupling, initial_drafts=initial, window=THREE_DRAFTS) < EXACT


@pytest.mark.parametrize("coupling", ["none", "maximal", "gumbel"])
def test_the_same_noise_is_lossless(coupling: str) -> None:
    table, shared = Table(4, 2, seed=1), {"same_noise": True}
    assert error("ar", table, **shared) < EXACT
    assert error("scd", table, coupling=coupling, window=THREE_DRAFTS, **shared) < EXACT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("coupling", "length", "vocabulary", "window"),
    [
        ("maximal", 5, 2, FOUR_DRAFTS),
        *[pytest.param(coupling, 5, 2, FOUR_DRAFTS, marks=pytest.mark.nightly) for coupling in ("none", "gumbel")],
        pytest.param("maximal", 4, 3, THREE_DRAFTS, marks=pytest.mark.nightly),
        *[(coupling, 3, 3, THREE_DRAFTS) for coupling in ("none", "gumbel")],  # which have many more branches
    ],
)
def test_scd_is_lossless_on_larger_tables(coupling: str, length: int, vocabulary: int, window: int) -> None:
    table = Table(length, vocabulary, seed=2)  # uniform guesses leave the fewest branches
    assert error("scd", table, coupling=coupling, initial_drafts="uniform", window=window) < EXACT


@pytest.mark.slow
@pytest.mark.parametrize("coupling", ["maximal", "gumbel"])
def test_mixtures_are_lossless(coupling: str) -> None:
    values = {"coupling": coupling, "alpha": 0.5, "initial_drafts": "uniform", "window": THREE_DRAFTS}
    length = 3 if coupling == "gumbel" else 4  # a race has many more branches
    assert error("scd", Table(length, 2, seed=3), **values) < EXACT


@pytest.mark.slow
def test_alpha_zero_is_speculative_jacobi_decoding() -> None:
    table = Table(4, 2, seed=4)
    shared = {"window": THREE_DRAFTS, "initial_drafts": "left-argmax"}
    plain = exact_distribution(decoder("scd", table, coupling="none", **shared), table.forward, LIVE["scd"])
    mixed = exact_distribution(decoder("scd", table, coupling="maximal", alpha=0, **shared), table.forward, LIVE["scd"])
    assert largest_error(plain, mixed) < EXACT


@pytest.mark.slow
def test_a_group_of_one_is_lossless() -> None:
    assert error("gsd", Table(4, 2, seed=5), group=0, window=THREE_DRAFTS, initial_drafts="left-argmax") < EXACT


@pytest.mark.slow
@pytest.mark.parametrize(("ends", "expected"), [("cut", 0.125), ("clamp", 0.108)])
def test_groups_change_the_distribution(ends: str, expected: float) -> None:
    table, values = (
        Table(3, 3, seed=5),
        {"group": 1, "max_prob_difference": 0.5, "window": 3, "initial_drafts": "left-argmax"},
    )
    assert total_variation("gsd", table, **values, at_ranking_ends=ends) == pytest.approx(expected, abs=1e-3)


def defect(**values: object) -> float:
    return error("scd", Table(4, 2, seed=6), **{"window": THREE_DRAFTS, "initial_drafts": "uniform", **values})


# Window -> initial guesses -> total variation from ordinary decoding, enumerated. With two drafts one can wait to the
# right of a rejection; it came from the model, after the window, so that initial drafts do not decide whether it shows.
STALE = {
    2: {"random": 0.0, "uniform": 0.0, "repeat-left": 0.0, "left-argmax": 0.0},
    3: {"random": 0.0154, "uniform": 0.0241, "repeat-left": 0.0244, "left-argmax": 0.0244},
    4: {"random": 0.0116, "uniform": 0.0573, "repeat-left": 0.0116, "left-argmax": 0.0116},
}


@pytest.mark.one_quick
@pytest.mark.parametrize(("window", "initial"), [(window, initial) for window in STALE for initial in STALE[window]])
def test_the_stale_distribution_of_the_release_is_biased(window: int, initial: str) -> None:
    values = {"coupling": "maximal", "reuse_old_probs": True, "window": window, "initial_drafts": initial}
    tv = total_variation("scd", Table(4, 2, seed=6), **values)
    assert tv == pytest.approx(STALE[window][initial], abs=1e-4 if STALE[window][initial] else EXACT)
    note = METHODS["scd"].deviation(make_config(scd.Config, values))
    assert note.startswith("Biased") == (tv > EXACT)


@pytest.mark.slow
def test_free_redraws_are_stored_with_the_distribution_they_come_from() -> None:
    values = {"coupling": "maximal", "reuse_old_probs": True, "alpha": 0}
    assert defect(**values) < EXACT
    assert METHODS["scd"].deviation(make_config(scd.Config, values)) == ""


def test_two_verdicts_on_one_draft_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # A residual draw y has p(y) > q(y), so a second verdict always keeps it; a kept draft must pass twice.
    proper = Enumerator.accept

    def twice(self: Enumerator, prob: Tensor, draw: DrawKey, *, until_rejection: bool = False) -> tuple[Tensor, Tensor]:
        return proper(self, prob**2 if draw.purpose == "verify" else prob, draw, until_rejection=until_rejection)

    monkeypatch.setattr(Enumerator, "accept", twice)
    assert defect(coupling="maximal") > WRONG


@pytest.mark.parametrize("key", [lambda _, draw, __: draw.iteration, lambda _, __, position: position])
def test_sharing_a_coin_is_caught(key: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Enumerator, "_key", key)
    table, values = Table(4, 2, seed=6), {"coupling": "maximal", "window": THREE_DRAFTS, "initial_drafts": "uniform"}
    probs = enumeration.exact_distribution(decoder("scd", table, **values), table.forward)
    assert largest_error(probs, table.joint()) > WRONG


@pytest.mark.slow
def test_reusing_gumbel_noise_for_the_residual_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    proper = Enumerator.categorical

    def shared(self: Enumerator, weights: Tensor, draw: DrawKey, where: Tensor | None = None) -> Tensor:
        if draw.purpose == "residual":
            return self.gumbel_argmax(weights, draw.position, where)
        return proper(self, weights, draw, where)

    monkeypatch.setattr(Enumerator, "categorical", shared)
    table = Table(3, 3, seed=6)  # with two tokens the residual holds but one, whatever the noise
    assert error("scd", table, coupling="gumbel", window=THREE_DRAFTS, initial_drafts="left-argmax") > WRONG


def test_dropping_a_draft_for_what_it_is_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    proper = InitialDrafter.fill

    def drop(self: InitialDrafter, window: Window, done: Tensor, iteration: int) -> Window:
        unwanted = (window.x == 0) & (window.age > 0)
        ones = torch.ones_like(window.x)
        probs = torch.nn.functional.one_hot(ones, self.task.vocab_size).to(torch.float64)
        draws = replace(
            window, x=torch.where(unwanted, ones, window.x), q=torch.where(unwanted[:, None], probs, window.q)
        )
        return proper(self, draws, done, iteration)

    monkeypatch.setattr(InitialDrafter, "fill", drop)
    assert defect(coupling="maximal") > WRONG


CHAINS = 1500


@pytest.mark.slow
def test_seeded_samples_follow_the_joint() -> None:
    """Enumeration proves the decoder; this proves that seeded randomness gives it what it asks for."""
    table = Table(4, 3, seed=11)
    first = RunRequest("scd", table, "", seed=5, settings={"coupling": "gumbel", "window": 4}).job()
    counts = dict.fromkeys(itertools.product(range(3), repeat=4), 0)
    for tokens in sample_tokens([replace(first, sample=i) for i in range(CHAINS)]):
        counts[tuple(tokens)] += 1
    joint = table.joint()
    common = [key for key in counts if joint[key] * CHAINS >= 5]
    others = [key for key in counts if key not in common]
    observed = [*(counts[key] for key in common), sum(counts[key] for key in others)]
    expected = [*(joint[key] * CHAINS for key in common), sum(joint[key] for key in others) * CHAINS]
    assert stats.chisquare(observed, expected).pvalue > 1e-4
