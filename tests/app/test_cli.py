"""The command as a user runs it: a process of its own, real files, real signals."""

import hashlib
import json
import os
import signal
import struct
import subprocess
import sys
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.fuzz.children import living
from gar.app import cli
from gar.app.compare import Options, source_of_frame
from gar.app.compare.source import prepare
from gar.app.models import load_model
from gar.errors import how_to_install
from tests.app.compare.example import diabetes
from tests.search.test_killing import wait_for_death_of_group

PATIENCE = 600.0
QUICK = ("--losses", "mae,gar", "--epochs", "2", "--hidden-sizes", "8", "--learning-rates", "0.01", "--weight-decays", "0.001")
ALONE = ("--workers", "1", "--quiet")


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100", **more}


def gar(*arguments: str, folder: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gar", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment(**more), capture_output=True, text=True, timeout=PATIENCE, check=False
    )


class Inside:
    """The same function without a process of its own, which spares the time of imports."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        self._monkeypatch.chdir(folder)
        self._monkeypatch.setattr(sys, "argv", ["gar", *arguments])
        self._monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = self._capsys.readouterr()
        assert isinstance(end.value.code, int)
        return subprocess.CompletedProcess(arguments, end.value.code, captured.out, captured.err)


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    return Inside(monkeypatch, capsys)


def refused(result: subprocess.CompletedProcess[str]) -> str:
    """The one line that says what is wrong."""
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    return line


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, and a comparison on it."""
    folder = tmp_path_factory.mktemp("compared")
    diabetes().to_csv(folder / "diabetes.csv", index=False)
    result = gar("compare", "diabetes.csv", "-t", "target", "--drop", "double,clinic", *QUICK, "--workers", "2", folder=folder)
    assert result.returncode == 0, result.stderr
    assert "Report: gar-report/report.html" in result.stdout
    assert "gar predict gar-report/model" in result.stdout
    assert "Plan: diabetes: 442 rows, 10 columns; 5 folds of 283 training rows, 88 test rows" in result.stderr
    assert "diabetes: [########################] 2/2 losses, 100 %" in result.stderr
    return folder


def test_compare_leaves_everything_behind(compared: Path) -> None:
    report = compared / "gar-report"
    assert {path.name for path in report.iterdir()} == {".gar-lock", "figures", "model", "records", "report.html", "results.json"}
    results = json.loads((report / "results.json").read_text())
    assert results["command"].startswith("gar compare diabetes.csv -t target")
    (problem,) = results["problems"]
    assert problem["targets"] == ["target"]
    assert [method["loss"] for method in problem["methods"]] == ["mae", "gar"]
    assert all(len(method["scores"]["mae"]) == 5 for method in problem["methods"])
    assert problem["sha256"] == hashlib.sha256((compared / "diabetes.csv").read_bytes()).hexdigest()
    assert problem["plan"][0].startswith("diabetes: 442 rows")
    assert set(results["machine"]) == {"system", "processor", "cores", "python", "torch"}
    saved = next(method for method in problem["methods"] if method["loss"] == problem["saved"])
    page = (report / "report.html").read_text()
    assert f"Saved is {saved['title']}" in page


def test_the_saved_score_is_that_of_its_predictions(compared: Path, inside: Inside) -> None:
    """Predict the test rows by the saved model: the score is the one that the page shows."""
    (problem,) = json.loads((compared / "gar-report" / "results.json").read_text())["problems"]
    saved = next(method for method in problem["methods"] if method["loss"] == problem["saved"])
    source = source_of_frame(diabetes(), targets=["target"], drop=["double", "clinic"])
    test = prepare(source, Options()).test
    diabetes().iloc[test].to_csv(compared / "test.csv", index=False)
    result = inside("predict", "gar-report", "test.csv", folder=compared)
    predicted = np.array(result.stdout.splitlines()[1:], dtype=float)
    assert np.abs(predicted - diabetes()["target"].to_numpy()[test]).mean() == pytest.approx(saved["ensemble"]["mae"])


