"""The pages: one for every experiment, made from records alone. Equal records give equal bytes."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from gar.app.report.formatting import NOTHING, short
from gar.files import write_whole
from gar.registry import LOSSES, METRICS, PAPER_LOSSES
from gar_reproduction import agedb, provenance, published, timing
from gar_reproduction.curves import Fit, fit_of
from gar_reproduction.experiments import CURVE_METHODS, LAYERS, cells
from gar_reproduction.names import EXPERIMENTS, TABLE_METRICS, TASKS
from gar_reproduction.pages.blocks import HIT, NOT_RUN, Block, Page, PageTable, markdown
from gar_reproduction.pages.claims import claim_blocks
from gar_reproduction.pages.curve_figures import depth_figures, fit_figure, slope_figure
from gar_reproduction.pages.figures import alpha_figure, batch_figure, moments_figure, runtime_figure, score_figure
from gar_reproduction.pages.score_tables import BOLD, LEGEND, alpha_table, gain_table, legend, score_table
from gar_reproduction.published import with_sd
from gar_reproduction.scores import PAPER_TABLES, REPRODUCED, Scores, read_scores, results_by_parameter, winners
from gar_reproduction.summary import Summary, read_summaries
from gar_reproduction.symbolic import FITNESSES, TOOLBOXES, read_fit, symbolic_studies

_P_VALUES = (
    "Gains are GAR's, in percent of the other's mean. 't-test' is Student's test of two samples, as in the paper. 'Corrected' "
    "is the corrected resampled test of Nadeau and Bengio on the paired folds, which accounts for the rows that folds share."
)


_TITLE = "The paper, reproduced"
_INTRODUCTION = (
    "Our numbers beside those of Zhu, Yang and Jerby: *Gradient Aligned Regression via Pairwise Losses* (ICML 2025). "
    "Rendered by `gar reproduce report` from records alone; what has no record is 'not run'."
)
_FIDELITY = "Fidelity to the paper <../fidelity>"
_RECORDS_OF = {"selected-alpha": "table1"}
"""Pages that show the records of another experiment."""
_CLAIMS = "The paper's claims, and the rule by which each is counted."


def write_pages(records: Path, out: Path) -> list[Path]:
    """Write all pages as Markdown, and all figures; return the files.

    Args:
        records: folder of summaries and studies.
        out: the folder to write to. Figures of an earlier report that are no longer drawn are removed.
    """
    made = pages(records)
    links = "\n".join(f"- [{page.title}]({page.name}.md). {EXPERIMENTS.get(page.name, _CLAIMS)}" for page in made)
    names = [page.name for page in made]
    contents = "\n".join(["```{toctree}", ":hidden:", "", *names, _FIDELITY, "```"])  # for the site's navigation
    files = {out / f"{page.name}.md": markdown(page).encode() for page in made}
    files[out / "index.md"] = f"# {_TITLE}\n\n{_INTRODUCTION}\n\n{links}\n\n{contents}\n".encode()
    figures = {out / "figures" / f"{figure.name}.png": figure.png for page in made for figure in page.figures}
    (out / "figures").mkdir(parents=True, exist_ok=True)
    for path in set((out / "figures").glob("*.png")) - set(figures):
        path.unlink()
    for path, content in (files | figures).items():
        write_whole(path, content)
    return [*files, *figures]


def pages(records: Path) -> list[Page]:
    """Return all pages: the claims first, then one for every experiment."""
    known = {name: _PAGES.get(name, (name, partial(_table_blocks, name))) for name in EXPERIMENTS}
    made = [Page(name, title, _cited(records, name, blocks(records))) for name, (title, blocks) in known.items()]
    return [Page("claims", "Which claims hold", [*claim_blocks(records), *_agreement(records)]), *made]


def _cited(records: Path, name: str, blocks: list[Block]) -> list[Block]:
    """Put below the first sentence of a page what is needed to cite it, and the command of a task below its heading."""
    command, tasks = f"gar reproduce {name}", {f"## {title}": task for task, title in TASKS.items()}
    first, *rest = blocks
    made: list[Block] = [first, provenance.sentence(records, _RECORDS_OF.get(name, name), command)]
    for block in rest:
        made.append(block)
        if isinstance(block, str) and block in tasks:
            made.append(f"`{command} --tasks {tasks[block]}`")
    return made


def _agreement(records: Path) -> list[Block]:
    """Count the scores that agree with those of the paper's tables of the same name."""
    rows, all_agree, all_compared = [], 0, 0
    for experiment in REPRODUCED:
        scores = read_scores(records, experiment)
        agree, compared = scores.agreement_count
        rows.append([_PAGES[experiment][0], f"{len(scores.summaries)} of {len(scores.cells)}", f"{agree} of {compared}"])
        all_agree, all_compared = all_agree + agree, all_compared + compared
    rows.append(["all", NOTHING, f"{all_agree} of {all_compared}"])
    return ["## Agreement of scores", LEGEND, PageTable(["Table", "experiment cells run", "scores near the paper's"], rows)]


