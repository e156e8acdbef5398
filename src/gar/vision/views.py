"""Batches of images: augmented views for training, the middle of the image for evaluation.

Random numbers belong to a sample: its views depend on ``(seed, epoch, row)`` alone. So neither the number of worker processes nor
an interruption changes what a network sees.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from gar.validation import check_choice
from gar.vision.defaults import AUGMENTATIONS, PAPER_VIEWS
from gar.vision.images import ImageTable, read_image
from gar.vision.torchvision_import import import_torchvision

if TYPE_CHECKING:
    from PIL import Image

CACHE_BYTES = 2**30
"""Decoded images of a split are kept up to this size; those beyond it are decoded whenever they are needed."""

ImageBatch = tuple[Tensor, Tensor, Tensor]
"""Views ``(images, views, 3, size, size)``, targets ``(images,)`` and rows ``(images,)``; without ``images`` it is one sample."""

Transform = Callable[["Image.Image"], Tensor]


def training_batches(
    table: ImageTable,
    *,
    size: int,
    batch_size: int,
    seed: int,
    views: int = PAPER_VIEWS,
    kind: str = "paper",
    workers: int = 0,
    rank: int = 0,
    world: int = 1,
) -> DataLoader[ImageBatch]:
    """Return augmented views of each training image, shuffled anew every epoch; an incomplete last batch is dropped.

    Args:
        table: of images.
        size: side of the views, in pixels.
        batch_size: images of a batch over all processes.
        seed: of order and views.
        views: of an image in a batch.
        kind: of augmentation.
        workers: processes that prepare images; 0 prepares them in this one.
        rank: index of this training process.
        world: number of training processes.
    """
    share = CACHE_BYTES // max(workers, 1)  # each worker process keeps what it has decoded
    samples = Samples(*table.part("train"), augmentation(size, kind), views=views, seed=seed, cache_bytes=share)
    sampler = EpochSampler(samples, num_replicas=world, rank=rank, seed=seed)
    return _loader(samples, sampler, batch_size // world, workers, drop_last=True)


def evaluation_batches(
    table: ImageTable, split: str, *, size: int, batch_size: int, workers: int = 0, rank: int = 0, world: int = 1
) -> DataLoader[ImageBatch]:
    """Return the images of a split without augmentation, in the order of the table.

    With several processes some rows may come twice, so that all processes have the same number of batches.
    """
    samples = Samples(*table.part(split), evaluation(size), cache_bytes=CACHE_BYTES // max(workers, 1))
    sampler = EpochSampler(samples, num_replicas=world, rank=rank, shuffle=False)
    return _loader(samples, sampler, max(batch_size // world, 1), workers, drop_last=False)


class Samples(Dataset[ImageBatch]):
    """Images of one split, indexed by ``(epoch, row)``; each is decoded once, as long as the decoded ones fit into the cache."""

    def __init__(
        self,
        files: Sequence[Path],
        targets: np.ndarray,
        transform: Transform,
        *,
        views: int = 1,
        seed: int = 0,
        cache_bytes: int = 0,
    ) -> None:
        self._files, self._targets, self._transform = files, torch.as_tensor(targets, dtype=torch.float32), transform
        self._views, self._seed = views, seed
        self._decoded: dict[int, np.ndarray] = {}
        self._free_bytes = cache_bytes

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: tuple[int, int]) -> ImageBatch:
        epoch, row = index
        image = self._image(row)
        with seeded(self._seed, epoch, row):
            views = torch.stack([self._transform(image) for _ in range(self._views)])
        return views, self._targets[row], torch.tensor(row)

    def _image(self, row: int) -> "Image.Image":
        from PIL import Image

        if row in self._decoded:
            return Image.fromarray(self._decoded[row])
        image = read_image(self._files[row])
        pixels = np.asarray(image)
        if pixels.nbytes <= self._free_bytes:
            self._decoded[row] = pixels
            self._free_bytes -= pixels.nbytes
        return image


class EpochSampler(DistributedSampler[Any]):
    """Yields ``(epoch, row)``; each process has its share of rows, and all shares have one size."""

    def __iter__(self) -> Iterator[Any]:
        return ((self.epoch, row) for row in super().__iter__())


def _loader(samples: Samples, sampler: EpochSampler, batch_size: int, workers: int, *, drop_last: bool) -> DataLoader[ImageBatch]:
    return DataLoader(
        samples,
        batch_size,
        sampler=sampler,
        num_workers=workers,
        drop_last=drop_last,
        persistent_workers=workers > 0,
        pin_memory=torch.cuda.is_available(),
    )


def augmentation(size: int, kind: str = "paper") -> Transform:
    """Return a random view of an image, perhaps flipped.

    ``"paper"`` crops 20 to 100 % of its area and changes colours. ``"light"`` crops 60 to 100 % and leaves colours as they are, in
    less than half of the time.
    """
    check_choice(kind, AUGMENTATIONS, "augmentation")
    import_torchvision()
    from torchvision.transforms import v2

    if kind == "light":
        return _to_tensor(v2.RandomResizedCrop(size, scale=(0.6, 1.0), ratio=(0.9, 1.1)), v2.RandomHorizontalFlip())
    return _to_tensor(
        v2.RandomResizedCrop(size, scale=(0.2, 1.0)),
        v2.RandomHorizontalFlip(),
        v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
        v2.RandomGrayscale(p=0.2),
    )


def evaluation(size: int) -> Transform:
    """Return the view of the middle of an image: for 224 pixels, cropped after resizing to 256."""
    import_torchvision()
    from torchvision.transforms import v2

    return _to_tensor(v2.Resize(round(size * 256 / 224)), v2.CenterCrop(size))


def _to_tensor(*steps: Callable[[Any], Any]) -> Transform:
    """Return these transformations followed by a conversion to values from -1 to 1."""
    from torchvision.transforms import v2

    values = (v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3))
    transform: Transform = v2.Compose([*steps, *values])
    return transform


@contextmanager
def seeded(*numbers: int) -> Iterator[None]:
    """Seed torch's random numbers on the CPU inside the context, and restore them afterwards."""
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed_of(*numbers))
        yield


def seed_of(*numbers: int) -> int:
    """Return one seed made of several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