def test_a_plan_alone_writes_nothing(compared: Path, inside: Inside, tmp_path: Path) -> None:
    table = str(compared / "diabetes.csv")
    result = inside("compare", table, "-t", "target", *QUICK, *ALONE, "--dry-run", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Networks with MAE, GAR; a constant and ridge for reference" in result.stdout
    assert "about" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_another_command_gets_a_folder_of_its_own(compared: Path, inside: Inside) -> None:
    before = (compared / "gar-report" / "results.json").read_bytes()
    again = ("compare", "diabetes.csv", "-t", "target", "--losses", "mae", *QUICK[2:], *ALONE, "--folds", "2")
    for _ in range(2):  # the same command replaces its own report
        assert "Report: gar-report-2/report.html" in inside(*again, folder=compared).stdout
    assert (compared / "gar-report" / "results.json").read_bytes() == before
    assert not (compared / "gar-report-3").exists()
    figures = {path.name for path in (compared / "gar-report-2" / "figures").iterdir()}
    (compared / "gar-report-2" / "figures" / "9-old-scores.png").write_text("of an earlier report")
    (compared / "gar-report-2" / "figures" / "mine.txt").write_text("mine")
    inside(*again, folder=compared)
    assert {path.name for path in (compared / "gar-report-2" / "figures").iterdir()} == figures | {"mine.txt"}


def test_predict_gives_what_the_model_predicts(compared: Path, inside: Inside) -> None:
    printed = gar("predict", "gar-report/model", "diabetes.csv", folder=compared)
    assert printed.returncode == 0, printed.stderr
    lines = printed.stdout.splitlines()
    expected = load_model(compared / "gar-report" / "model").predict(diabetes())
    assert lines[0] == "target"
    assert np.allclose(np.array(lines[1:], dtype=float), expected[:, 0], rtol=1e-9)
    written = inside("predict", "gar-report", "diabetes.csv", "--out", "predicted.csv", folder=compared)
    assert (written.returncode, written.stdout) == (0, "442 predictions: predicted.csv\n")
    assert (compared / "predicted.csv").read_text() == printed.stdout


def test_predict_refuses_what_does_not_fit(compared: Path, inside: Inside) -> None:
    diabetes().drop(columns="bmi").to_csv(compared / "less.csv", index=False)
    assert "'bmi'" in refused(inside("predict", "gar-report", "less.csv", "--out", "never.csv", folder=compared))
    assert not (compared / "never.csv").exists()
    assert "saved a model in" in refused(inside("predict", ".", "diabetes.csv", folder=compared))


def hostile_names(path: Path) -> None:
    """Markup as names, formulas and markup in cells, a column without any value, the same name twice, a name with a comma."""
    numbers = np.random.default_rng(0).normal(size=(60, 2))
    lines = ['<script>alert(1)</script>,twice,twice,empty,"a,b",words,<script>alert(2)</script>']
    for row, (one, two) in enumerate(numbers):
        word = ("=cmd|'/C calc'!A0", "<img src=x onerror=alert(3)>", "@SUM(1)")[row % 3]
        lines.append(f"{one},{two},{row % 7},,{row % 5},{word},{one - two + row % 5}")
    path.write_text("\n".join(lines))


def test_hostile_names_and_cells_are_compared_and_escaped(tmp_path: Path, inside: Inside) -> None:
    hostile_names(tmp_path / "hostile.csv")
    target = "<script>alert(2)</script>"
    arguments = ("-t", target, "--group", "a,b", "--folds", "2", "--out", "<b>")
    result = gar("compare", "hostile.csv", *arguments, *QUICK, *ALONE, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    page = (tmp_path / "<b>" / "report.html").read_text()
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    again = inside("predict", "<b>", "hostile.csv", folder=tmp_path)
    assert again.stdout.splitlines()[0] == target
    assert len(again.stdout.splitlines()) == 61


def test_ten_thousand_columns(tmp_path: Path, inside: Inside) -> None:
    table = np.random.default_rng(0).normal(size=(40, 10_000))
    pd.DataFrame(table, columns=[f"column {number}" for number in range(10_000)]).to_parquet(tmp_path / "wide.parquet")
    few = ("--losses", "gar", "--parameters", "gar=1", "--folds", "2", "--epochs", "1", "--learning-rates", "0.01")
    one = ("--weight-decays", "0.01", *ALONE)
    result = inside("compare", "wide.parquet", "-t", "column 7", *few, *one, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "gar-report" / "report.html").stat().st_size < 3e6


def claimed(path: Path, size: int) -> None:
    """A workbook whose directory claims that its sheet has this many bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", "<worksheet/>" * 1000)
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = struct.pack("<I", size)
    path.write_bytes(content)


def bad_tables(folder: Path) -> None:
    diabetes().to_csv(folder / "good.csv", index=False)
    diabetes().iloc[:1].to_csv(folder / "one.csv", index=False)
    (folder / "flat.csv").write_text("\n".join("|".join(map(str, range(row, row + 3))) for row in range(30)))
    (folder / "empty.csv").write_text("")
    (folder / "noise.parquet").write_bytes(os.urandom(1000))
    pd.DataFrame({"x": range(30), "y": [5.0] * 30}).to_csv(folder / "constant.csv", index=False)
    pd.DataFrame({"x": range(30), "y": np.arange(30) * 1e160}).to_csv(folder / "huge.csv", index=False)
    claimed(folder / "bomb.xlsx", 2**31 + 12)


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["one.csv", "-t", "target"], "rows: 1, too few"),
        (["good.csv", "-t", "tarket"], "did you mean 'target'?"),
        (["flat.csv", "-t", "y"], "target 'y' is not a column"),
        (["bomb.xlsx", "-t", "y"], "bomb.xlsx"),
    ],
)
def test_what_cannot_be_compared_is_told_in_one_line(tmp_path: Path, arguments: list[str], answer: str) -> None:
    bad_tables(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert answer in refused(gar("compare", *arguments, *ALONE, folder=tmp_path))
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["good.csv"], "--target COL"),
        (["nowhere.csv", "-t", "y"], "nowhere.csv"),
        ([".", "-t", "y"], "."),
        (["empty.csv", "-t", "y"], "empty.csv"),
        (["noise.parquet", "-t", "y"], "noise.parquet"),
        (["constant.csv", "-t", "y"], "nothing to learn"),
        (["huge.csv", "-t", "y"], "target 'y' has the label 2.9e+161"),
        (["good.csv", "-t", "sex"], "expected numbers"),
        (["good.csv", "-t", "target", "--group", "sex"], "groups: 2, too few"),
        (["good.csv", "-t", "target", "--losses", "mae,rmse"], "'rmse'"),
        (["good.csv", "-t", "target", "--learning-rates", "0.1;0.2"], "'0.1;0.2' is not a list of numbers"),
        (["good.csv", "-t", "target", "--parameters", "gar"], "'gar' has no '='"),
        (["good.csv", "-t", "target", "--out", "one.csv"], "'one.csv' is a file"),
        (["-t", "target"], "name a file"),
        (["diabetes", "-t", "age"], "leave out --target"),
        (["sine", "--group", "age"], "sine has no groups"),
        (["nowhere", "-t", "y"], "'nowhere' is neither a file nor a data set"),
    ],
)
def test_other_mistakes_are_told_too(tmp_path: Path, arguments: list[str], answer: str, inside: Inside) -> None:
    """Click shows the usage before what is wrong with it."""
    bad_tables(tmp_path)
    before = sorted(tmp_path.iterdir())
    result = inside("compare", *arguments, *ALONE, folder=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert answer in result.stderr.splitlines()[-1]
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_interrupt_ends_quickly_and_the_same_command_goes_on(tmp_path: Path) -> None:
    diabetes().to_csv(tmp_path / "diabetes.csv", index=False)
    arguments = ["compare", "diabetes.csv", "-t", "target", "--losses", "mae,gar,conr", "--epochs", "30", "--hidden-sizes", "16,16"]
    arguments += ["--workers", "2"]
    command = [sys.executable, "-m", "gar", *arguments]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    end = time.monotonic() + PATIENCE
    while not (done := sorted((tmp_path / "gar-report").glob("records/loss-*/model.safetensors"))):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.005)
    sent = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, error = process.communicate(timeout=PATIENCE)
    assert time.monotonic() - sent < 2.0
    assert process.returncode == 130
    assert "the same command continues" in error
    assert "Traceback" not in error
    wait_for_death_of_group(process, 1.0)
    assert not living(process.pid)
    assert {path.name for path in (tmp_path / "gar-report").iterdir()} == {"records"}
    kept = {path: path.stat().st_mtime_ns for path in done}
    result = gar(*arguments, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert {path: path.stat().st_mtime_ns for path in done} == kept
    assert len(list((tmp_path / "gar-report").glob("records/loss-*/model.safetensors"))) == 3


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_interrupted_before_anything_is_finished_nothing_is_said_to_be_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gar", "compare", "diabetes", "--losses", "ranksim", "--epochs", "1000", "--workers", "1"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    lines = [process.stderr.readline()]
    while not lines[-1].startswith("      about") and lines[-1]:
        lines.append(process.stderr.readline())
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Interrupted before any loss was finished: nothing is kept." in error


def test_a_time_limit_reports_what_was_finished(compared: Path, inside: Inside) -> None:
    """All of it is in the records, so that no time at all is enough for two losses, but not for a third."""
    arguments = ["compare", "diabetes.csv", "-t", "target", "--drop", "double,clinic", *QUICK, *ALONE]
    arguments[arguments.index("mae,gar")] = "mae,gar,mse"
    result = inside(*arguments, "--time-limit", "1e-9", "--out", "gar-report", folder=compared)
    assert result.returncode == 0, result.stderr
    assert "The time limit was reached" in result.stdout
    (problem,) = json.loads((compared / "gar-report" / "results.json").read_text())["problems"]
    assert [method["loss"] for method in problem["methods"]] == ["mae", "gar"]
    assert any("MSE" in note for note in problem["notes"])
    alone = inside(*arguments, "--time-limit", "1e-9", "--out", "other", folder=compared)
    assert "no loss was finished" in refused(alone)


def test_demo_draws_the_curves_too(tmp_path: Path, inside: Inside) -> None:
    result = inside("demo", *QUICK, *ALONE, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    results = json.loads((tmp_path / "gar-demo" / "results.json").read_text())
    assert [problem["name"] for problem in results["problems"]] == ["diabetes", "sine", "squared-sine"]
    assert all(method["curve"] for method in results["problems"][1]["methods"])
    assert "gar-demo/report.html" in result.stdout


def test_help_answers_at_once() -> None:
    """Best of three, and not counting what Python itself needs, since the machine may be busy."""

    def seconds(*command: str) -> float:
        start = time.monotonic()
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        return time.monotonic() - start

    python = min(seconds("-c", "pass") for _ in range(3))
    assert min(seconds("-m", "gar", "--help") for _ in range(3)) - python < 1.0


def test_nothing_heavy_is_imported_for_help() -> None:
    code = "import sys, gar.app.cli; sys.exit(bool({'torch', 'numpy', 'pandas', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("words", "answers"),
    [
        ("gar com", {"compare", "completion"}),
        ("gar compare --metric p", {"pearson"}),
        ("gar compare --losses mae,g", {"mae,gar"}),
        ("gar compare --losses focal", {"focal_mae", "focal_mse"}),
        ("gar compare --parameters hu", {"huber="}),
        ("gar compare --hidden-sizes pa", {"paper"}),
        ("gar data info squ", {"squared-sine"}),
        ("gar data f", {"fetch"}),
    ],
)
def test_shells_complete(words: str, answers: set[str]) -> None:
    last = len(words.split()) - 1
    result = gar(_GAR_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(last))
    assert {line.removeprefix("plain,") for line in result.stdout.splitlines()} == answers


def test_completion_script_names_the_command() -> None:
    result = gar("completion", "bash")
    assert "complete -o nosort -F _gar_completion gar" in result.stdout
    assert "_GAR_COMPLETE=bash_complete" in result.stdout


def test_data_commands(tmp_path: Path) -> None:
    listed = gar("data", "list", GAR_DATA_HOME=str(tmp_path)).stdout
    assert {line.split()[0] for line in listed.splitlines()} >= {"concrete", "diabetes", "sine", "agedb"}
    assert "CC BY 4.0" in gar("data", "info", "concrete", GAR_DATA_HOME=str(tmp_path)).stdout
    assert gar("data", "path", "concrete", GAR_DATA_HOME=str(tmp_path)).stdout == f"{tmp_path / 'concrete'}\n"
    assert gar("data", "path", GAR_DATA_HOME=str(tmp_path)).stdout == f"{tmp_path}\n"
    assert "nothing to fetch" in gar("data", "fetch", "sine", GAR_DATA_HOME=str(tmp_path)).stdout
    assert "did you mean 'concrete'?" in refused(gar("data", "fetch", "sine", "concret", GAR_DATA_HOME=str(tmp_path)))
    assert str(tmp_path / "agedb") in refused(gar("data", "fetch", "agedb", GAR_DATA_HOME=str(tmp_path)))


def test_a_data_set_that_is_not_here_says_how_to_get_it(tmp_path: Path) -> None:
    assert "gar data fetch concrete" in refused(gar("compare", "concrete", *ALONE, folder=tmp_path, GAR_DATA_HOME=str(tmp_path)))


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m gar data list | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment(), check=False)
    assert "Traceback" not in result.stderr
    assert result.stdout.startswith("concrete")


PLUGIN = """
import torch
from gar.losses import LossSpec, register


class LogCoshLoss(torch.nn.Module):
    def __init__(self, sharpness=1.0, nan_policy="propagate"):
        super().__init__()
        self.sharpness = torch.as_tensor(sharpness).reshape(-1, 1, 1)

    def forward(self, pred, target, *, sample_weight=None):
        return ((pred - target) * self.sharpness).cosh().log().mean((-2, -1))


register("log_cosh", LossSpec(title="Log-cosh", module=LogCoshLoss, parameter="sharpness", grid=(0.5, 1.0)))
"""


@pytest.fixture
def with_plugin(tmp_path: Path) -> Path:
    (tmp_path / "my_losses.py").write_text(PLUGIN)
    diabetes().to_csv(tmp_path / "diabetes.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_loss_of_ones_own_from_the_command_line(with_plugin: Path, workers: str) -> None:
    options = [*QUICK, "--workers", workers, "--quiet", "--folds", "2", "--drop", "double,clinic"]
    options[options.index("mae,gar")] = "mae,log_cosh,gar"
    result = gar("compare", "diabetes.csv", "-t", "target", "--plugin", "my_losses", *options, folder=with_plugin)
    assert result.returncode == 0, result.stderr
    assert "Log-cosh" in result.stdout
    (problem,) = json.loads((with_plugin / "gar-report" / "results.json").read_text())["problems"]
    own = problem["methods"][-1]
    assert (own["loss"], own["title"], own["parameter"]) == ("log_cosh", "Log-cosh", "sharpness")
    assert {choice["parameter"] for choice in own["chosen"]} <= {0.5, 1.0}
    assert len(own["scores"]["mae"]) == 2
    page = (with_plugin / "gar-report" / "report.html").read_text()
    assert "Log-cosh" in page
    unknown = refused(gar("compare", "diabetes.csv", "-t", "target", *options, folder=with_plugin))
    assert "loss 'log_cosh' is unknown; choose one of mae, mse, " in unknown
    assert "--plugin" in unknown


def test_a_loss_of_ones_own_from_python(with_plugin: Path) -> None:
    code = """
import my_losses
import pandas as pd
from gar.app.compare import Options, compare_table, source_of_frame
from gar.search import RunContext

source = source_of_frame(pd.read_csv("diabetes.csv"), targets=["target"], drop=["double", "clinic"])
options = Options(losses=("log_cosh", "mae"), epochs=2, hidden_sizes=(8,), folds=2)
print([method.title for method in compare_table(source, options, RunContext()).problem.methods])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=with_plugin, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stdout == "['MAE', 'Log-cosh']\n", done.stderr


@pytest.mark.parametrize(
    ("content", "module", "answer"),
    [
        (None, "nowhere", "--plugin 'nowhere' cannot be imported (No module named 'nowhere'); name an installed module, or one of"),
        ("def", "broken", "--plugin 'broken' cannot be imported (invalid syntax"),
        ("", "broken.py", "my_losses for my_losses.py"),
        (PLUGIN.replace('"log_cosh"', '"mae"'), "twice", "a loss named 'mae' (MAE) exists already"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_explained(
    tmp_path: Path, content: str | None, module: str, answer: str, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    if content is not None:
        (tmp_path / f"{module.removesuffix('.py')}.py").write_text(content)
    assert answer in refused(inside("compare", "diabetes", "--plugin", module, *ALONE, folder=tmp_path))


def fake_package(folder: Path, entries: str) -> str:
    """An installed package with entry points, as a folder for PYTHONPATH."""
    information = folder / "fake-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(entries)
    return os.pathsep.join([str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])


def test_a_package_with_a_broken_command_does_not_break_the_others(tmp_path: Path) -> None:
    path = fake_package(tmp_path, "[gar.commands]\nfake = nowhere.at_all:command\n")
    result = gar("--help", PYTHONPATH=path)
    assert result.returncode == 0
    assert "compare" in result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("Warning: plug-in 'nowhere.at_all:command' (gar.commands) cannot be imported (ModuleNotFoundError: ")


def test_a_package_brings_a_command_and_a_data_set(tmp_path: Path) -> None:
    path = fake_package(tmp_path, "[gar.commands]\nfake = fake:hello\n[gar.data_sets]\nfake = fake\nbad = fake:nothing\n")
    (tmp_path / "fake.py").write_text(
        "import click\nhello = click.Command('hello', callback=lambda: click.echo('hello'))\n"
        "def names(): return ['fakes']\n"
        "def source(name, *, group=None):\n"
        "    import pandas as pd\n"
        "    from gar.app.compare import source_of_frame\n"
        "    frame = pd.DataFrame({'x': range(40), 'y': [k % 7 for k in range(40)]})\n"
        "    return source_of_frame(frame, targets=['y'], name=name)\n"
    )
    assert gar("hello", PYTHONPATH=path).stdout == "hello\n"
    result = gar("compare", "fakes", *QUICK, *ALONE, "--folds", "2", folder=tmp_path, PYTHONPATH=path)
    assert result.returncode == 0, result.stderr
    assert "Warning: plug-in 'fake:nothing' (gar.data_sets) cannot be imported (AttributeError: " in result.stderr
    assert json.loads((tmp_path / "gar-report" / "results.json").read_text())["problems"][0]["name"] == "fakes"


def without(module: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process in which a module cannot be imported."""
    code = f"import runpy, sys; sys.modules[{module!r}] = None; sys.argv = ['gar', *{arguments!r}]"
    code += "; runpy.run_module('gar', run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    result = without("click", "--help", folder=tmp_path)
    assert result.returncode == 1
    assert result.stderr == f"gar: the command line needs the package click; {how_to_install('app')}\n"


def test_without_the_reproduction_its_data_sets_are_unknown(tmp_path: Path) -> None:
    result = without("gar_reproduction", "compare", "concrete", *ALONE, folder=tmp_path)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1] == (
        "Error: 'concrete' is neither a file nor a data set; check the path, or choose one of diabetes "
        "(the paper's tables come with the package gar-reproduction)"
    )
