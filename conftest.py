"""Settings for all tests: one thread, repeatable examples, and the folder of real data."""

import os
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest
import torch

NEEDED = {
    "gplearn": ["src/gar/integrations/symbolic.py"],
    "keras": ["src/gar/integrations/keras.py", "tests/integrations/keras_program.py"],
}
"""Modules that import a package, or whose examples do: where it is missing they are not collected."""
collect_ignore = [path for package, paths in NEEDED.items() if not find_spec(package) for path in paths]
os.environ.setdefault("KERAS_BACKEND", "torch")  # by default Keras imports TensorFlow

torch.set_num_threads(1)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so in a shell's background; children that tests interrupt would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
hypothesis.settings.register_profile("gar", deadline=None, derandomize=True, max_examples=40)
hypothesis.settings.load_profile("gar")


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Every test starts from the same random numbers and leaves default settings behind."""
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(autouse=True)
def doctest_names(doctest_namespace: dict[str, object]) -> None:
    """What examples in docstrings may use without importing it."""
    import math

    doctest_namespace |= {"torch": torch, "math": math}


@pytest.fixture(scope="session")
def data_home() -> Path:
    """The folder of real data, or a skip that says why."""
    folder = os.environ.get("GAR_DATA_HOME")
    if not folder:
        pytest.skip("GAR_DATA_HOME is not set: no real data to test on")
    return Path(folder)
