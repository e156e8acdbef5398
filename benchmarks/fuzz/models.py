"""Saved models that are damaged, edited or crafted: each gives one clear error, or predicts as before."""

import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.fuzz import Attempt
from benchmarks.fuzz.children import CRASH, outcomes
from benchmarks.fuzz.crafting import CRAFTED, crafted
from gar.app.compare import Options, compare_table, source_of_frame
from gar.app.models import Model, load_model
from gar.app.models.file import description_text
from gar.app.models.trees import TargetModel, TreeModel
from gar.boosting.library import RoundSettings, tree_library
from gar.encoding import Encoder
from gar.errors import InputError
from gar.search import RunContext

LIBRARIES = ("mlp", "xgboost", "lightgbm")
TITLES = {"mlp": "networks", "xgboost": "trees of XGBoost", "lightgbm": "trees of LightGBM"}
EDITS = 1000
ROUNDS = 6
REFUSED, SAME, CHANGED, TRACEBACK = "refused", "same predictions", "changed predictions", "traceback"


@cache
def table() -> pd.DataFrame:
    """Return numbers, words and gaps."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(120, 2))
    frame = pd.DataFrame({"size": x[:, 0], "weight": x[:, 1], "colour": np.array(["red", "blue", "green"])[np.arange(120) % 3]})
    frame.loc[::9, "weight"] = np.nan
    return frame.assign(price=x.sum(1))


@cache
def saved(library: str) -> bytes:
    """Return the file of a small model of two folds."""
    with tempfile.TemporaryDirectory() as folder:
        (_networks() if library == "mlp" else _trees(library)).save(folder)
        return (Path(folder) / "model.safetensors").read_bytes()


def _networks() -> Model:
    options = Options(losses=("gar",), folds=2, epochs=2, learning_rates=(0.01,), weight_decays=(0.0,), hidden_sizes=(16, 8))
    model = compare_table(source_of_frame(table(), targets=["price"]), options, RunContext(workers=1)).model
    assert model is not None
    return model


def _trees(library: str) -> Model:
    """Return trees of few rounds, so that every bit can be flipped."""
    features, labels = table().drop(columns="price"), table()["price"].to_numpy()
    adapter, encoder = tree_library(library), Encoder.infer(features)
    encoder = encoder.fit(encoder.codes(features), labels[:, None])
    settings = RoundSettings(loss="gar", max_depth=3, learning_rate=0.3, seed=1, subsample=0.8)
    rounds = islice(adapter.train_rounds(settings, encoder.transform(features), labels, []), ROUNDS)
    trees = [TargetModel(adapter.to_text(booster), 0.5, 2.0) for _, booster in rounds][-2:]
    return TreeModel(library=library, trees=[[one] for one in trees], encoders=[encoder, encoder], targets=["price"])


def outcome(content: bytes, expected: bytes) -> str:
    """Return what happens to someone who loads this file and predicts with it."""
    with tempfile.TemporaryDirectory() as folder:
        return outcome_in(Path(folder), content, expected)


def outcome_in(folder: Path, content: bytes, expected: bytes) -> str:
    (folder / "model.safetensors").write_bytes(content)
    try:
        found = load_model(folder).predict(table())
    except InputError as error:
        return REFUSED if "\n" not in str(error) else TRACEBACK
    except Exception:
        return TRACEBACK
    return SAME if found.tobytes() == expected else CHANGED


def flips(content: bytes, expected: bytes, bits: Sequence[int]) -> Counter[str]:
    with tempfile.TemporaryDirectory() as folder:
        return Counter(outcome_in(Path(folder), flipped(content, bit), expected) for bit in bits)


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def predictions(content: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.safetensors").write_bytes(content)
        return load_model(folder).predict(table()).tobytes()


# ---- Edits of a description

VALUES: tuple[Any, ...] = (None, True, 0, -1, 2**70, 1e308, "", "spell", [], [1], {}, {"a": 1}, [[[]]], ["x", "x"])


def edited(text: str, seed: int) -> str:
    """Return a description in which one thing was removed, replaced, repeated or added."""
    about, choose = json.loads(text), random.Random(seed)
    places = list(_places(about))
    while True:
        parent, key = choose.choice(places)
        edit = choose.choice((_replace, _replace, _remove, _repeat, _add, _infinite))
        if (changed := edit(about, parent, key, choose)) != text:
            return changed


def _places(part: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        if key != "sha256":
            yield part, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _text(about: Any) -> str:
    return json.dumps(about, separators=(",", ":"))


def _replace(about: Any, parent: Any, key: Any, choose: random.Random) -> str:
    parent[key] = choose.choice(VALUES)
    return _text(about)


def _remove(about: Any, parent: Any, key: Any, choose: random.Random) -> str:
    del parent[key]
    return _text(about)


def _repeat(about: Any, parent: Any, key: Any, choose: random.Random) -> str:
    if isinstance(parent, list):
        parent.append(parent[key])
    return _text(about)


def _add(about: Any, parent: Any, key: Any, choose: random.Random) -> str:
    if isinstance(parent, dict):
        parent["spell"] = choose.choice(VALUES)
    else:
        parent.insert(key, choose.choice(VALUES))
    return _text(about)


def _infinite(about: Any, parent: Any, key: Any, choose: random.Random) -> str:
    parent[key] = "INFINITE"
    return _text(about).replace('"INFINITE"', choose.choice(("1e999", "-1e999", "NaN", "1" * 5000)))


def edits(content: bytes, expected: bytes, seeds: Sequence[int], *, right_checksum: bool) -> Counter[str]:
    return Counter(outcome(_edit(content, seed, right_checksum), expected) for seed in seeds)


def _edit(content: bytes, seed: int, right_checksum: bool) -> bytes:
    """Return the file with an edited description; without a right checksum, as an editor of text would leave it."""
    text = description_text(content)
    if right_checksum:
        return crafted(content, description=lambda text: edited(text, seed))
    length = int.from_bytes(content[:8], "little")
    before, after = (json.dumps(one)[1:-1].encode() for one in (text, edited(text, seed)))
    header = content[8 : 8 + length].replace(before, after, 1)
    assert header != content[8 : 8 + length]
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


# ---- Crafted trees


def crafts(library: str, content: bytes, expected: bytes, names: Sequence[str]) -> Counter[str]:
    return Counter(outcome(crafted(content, trees=CRAFTED[library][name]), expected) for name in names)


def number_edits(content: bytes, expected: bytes, seeds: Sequence[int]) -> Counter[str]:
    return Counter(outcome(crafted(content, trees=partial(_other_numbers, seed=seed)), expected) for seed in seeds)


def _other_numbers(text: str, seed: int) -> str:
    """Return trees in which some characters of numbers were replaced by others."""
    choose, letters = random.Random(seed), list(text)
    digits = [index for index, letter in enumerate(letters) if letter in "-+.0123456789eE"]
    for index in choose.choices(digits, k=choose.choice((1, 1, 3, 10))):
        letters[index] = choose.choice("-+.0123456789eE, ")
    return "".join(letters)


def attempts() -> Iterator[Attempt]:
    for library in LIBRARIES:
        content, expected = saved(library), predictions(saved(library))
        bits = range(8 * len(content))
        found = outcomes(partial(flips, content, expected), bits, at_once=20_000)
        yield _attempt(f"every bit of a model of {TITLES[library]} flipped ({len(content):,} bytes)", found)
    for right_checksum, what in ((False, "random edits of a description"), (True, "the same edits, with a right checksum")):
        total: Counter[str] = Counter()
        for library, count in zip(LIBRARIES, (EDITS - 2 * (EDITS // 4), EDITS // 4, EDITS // 4), strict=True):
            content, expected = saved(library), predictions(saved(library))
            work: Callable[[Sequence[int]], Counter[str]] = partial(edits, content, expected, right_checksum=right_checksum)
            total += outcomes(work, range(count), at_once=250)
        yield _attempt(what, total, is_crafted=right_checksum)
    for library, edits_of_library in CRAFTED.items():
        content, expected = saved(library), predictions(saved(library))
        found = outcomes(partial(crafts, library, content, expected), list(edits_of_library), at_once=50)
        yield _attempt(f"{TITLES[library]} crafted to crash, with a right checksum", found)
        found = outcomes(partial(number_edits, content, expected), range(EDITS), at_once=250)
        yield _attempt(f"{TITLES[library]} with random characters in numbers, with a right checksum", found, is_crafted=True)


def _attempt(what: str, found: Counter[str], *, is_crafted: bool = False) -> Attempt:
    """Return the row. Whoever can compute a checksum may write another valid model, whose predictions are its own."""
    changed = 0 if is_crafted else found[CHANGED]
    return Attempt(what, found.total(), silent_changes=changed, tracebacks=found[TRACEBACK], crashes=found[CRASH])
