"""What a network sees of images: augmented views for training, the middle of the image for evaluation.

Random numbers belong to a sample: its views depend on ``(seed, epoch, row)`` alone. So neither the number of worker processes nor
an interruption changes what is seen.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from gar.vision.images import ImageTable, read_image
from gar.vision.torchvision_import import import_torchvision

if TYPE_CHECKING:
    from PIL import Image

VIEWS = 2
"""Augmented views of an image in a batch, as in the paper; each counts as a row."""

Batch = tuple[Tensor, Tensor, Tensor]
"""Views ``(images, views, 3, size, size)``, numbers ``(images,)`` and rows ``(images,)``; without ``images`` it is one sample."""


Transform = Callable[["Image.Image"], Tensor]


def seed_of(*numbers: int) -> int:
    """One seed from several numbers; others give another one."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


@contextmanager
def seeded(*numbers: int) -> Iterator[None]:
    """Random numbers of torch on the CPU start from here, and are afterwards what they were before."""
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed_of(*numbers))
        yield


def augmentation(size: int) -> Transform:
    """The paper's random view of an image: a crop, perhaps flipped, with other colours or none."""
    import_torchvision()
    from torchvision.transforms import v2

    views: Transform = v2.Compose(
        [
            v2.RandomResizedCrop(size, scale=(0.2, 1.0)),
            v2.RandomHorizontalFlip(),
            v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
            v2.RandomGrayscale(p=0.2),
            *_as_numbers(),
        ]
    )
    return views


def evaluation(size: int) -> Transform:
    """The middle of an image: for 224 pixels, cut out of it at 256."""
    import_torchvision()
    from torchvision.transforms import v2

    middle: Transform = v2.Compose([v2.Resize(round(size * 256 / 224)), v2.CenterCrop(size), *_as_numbers()])
    return middle


def _as_numbers() -> list[Callable[[Any], Any]]:
    """From -1 to 1."""
    from torchvision.transforms import v2

    return [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)]


class Samples(Dataset[Batch]):
    """Images of one split, asked for by ``(epoch, row)``."""

    def __init__(self, files: Sequence[Path], numbers: np.ndarray, transform: Transform, *, views: int = 1, seed: int = 0) -> None:
        self._files, self._numbers, self._transform = files, torch.as_tensor(numbers, dtype=torch.float32), transform
        self._views, self._seed = views, seed

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, place: tuple[int, int]) -> Batch:
        epoch, row = place
        image = read_image(self._files[row])
        with seeded(self._seed, epoch, row):
            views = torch.stack([self._transform(image) for _ in range(self._views)])
        return views, self._numbers[row], torch.tensor(row)


class EpochSampler(DistributedSampler[Any]):
    """Rows with the epoch they are asked for in; each process has its share, all shares are of one size."""

    def __iter__(self) -> Iterator[Any]:
        return ((self.epoch, row) for row in super().__iter__())


def training_batches(
    table: ImageTable, *, size: int, batch_size: int, seed: int, workers: int = 0, rank: int = 0, world: int = 1
) -> DataLoader[Batch]:
    """Two views of each training image, in a new order every epoch; an incomplete last batch is left out.

    Args:
        table: of images.
        size: side of the views, in pixels.
        batch_size: images of a batch over all processes.
        seed: of order and views.
        workers: processes that prepare images; 0 does it in this one.
        rank: which of the processes that train this is.
        world: how many there are.
    """
    samples = Samples(*table.part("train"), augmentation(size), views=VIEWS, seed=seed)
    sampler = EpochSampler(samples, num_replicas=world, rank=rank, seed=seed)
    return _loader(samples, sampler, batch_size // world, workers, drop_last=True)


def evaluation_batches(
    table: ImageTable, split: str, *, size: int, batch_size: int, workers: int = 0, rank: int = 0, world: int = 1
) -> DataLoader[Batch]:
    """The images of a split as they are, in the order of the table.

    With several processes some rows may come twice, so that all have the same number of batches.
    """
    samples = Samples(*table.part(split), evaluation(size))
    sampler = EpochSampler(samples, num_replicas=world, rank=rank, shuffle=False)
    return _loader(samples, sampler, max(batch_size // world, 1), workers, drop_last=False)


def _loader(samples: Samples, sampler: EpochSampler, batch_size: int, workers: int, *, drop_last: bool) -> DataLoader[Batch]:
    return DataLoader(
        samples,
        batch_size,
        sampler=sampler,
        num_workers=workers,
        drop_last=drop_last,
        persistent_workers=workers > 0,
        pin_memory=torch.cuda.is_available(),
    )
