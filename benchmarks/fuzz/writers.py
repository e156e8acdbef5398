"""Writers that meet in one folder, and writers that are killed: report and model are those of one comparison, and complete."""

import json
import multiprocessing
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

from benchmarks.fuzz import Attempt
from benchmarks.fuzz.models import table
from gar.app.compare import Options, compare_and_report, source_of_frame
from gar.app.models import finish_output, load_model, replacing_output
from gar.errors import InputError
from gar.search import RunContext

PAIRS = KILLS = 20
TARGETS = ("price", "size")
OPTIONS = Options(losses=("mae",), folds=2, epochs=1, learning_rates=(0.01,), weight_decays=(0.0,), hidden_sizes=(4,))
SECONDS = 120.0


def compare(out: Path, target: str) -> None:
    compare_and_report([source_of_frame(table(), targets=[target])], OPTIONS, RunContext(workers=1), out=out, command=target)


def is_whole(out: Path) -> bool:
    """Return True if report, results and model are those of one comparison."""
    try:
        (target,) = load_model(out / "model").targets
    except InputError:
        return False
    page, results = (out / "report.html").read_text(), json.loads((out / "results.json").read_text())
    return results["command"] == target and f'"command":"{target}"' in page.replace(": ", ":")


def compare_again(out: Path, target: str, start: Barrier, end: Barrier) -> None:
    for _ in range(PAIRS):
        start.wait(SECONDS)
        compare(out, target)
        end.wait(SECONDS)


def save_again(out: Path, target: str, start: Barrier, end: Barrier) -> None:
    model = load_model(out / target)
    for _ in range(PAIRS):
        start.wait(SECONDS)
        for _ in range(20):
            model.save(out / "model")
        end.wait(SECONDS)


def pairs(work: Callable[[Path, str, Barrier, Barrier], None], out: Path, check: Callable[[Path], bool]) -> int:
    """Let two processes write at the same time, again and again; return how often the folder is not whole afterwards."""
    context, lost = multiprocessing.get_context("spawn"), 0
    start, end = context.Barrier(3), context.Barrier(3)
    processes = [context.Process(target=work, args=(out, target, start, end)) for target in TARGETS]
    for process in processes:
        process.start()
    try:
        for _ in range(PAIRS):
            start.wait(SECONDS)
            end.wait(SECONDS)
            lost += not check(out)
    finally:
        for process in processes:
            process.join(SECONDS)
            process.kill()
    return lost


def is_a_model(out: Path) -> bool:
    try:
        return load_model(out / "model").targets[0] in TARGETS
    except InputError:
        return False


def write_forever(out: Path, started: Event) -> None:
    """Replace the output of one comparison by that of the other, and back, some twenty times a second."""
    contents = {target: {path.relative_to(out / target): path.read_bytes() for path in _files(out / target)} for target in TARGETS}
    while True:
        for files in contents.values():
            with replacing_output(out) as folder:
                for name, content in files.items():
                    (folder / name).parent.mkdir(exist_ok=True)
                    (folder / name).write_bytes(content)
            started.set()


def _files(folder: Path) -> list[Path]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in paths if path.relative_to(folder).parts[0] in ("figures", "model", "report.html", "results.json")]


def kills(out: Path) -> int:
    """Kill a writer at a random moment, again and again; return how often the folder is not whole afterwards."""
    context, choose, lost = multiprocessing.get_context("spawn"), random.Random(0), 0
    for target in TARGETS:
        compare(out / target, target)
    for _ in range(KILLS):
        started = context.Event()
        process = context.Process(target=write_forever, args=(out, started))
        process.start()
        started.wait(SECONDS)
        time.sleep(choose.uniform(0.0, 0.2))
        process.kill()
        process.join(SECONDS)
        finish_output(out)  # as the next command of gar does
        lost += not is_whole(out)
    return lost


def attempts() -> Iterator[Attempt]:
    with tempfile.TemporaryDirectory() as folder:
        lost = pairs(compare_again, Path(folder), is_whole)
        yield Attempt("two comparisons at once into one folder", PAIRS, lost_or_mixed=lost)
    with tempfile.TemporaryDirectory() as folder:
        for target in TARGETS:
            compare(Path(folder) / "reports" / target, target)
            load_model(Path(folder) / "reports" / target / "model").save(Path(folder) / target)
        lost = pairs(save_again, Path(folder), is_a_model)
        yield Attempt("two processes at once that save a model to one folder 20 times", PAIRS, lost_or_mixed=lost)
    with tempfile.TemporaryDirectory() as folder:
        yield Attempt("a writer killed while it replaces report and model", KILLS, lost_or_mixed=kills(Path(folder)))
