"""What holds for every test: nothing leaves the machine, and torch keeps to one thread, faster for tiny tensors."""

import os

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("DRAFTSCOPE_DEVICE", "cpu")  # the same numbers everywhere; name another to test on it

import pytest
from support import shapes


@pytest.fixture(autouse=True)
def _every_shape_is_checked() -> None:
    shapes.begin()