def _table_blocks(experiment: str, records: Path, *, figures: tuple[str, ...] = (), gains: bool = True) -> list[Block]:
    """Return the page of an experiment on tables: scores of every task, and optionally figures and gains."""
    scores = read_scores(records, experiment)
    made: list[Block] = [EXPERIMENTS[experiment], *_state(scores)]
    if not scores.summaries:
        return made
    made += [f"{legend(scores)} {BOLD}", *([_P_VALUES] if gains else [])]
    made += [score_figure(scores, experiment, metric) for metric in figures]
    for task in scores.run_tasks:
        made += [f"## {TASKS[task]}", _origin(scores, task), score_table(scores, task)]
        made += [gain_table(scores, task, PAPER_TABLES.get(experiment))] if gains else []
    return made


def _state(scores: Scores) -> list[Block]:
    """Say how much of an experiment was run, and how many scores agree with the paper's."""
    missing = [TASKS[task] for task in scores.tasks if task not in scores.run_tasks]
    lines: list[Block] = [f"{len(scores.summaries)} of {len(scores.cells)} experiment cells were run."]
    agree, compared = scores.agreement_count
    lines += [f"{agree} of {compared} scores that the paper reports too are near its own ({HIT})."] if compared else []
    lines += [f"Not run: {', '.join(missing)}."] if missing else []
    return lines


def _origin(scores: Scores, task: str) -> str:
    summary = next(summary for key, summary in scores.summaries.items() if key[0] == task)
    return " ".join([f"{summary.about['rows']} rows.", *summary.about["origin"]])


def _alpha_page(records: Path) -> list[Block]:
    scores = read_scores(records, "alpha")
    made: list[Block] = [EXPERIMENTS["alpha"], *_state(scores)]
    made += ["Alpha is fixed; learning rate, decay and epoch are selected by the validation rows."]
    made += [f"Boxes, and mean(standard deviation), are over the five folds. {BOLD}"]
    for task in scores.run_tasks:
        results = {metric: results_by_parameter(scores.summaries[task, "gar"], metric) for metric in TABLE_METRICS}
        made += [f"## {TASKS[task]}", alpha_figure(task, results), alpha_table(results)]
    return made


def _batch_page(records: Path) -> list[Block]:
    scores = read_scores(records, "batch-size")
    made: list[Block] = [EXPERIMENTS["batch-size"], *_state(scores), f"{legend(scores)} {BOLD}"]
    made += ["The lower figures show mean and standard deviation of the predictions of each fold's model with the best MAE."]
    for task in scores.run_tasks:
        made += [f"## {TASKS[task]}", score_table(scores, task), batch_figure(scores, task), moments_figure(scores, task)]
    return made


def _selected_alpha_page(records: Path) -> list[Block]:
    scores = read_scores(records, "selected-alpha")
    rows = []
    for task in scores.tasks:
        for metric in TABLE_METRICS:
            summary, theirs = scores.summaries.get((task, "gar")), published.selected_alphas().get((task, metric))
            ours = None if summary is None else _selected_alphas(summary, metric)
            rows.append([TASKS[task], METRICS[metric].title, _listed(ours, NOT_RUN), _listed(theirs, NOTHING)])
    return [EXPERIMENTS["selected-alpha"], PageTable(["Task", "Metric", "alpha of folds 1 to 5", "paper's"], rows)]


def _selected_alphas(summary: Summary, metric: str) -> tuple[float, ...]:
    assert summary.models.parameter is not None
    return tuple(summary.models.parameter[winners(summary, metric).model].tolist())


def _listed(values: tuple[float, ...] | None, missing: str) -> str:
    if values is None:
        return missing
    return f"{', '.join(short(value) for value in values)}; mean {np.mean(values):.2f}({np.std(values):.2f})"


