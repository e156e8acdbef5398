"""From a folder to a model."""

import json
import os
from pathlib import Path

from safetensors import SafetensorError

from gar.app.models.folder import ABOUT, FORMAT, Model, content_of
from gar.app.models.networks import restored_networks
from gar.app.models.trees import restored_trees
from gar.errors import InputError


def load_model(folder: str | os.PathLike[str]) -> Model:
    """A model that ``save`` wrote. Anything else is an :class:`~gar.errors.InputError` that says what is wrong."""
    place = Path(folder)
    text = content_of(place / ABOUT)
    try:
        about = json.loads(text)
        if about["format"] != FORMAT:
            raise InputError(f"model {place} has format {about['format']!r}, this version of gar reads {FORMAT}; save it anew")
        return restored_trees(about, place) if "trees" in about else restored_networks(about, place)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"model {place} cannot be read ({type(error).__name__}: {error}); it is damaged or not one of gar's"
        ) from error
