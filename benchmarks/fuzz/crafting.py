"""Saved models that were edited by someone who knows the format: the checksum is right, what it protects is not."""

import json
from collections.abc import Callable
from typing import Any

import torch
from safetensors.torch import load

from gar.app.models.file import UNSIGNED, description_text, to_bytes

Edit = Callable[[str], str]
"""From the text of trees, or of a description, to that of others."""


def crafted(content: bytes, *, description: Edit = str, trees: Edit = str) -> bytes:
    """Return the file with another description, or with other trees of the first fold and target."""
    text, tensors = description(description_text(content)), load(content)
    if "trees-0-0" in tensors:
        edited = trees(bytes(tensors["trees-0-0"].numpy()).decode()).encode()
        tensors["trees-0-0"] = torch.frombuffer(bytearray(edited), dtype=torch.uint8)
    checksum = text.partition('"sha256":"')[2][: len(UNSIGNED)]
    return to_bytes(text.replace(checksum, UNSIGNED, 1) if checksum else text, tensors)


def _xgboost(edit: Callable[[dict[str, Any], dict[str, Any]], object]) -> Edit:
    """Return an edit that gets the learner and its second tree."""

    def edited(text: str) -> str:
        content = json.loads(text)
        learner = content["learner"]
        edit(learner, learner["gradient_booster"]["model"]["trees"][1])
        return json.dumps(content, separators=(",", ":"))

    return edited


def _put(name: str, index: int, value: Any) -> Edit:
    return _xgboost(lambda learner, tree: tree[name].__setitem__(index, value))