_CHOICE = (
    "Each method is shown with the learning rate, decay and parameter whose mean absolute error after the last epoch, over five "
    "seeds, is least on the half of the points that is not trained on: the paper has no validation points here."
)
_SLOPES = (
    "The loss is named after slopes, but the paper never measures them. Cosine of slopes: that of the angle between the slopes of "
    "fit and truth on points that are not trained on; 1 is perfect. Relative error of slopes: the norm of their difference over "
    "the norm of the true slopes; 0 is perfect, and a constant function has 1. Mean(sd) over seeds."
)


def _synthetic_page(records: Path) -> list[Block]:
    found = _fits(records, "synthetic")
    made: list[Block] = [EXPERIMENTS["synthetic"], _CHOICE, _SLOPES]
    if not found:
        return [*made, "Not run."]
    by_task: dict[str, dict[str, tuple[str, Fit]]] = {}
    for (task, variant), (title, fit) in found.items():
        by_task.setdefault(task, {})[variant] = (title, fit)
    for task, fits in by_task.items():
        made += [f"## {TASKS[task]}", fit_figure("synthetic", task, fits), _fit_table(fits)]
    return [*made, "## Slopes", slope_figure(by_task)]


def _fits(records: Path, experiment: str) -> dict[tuple[str, str], tuple[str, Fit]]:
    """Return the titles and fits of an experiment on curves, by task and variant."""
    found = cells(experiment)
    summaries = read_summaries(records, found)
    titles = {(cell.task, cell.variant): cell.title for cell in found}
    fits = {key: fit_of(summary, key[0]) for key, summary in summaries.items()}
    return {key: (titles[key], fit) for key, fit in fits.items() if fit is not None}


def _fit_table(fits: Mapping[str, tuple[str, Fit]]) -> PageTable:
    columns = ["Method", "MAE", "Pearson", "cosine of slopes", "relative error of slopes"]
    rows = []
    for title, fit in fits.values():
        measured = (fit.error, fit.correlation, fit.slope_cosine, fit.slope_error)
        rows.append([title, *(with_sd(float(values.mean()), float(values.std())) for values in measured)])
    return PageTable(columns, rows)


def _depth_page(records: Path) -> list[Block]:
    found = _fits(records, "depth")
    made: list[Block] = [EXPERIMENTS["depth"], _CHOICE]
    if not found:
        return [*made, "Not run."]
    fits = {(variant.rpartition("-")[0], int(variant.rpartition("-")[2])): value for (_, variant), value in found.items()}
    rows = []
    for method in dict.fromkeys(method for method, _ in fits):
        title = next(title for (name, _), (title, _) in fits.items() if name == method)
        rows.append([title, *(_correlations(fits.get((method, depth))) for depth in LAYERS)])
    table = PageTable(["Method", *(f"{depth} layers" for depth in LAYERS)], rows)
    correlation, curves = depth_figures(fits, CURVE_METHODS)
    return [*made, correlation, "Pearson correlation with the truth: mean of five seeds, and the greatest.", table, curves]


def _correlations(found: tuple[str, Fit] | None) -> str:
    return NOT_RUN if found is None else f"{found[1].correlation.mean():.3f}, {found[1].correlation.max():.3f}"


_EVOLVED = (
    "Programs evolve on the points that networks train on, in five runs with different seeds. Without sine and cosine among its "
    "functions the search has to approximate the oscillation by other functions, as a network does; with them the exact answer "
    "is available. Mean(sd) over the runs."
)


def _symbolic_page(records: Path) -> list[Block]:
    made: list[Block] = [EXPERIMENTS["symbolic"], _EVOLVED]
    found = {(study.task, study.variant): study.read(records) for study in symbolic_studies()}
    for task in dict.fromkeys(task for (task, _), record in found.items() if record):
        by_variant = {variant: record for (name, variant), record in found.items() if name == task and record}
        fits = {variant: (_program_title(variant), read_fit(record)) for variant, record in by_variant.items()}
        made += [f"## {TASKS[task]}", fit_figure("symbolic", task, fits, kind="programs"), _fit_table(fits)]
        programs = [[title, min(by_variant[variant]["programs"], key=len)] for variant, (title, _) in fits.items()]
        made += ["The shortest program of each five runs:", PageTable(["Method", "program"], programs)]
    return made if len(made) > 2 else [*made, "Not run."]


def _program_title(variant: str) -> str:
    library, toolbox, method = variant.split("-")
    return f"{FITNESSES[method]}, {TOOLBOXES[toolbox]} ({library})"


