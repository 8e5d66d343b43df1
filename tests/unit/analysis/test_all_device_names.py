"""Unknown names of devices are answered with those that they may mean."""

import pytest

from draftscope.analysis.hardware import DEVICES, HardwareError, named


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("a100", "did you mean 'A100 40GB' or 'A100 80GB'?"),
        ("A100 8", "did you mean 'A100 80GB'?"),
        ("H10", "did you mean 'H100'?"),
        ("", "there are "),
    ],
)
def test_the_devices_that_a_name_begins_are_suggested(name: str, remedy: str) -> None:
    with pytest.raises(HardwareError) as error:
        named("device", DEVICES, name)
    assert str(error.value).startswith(f"device: there is no {name!r}; {remedy}")


def test_a_whole_name_is_found_in_any_case() -> None:
    assert named("device", DEVICES, "a100 80gb") is DEVICES["A100 80GB"]
