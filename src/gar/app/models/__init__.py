"""A trained model on disk, without pickle, and the folder that it shares with a report.

A model is one file, ``model.safetensors``, which cannot run code: weights of networks, or boosted trees in the text format of their
library, with a strict description and a checksum of everything. Loading checks all parts before a library sees them, so a damaged
or foreign file gives one clear error. Boosted trees are :class:`gar.app.models.trees.TreeModel`.
"""

from gar.app.models.folder import Model, TableModel, load_model, remove_model
from gar.app.models.output import finish_output, replacing_output

__all__ = ["Model", "TableModel", "finish_output", "load_model", "remove_model", "replacing_output"]
