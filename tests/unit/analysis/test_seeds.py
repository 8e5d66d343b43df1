"""Means over runs, and their errors."""

from statistics import fmean, stdev

import pytest

from draftscope.analysis.seeds import estimate, over_runs


def test_of_runs_of_as_many_numbers_the_error_is_that_of_their_means() -> None:
    samples = [[0.0, 1.0], [1.0, 1.0], [0.5, 0.0]]
    means = [fmean(each) for each in samples]
    found = over_runs(samples)
    assert found.mean == pytest.approx(fmean(means)) and found.runs == 3
    assert found.error == pytest.approx(stdev(means) / 3**0.5)


def test_a_long_run_counts_as_much_as_it_has_numbers() -> None:
    found = over_runs([[1.0] * 9, [0.0], []])
    assert found.mean == pytest.approx(0.9) and found.runs == 2
    assert found.error == pytest.approx((2 * (9 / 5 * 0.1) ** 2 / 1 / 2) ** 0.5)


def test_the_numbers_of_a_single_run_are_taken_for_independent() -> None:
    assert over_runs([[], [1.0, 2.0, 4.0]]) == estimate([1.0, 2.0, 4.0])


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1870.0, 2210.0], "2,040 ± 170"),  # not 2.04e+03 ± 1.7e+02
        ([1.2, 1.6], "1.40 ± 0.20"),
        ([0.00002, 0.00004], "0.000030 ± 0.000010"),
        ([123456.0], "123,456"),
        ([0.8123], "0.812"),
        ([3.0, 3.0], "3"),
        ([0.0], "0"),
    ],
)
def test_numbers_are_written_without_powers_of_ten_and_to_the_second_digit_of_their_error(
    values: list[float], text: str
) -> None:
    assert str(estimate(values)) == text
