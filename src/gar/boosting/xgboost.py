"""XGBoost as a tree library."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from gar.boosting.library import (
    Round,
    RoundSettings,
    StoppingSettings,
    TrainingTask,
    TreeLibrary,
    TreeSettings,
    check_trees,
    leaf_rows,
)

MIN_CHILD_WEIGHT = 5.0
"""Weight that a leaf needs in a comparison; with 1, XGBoost's own default, trees overfit a noisy table."""
_LOSSES = {"mae": "reg:absoluteerror", "mse": "reg:squarederror", "huber": "reg:pseudohubererror", "gar": "reg:squarederror"}
"""XGBoost's names of losses; a custom objective replaces that of GAR."""
_TREE = (
    '{{"base_weights":[{}],"categories":[{}],"categories_nodes":[{}],"categories_segments":[{}],"categories_sizes":[{}],'
    '"default_left":[{}],"id":{index},"left_children":[{}],"loss_changes":[{}],"parents":[{}],"right_children":[{}],'
    '"split_conditions":[{}],"split_indices":[{}],"split_type":[{}],"sum_hessian":[{}],"tree_param":{{"num_deleted":"0",'
    '"num_feature":"{features}","num_nodes":"{nodes}","size_leaf_vector":"1"}}}}'
)
"""A tree in a file, with 14 arrays."""
_NUMBER, _BIT, _ZERO, _INDEX = b"-+.0123456789eE,", b"01,", b"0,", b"-0123456789,"
_CHARACTERS = (_NUMBER, b"", b"", b"", b"", _BIT, _INDEX, _NUMBER, _INDEX, _INDEX, _NUMBER, _INDEX, _ZERO, _NUMBER)
"""What these arrays consist of. Those without characters are about categories, which are encoded as numbers before."""
_STATISTICS = re.compile(r'("(?:base_weights|loss_changes|sum_hessian)":)\[([^\]]*)\]')
_NO_NODE = 2**31 - 1
"""Parent of a root."""


class XGBoost(TreeLibrary):
    """XGBoost, which trains several targets together."""

    name = package = "xgboost"
    error = "core.XGBoostError"
    multi_output = True

    def train(self, task: TrainingTask, settings: StoppingSettings) -> tuple[Any, int, Any]:
        params = {**_params(settings, settings.min_child_weight), "base_score": task.start, **settings.options}
        parts = [part for part in (task.rows, task.valid) if part is not None]
        data = [self.module.DMatrix(part.x, part.y, weight=part.weight, nthread=settings.threads) for part in parts]
        stopping: dict[str, Any] = {}
        if task.valid is not None:
            stopping = {"evals": [(data[1], "valid")], "custom_metric": task.metric, "early_stopping_rounds": settings.patience}
        booster = self.module.train(params, data[0], settings.rounds, obj=task.objective, verbose_eval=False, **stopping)
        return booster, booster.num_boosted_rounds() if task.valid is None else booster.best_iteration + 1, 0.0

    def metric_result(self, name: str, value: float, *, larger_is_better: bool, from_sklearn: bool) -> Any:
        """Return ``1 - value`` where larger is better: XGBoost minimises metrics."""
        if larger_is_better:
            name, value = f"1-{name}", 1.0 - value
        return value if from_sklearn else (name, value)

    def train_rounds(self, settings: RoundSettings, x: np.ndarray, y: np.ndarray, others: Sequence[np.ndarray]) -> Iterator[Round]:
        params = {
            **_params(settings, min(MIN_CHILD_WEIGHT, float(leaf_rows(len(x))))),
            "subsample": settings.subsample,
            "seed_per_iteration": True,  # all boosters share one random generator, and would disturb each other
            "base_score": 0.0,
            "objective": _LOSSES[settings.loss],
        }
        if settings.loss == "huber":
            params["huber_slope"] = settings.parameter
        data, *tables = [self.module.DMatrix(*part, nthread=settings.threads) for part in ((x, y), *((other,) for other in others))]
        booster, objective = self.module.Booster(params, [data, *tables]), settings.objective  # it caches predictions for these
        for index in count():
            booster.update(data, index, fobj=objective)
            yield Round([booster.predict(table, output_margin=True) for table in tables], booster)

    def to_text(self, booster: Any) -> str:
        """Return what predictions need, with zeros for the statistics of the training, which XGBoost asks for."""
        return _STATISTICS.sub(_zeros, bytes(booster.save_raw("json")).decode())

    def from_text(self, text: str, features: int) -> Any:
        self._check(text, features)
        booster = self.module.Booster({"nthread": 1})
        try:
            booster.load_model(bytearray(text.encode()))
        except self.module.core.XGBoostError as error:
            raise ValueError(str(error).partition("\n")[0]) from error
        return booster

    def _check(self, text: str, features: int) -> None:
        """Raise ValueError unless the text is one that :meth:`to_text` returns for trees of :meth:`train_rounds`."""
        head, opening, rest = text.partition('"trees":[')
        body, closing, tail = rest.rpartition(']},"name":"gbtree"')
        if not body or "\\" in head + tail:
            raise ValueError("these are no trees of XGBoost")
        arrays = body.replace("]", "[").split("[")[1::2]
        if len(arrays) % len(_CHARACTERS):
            raise ValueError("a tree has more or fewer arrays than it should")
        trees = [arrays[start : start + len(_CHARACTERS)] for start in range(0, len(arrays), len(_CHARACTERS))]
        content = json.loads(head + opening + closing + tail, object_pairs_hook=_distinct)
        learner, version = content["learner"], content["version"]
        self.check_features(int(learner["learner_model_param"]["num_feature"]), features)
        if content != {"learner": _learner(len(trees), learner["objective"], features), "version": version}:
            raise ValueError("settings other than those of trees that gar trains")
        if learner["objective"]["name"] not in _LOSSES.values() or [type(number) for number in version] != [int] * 3:
            raise ValueError(f"objective {learner['objective']['name']!r} or version {version!r} is unknown")
        _check_arrays(trees, body, features)

    def predict(self, booster: Any, x: np.ndarray, rounds: int | None = None) -> np.ndarray:
        return np.asarray(booster.inplace_predict(x, iteration_range=(0, rounds or 0)), dtype=np.float64)


