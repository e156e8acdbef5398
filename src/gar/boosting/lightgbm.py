"""LightGBM as a tree library."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gar.boosting.library import (
    LEAF_ROWS,
    Round,
    RoundSettings,
    StoppingSettings,
    TrainingTask,
    TreeLibrary,
    TreeSettings,
    check_trees,
    leaf_rows,
)

_LOSSES = {"mae": "l1", "mse": "l2", "huber": "huber", "gar": "none"}
"""LightGBM's names of losses; a custom objective has none."""
_OBJECTIVES = ("regression_l1", "regression", "huber")
"""The same in files."""
_END = "end of trees\n"
_HEADER = ("tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0")
_TREE = (
    *("Tree", "num_leaves", "num_cat", "split_feature", "threshold", "decision_type"),
    *("left_child", "right_child", "leaf_value", "is_linear", "shrinkage"),
)
"""Lines of a tree that predictions need; others, such as gains of splits, are not saved."""
_MARKS, _NO_MARKS = b"=\n" * len(_TREE) + b"\n\n", bytes(set(range(256)) - set(b"=\n"))
"""What separates names, numbers and trees, and everything else."""
_DIGITS = b"-0123456789 +.einfa"
"""Characters of numbers, which may be infinite or NaN. Python reads digits of other scripts too, and underscores."""


class LightGBM(TreeLibrary):
    """LightGBM, which trains one target."""

    name = package = "lightgbm"
    error = "basic.LightGBMError"

    def train(self, task: TrainingTask, settings: StoppingSettings) -> tuple[Any, int, Any]:
        params = {
            **_params(settings),
            "num_leaves": 2 ** min(settings.max_depth, 16),
            "objective": task.objective,
            # A row that counts twice must equal two rows, so leaves and bins are limited by weights, never by counts.
            "min_sum_hessian_in_leaf": settings.min_child_weight,
            "min_data_in_leaf": 0,
            "min_data_in_bin": 1,
            **settings.options,
        }
        rows, valid = task.rows, task.valid
        start = np.full(len(rows.y), task.start)
        data = self.module.Dataset(rows.x, rows.y, weight=rows.weight, init_score=start, params={"verbose": -1})
        stopping: dict[str, Any] = {}
        if valid is not None:
            start = np.full(len(valid.y), task.start)
            held_out = data.create_valid(valid.x, valid.y, weight=valid.weight, init_score=start)
            patience = self.module.early_stopping(settings.patience, verbose=False)
            stopping = {"valid_sets": [held_out], "feval": task.metric, "callbacks": [patience]}
        booster = self.module.train(params, data, settings.rounds, **stopping)
        return booster, booster.current_iteration() if valid is None else booster.best_iteration, task.start

    def train_rounds(self, settings: RoundSettings, x: np.ndarray, y: np.ndarray, others: Sequence[np.ndarray]) -> Iterator[Round]:
        leaf = leaf_rows(len(x))
        params = {
            **_params(settings),
            "num_leaves": 2**settings.max_depth,
            "min_data_in_leaf": leaf,
            # LightGBM drops features that leaves of this size cannot split; GAR is an error if none is left. Small tables keep all.
            "feature_pre_filter": leaf == LEAF_ROWS,
            "bagging_fraction": settings.subsample,
            "bagging_freq": 1,
            "boost_from_average": False,
            "objective": _LOSSES[settings.loss],
        }
        if settings.loss == "huber":
            params["alpha"] = settings.parameter
        data = self.module.Dataset(x, y, params=params)
        booster, objective = self.module.Booster(params, data), settings.objective
        for index, other in enumerate(others):  # their labels are not used, but LightGBM requires some
            booster.add_valid(data.create_valid(other, np.zeros(len(other)), params=params), str(index))
        while True:
            booster.update(fobj=objective)
            yield Round(_cached_predictions(booster), booster)

    def to_text(self, booster: Any) -> str:
        """Return what predictions need, which LightGBM and this class can read."""
        head, _, rest = str(booster.model_to_string(num_iteration=-1)).partition("\n\n")
        blocks = rest.partition(_END)[0].split("\n\n\n")[:-1]
        kept = [[line for line in block.split("\n") if line.partition("=")[0] in _TREE] for block in blocks]
        trees = ["\n".join([*lines, "", "", ""]) for lines in kept]
        sizes = " ".join(str(len(tree)) for tree in trees)
        return f"{head.partition('tree_sizes=')[0]}tree_sizes={sizes}\n\n{''.join(trees)}{_END}"

    def from_text(self, text: str, features: int) -> Any:
        self._check(text, features)
        try:
            booster = self.module.Booster(model_str=text)
        except self.module.basic.LightGBMError as error:
            raise ValueError(str(error)) from error
        return booster

    def _check(self, text: str, features: int) -> None:
        """Raise ValueError unless the text is one that :meth:`to_text` returns for trees of :meth:`train_rounds`."""
        head, _, rest = text.partition("\n\n")
        trees = rest.removesuffix(_END)
        lines = [line for line in head.split("\n") if line not in {f"objective={name}" for name in _OBJECTIVES}]
        if tuple(lines[:5]) != _HEADER or len(lines) != 9 or not trees or trees == rest or not text.isascii():
            raise ValueError("these are no trees of LightGBM, or not of gar's")
        count, names, infos, sizes = lines[5:]
        self.check_features(int(count.removeprefix("max_feature_idx=")) + 1, features)
        expected = [f"max_feature_idx={features - 1}", "feature_names=" + " ".join(f"Column_{index}" for index in range(features))]
        if [count, names] != expected or not infos.startswith("feature_infos=") or infos.count(" ") != features - 1:
            raise ValueError("names or ranges of other features")
        if sizes != "tree_sizes=" + " ".join(str(len(tree) + 3) for tree in trees.split("\n\n\n")[:-1]):
            raise ValueError("sizes that are not those of the trees")
        _check_trees(trees, features)

    def predict(self, booster: Any, x: np.ndarray, rounds: int | None = None) -> np.ndarray:
        threads = {"num_threads": 1} if rounds is None else {}
        return np.asarray(booster.predict(x, num_iteration=rounds, **threads))


