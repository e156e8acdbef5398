"""Programs that evolve on the paper's curves, as small as a test can have them."""

import sys
from pathlib import Path

import joblib
import numpy as np
import pytest

from gar.errors import InputError
from gar_reproduction import symbolic
from gar_reproduction.pages.pages import pages
from gar_reproduction.symbolic import read_fit, symbolic_studies

pytest.importorskip("gplearn", reason="the extra 'symbolic' is not installed")


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(symbolic, "_POPULATION", 200)
    monkeypatch.setattr(symbolic, "_GENERATIONS", 3)
    monkeypatch.setattr(symbolic, "CURVE_SEEDS", (1, 2))
    with joblib.parallel_config(backend="sequential"):
        for study in symbolic_studies(["sine"]):
            study.run(tmp_path)
    return tmp_path


def test_sine_is_found_where_it_is_in_the_toolbox(records: Path) -> None:
    found = {study.variant: study.read(records) for study in symbolic_studies(["sine"])}
    assert set(found) == {f"gplearn-{toolbox}-{method}" for toolbox in ("plain", "trigonometric") for method in ("mse", "gar")}
    for variant, record in found.items():
        assert record is not None
        fit = read_fit(record)
        assert fit.predictions.shape == (2, len(fit.x))
        is_met = fit.error.max() < 1e-6 and fit.slope_cosine.min() > 0.9999
        assert is_met == ("trigonometric" in variant), variant
        assert ("sin" in "".join(record["programs"])) == is_met


def test_the_same_seed_gives_the_same_record(records: Path) -> None:
    study = symbolic_studies(["sine"], ["gar"])[0]
    before = study.path(records).read_bytes()
    study.path(records).unlink()
    with joblib.parallel_config(backend="sequential"):
        study.run(records)
    assert study.path(records).read_bytes() == before


def test_without_gplearn_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gplearn.fitness", None)
    for study in symbolic_studies(["sine"]):
        with pytest.raises(InputError, match="install the extra 'symbolic'"):
            study.run(tmp_path)


def test_page_shows_programs_and_fits(records: Path) -> None:
    (page,) = [page for page in pages(records) if page.name == "symbolic"]
    assert [figure.name for figure in page.figures] == ["symbolic-sine"]
    assert "sin(X0)" in str(page.blocks)
    assert np.isfinite(read_fit(symbolic_studies(["sine"])[0].read(records) or {}).correlation).all()
