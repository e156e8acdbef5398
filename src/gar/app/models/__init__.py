"""A trained model on disk, without pickle.

``model.json`` describes the model and has the checksums of the files beside it, which cannot run code: weights of networks as
safetensors, or boosted trees in the format of their library. Loading checks every part, so a damaged or foreign file gives one
clear error. Boosted trees are :class:`gar.app.models.trees.TreeModel`.
"""

from gar.app.models.folder import Model, TableModel, load_model, remove_model

__all__ = ["Model", "TableModel", "load_model", "remove_model"]
