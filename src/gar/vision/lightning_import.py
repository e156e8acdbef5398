"""Lightning, imported after a torchvision that it can import. All others here import it from this file."""

from gar.errors import InputError
from gar.vision.torchvision_import import MISSING, import_torchvision

import_torchvision()
try:
    import lightning as lightning
except ImportError as error:
    raise InputError(MISSING) from error
