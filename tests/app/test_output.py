"""Report and model in a folder are those of one comparison, whoever else writes and whatever is killed."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gar.app.models import TableModel, finish_output, load_model, replacing_output
from gar.errors import InputError
from gar.estimators.base import Member
from gar.stack import Layout, StackedMLP
from gar.stack.network import initial_weights
from tests.encoding.test_encoder import fitted, mixed


def model_of(target: str) -> TableModel:
    encoder = fitted(mixed())
    layout = Layout((len(encoder.feature_names), 1))
    networks = StackedMLP(layout, initial_weights(layout, [1]))
    return TableModel(members=[[Member(networks, encoder, None, None)]], encoders=[encoder], targets=[target])


def write(folder: Path, name: str, *, with_model: bool = True) -> None:
    if with_model:
        model_of(name).save(folder / "model")
    time.sleep(0.01)
    (folder / "figures").mkdir()
    (folder / "figures" / "1.svg").write_text(name)
    (folder / "report.html").write_text(name)


def replace_output(out: Path, name: str, *, with_model: bool = True) -> None:
    with replacing_output(out) as folder:
        write(folder, name, with_model=with_model)


def found(out: Path) -> set[str]:
    """Return the names that the files of the folder hold."""
    texts = {(out / name).read_text() for name in ("report.html", "figures/1.svg")}
    return texts | ({load_model(out / "model").targets[0]} if (out / "model").exists() else {"no model"})


def names(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir() if not path.name.startswith(".gar-lock"))


def test_everything_is_replaced_and_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for name in ("a", "b"):
        replace_output(tmp_path, name)
        assert found(tmp_path) == {name}
    assert names(tmp_path) == ["figures", "model", "notes.txt", "report.html"]
    replace_output(tmp_path, "c", with_model=False)
    assert found(tmp_path) == {"c", "no model"}


def test_after_an_error_all_is_as_before(tmp_path: Path) -> None:
    def fail() -> None:
        with replacing_output(tmp_path) as folder:
            write(folder, "b")
            raise KeyboardInterrupt

    replace_output(tmp_path, "a")
    with pytest.raises(KeyboardInterrupt):
        fail()
    assert found(tmp_path) == {"a"}
    assert names(tmp_path) == ["figures", "model", "report.html"]


def test_what_a_killed_process_had_not_completed_is_dropped(tmp_path: Path) -> None:
    replace_output(tmp_path, "a")
    (tmp_path / ".gar-unfinished" / "model").mkdir(parents=True)
    (tmp_path / ".gar-unfinished" / "report.html").write_text("b")
    finish_output(tmp_path)
    assert found(tmp_path) == {"a"}
    replace_output(tmp_path, "c")
    assert found(tmp_path) == {"c"}
    assert names(tmp_path) == ["figures", "model", "report.html"]


@pytest.mark.parametrize("moved", ["", "figures/1.svg", "model/model.safetensors"])
def test_what_a_killed_process_had_completed_is_moved_by_the_next(tmp_path: Path, moved: str) -> None:
    """It was killed before it moved anything, or after one file or the other."""
    replace_output(tmp_path, "a")
    (tmp_path / ".gar-complete").mkdir()
    write(tmp_path / ".gar-complete", "b")
    if moved:
        (tmp_path / ".gar-complete" / moved).replace(tmp_path / moved)
    finish_output(tmp_path)
    assert found(tmp_path) == {"b"}
    assert names(tmp_path) == ["figures", "model", "report.html"]


def test_writers_that_meet_leave_the_output_of_one(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        for _ in range(10):
            for writer in [pool.submit(replace_output, tmp_path, name) for name in ("a", "b")]:
                writer.result()
            assert found(tmp_path) in ({"a"}, {"b"})


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("old")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.html").symlink_to(tmp_path / "elsewhere")
    replace_output(tmp_path / "out", "a")
    assert (tmp_path / "out" / "report.html").is_symlink()
    assert (tmp_path / "elsewhere").read_text() == "a"


def test_a_folder_may_be_on_another_disk(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system here")
    with TemporaryDirectory(dir=memory) as figures:
        (tmp_path / "figures").symlink_to(figures)
        replace_output(tmp_path, "a")
        assert found(tmp_path) == {"a"}
        assert (Path(figures) / "1.svg").read_text() == "a"
    assert names(tmp_path) == ["figures", "model", "report.html"]


@pytest.mark.parametrize(("name", "kind"), [("figures", "file"), ("model", "file"), ("report.html", "folder")])
def test_what_stands_in_the_way_is_named_and_nothing_is_written(tmp_path: Path, name: str, kind: str) -> None:
    if kind == "file":
        (tmp_path / name).write_text("mine")
    else:
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=f"{name} is a {kind}, where a .* is to be written; move it away"):
        replace_output(tmp_path, "a")
    assert names(tmp_path) == [name]
