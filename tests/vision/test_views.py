"""What the network sees: views that depend on the sample alone, in batches that cover the table."""

from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader

from gar.errors import InputError
from gar.vision import ImageTable
from gar.vision.images import read_image
from gar.vision.views import ImageBatch, augmentation, evaluation, evaluation_batches, training_batches


def epoch_of(batches: DataLoader[ImageBatch], epoch: int) -> list[ImageBatch]:
    batches.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
    return list(batches)


def by_row(samples: list[ImageBatch]) -> dict[int, Tensor]:
    return {int(row): view for views, _, rows in samples for view, row in zip(views, rows, strict=True)}


def test_views_depend_on_seed_epoch_and_row_alone(table: ImageTable) -> None:
    few = epoch_of(training_batches(table, size=32, batch_size=14, seed=1), 3)
    torch.manual_seed(5)
    many = epoch_of(training_batches(table, size=32, batch_size=14, seed=1, workers=2), 3)
    assert all(torch.equal(one, other) for a, b in zip(few, many, strict=True) for one, other in zip(a, b, strict=True))
    for seed, epoch in ((1, 4), (2, 3)):
        other = by_row(epoch_of(training_batches(table, size=32, batch_size=14, seed=seed), epoch))
        assert list(other) != list(by_row(few))
        assert all(not torch.equal(view, other[row]) for row, view in by_row(few).items())


def test_the_global_random_state_is_unchanged(table: ImageTable) -> None:
    state = torch.get_rng_state()
    samples = training_batches(table, size=32, batch_size=42, seed=1).dataset
    samples[0, 0]
    assert torch.equal(torch.get_rng_state(), state)


def test_views_of_every_image_that_fills_a_batch(table: ImageTable) -> None:
    (one, *_) = epoch_of(training_batches(table, size=24, batch_size=16, seed=1, views=1), 0)
    samples = epoch_of(training_batches(table, size=24, batch_size=16, seed=1), 0)
    assert [views.shape for views, _, _ in samples] == [(16, 2, 3, 24, 24)] * 2  # of 42 images, ten are dropped
    assert not torch.equal(samples[0][0][:, 0], samples[0][0][:, 1])
    assert torch.equal(samples[0][0][:, :1], one[0])
    _, targets = table.part("train")
    for _, labels, rows in samples:
        assert torch.equal(labels, torch.tensor(targets, dtype=torch.float32)[rows])


@pytest.mark.parametrize("world", [1, 2, 4])
def test_processes_share_a_batch(table: ImageTable, world: int) -> None:
    """The joined batch is the same however many share it; when evaluating, all rows are seen and shares are equally long."""
    whole = epoch_of(training_batches(table, size=16, batch_size=8, seed=1), 2)
    shares = [epoch_of(training_batches(table, size=16, batch_size=8, seed=1, rank=rank, world=world), 2) for rank in range(world)]
    for index, batch in enumerate(whole[:5]):
        rows = {int(row) for share in shares for row in share[index][2]}
        assert rows == set(batch[2].tolist())
    seen = [list(evaluation_batches(table, "test", size=16, batch_size=8, rank=rank, world=world)) for rank in range(world)]
    assert len({len(share) for share in seen}) == 1
    assert {int(row) for share in seen for _, _, rows in share for row in rows} == set(range(12))


@pytest.mark.parametrize("cache_bytes", [0, 7 * 32 * 32 * 3, 2**20])
def test_images_are_decoded_once_as_far_as_they_fit(table: ImageTable, cache_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The views are the same with a cache of any size."""
    (expected,) = epoch_of(training_batches(table, size=16, batch_size=42, seed=1), 1)
    decoder = Mock(side_effect=read_image)
    monkeypatch.setattr("gar.vision.views.read_image", decoder)
    monkeypatch.setattr("gar.vision.views.CACHE_BYTES", cache_bytes)
    batches = training_batches(table, size=16, batch_size=42, seed=1)
    for epoch in (0, 1):
        (found,) = epoch_of(batches, epoch)
    fitting = min(42, cache_bytes // (32 * 32 * 3))
    assert decoder.call_count == 42 + 42 - fitting
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_light_views_keep_colours_and_most_of_the_image() -> None:
    """An image in two colours, of which at most two fifths are cropped: both stay, and so do their values."""
    picture = Image.new("RGB", (64, 64), (200, 60, 60))
    picture.paste((60, 60, 200), (0, 32, 64, 64))
    views = torch.stack([augmentation(32, "light")(picture) for _ in range(50)])
    first, last = ((torch.tensor(colour) / 127.5 - 1)[:, None] for colour in ((200, 60, 60), (60, 60, 200)))
    assert (views[:, :, 0] - first).abs().max() < 0.02
    assert (views[:, :, -1] - last).abs().max() < 0.02
    assert len(views.flatten(1).unique(dim=0)) > 5  # the border between them is elsewhere
    with pytest.raises(InputError, match="augmentation='none'"):
        augmentation(32, "none")


def test_evaluation_is_the_middle_of_the_image(table: ImageTable) -> None:
    """Of 256 pixels 224, so of a square image seven eighths; from -1 to 1."""
    picture = Image.new("RGB", (256, 256), "white")
    picture.paste("black", (16, 16, 240, 240))
    assert torch.equal(evaluation(224)(picture), -torch.ones(3, 224, 224))
    assert evaluation(64)(Image.new("RGB", (300, 90), "white")).shape == (3, 64, 64)
    assert evaluation(64)(Image.new("RGB", (300, 90), "white")).unique().tolist() == [1.0]


def test_augmentation_is_the_papers() -> None:
    """How often which change comes, seen on a picture in two colours."""
    picture = Image.new("RGB", (64, 64), (200, 60, 60))
    picture.paste((60, 60, 200), (32, 0, 64, 64))
    views = torch.stack([augmentation(32)(picture) for _ in range(400)])
    assert views.shape == (400, 3, 32, 32)
    assert -1 <= views.min() < views.max() <= 1
    grey = ((views[:, 0] - views[:, 1]).abs().amax((-1, -2)) < 0.01).float().mean()
    assert 0.14 < grey < 0.26
    coloured = views[(views[:, 0] - views[:, 2]).abs().amax((-1, -2)) > 0.2]
    left = coloured[..., 0].mean(-1)[:, 0] - coloured[..., 0].mean(-1)[:, 2]
    right = coloured[..., -1].mean(-1)[:, 0] - coloured[..., -1].mean(-1)[:, 2]
    both = (left > 0.2) & (right < -0.2), (left < -0.2) & (right > 0.2)
    unflipped, flipped = (float(kind.sum()) for kind in both)
    assert 0.4 < flipped / (flipped + unflipped) < 0.6
    original = torch.tensor([200, 60, 60]) / 127.5 - 1
    untouched = ((views - original[:, None, None]).abs().amax(1) < 0.02).any(-1).any(-1).float().mean()
    assert 0.08 < untouched < 0.25  # neither jittered (0.2) nor grey (0.8), and part of the crop


def test_files_are_read_lazily(table: ImageTable, tmp_path: Path) -> None:
    lost = ImageTable(root=tmp_path, paths=table.paths, targets=table.targets, splits=table.splits)
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        next(iter(evaluation_batches(lost, "val", size=16, batch_size=4)))
