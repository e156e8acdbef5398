"""Generated images for all tests of this package, and a small network instead of ResNet18."""

from pathlib import Path

import pytest
from torch import nn

from gar.vision import ImageTable, read_images, write_clocks
from gar.vision.encoder import WIDTH


def small_network() -> nn.Module:
    """Features ``(images, 512)`` with convolutions and batch norm, in a thousandth of the time."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(128, WIDTH),
        nn.ReLU(),
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace ResNet18 by the small network."""
    monkeypatch.setattr("gar.vision.modules.resnet18", small_network)


@pytest.fixture(scope="session")
def clocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of sixty images: 42 for training, 6 for validation, 12 to test."""
    return write_clocks(tmp_path_factory.mktemp("clocks"), count=60, size=32)


@pytest.fixture(scope="session")
def table(clocks: Path) -> ImageTable:
    return read_images(clocks, target="minutes")
