"""Import of torchvision, also where its compiled operators do not load.

The wheel of torchvision that package registries offer for Linux is built against CUDA. Beside a torch without CUDA its library of
operators does not load, and the import fails at the first of them that it describes: ``operator torchvision::nms does not exist``.
Nothing here calls these operators. Their schemas, declared beforehand, let the import pass; calling one would still fail.
torchmetrics, and through it Lightning, import torchvision wherever it is installed, so this comes before their import, too.
"""

import torch

from gar.errors import InputError, how_to_install

MISSING = f"images need torchvision, lightning, pandas and pillow; {how_to_install('vision')}"
_OPERATORS = ("nms", "qnms")
"""Operators that torchvision describes to torch even where it could not load them."""
_DECLARED: list[torch.library.Library] = []
"""Kept for good: an operator vanishes with the object that declared it."""


def import_torchvision() -> None:
    """Import torchvision, with declared operators if its own do not load; without torchvision, the error says what to install."""
    try:
        import torchvision  # noqa: F401
    except ImportError as error:
        raise InputError(MISSING) from error
    except RuntimeError as error:
        if "operator torchvision::" not in str(error) or _DECLARED:
            raise
        _DECLARED.append(torch.library.Library("torchvision", "DEF"))  # type: ignore[no-untyped-call]
        for name in _OPERATORS:
            schema = f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            _DECLARED[0].define(schema)  # type: ignore[no-untyped-call]
        import_torchvision()