def _check_trees(text: str, features: int) -> None:
    """Raise ValueError unless the text consists of trees with splits on numbers alone."""
    parts, step = text.replace("\n", "=").split("="), 2 * len(_TREE) + 2
    trees = len(parts) // step
    if text.encode().translate(None, _NO_MARKS) != _MARKS * trees:
        raise ValueError("something else than trees among the trees")
    columns = {name: parts[2 * index + 1 :: step] for index, name in enumerate(_TREE)}
    fixed = {"Tree": list(map(str, range(trees))), "num_cat": ["0"] * trees, "is_linear": ["0"] * trees}
    if any(parts[2 * index : -1 : step] != [name] * trees for index, name in enumerate(_TREE)) or any(
        columns[name] != values for name, values in fixed.items()
    ):
        raise ValueError("settings other than those of trees that gar trains")
    leaves = np.array(_numbers(columns["num_leaves"], int, [1] * trees))
    splits = (leaves - 1).tolist()
    names = ("left_child", "right_child", "split_feature", "decision_type")
    left, right, split_feature, decision = (np.array(_numbers(columns[name], int, splits), dtype=np.int64) for name in names)
    for name, counts in {"threshold": splits, "leaf_value": leaves.tolist(), "shrinkage": [1] * trees}.items():
        _numbers(columns[name], float, counts)
    tree = np.repeat(np.arange(trees), leaves - 1)
    first_leaf = (leaves - 1)[tree]  # a leaf is -1, -2, ... in the file, and comes after all splits here
    if (np.maximum(left, right) >= first_leaf).any():
        raise ValueError("a tree has a split that does not exist")
    node = np.arange(len(tree)) - (np.cumsum(leaves - 1) - (leaves - 1))[tree]
    children = [np.where(side < 0, first_leaf + ~side, side) for side in (left, right)]
    check_trees(2 * leaves - 1, np.stack([tree, node, *children]))
    if not {*split_feature.tolist()} <= {*range(features)} or not {*decision.tolist()} <= {*range(0, 16, 2)}:
        raise ValueError("a tree has a feature that does not exist, or splits otherwise than on numbers")


def _numbers(lines: Sequence[str], kind: type[int] | type[float], counts: Sequence[int]) -> list[Any]:
    """Return the numbers of all lines; raise ValueError unless each has as many as it should."""
    text = " ".join(filter(None, lines))
    if [line.count(" ") + bool(line) for line in lines] != counts or text.encode().translate(None, _DIGITS):
        raise ValueError("a line of a tree is not as many numbers as it should be")
    return list(map(kind, text.split(" "))) if text else []


def _cached_predictions(booster: Any) -> list[np.ndarray]:
    """Return the predictions for validation sets that LightGBM updates in every round, and shows to metrics only."""
    collected: list[np.ndarray] = []

    def collect(pred: np.ndarray, _: Any) -> tuple[str, float, bool]:
        collected.append(pred.copy())
        return "collected", 0.0, True

    booster.eval_valid(collect)
    return collected


def _params(settings: TreeSettings) -> dict[str, Any]:
    return {
        "max_depth": settings.max_depth,
        "learning_rate": settings.learning_rate,
        "seed": settings.seed,
        "num_threads": settings.threads,
        "deterministic": True,
        "force_row_wise": True,
        "metric": "none",
        "verbose": -1,
    }
