"""Pages: made of records alone, the same on every run, and honest about what is missing."""

import json
import re
import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from gar import __version__
from gar.registry import LOSSES, PAPER_LOSSES
from gar_reproduction import experiments
from gar_reproduction.experiments import cells
from gar_reproduction.names import EXPERIMENTS, TASKS
from gar_reproduction.pages.blocks import Page, PageTable, markdown
from gar_reproduction.pages.claims import claims
from gar_reproduction.pages.figures import _score_panel
from gar_reproduction.pages.pages import pages, write_pages
from gar_reproduction.provenance import note, read, sentence
from gar_reproduction.scores import read_scores, result, results_by_parameter
from gar_reproduction.summary import read_summaries
from gar_reproduction.timing import timings
from tests.reproduction.conftest import small_world


def write_times(records: Path) -> None:
    """Timings by hand, so that what a page makes of them is known."""
    for index, study in enumerate(timings(["concrete"])):
        path = study.path(records)
        path.parent.mkdir(parents=True, exist_ok=True)
        both = {"mean": 0.004 + index / 1000, "sd": 0.001, "median": 0.004 + index / 1000}
        machine = {"processor": "abacus", "cores": 2, "load": 0.1, "system": "Linux", "python": "3.11", "torch": "2.13"}
        record = {"study": study.name, "machine": machine, "epochs": 9, "all": both, "loss": both, "stack": 0.001}
        path.write_text(json.dumps(record))


