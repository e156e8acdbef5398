"""What the models of a stack differ in: fold, seed, learning rate, weight decay and the parameter of the loss."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from gar.errors import InputError


class Models:
    """One value per model in every array, all of length ``G``; a single number stands for all models.

    Random numbers belong to ``(seed, fold)``: the seed draws the initial weights, seed and fold the order of rows. So models that
    share both see the same batches, wherever in whatever stack they are.

    Args:
        fold: which fold of the data a model is trained on.
        seed: of initial weights and batches.
        learning_rate: at the first epoch, > 0.
        weight_decay: >= 0.
        parameter: the tuned parameter of the loss; None is the loss's default, and the only choice for a loss without one.

    Example:
        >>> len(Models.grid(folds=range(5), learning_rates=(0.1, 0.01), parameters=(0.1, 1.0, 10.0)))
        30
    """

    def __init__(
        self,
        *,
        fold: ArrayLike = 0,
        seed: ArrayLike = 123,
        learning_rate: ArrayLike = 1e-2,
        weight_decay: ArrayLike = 0.0,
        parameter: ArrayLike | None = None,
    ) -> None:
        given = [fold, seed, learning_rate, weight_decay, *([] if parameter is None else [parameter])]
        arrays = _one_length([np.asarray(value) for value in given])
        self.fold, self.seed = _whole(arrays[0], "fold"), _whole(arrays[1], "seed")
        self.learning_rate, self.weight_decay = (np.array(value, dtype=np.float64) for value in arrays[2:4])
        self.parameter = None if parameter is None else np.array(arrays[4], dtype=np.float64)
        self._check_numbers()

    @staticmethod
    def grid(
        *,
        folds: Iterable[int] = (0,),
        seeds: Iterable[int] = (123,),
        learning_rates: Iterable[float] = (1e-2,),
        weight_decays: Iterable[float] = (0.0,),
        parameters: Iterable[float] | None = None,
    ) -> "Models":
        """Every combination; the last named changes quickest."""
        axes: list[Iterable[float]] = [folds, seeds, learning_rates, weight_decays]
        table = list(itertools.product(*axes, *([] if parameters is None else [parameters])))
        fold, seed, rate, decay, *rest = zip(*table, strict=True) if table else ((), (), (), ())
        return Models(fold=fold, seed=seed, learning_rate=rate, weight_decay=decay, parameter=rest[0] if rest else None)

    def __len__(self) -> int:
        return len(self.fold)

    def __repr__(self) -> str:
        return f"Models({len(self)}: {len(set(self.fold.tolist()))} folds, {len(set(self.seed.tolist()))} seeds)"

    @property
    def sources(self) -> list[tuple[int, int]]:
        """``(fold, seed)`` of every model: models that share both read the same batches."""
        return list(zip(self.fold.tolist(), self.seed.tolist(), strict=True))

    def take(self, places: Sequence[int] | np.ndarray) -> "Models":
        """The models at these places, in this order."""
        index = np.asarray(places, dtype=np.int64)
        return Models(
            fold=self.fold[index],
            seed=self.seed[index],
            learning_rate=self.learning_rate[index],
            weight_decay=self.weight_decay[index],
            parameter=None if self.parameter is None else self.parameter[index],
        )

    def _check_numbers(self) -> None:
        if (bad := self.learning_rate[~((self.learning_rate > 0) & np.isfinite(self.learning_rate))]).size:
            raise InputError(f"learning_rate holds {bad[0]}; expected finite numbers > 0, such as 1e-2")
        if (bad := self.weight_decay[~((self.weight_decay >= 0) & np.isfinite(self.weight_decay))]).size:
            raise InputError(f"weight_decay holds {bad[0]}; expected finite numbers >= 0, such as 1e-4")
        if np.any(self.fold < 0) or np.any(self.seed < 0):
            raise InputError("fold and seed must not be negative; use 0 or more")


def _one_length(arrays: list[np.ndarray]) -> list[np.ndarray]:
    shapes = {array.shape for array in arrays if array.ndim > 0}
    if any(len(shape) != 1 for shape in shapes) or len(shapes) > 1:
        raise InputError(f"settings of models have shapes {sorted(shapes)}; expected numbers, or lists of one length")
    return [np.array(array) for array in np.broadcast_arrays(*arrays, np.empty(shapes.pop() if shapes else 1))][:-1]


def _whole(values: np.ndarray, name: str) -> np.ndarray:
    whole = values.astype(np.int64)
    if not np.array_equal(whole, values):
        raise InputError(f"{name} holds {values.tolist()}; expected whole numbers")
    return whole
