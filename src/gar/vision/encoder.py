"""The paper's network for images, ResNet18, and weights for it from anywhere."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gar.errors import InputError
from gar.vision.torchvision_import import import_torchvision

WIDTH = 512
"""Features of an image."""

_WRAPPERS = ("module.", "encoder.")
"""What DataParallel, Rank-N-Contrast's published code and our own checkpoints put before torchvision's names."""
_HEADS = ("fc.", "head.")
_MOST_SHOWN = 5


def resnet18(*, outputs: int | None = None) -> nn.Module:
    """torchvision's ResNet18 with random weights, and its names of parameters.

    Args:
        outputs: of the head ``fc``, which makes numbers ``(images, outputs)`` of features; None leaves it out, and the network
            makes features ``(images, 512)``.

    Example:
        >>> resnet18(outputs=1)(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2, 1])
    """
    import_torchvision()
    from torchvision.models import resnet18 as build

    network: nn.Module = build(weights=None)
    network.fc = nn.Identity() if outputs is None else nn.Linear(WIDTH, outputs)
    return network


def load_encoder(path: str | os.PathLike[str]) -> nn.Module:
    """A ResNet18 that makes features ``(images, 512)``, with weights from a file, ready for evaluation.

    Args:
        path: a checkpoint of ``gar images``, weights of torchvision (whose head is left out), or an encoder of Rank-N-Contrast's
            published code; ``.safetensors``, or what ``torch.save`` wrote. Nothing in it is ever run.

    Raises:
        InputError: the file is missing or damaged, or its weights are those of another network: which names and shapes differ.
    """
    network = resnet18()
    network.load_state_dict(matching_weights(Path(path), network), strict=False)
    return network.eval()


def matching_weights(path: Path, network: nn.Module) -> dict[str, Tensor]:
    """The weights of a file under the names of a network without a head; an error if they do not fit."""
    found = {_bare(name): value for name, value in read_weights(path).items()}
    found = {name: value for name, value in found.items() if not name.startswith(_HEADS)}
    wanted = network.state_dict()
    counters = {name for name in wanted if name.endswith("num_batches_tracked")}  # files from before torch 0.4.1 lack them
    reshaped = {name for name in wanted.keys() & found.keys() if wanted[name].shape != found[name].shape}
    faults = {
        "missing": sorted(wanted.keys() - found.keys() - counters),
        "unexpected": sorted(found.keys() - wanted.keys()),
        "of other shapes": [f"{n} {tuple(found[n].shape)}, not {tuple(wanted[n].shape)}" for n in sorted(reshaped)],
    }
    told = [f"{len(names)} {what} ({_listed(names)})" for what, names in faults.items() if names]
    if told:
        raise InputError(f"{path} does not hold the weights of a ResNet18: {'; '.join(told)}. Choose another checkpoint")
    return found


def read_weights(path: Path) -> Mapping[str, Tensor]:
    """Tensors by name, found in any of the usual places of a checkpoint."""
    content = _read(path)
    for place in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(place), Mapping):
            content = content[place]
    if not isinstance(content, Mapping) or not content or not all(isinstance(value, Tensor) for value in content.values()):
        raise InputError(f"{path} holds no weights; expected a state_dict, alone or under 'state_dict' or 'model'")
    return content


def _read(path: Path) -> Any:
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


def _bare(name: str) -> str:
    while name.startswith(_WRAPPERS):
        name = name.split(".", 1)[1]
    return name


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_MOST_SHOWN]) + (", ..." if len(names) > _MOST_SHOWN else "")