@pytest.fixture(scope="module")
def rendered(small_records: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = tmp_path_factory.mktemp("copy") / "records"
    shutil.copytree(small_records, records)
    write_times(records)
    out = tmp_path_factory.mktemp("pages")
    with small_world():
        write_pages(records, out)
        write_pages(records, out / "again")
    return out


def test_rendering_twice_gives_the_same_bytes(rendered: Path) -> None:
    files = [path.relative_to(rendered / "again") for path in (rendered / "again").rglob("*") if path.is_file()]
    assert len(files) > 20
    for name in files:
        assert (rendered / name).read_bytes() == (rendered / "again" / name).read_bytes(), name


def test_every_experiment_has_a_page_and_every_figure_a_file(rendered: Path) -> None:
    index = (rendered / "index.md").read_text()
    for name in [*EXPERIMENTS, "claims"]:
        assert f"({name}.md)" in index
        for figure in re.findall(r"\((figures/.*?)\)", (rendered / f"{name}.md").read_text()):
            assert (rendered / figure).read_bytes().startswith(b"\x89PNG")


def test_tables_show_our_numbers_and_the_papers(small: None, rendered: Path, small_records: Path) -> None:
    page = (rendered / "table1.md").read_text()
    summary = read_summaries(small_records, cells("table1"))["concrete", "gar"]
    ours = result(summary, "mae")
    (line,) = [line for line in page.split("## Concrete")[1].split("##")[0].splitlines() if line.startswith("| GAR |")]
    assert f"{ours.mean:.3f}({ours.sd:.3f}) ✗" in line
    assert "4.603(0.075)" in line


def test_every_alpha_has_a_row_and_the_best_is_bold(small: None, rendered: Path, small_records: Path) -> None:
    fixed = results_by_parameter(read_summaries(small_records, cells("alpha"))["concrete", "gar"], "rmse")
    best = min(fixed, key=lambda alpha: fixed[alpha].mean)
    section = (rendered / "alpha.md").read_text().split("## Concrete")[1].split("##")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    shown = {float(row[0].removeprefix("| ")): row[2] for row in rows}
    written = {alpha: f"{one.mean:.3f}({one.sd:.3f})" for alpha, one in fixed.items()}
    assert shown == written | {best: f"**{written[best]}**"}


def test_near_cells_are_counted(rendered: Path) -> None:
    lines = (rendered / "claims.md").read_text().split("## Agreement of scores")[1].splitlines()
    counted = [re.findall(r"(\d+) of (\d+) \|$", line) for line in lines if line.startswith("| ")]
    *parts, total = [tuple(map(int, found[0])) for found in counted if found]
    assert len(parts) == 4
    assert total == tuple(map(sum, zip(*parts, strict=True)))
    page = (rendered / "table1.md").read_text()
    assert total[1] > parts[0][1] == page.count(") ✓") + page.count(") ✗")
    assert parts[0][0] == page.count(") ✓")


def test_marks_are_explained_only_where_the_paper_has_such_a_table(rendered: Path) -> None:
    texts = {name: (rendered / f"{name}.md").read_text() for name in ("table1", "by-subject")}
    assert all("Mean(standard deviation) over the five folds." in page for page in texts.values())
    assert {name: "published mean" in page for name, page in texts.items()} == {"table1": True, "by-subject": False}


def test_what_is_missing_is_said_and_not_invented(rendered: Path, tmp_path: Path) -> None:
    page = (rendered / "table1.md").read_text()
    assert "Not run: GDSC release 5." in page
    assert "IC50" not in page
    write_pages(tmp_path / "no records", tmp_path / "out")
    for name in EXPERIMENTS:
        text = (tmp_path / "out" / f"{name}.md").read_text()
        assert re.search("not run|0 of|Not run", text), name
        assert not re.search(r"\d\.\d{3}\(\d\.\d{3}\) [✓✗]", text), name
    assert not list((tmp_path / "out" / "figures").iterdir())


def test_figures_that_are_no_longer_made_are_removed(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "old.png").write_text("")
    write_pages(tmp_path / "none", tmp_path)
    assert not (tmp_path / "figures" / "old.png").exists()


def test_claims_follow_from_the_records(small: None, rendered: Path, small_records: Path) -> None:
    found = {claim.text: claim for claim in claims(small_records)}
    best = next(claim for text, claim in found.items() if "Pearson" in text)
    assert best.verdict.startswith(("holds", "does not hold"))
    assert "not all was run" in best.verdict  # one task has no records
    ablation = next(claim for text, claim in found.items() if "components" in text)
    ranks = [float(row[1]) for row in ablation.table.rows]
    assert sum(ranks) / len(ranks) == pytest.approx(4, abs=1e-3)  # of seven
    assert ablation.verdict.startswith("holds") == (ranks[-1] == min(ranks))
    assert next(claim for text, claim in found.items() if "fast" in text).verdict == "not run"
    assert "does not hold" in (rendered / "claims.md").read_text().split("as fast as MAE's")[1].splitlines()[0]


def test_one_rival_ahead_of_gar_decides_a_claim_that_others_leave_open(small: None, small_records: Path, tmp_path: Path) -> None:
    title, metric = TASKS["concrete"], "Pearson"
    best = _best_in_correlations(small_records)[title, metric]
    assert best not in ("GAR", "not run")
    left = {"that rival and GAR": {best, "GAR"}, "GAR alone": {"GAR"}, "that rival alone": {best}}
    found = {}
    for name, titles in left.items():
        records = tmp_path / name
        shutil.copytree(small_records, records)
        for method in PAPER_LOSSES:
            if LOSSES[method].title not in titles:
                (records / "table1" / "concrete" / f"{method}.npz").unlink()
        found[name] = _best_in_correlations(records)[title, metric]
    assert found == {"that rival and GAR": best, "GAR alone": "not run", "that rival alone": "not run"}


def _best_in_correlations(records: Path) -> dict[tuple[str, str], str]:
    """By title of task and metric: who is best, as the page of claims says."""
    claim = next(claim for claim in claims(records) if "Pearson" in claim.text)
    return {(row[0], row[1]): row[2] for row in claim.table.rows}


_SHOWN = [
    ("by-subject", "parkinson-total", ["MAE", "GAR"]),
    ("train-statistics", "concrete", [LOSSES[name].title for name in PAPER_LOSSES]),
]


@pytest.mark.parametrize(("experiment", "task", "shown"), _SHOWN)
def test_a_figure_leaves_out_methods_of_which_there_is_no_number(
    small: None, small_records: Path, tmp_path: Path, experiment: str, task: str, shown: list[str]
) -> None:
    """The paper has numbers of its own for all nine methods of the second."""
    for method in ("mae", "gar"):
        path = f"{experiment}/{task}/{method}.npz"
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(small_records / path, tmp_path / path)
    scores = read_scores(tmp_path, experiment)
    axes = Figure().subplots()
    _score_panel(scores, task, "mae", is_first=True)(axes)
    assert [text.get_text() for text in axes.get_yticklabels()] == shown


def test_blocks_as_markdown() -> None:
    page = Page("a", "A & B", ["## C", "x < y", PageTable(["one", "two"], [["<p>", "**2**"]])])
    assert markdown(page) == "# A & B\n\n## C\n\nx < y\n\n| one | two |\n| --- | ---: |\n| <p> | **2** |\n"


def test_an_experiment_without_a_page_of_its_own_shows_its_scores(
    small: None, small_records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gar_reproduction.pages.pages.EXPERIMENTS", {"mine": "An experiment of yours."})
    monkeypatch.setitem(experiments._CELLS, "mine", experiments._CELLS["table1"])
    _, page = pages(small_records)
    assert (page.name, page.title) == ("mine", "mine")
    assert page.blocks[0] == "An experiment of yours."
    assert page.blocks[2] == "9 of 18 experiment cells were run."
    assert any(isinstance(block, PageTable) for block in page.blocks)


def test_a_page_says_when_where_and_by_what_its_records_were_made(rendered: Path, small_records: Path) -> None:
    made = read(small_records, "table1")
    assert made["versions"] == [__version__]
    text = (rendered / "table1.md").read_text()
    assert f"gar {__version__}; records of {made['dates'][-1]}, from {made['machines'][0]}. Made by `gar reproduce table1`" in text
    assert "## Concrete\n\n`gar reproduce table1 --tasks concrete`\n" in text
    assert "Made by `gar reproduce selected-alpha`" in (rendered / "selected-alpha.md").read_text()


def test_records_made_later_and_elsewhere_are_added(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    old = {"dates": ["2001-01-01", "2002-02-02"], "versions": ["0.0.1"], "machines": ["a machine that was not recorded"]}
    (tmp_path / "mine" / "made.json").write_text(json.dumps(old))
    note(tmp_path, "mine")
    note(tmp_path, "mine")
    made = read(tmp_path, "mine")
    assert made["dates"][0] == "2001-01-01"
    assert made["dates"][1] > "2026"
    assert made["versions"] == ["0.0.1", __version__]
    assert len(made["machines"]) == 2
    (tmp_path / "mine" / "made.json").write_text("{")
    assert read(tmp_path, "mine") == {}
    assert sentence(tmp_path, "mine", "do") == "Made by `do`, rendered by `gar reproduce report`."
