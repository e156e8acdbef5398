"""Descriptions of data sets hold, and their files are looked for in the right folders."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from gar.errors import InputError
from gar_reproduction.data import catalog, files, loading, splits
from gar_reproduction.data.catalog import describe, names
from gar_reproduction.data.files import available, path
from gar_reproduction.data.loading import load
from gar_reproduction.folders import data_home


def test_every_data_set_is_described_in_full() -> None:
    for name in names():
        entry = describe(name)
        assert entry.name == name
        assert min(entry.rows, entry.features, len(entry.targets)) > 0
        assert entry.title
        assert entry.citation
        assert entry.licence
        assert entry.homepage.startswith("https://")
        assert (entry.origin == "uci") == (entry.archive is not None)
        assert bool(entry.files) == (entry.origin in ("uci", "yours"))


def test_checksums_are_whole() -> None:
    files = [file for name in names() for file in describe(name).files]
    sums = [digest for file in files for digest in (file.sha256, *file.known_copies) if digest]
    assert sums
    assert all(len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in sums)


def test_a_misspelt_name_is_answered_with_the_right_one() -> None:
    with pytest.raises(InputError, match="did you mean 'concrete'"):
        describe("concret")
    with pytest.raises(InputError, match="choose one of concrete, wine"):
        describe("zzz")


def test_the_data_folder_is_the_argument_else_the_environment_else_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAR_DATA_HOME", str(tmp_path / "env"))
    assert data_home(tmp_path) == tmp_path
    assert data_home() == tmp_path / "env"
    monkeypatch.delenv("GAR_DATA_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_home().parts[-2:] == ("gar", "data")
    assert path("wine", home=tmp_path) == tmp_path / "wine_quality"


def test_generated_data_sets_are_always_there_and_have_no_folder(tmp_path: Path) -> None:
    assert available("sine", home=tmp_path)
    assert not available("concrete", home=tmp_path)
    with pytest.raises(InputError, match="'sine' has no files"):
        path("sine")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wine", ["gar data fetch wine", "https://archive.ics.uci.edu/static/public/186/wine+quality.zip", "winequality-red.csv"]),
        ("gdsc", ["cannot be downloaded", "https://www.cancerrxgene.org", "gdsc_r5_707lines_types_genes_ic50.csv"]),
    ],
)
def test_a_missing_file_is_answered_with_what_to_do(name: str, words: list[str], tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(name, home=tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in [*words, str(tmp_path)])


def test_looking_at_the_catalogue_imports_nothing_heavy() -> None:
    look = "import sys, gar_reproduction.data.files as f, gar_reproduction.comparison as c; c.names(); f.available('wine'); f.fetch"
    code = f"{look}; sys.exit(bool({{'torch', 'pandas', 'requests'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_is_explained() -> None:
    public = [value for module in (catalog, files, loading, splits) for value in vars(module).values() if _is_public(value)]
    assert len(public) > 15
    assert all(inspect.getdoc(value) for value in public)


def _is_public(value: object) -> bool:
    is_ours = getattr(value, "__module__", "").startswith("gar_reproduction.data.")
    return is_ours and not getattr(value, "__name__", "_").startswith("_")
