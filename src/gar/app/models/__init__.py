"""A trained model on disk, without pickle.

``model.json`` describes the model and has the checksums of the files beside it, which cannot run code: weights of networks as
safetensors, or boosted trees in the format of their library. Loading checks every part, so a damaged or foreign file gives one
clear error.
"""

from gar.app.models.folder import Model, load_model, remove_model
from gar.app.models.networks import TableModel
from gar.app.models.trees import TreeModel

__all__ = ["Model", "TableModel", "TreeModel", "load_model", "remove_model"]
