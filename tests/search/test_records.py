"""What is on disk: exact, checked, and never mixed up."""

import io
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gar.errors import InputError
from gar.search import RecordWarning, RunContext, search as search_in_context
from gar.search.fingerprints import fingerprint, run_key
from gar.search.records import DamagedError, from_bytes, to_bytes
from gar.stack import Fold, History, Scaling, StackData, TrainSettings, train
from tests.search.problem import SETTINGS, assert_same, record_files, recorded_models, search, small_data, small_models, start


@pytest.fixture(scope="module")
def expected() -> History:
    return train(small_data(), small_models(), SETTINGS)


def run(folder: Path, **options: Any) -> History:
    return search(small_data(), small_models(), SETTINGS, records=folder, **options)


# ---- what is finished is not done again


@pytest.mark.parametrize(
    "options", [{}, {"workers": 2}, {"chunk_size": 1}, {"workers": 2, "chunk_size": 5, "backend": "threading"}]
)
def test_other_chunks_and_workers_reuse_everything(tmp_path: Path, options: dict, expected: History) -> None:
    assert_same(run(tmp_path, chunk_size=7), expected)
    before = record_files(tmp_path)
    assert len(before) == 6
    assert_same(run(tmp_path, **options), expected)
    assert record_files(tmp_path) == before


def test_larger_search_trains_only_what_is_new(tmp_path: Path, expected: History) -> None:
    some = np.random.default_rng(0).permutation(36)[:20]
    search(small_data(), small_models().take(some), SETTINGS, records=tmp_path, chunk_size=6)
    assert_same(run(tmp_path, chunk_size=5, workers=2), expected)
    models = [model for path in record_files(tmp_path) for model in recorded_models(path)]
    assert len(models) == len(set(models)) == 36


def test_same_search_makes_the_same_files(tmp_path: Path) -> None:
    run(tmp_path / "one", chunk_size=7)
    run(tmp_path / "other", chunk_size=7, workers=2)
    one, other = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")}
        for folder in (tmp_path / "one", tmp_path / "other")
    )
    assert one == other


def test_two_searches_at_once_in_one_folder(tmp_path: Path) -> None:
    """They may do the same work, but do no harm."""
    processes = [start(tmp_path, "--epochs", "5", "--chunk-size", size) for size in ("7", "9")]
    assert [process.communicate()[1] for process in processes] == ["", ""]
    assert [process.returncode for process in processes] == [0, 0]
    models = {model for path in record_files(tmp_path) for model in recorded_models(path)}
    assert len(models) == 100


def test_folder_as_text(tmp_path: Path, expected: History) -> None:
    context = RunContext(records=str(tmp_path), workers=1)
    assert_same(search_in_context(small_data(), small_models(), SETTINGS, context=context), expected)
    assert record_files(tmp_path)
    with context.stopwatch("key"):
        pass
    assert (tmp_path / "key.seconds").is_file()


def test_records_explain_themselves(tmp_path: Path) -> None:
    run(tmp_path)
    (folder,) = tmp_path.iterdir()
    about = json.loads((folder / "run.json").read_text())
    assert about["run"].startswith(folder.name)
    assert about["settings"]["epochs"] == SETTINGS.epochs
    with np.load(record_files(tmp_path)[0], allow_pickle=False) as file:
        assert json.loads(str(file["header"]))["run"] == about["run"]
        assert file["history.metrics"].dtype == np.float64


# ---- what is damaged is noticed


def text_instead(_: bytes) -> bytes:
    return b"Dear diary"


def plain_npz(_: bytes) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, a=np.zeros(100))
    return buffer.getvalue()


def other_run(content: bytes) -> bytes:
    arrays = from_bytes(content)
    return to_bytes({**arrays, "header": np.array(json.dumps({"run": "0" * 64}))})


def without(name: str) -> Callable[[bytes], bytes]:
    def damage(content: bytes) -> bytes:
        return to_bytes({key: value for key, value in from_bytes(content).items() if not key.startswith(name)})

    return damage


