"""Images: ResNet18 trained from scratch with any loss, encoders by Rank-N-Contrast, and linear probes on their features.

Names are imported when they are first used: Lightning and torchvision take seconds, and come with the extra ``vision``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gar.vision.encoder import image_features as image_features, load_encoder as load_encoder, resnet18 as resnet18
    from gar.vision.generated import draw_clocks as draw_clocks, write_clocks as write_clocks
    from gar.vision.images import ImageTable as ImageTable, check_images as check_images, read_images as read_images
    from gar.vision.modules import ImageModule as ImageModule, ImagePretrainer as ImagePretrainer, ImageRegressor as ImageRegressor
    from gar.vision.probe import Probe as Probe, linear_probe as linear_probe
    from gar.vision.training import (
        ImageSettings as ImageSettings,
        Machine as Machine,
        train_images as train_images,
        train_study as train_study,
    )

_MODULES = {
    "encoder": ("image_features", "load_encoder", "resnet18"),
    "generated": ("draw_clocks", "write_clocks"),
    "images": ("ImageTable", "check_images", "read_images"),
    "modules": ("ImageModule", "ImagePretrainer", "ImageRegressor"),
    "probe": ("Probe", "linear_probe"),
    "training": ("ImageSettings", "Machine", "train_images", "train_study"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
__all__ = [*_HOME]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(f"gar.vision.{_HOME[name]}"), name)
    raise AttributeError(f"module 'gar.vision' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
