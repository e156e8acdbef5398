"""Lightning, imported after torchvision, which it imports too; other modules of this package import it from here."""

from gar.errors import InputError
from gar.vision.torchvision_import import MISSING, import_torchvision

import_torchvision()
try:
    import lightning as lightning
except ImportError as error:
    raise InputError(MISSING) from error