def wrong_shape(content: bytes) -> bytes:
    arrays = from_bytes(content)
    return to_bytes({**arrays, "history.metrics": arrays["history.metrics"][:, :1]})


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "flipped": lambda content: content[:500] + bytes([content[500] ^ 1]) + content[501:],
    "truncated": lambda content: content[: len(content) // 2],
    "almost whole": lambda content: content[:-1],
    "longer": lambda content: content + b"\0",
    "empty": lambda content: b"",
    "text": text_instead,
    "plain npz": plain_npz,
    "other run": other_run,
    "no header": without("header"),
    "no models": without("model."),
    "no metrics": without("history.metrics"),
    "wrong shape": wrong_shape,
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_record_is_named_kept_and_recomputed(tmp_path: Path, name: str, expected: History) -> None:
    run(tmp_path, chunk_size=7)
    files = record_files(tmp_path)
    good = files[2].read_bytes()
    bad = DAMAGES[name](good)
    files[2].write_bytes(bad)
    with pytest.warns(RecordWarning, match=files[2].name) as caught:
        assert_same(run(tmp_path, chunk_size=7), expected)
    assert len(caught) == 1
    assert files[2].with_name(files[2].name + ".corrupt").read_bytes() == bad
    assert files[2].read_bytes() == good
    assert record_files(tmp_path) == files
    assert_same(run(tmp_path), expected)  # and no warning any more


def test_record_damaged_twice_is_kept_twice(tmp_path: Path) -> None:
    for _ in range(3):
        run_ignoring(tmp_path)
        record_files(tmp_path)[0].write_bytes(b"")
    run_ignoring(tmp_path)
    assert len(list(tmp_path.rglob("*.corrupt"))) == 3


def run_ignoring(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordWarning)
        run(folder, chunk_size=36)


def test_every_single_byte_counts() -> None:
    content = to_bytes({"a": np.arange(5.0), "b": np.array("text")})
    arrays = from_bytes(content)
    assert arrays["a"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert str(arrays["b"]) == "text"
    for index in range(len(content)):
        for damaged in (content[:index], content[:index] + bytes([content[index] ^ 0x10]) + content[index + 1 :]):
            with pytest.raises(DamagedError):
                from_bytes(damaged)


def test_objects_are_neither_written_nor_read() -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        to_bytes({"a": np.array([object()])})


def test_files_of_others_are_left_alone(tmp_path: Path, expected: History) -> None:
    run(tmp_path)
    (folder,) = tmp_path.iterdir()
    fresh, stale = folder / "x.npz.1.tmp", folder / "x.npz.2.tmp"
    for path in (fresh, stale, folder / "notes.txt", tmp_path / "notes.npz"):
        path.write_text("mine")
    os.utime(stale, (time.time() - 7200, time.time() - 7200))
    assert_same(run(tmp_path), expected)
    assert fresh.exists()  # another process may be writing it
    assert not stale.exists()  # nobody is
    assert (folder / "notes.txt").read_text() == (tmp_path / "notes.npz").read_text() == "mine"


# ---- what is different has another name


def changed_data() -> dict[str, StackData]:
    data = small_data()
    folds = list(data.folds)
    x, y, weight = data.x.clone(), data.y.clone(), torch.ones(100)
    x[5, 1] += 1e-12
    y[7, 0] += 1e-12
    first = folds[0]
    assert first.labels is not None
    swapped = replace(first, train=first.train[::-1].copy())
    scaled = replace(first, labels=Scaling(first.labels.center, first.labels.scale * 2))
    less = Fold(first.train, first.valid[:-1], first.test, None, first.labels)
    return {
        "same": StackData(data.x.clone(), data.y.clone(), folds),
        "x": StackData(x, data.y, folds),
        "y": StackData(data.x, y, folds),
        "dtype": StackData(data.x.float(), data.y, folds),
        "weight": StackData(data.x, data.y, folds, sample_weight=weight),
        "order": StackData(data.x, data.y, [swapped, *folds[1:]]),
        "scaling": StackData(data.x, data.y, [scaled, *folds[1:]]),
        "rows": StackData(data.x, data.y, [less, *folds[1:]]),
        "folds": StackData(data.x, data.y, folds[:2]),
        "features": StackData(data.x, data.y, folds, scale_features=True),
    }


CHANGES: list[dict[str, Any]] = [
    {"hidden_sizes": (16, 8)},
    {"epochs": 5},
    {"batch_size": 31},
    {"drop_last": True},
    {"optimizer": "adam"},
    {"momentum": 0.9 + 1e-15},
    {"betas": (0.9, 0.99)},
    {"eps": 1e-7},
    {"schedule": "cosine"},
    {"milestones": (3,)},
    {"loss": "huber"},
    {"loss_options": {"components": ("mae", "diff")}},
    {"loss_options": {"components": ("mae",)}},
    {"loss_options": {"weights": np.array([1.0, 0.5, 1.0])}},
    {"finetune_loss": "mse"},
    {"patience": 2},
    {"monitor": "rmse"},
    {"keep_best": "rmse"},
    {"keep_final": False},
    {"activation": "silu"},
    {"feature_gates": True},
    {"even_batches": True},
    {"loss": "rnc", "pretrain_epochs": 1},
]


def test_every_setting_is_among_the_changes() -> None:
    assert {name for change in CHANGES for name in change} == {field.name for field in fields(TrainSettings)}


def test_one_number_makes_another_run() -> None:
    keys = {name: run_key(data, SETTINGS, device="cpu", dtype=torch.float32) for name, data in changed_data().items()}
    assert keys.pop("same") == run_key(small_data(), SETTINGS, device=torch.device("cpu"), dtype=torch.float32)
    same = run_key(small_data(), SETTINGS, device="cpu", dtype=torch.float32)
    settings = [run_key(small_data(), replace(SETTINGS, **change), device="cpu", dtype=torch.float32) for change in CHANGES]
    others = [
        run_key(small_data(), SETTINGS, device="cpu", dtype=torch.float64),
        run_key(small_data(), SETTINGS, device="cuda", dtype=torch.float32),
    ]
    everything = [same, *keys.values(), *settings, *others]
    assert len(set(everything)) == len(everything)


def test_key_stays_the_same_in_another_process() -> None:
    """And after training: nothing that is merely remembered takes part."""
    data = small_data()
    train(data, small_models(), SETTINGS)
    code = (
        "import torch\nfrom gar.search.fingerprints import run_key\nfrom tests.search.problem import SETTINGS, small_data\n"
        "print(run_key(small_data(), SETTINGS, device='cpu', dtype=torch.float32))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == run_key(data, SETTINGS, device="cpu", dtype=torch.float32)


@pytest.mark.parametrize("name", ["x", "y", "order"])
def test_changed_data_never_meet_old_records(tmp_path: Path, name: str) -> None:
    run(tmp_path)
    data = changed_data()[name]
    assert_same(search(data, small_models(), SETTINGS, records=tmp_path), train(data, small_models(), SETTINGS))
    assert len(list(tmp_path.iterdir())) == 2


def test_structures_do_not_run_together() -> None:
    values = [(), ((),), ("ab", "c"), ("a", "bc"), (1, 2), ((1,), 2), (1, (2,)), {"a": 1}, ("a", 1), None, "None", 1, 1.0, True]
    arrays = [
        np.zeros(2),
        np.zeros((1, 2)),
        np.zeros(4, np.float32),
        torch.zeros(3),
        torch.zeros(3, dtype=torch.bfloat16),
        [0.0, 0.0],
    ]
    keys = [fingerprint(value) for value in [*values, *arrays]]
    assert len(set(keys)) == len(keys)
    assert fingerprint(np.float64(0.1)) == fingerprint(0.1)
    assert fingerprint(np.zeros((4, 4))[:, ::2]) == fingerprint(np.zeros((4, 2)))


@pytest.mark.parametrize("value", [torch.Generator(), print, np.array([object()])])
def test_settings_without_a_fingerprint_are_refused(tmp_path: Path, value: object) -> None:
    settings = TrainSettings(loss="ranksim", loss_options={"gamma": value}, batch_size=32)
    with pytest.raises(InputError, match=r"loss_options\.gamma"):
        search(small_data(), small_models(), settings, records=tmp_path)


# ---- folders that cannot be used


def test_folder_below_a_file_and_file_as_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="is not a folder that can be written to"):
            run(folder)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder in which nobody may write")
def test_folder_that_cannot_be_written_to() -> None:
    with pytest.raises(InputError, match=r"^'/proc/self/records', where records .*; choose another folder$"):
        run(Path("/proc/self/records"))


@pytest.mark.parametrize("options", [(), ("--workers", "2")])
def test_full_disk(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A limit on the size of files stands for it: writing fails half-way, and says so."""
    process = start(tmp_path, "--epochs", "20", "--chunk-size", "10", "--largest-file", "4000", *options)
    error = process.communicate()[1]
    assert process.returncode == 1
    assert "RecordError: cannot write record" in error
    assert "Run the same search again" in error
    assert [path.name for path in tmp_path.rglob("*.*")] == ["run.json"]
