"""A trained model on disk, without pickle.

``model.json`` says what there is and carries checksums. Beside it are numbers that cannot run code: weights of networks as
safetensors, or boosted trees in the own format of their library. Loading checks every part, so a damaged or foreign file gives one
clear error.
"""

from gar.app.models.folder import Model
from gar.app.models.loading import load_model
from gar.app.models.networks import TableModel
from gar.app.models.trees import TreeModel

__all__ = ["Model", "TableModel", "TreeModel", "load_model"]
