"""The paper's network for images, ResNet18: weights from a checkpoint of any origin, and features of a table of images."""

import argparse
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gar.errors import InputError
from gar.files import write_whole
from gar.vision.images import SPLITS, ImageTable
from gar.vision.torchvision_import import import_torchvision
from gar.vision.views import evaluation_batches

WIDTH = 512
"""Features of an image."""

_WRAPPERS = re.compile(r"^((module|encoder)\.)+")
"""What DataParallel, Rank-N-Contrast's published code and our own checkpoints put before torchvision's names."""
_HEADS = ("fc.", "head.")
_MOST_SHOWN = 5


def resnet18(*, outputs: int | None = None) -> nn.Module:
    """Return torchvision's ResNet18 with random weights.

    Args:
        outputs: width of the head ``fc``, which predicts ``(images, outputs)``; without a head (None) the network returns features
            ``(images, 512)``.

    Example:
        >>> resnet18(outputs=1)(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2, 1])
    """
    import_torchvision()
    from torchvision.models import resnet18 as build

    network: nn.Module = build(weights=None)
    network.fc = nn.Identity() if outputs is None else nn.Linear(WIDTH, outputs)
    return network


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
    """Return features ``(rows, 512)`` and targets ``(rows,)`` of each split, for :func:`gar.vision.linear_probe`.

    Features are cached in a file whose name is a hash of the weights, the table and its images.

    Args:
        table: of images.
        checkpoint: of the encoder, as in :func:`gar.vision.load_encoder`.
        size: side of the view, the middle of the image, in pixels.
        folder: of the cache; None is the folder of the checkpoint.
        batch_size: images at a time.
        workers: processes that prepare images.
        device: where to compute.
    """
    from safetensors.torch import load_file, save

    encoder = load_encoder(checkpoint).to(device)
    cache = Path(folder or Path(checkpoint).parent) / f"features-{_features_key(table, encoder, size)[:16]}.safetensors"
    if not cache.is_file():
        batches = {split: evaluation_batches(table, split, size=size, batch_size=batch_size, workers=workers) for split in SPLITS}
        with torch.no_grad():
            computed = {
                split: torch.cat([encoder(views.flatten(0, 1).to(device)).cpu() for views, _, _ in batches[split]])
                for split in SPLITS
            }
        cache.parent.mkdir(parents=True, exist_ok=True)
        write_whole(cache, save(computed))
    features = load_file(cache)
    return {split: (features[split], torch.from_numpy(table.part(split)[1])) for split in SPLITS}


def _features_key(table: ImageTable, encoder: nn.Module, size: int) -> str:
    """Return a hash of weights, table and images; an image that was changed has another size or time."""
    digest = hashlib.sha256(f"{size} {table.fingerprint()}".encode())
    for tensor in encoder.state_dict().values():
        digest.update(tensor.cpu().numpy().tobytes())
    for path in table.paths:
        state = (table.root / path).stat()
        digest.update(f"{state.st_size} {state.st_mtime_ns} ".encode())
    return digest.hexdigest()


def load_encoder(path: str | os.PathLike[str]) -> nn.Module:
    """Return a ResNet18 without a head, with weights from a file, ready for evaluation: it returns features ``(images, 512)``.

    Args:
        path: a checkpoint of ``gar images``, weights of torchvision (whose head is dropped), or an encoder of Rank-N-Contrast's
            published code; ``.safetensors``, or a file of ``torch.save``. No code in it is ever run.

    Raises:
        InputError: the file is missing or damaged, or its weights are those of another network: which names and shapes differ.
    """
    network = resnet18()
    network.load_state_dict(_matching_weights(Path(path), network), strict=False)
    return network.eval()


def _matching_weights(path: Path, network: nn.Module) -> dict[str, Tensor]:
    """Return the weights of a file under the names of a network without a head, or raise an error if they do not fit."""
    bare = {_WRAPPERS.sub("", name): value for name, value in _read_weights(path).items()}
    found = {name: value for name, value in bare.items() if not name.startswith(_HEADS)}
    wanted = network.state_dict()
    counters = {name for name in wanted if name.endswith("num_batches_tracked")}  # files from before torch 0.4.1 lack them
    reshaped = {name for name in wanted.keys() & found.keys() if wanted[name].shape != found[name].shape}
    faults = {
        "missing": sorted(wanted.keys() - found.keys() - counters),
        "unexpected": sorted(found.keys() - wanted.keys()),
        "of other shapes": [f"{n} {tuple(found[n].shape)}, not {tuple(wanted[n].shape)}" for n in sorted(reshaped)],
    }
    described = [f"{len(names)} {what} ({_shortened(names)})" for what, names in faults.items() if names]
    if described:
        raise InputError(f"{path} does not hold the weights of a ResNet18: {'; '.join(described)}. Choose another checkpoint")
    return found


def _read_weights(path: Path) -> Mapping[str, Tensor]:
    """Return tensors by name from a checkpoint: a state_dict, alone or under the usual keys."""
    content = _read_checkpoint(path)
    for key in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not content or not all(isinstance(value, Tensor) for value in content.values()):
        raise InputError(f"{path} holds no weights; expected a state_dict, alone or under 'state_dict' or 'model'")
    return content


def _read_checkpoint(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"{path} is not a file; name a checkpoint")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        with torch.serialization.safe_globals([argparse.Namespace]):  # options, which researchers' scripts save beside weights
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # unpicklers raise whatever they like at damaged files
        reason = str(error).split("\n")[0][:120]
        raise InputError(f"{path} cannot be read as a checkpoint ({reason}); it is damaged, or no checkpoint of weights") from error


def _shortened(names: list[str]) -> str:
    return ", ".join(names[:_MOST_SHOWN]) + (", ..." if len(names) > _MOST_SHOWN else "")