def _params(settings: TreeSettings, min_child_weight: float) -> dict[str, Any]:
    return {
        "max_depth": settings.max_depth,
        "learning_rate": settings.learning_rate,
        "min_child_weight": min_child_weight,
        "seed": settings.seed,
        "nthread": settings.threads,
        "disable_default_eval_metric": True,
    }


def _zeros(array: re.Match[str]) -> str:
    return f"{array[1]}[{','.join(['0E0'] * (array[2].count(',') + 1))}]"


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; a key that stands twice may mean the first value to one reader, the second to another."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def _learner(trees: int, objective: Any, features: int) -> dict[str, Any]:
    """Return what a file holds beside this number of trees."""
    model = {
        "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(trees)},
        "iteration_indptr": list(range(trees + 1)),
        "tree_info": [0] * trees,
        "trees": [],
    }
    param = {"base_score": "[0E0]", "boost_from_average": "0", "num_class": "0", "num_feature": str(features), "num_target": "1"}
    return {
        "attributes": {},
        "feature_names": [],
        "feature_types": [],
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": param,
        "objective": objective,
    }


def _check_arrays(trees: Sequence[Sequence[str]], text: str, features: int) -> None:
    """Raise ValueError unless these arrays are those of trees with splits on numbers alone, and the text has nothing else."""
    sizes = [arrays[0].count(",") + 1 for arrays in trees]
    pairs = enumerate(zip(trees, sizes, strict=True))
    if text != ",".join(_TREE.format(*arrays, index=index, features=features, nodes=nodes) for index, (arrays, nodes) in pairs):
        raise ValueError("something else than trees among the trees")
    for arrays, characters in zip(zip(*trees, strict=True), _CHARACTERS, strict=True):
        if characters and [array.count(",") + 1 for array in arrays] != sizes:
            raise ValueError("an array of a tree has another length than its number of nodes")
        if "".join(arrays).encode().translate(None, characters):
            raise ValueError("an array of a tree holds something else than numbers")
    nodes = np.array(sizes)
    left, right, parents, split = (_indices([arrays[column] for arrays in trees], sum(sizes)) for column in (6, 9, 8, 11))
    tree = np.repeat(np.arange(len(nodes)), nodes)
    start = (np.cumsum(nodes) - nodes)[tree]
    node = np.arange(len(tree)) - start
    is_split = (left != -1) | (right != -1)
    found = check_trees(nodes, np.stack([tree, node, left, right])[:, is_split])
    if not np.array_equal(parents, np.where(node == 0, _NO_NODE, found - start)) or split.min() < 0 or split.max() >= features:
        raise ValueError("a tree has a parent or a feature that does not exist")


def _indices(arrays: Sequence[str], count: int) -> np.ndarray:
    text = ",".join(arrays)
    try:
        found = np.fromstring(text, dtype=np.int64, sep=",")
    except DeprecationWarning:  # earlier releases of numpy return what comes before the mistake, and warn
        found = np.array([])
    if len(found) != count or "-," in f"{text},":
        raise ValueError("an index is no whole number")
    return found