_TIMES = (
    "Milliseconds per epoch. 'Whole' is a training epoch of one model with plain PyTorch in one thread, without evaluation; "
    "'loss' is the loss and its backward pass. 'Stack' is an epoch of one model of 45 that train as one program, evaluation "
    "included. The paper's were measured on another machine, with a data loader that starts a process in every epoch: "
    "compare ratios."
)


def _runtime_page(records: Path) -> list[Block]:
    times = timing.read_times(records)
    tasks = [task for task in timing.TASKS if any(key[0] == task for key in times)]
    if not tasks:
        return [EXPERIMENTS["runtime"], "Not run."]
    blocks: list[Block] = [EXPERIMENTS["runtime"], _TIMES, _machines(times), runtime_figure(times, tasks)]
    for task in tasks:
        blocks += [f"## {TASKS[task]}", _time_table(times, task)]
    return blocks


def _machines(times: timing.Times) -> str:
    """Describe the machines of all records; mostly it is one."""
    machines = [record["machine"] for record in times.values()]
    shown = [provenance.in_words(one) for one in machines]
    loads = [one["load"] for one in machines if one["load"] is not None]
    load = f" Load while measuring: {min(loads)} to {max(loads)}." if loads else ""
    return f"Measured on: {'; '.join(dict.fromkeys(shown))}.{load}"


def _time_table(times: timing.Times, task: str) -> PageTable:
    columns = ["Method", "whole, mean(sd)", "median", "paper's", "loss, mean(sd)", "median", "paper's", "stack", "epochs"]
    rows = []
    for method in PAPER_LOSSES:
        record, entries = times.get((task, method)), []
        for kind in ("all", "loss"):
            score = published.running_times().get((task, method, kind))
            entries += [NOT_RUN, NOT_RUN] if record is None else _milliseconds(record[kind])
            entries.append(NOTHING if score is None else f"{1e3 * score.mean:.0f}({1e3 * score.sd:.0f})")
        entries += [NOT_RUN, NOT_RUN] if record is None else [f"{1e3 * record['stack']:.3f}", str(record["epochs"])]
        rows.append([LOSSES[method].title, *entries])
    return PageTable(columns, rows)


def _milliseconds(one: Mapping[str, float]) -> list[str]:
    return [with_sd(1e3 * one["mean"], 1e3 * one["sd"]), f"{1e3 * one['median']:.3f}"]


def _agedb_page(records: Path) -> list[Block]:
    found = {(study.task, study.variant): study.read(records) for study in agedb.agedb_studies()}
    made: list[Block] = [EXPERIMENTS["agedb"], f"{sum(one is not None for one in found.values())} of {len(found)} were run."]
    columns = ["Method", *(name for metric in METRICS.values() for name in (metric.title, "paper"))]
    paper = published.scores("table1")
    for task, title in agedb.TASKS.items():
        rows = []
        for method in (method for name, method in found if name == task):
            record = found[task, method]
            ours = {metric: NOT_RUN if record is None else with_sd(*record["test"][metric]) for metric in METRICS}
            rows.append([LOSSES[method].title, *(c for m in METRICS for c in (ours[m], with_sd(*paper[task, method, m])))])
        made += [f"## {title}", PageTable(columns, rows)]
    return made


_BOTH = ("mae", "pearson")
_PAGES: Mapping[str, tuple[str, Callable[[Path], list[Block]]]] = {
    "table1": ("Table 1: nine methods", partial(_table_blocks, "table1", figures=TABLE_METRICS)),
    "standardized": ("Standardised labels", partial(_table_blocks, "standardized", figures=_BOTH)),
    "ablation": ("Components of GAR", partial(_table_blocks, "ablation", gains=False)),
    "alpha": ("Alpha", _alpha_page),
    "batch-size": ("Batch sizes", _batch_page),
    "selected-alpha": ("Selected alpha", _selected_alpha_page),
    "runtime": ("Running time", _runtime_page),
    "synthetic": ("Two curves, and their slopes", _synthetic_page),
    "depth": ("Depth of the network", _depth_page),
    "symbolic": ("Symbolic regression", _symbolic_page),
    "agedb": ("AgeDB", _agedb_page),
    "by-subject": ("Parkinson split by person", partial(_table_blocks, "by-subject", figures=_BOTH)),
    "train-statistics": ("Features standardised by training rows", partial(_table_blocks, "train-statistics", figures=_BOTH)),
    "differences": ("Text, equations and code", partial(_table_blocks, "differences", gains=False)),
}
"""Title and content of pages. An experiment without an entry has a page of scores and gains under its own name."""