def _model(learner: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = learner["gradient_booster"]["model"]
    return found


def _deep_xgboost(learner: dict[str, Any], tree: dict[str, Any], depth: int = 50_000) -> None:
    """Replace the tree by one in which every second child is split again."""
    inner, nodes = [2 * level for level in range(depth)], 2 * depth + 1
    leaf = set(range(nodes)) - set(inner)
    tree["left_children"] = [-1 if node in leaf else node + 1 for node in range(nodes)]
    tree["right_children"] = [-1 if node in leaf else node + 2 for node in range(nodes)]
    tree["parents"] = [2**31 - 1, *(node // 2 * 2 - (0 if node % 2 else 2) for node in range(1, nodes))]
    for name in ("base_weights", "loss_changes", "split_conditions", "sum_hessian"):
        tree[name] = [0.5] * nodes
    for name in ("split_indices", "split_type", "default_left"):
        tree[name] = [0] * nodes
    tree["tree_param"]["num_nodes"] = str(nodes)


XGBOOST: dict[str, Edit] = {
    "a child that is its own parent": _put("left_children", 0, 0),
    "a cycle below the root": _put("right_children", 1, 1),
    "a cycle from a leaf": _xgboost(
        lambda learner, tree: [tree[name].__setitem__(-1, 0) for name in ("left_children", "right_children")]
    ),
    "a child with two parents": _put("left_children", 0, 2),
    "a child beyond the nodes": _put("left_children", 0, 10**6),
    "a negative child": _put("right_children", 0, -7),
    "a child beyond 64 bits": _put("right_children", 0, 2**70),
    "a child that is no whole number": _put("left_children", 0, 1.5),
    "a child that is text": _put("left_children", 0, "1"),
    "a child that is null": _put("left_children", 0, None),
    "a wrong parent": _put("parents", 1, 10**6),
    "a feature that does not exist": _put("split_indices", 0, 10**6),
    "a negative feature": _put("split_indices", 0, -1),
    "a split on categories": _put("split_type", 0, 1),
    "a list in a list": _put("split_conditions", 0, [1.0]),
    "too few thresholds": _xgboost(lambda learner, tree: tree["split_conditions"].pop()),
    "too few children": _xgboost(lambda learner, tree: tree["left_children"].pop()),
    "no nodes": _xgboost(
        lambda learner, tree: tree.update({name: [] for name, values in tree.items() if isinstance(values, list)})
    ),
    "no trees": _xgboost(lambda learner, tree: _model(learner)["trees"].clear()),
    "another number of nodes": _xgboost(lambda learner, tree: tree["tree_param"].update(num_nodes="1000000")),
    "leaves of several targets": _xgboost(lambda learner, tree: tree["tree_param"].update(size_leaf_vector="9")),
    "deleted nodes": _xgboost(lambda learner, tree: tree["tree_param"].update(num_deleted="3")),
    "another number of trees": _xgboost(lambda learner, tree: _model(learner)["gbtree_model_param"].update(num_trees="9999999")),
    "rounds beyond the trees": _xgboost(lambda learner, tree: _model(learner).update(iteration_indptr=[0, 10**6])),
    "a tree of another class": _xgboost(lambda learner, tree: _model(learner)["tree_info"].__setitem__(0, 5)),
    "many classes": _xgboost(lambda learner, tree: learner["learner_model_param"].update(num_class="1000")),
    "a start that is no number": _xgboost(lambda learner, tree: learner["learner_model_param"].update(base_score="[x]")),
    "a linear booster": _xgboost(lambda learner, tree: learner["gradient_booster"].update(name="gblinear")),
    "another objective": _xgboost(lambda learner, tree: learner["objective"].update(name="rank:ndcg")),
    "a missing array": _xgboost(lambda learner, tree: tree.pop("default_left")),
    "an unknown array": _xgboost(lambda learner, tree: tree.update(more=[1])),
    "an array twice": lambda text: text.replace('"left_children":[', '"left_children":[9,9],"left_children":[', 1),
    "a deep tree": _xgboost(_deep_xgboost),
    "deep JSON": lambda text: '{"learner":' * 100_000,
    "deep JSON among the trees": lambda text: text.replace('"trees":[', '"trees":[' + "[" * 100_000, 1),
    "nothing": lambda text: " ",
}


def _line(name: str, value: str) -> Edit:
    """Return an edit that replaces the first line of this name, and mends the sizes of trees."""

    def edited(text: str) -> str:
        before, _, rest = text.partition(f"{name}=")
        return _sized(f"{before}{name}={value}\n{rest.partition(chr(10))[2]}")

    return edited


def _first(name: str, value: str) -> Edit:
    """Return an edit that replaces the first number of the first line of this name."""

    def edited(text: str) -> str:
        before, _, rest = text.partition(f"\n{name}=")
        return _sized(f"{before}\n{name}={value} {rest.partition(' ')[2]}")

    return edited


def _sized(text: str) -> str:
    head, _, rest = text.partition("\n\n")
    sizes = " ".join(str(len(tree) + 3) for tree in rest.split("\n\n\n")[:-1])
    return f"{head.partition('tree_sizes=')[0]}tree_sizes={sizes}\n\n{rest}"


def _deep_lightgbm(text: str, depth: int = 50_000) -> str:
    """Replace all trees by one in which every right child is split again."""
    per_split, per_leaf = " ".join(["0"] * depth), " ".join(["1"] * (depth + 1))
    lines = {
        **{"Tree": "0", "num_leaves": str(depth + 1), "num_cat": "0"},
        **dict.fromkeys(("split_feature", "threshold"), per_split),
        "decision_type": per_split.replace("0", "2"),
        "left_child": " ".join(str(-1 - node) for node in range(depth)),
        "right_child": " ".join([*(str(node + 1) for node in range(depth - 1)), str(-1 - depth)]),
        **{"leaf_value": per_leaf, "is_linear": "0", "shrinkage": "1"},
    }
    tree = "".join(f"{name}={value}\n" for name, value in lines.items())
    return _sized(f"{text.partition(chr(10) * 2)[0]}\n\n{tree}\n\nend of trees\n")


LIGHTGBM: dict[str, Edit] = {
    "a child that is its own parent": _first("left_child", "0"),
    "a child beyond the splits": _first("left_child", "1000000"),
    "a leaf that does not exist": _first("right_child", "-1000000"),
    "a leaf by the index of a split": _first("left_child", "7"),
    "a child beyond 64 bits": _first("left_child", "9" * 30),
    "a child that is no whole number": _first("left_child", "1.5"),
    "a child with two signs": _first("left_child", "1-2"),
    "a feature that does not exist": _first("split_feature", "1000000"),
    "a negative feature": _first("split_feature", "-1"),
    "a split on categories": _first("decision_type", "1"),
    "a threshold that is text": _first("threshold", "oak"),
    "a threshold that is no number": _first("threshold", "1.2.3"),
    "a threshold with two signs": _first("threshold", "--1"),
    "too few thresholds": _line("threshold", "1"),
    "too few leaves": _line("leaf_value", "1"),
    "no children": _line("left_child", ""),
    "more leaves than there are": _line("num_leaves", "1000000"),
    "fewer leaves than there are": _line("num_leaves", "2"),
    "a negative number of leaves": _line("num_leaves", "-1"),
    "categories without values": _line("num_cat", "3"),
    "a linear tree": _line("is_linear", "1"),
    "many classes": _line("num_class", "1000"),
    "no trees in a round": _line("num_tree_per_iteration", "0"),
    "more features": _line("max_feature_idx", "1000000"),
    "another objective": lambda text: text.replace("\nfeature_names", "\nobjective=multiclass num_class:1000\nfeature_names", 1),
    "sizes beyond the text": lambda text: text.replace("tree_sizes=", "tree_sizes=99999999 ", 1),
    "no sizes": lambda text: text.replace("tree_sizes=", "sizes=", 1),
    "a missing line": lambda text: _sized(text.replace("\nleft_child=", "\nleft=", 1)),
    "a line twice": lambda text: _sized(text.replace("\nleft_child=", "\nleft_child=9 9\nleft_child=", 1)),
    "parameters that are none": lambda text: f"{text}\nparameters:\n[x]\nend of parameters\n",
    "a deep tree": _deep_lightgbm,
    "half of the text": lambda text: text[: len(text) // 2],
    "nothing": lambda text: " ",
}
CRAFTED = {"xgboost": XGBOOST, "lightgbm": LIGHTGBM}
