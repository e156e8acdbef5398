"""Features of all images of a table, computed once by a frozen encoder and kept."""

import hashlib
import os
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from gar.files import write_whole
from gar.vision.encoder import load_encoder
from gar.vision.images import SPLITS, ImageTable
from gar.vision.views import evaluation_batches

_NAME_DIGITS = 16


def image_features(
    table: ImageTable,
    checkpoint: str | os.PathLike[str],
    *,
    size: int = 224,
    folder: str | os.PathLike[str] | None = None,
    batch_size: int = 256,
    workers: int = 0,
    device: str | torch.device = "cpu",
) -> dict[str, tuple[Tensor, Tensor]]:
    """Features ``(rows, 512)`` and numbers ``(rows,)`` of each split, for :func:`gar.vision.linear_probe`.

    They are kept in a file whose name is made of the weights, the table and its images; the next call with the same reads it.

    Args:
        table: of images.
        checkpoint: of the encoder, as in :func:`gar.vision.load_encoder`.
        size: side of the view, the middle of the image, in pixels.
        folder: where features are kept; None is the folder of the checkpoint.
        batch_size: images at a time.
        workers: processes that prepare images.
        device: where to compute.
    """
    encoder = load_encoder(checkpoint).to(device)
    name = f"features-{_key(table, encoder, size)[:_NAME_DIGITS]}.safetensors"
    kept = Path(checkpoint).parent / name if folder is None else Path(folder) / name
    if not kept.is_file():
        found = {split: _features(table, split, encoder, size, batch_size, workers) for split in SPLITS}
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, save(found))
    features = load_file(kept)
    return {split: (features[split], torch.from_numpy(table.part(split)[1])) for split in SPLITS}


@torch.no_grad()
def _features(table: ImageTable, split: str, encoder: nn.Module, size: int, batch_size: int, workers: int) -> Tensor:
    device = next(encoder.parameters()).device
    batches = evaluation_batches(table, split, size=size, batch_size=batch_size, workers=workers)
    return torch.cat([encoder(views.flatten(0, 1).to(device)).cpu() for views, _, _ in batches])


def _key(table: ImageTable, encoder: nn.Module, size: int) -> str:
    """Of weights and table; an image that was changed since has another size or time."""
    digest = hashlib.sha256(f"{size} {table.fingerprint()}".encode())
    for tensor in encoder.state_dict().values():
        digest.update(tensor.cpu().numpy().tobytes())
    for path in table.paths:
        state = (table.root / path).stat()
        digest.update(f"{state.st_size} {state.st_mtime_ns} ".encode())
    return digest.hexdigest()
