"""One page for every experiment."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from gar.app.report.formatting import NOTHING, short
from gar.registry import METRICS as TITLES
from gar_reproduction import published
from gar_reproduction.curves import Fit, fit_of
from gar_reproduction.experiments import CURVE_METHODS, LAYERS, units
from gar_reproduction.names import EXPERIMENTS, METRICS, TASKS
from gar_reproduction.pages.agedb import agedb_blocks
from gar_reproduction.pages.blocks import HIT, NOT_RUN, Block, Heading, Page, Table, row
from gar_reproduction.pages.claims import claim_blocks
from gar_reproduction.pages.curve_figures import depth_figures, fit_figure, slope_figure, symbolic_figure
from gar_reproduction.pages.figures import alpha_figure, batch_figure, moments_figure, score_figure
from gar_reproduction.pages.numbers import PAPER_TABLES, REPRODUCED, Scores, read_scores
from gar_reproduction.pages.tables import BOLD, LEGEND, alpha_table, gain_table, legend, near_count, score_table
from gar_reproduction.pages.timing import timing_blocks
from gar_reproduction.published import with_sd
from gar_reproduction.scores import read_digests, results_by_parameter, winners
from gar_reproduction.symbolic import METHODS as PROGRAMS_BY
from gar_reproduction.symbolic import TOOLBOXES, read_fit, symbolic_studies

_P_VALUES = (
    "Gains are GAR's, in percent of the other's mean. 't-test' is Student's test of two samples, as in the paper. 'Corrected' "
    "is the corrected resampled test of Nadeau and Bengio on the paired folds: it knows that folds share most of their rows."
)


def pages(records: Path) -> list[Page]:
    """All pages, from records alone."""
    made = [Page(name, _PAGES[name][0], _PAGES[name][1](records)) for name in EXPERIMENTS]
    return [Page("claims", "Which claims hold", [*claim_blocks(records), *_nearness(records)]), *made]


def _nearness(records: Path) -> list[Block]:
    """How many scores are near those of the paper's tables of the same name."""
    rows, all_near, all_compared = [], 0, 0
    for experiment in REPRODUCED:
        scores = read_scores(records, experiment)
        near, compared = near_count(scores)
        rows.append(row(_PAGES[experiment][0], f"{len(scores.digests)} of {len(scores.units)}", f"{near} of {compared}"))
        all_near, all_compared = all_near + near, all_compared + compared
    rows.append(row("all", NOTHING, f"{all_near} of {all_compared}"))
    return [Heading("How near scores are"), LEGEND, Table(["Table", "units run", "cells near the paper's"], rows)]


def _table_page(experiment: str, *, figures: tuple[str, ...], gains: bool = True) -> Callable[[Path], list[Block]]:
    def blocks(records: Path) -> list[Block]:
        scores = read_scores(records, experiment)
        made: list[Block] = [EXPERIMENTS[experiment], *_state(scores)]
        if not scores.digests:
            return made
        made += [f"{legend(scores)} {BOLD}", *([_P_VALUES] if gains else [])]
        made += [score_figure(scores, experiment, metric) for metric in figures]
        for task in scores.run_tasks:
            made += [Heading(TASKS[task]), _origin(scores, task), score_table(scores, task)]
            made += [gain_table(scores, task, PAPER_TABLES.get(experiment))] if gains else []
        return made

    return blocks


def _state(scores: Scores) -> list[Block]:
    """What of it was run, and how much of that is near the paper's."""
    missing = [TASKS[task] for task in scores.tasks if task not in scores.run_tasks]
    lines: list[Block] = [f"{len(scores.digests)} of {len(scores.units)} units were run."]
    near, compared = near_count(scores)
    lines += [f"{near} of {compared} cells that the paper has too are near its own ({HIT})."] if compared else []
    lines += [f"Not run: {', '.join(missing)}."] if missing else []
    return lines


def _origin(scores: Scores, task: str) -> str:
    digest = next(digest for key, digest in scores.digests.items() if key[0] == task)
    return " ".join([f"{digest.about['rows']} rows.", *digest.about["origin"]])


def _alpha_page(records: Path) -> list[Block]:
    scores = read_scores(records, "alpha")
    made: list[Block] = [EXPERIMENTS["alpha"], *_state(scores)]
    made += ["Alpha is fixed; learning rate, decay and epoch are chosen on the validation rows."]
    made += [f"Boxes, and mean(standard deviation), are over the five folds. {BOLD}"]
    for task in scores.run_tasks:
        results = {metric: results_by_parameter(scores.digests[task, "gar"], metric) for metric in METRICS}
        made += [Heading(TASKS[task]), alpha_figure(task, results), alpha_table(results)]
    return made


def _batch_page(records: Path) -> list[Block]:
    scores = read_scores(records, "batch-size")
    made: list[Block] = [EXPERIMENTS["batch-size"], *_state(scores), f"{legend(scores)} {BOLD}"]
    made += ["The lower figures follow the model of each fold that is best in MAE: mean and standard deviation of its predictions."]
    for task in scores.run_tasks:
        made += [Heading(TASKS[task]), score_table(scores, task), batch_figure(scores, task), moments_figure(scores, task)]
    return made


def _selected_alpha_page(records: Path) -> list[Block]:
    scores = read_scores(records, "selected-alpha")
    theirs = published.selected_alphas()
    rows = []
    for task in scores.tasks:
        for metric in METRICS:
            digest, paper = scores.digests.get((task, "gar")), theirs.get((task, metric))
            ours = None if digest is None else _chosen(digest.models.parameter, winners(digest, metric).model)
            rows.append(row(TASKS[task], TITLES[metric].title, _listed(ours, NOT_RUN), _listed(paper, NOTHING)))
    return [EXPERIMENTS["selected-alpha"], Table(["Task", "Metric", "alpha of folds 1 to 5", "paper's"], rows)]


def _chosen(parameters: np.ndarray | None, places: np.ndarray) -> tuple[float, ...]:
    return () if parameters is None else tuple(parameters[places].tolist())


def _listed(values: tuple[float, ...] | None, nothing: str) -> str:
    if values is None:
        return nothing
    return f"{', '.join(short(value) for value in values)}; mean {np.mean(values):.2f}({np.std(values):.2f})"


_CHOICE = (
    "Of every method the combination of learning rate, decay and parameter is shown that has the least mean absolute error after "
    "the last epoch, over five seeds, on the half of the points that is not trained on: the paper has no validation points here."
)
_SLOPES = (
    "Slopes are what the loss is named after, and the paper never measures them. Cosine: of the angle between slopes of fit and "
    "truth on points that are not trained on; 1 is perfect. Relative error: length of their difference over that of the true "
    "slopes; 0 is perfect, and a constant function has 1. Mean(sd) over seeds."
)


def _synthetic_page(records: Path) -> list[Block]:
    scores_of = _fits(records, "synthetic")
    made: list[Block] = [EXPERIMENTS["synthetic"], _CHOICE, _SLOPES]
    if not scores_of:
        return [*made, "Not run."]
    by_task: dict[str, dict[str, tuple[str, Fit]]] = {}
    for (task, variant), (title, fit) in scores_of.items():
        by_task.setdefault(task, {})[variant] = (title, fit)
    for task, fits in by_task.items():
        made += [Heading(TASKS[task]), fit_figure(task, fits), _fit_table(fits)]
    return [*made, Heading("Slopes"), slope_figure(by_task)]


def _fits(records: Path, experiment: str) -> dict[tuple[str, str], tuple[str, Fit]]:
    """By task and variant, with the method's title."""
    found = units(experiment)
    digests = read_digests(records, found)
    titles = {(unit.task, unit.variant): unit.title for unit in found}
    fits = {key: fit_of(digest, key[0]) for key, digest in digests.items()}
    return {key: (titles[key], fit) for key, fit in fits.items() if fit is not None}


def _fit_table(fits: Mapping[str, tuple[str, Fit]]) -> Table:
    columns = ["Method", "MAE", "Pearson", "cosine of slopes", "relative error of slopes"]
    rows = []
    for title, fit in fits.values():
        measured = (fit.error, fit.correlation, fit.slope_cosine, fit.slope_error)
        rows.append(row(title, *(with_sd(float(values.mean()), float(values.std())) for values in measured)))
    return Table(columns, rows)


def _depth_page(records: Path) -> list[Block]:
    found = _fits(records, "depth")
    made: list[Block] = [EXPERIMENTS["depth"], _CHOICE]
    if not found:
        return [*made, "Not run."]
    fits = {(variant.rpartition("-")[0], int(variant.rpartition("-")[2])): value for (_, variant), value in found.items()}
    rows = []
    for method in dict.fromkeys(method for method, _ in fits):
        title = next(title for (name, _), (title, _) in fits.items() if name == method)
        rows.append(row(title, *(_correlations(fits.get((method, depth))) for depth in LAYERS)))
    table = Table(["Method", *(f"{depth} layers" for depth in LAYERS)], rows)
    correlation, curves = depth_figures(fits, CURVE_METHODS)
    return [*made, correlation, "Pearson correlation with the truth: mean of five seeds, and the greatest.", table, curves]


def _correlations(found: tuple[str, Fit] | None) -> str:
    return NOT_RUN if found is None else f"{found[1].correlation.mean():.3f}, {found[1].correlation.max():.3f}"


_EVOLVED = (
    "Programs evolve on the points that networks train on: five runs of different seeds. Without sine and cosine among its "
    "functions the search has to make waves of something else, as a network does; with them the answer is in its toolbox. "
    "Mean(sd) of the runs."
)


def _symbolic_page(records: Path) -> list[Block]:
    made: list[Block] = [EXPERIMENTS["symbolic"], _EVOLVED]
    found = {(study.task, study.variant): study.read(records) for study in symbolic_studies()}
    for task in dict.fromkeys(task for (task, _), record in found.items() if record):
        by_variant = {variant: record for (name, variant), record in found.items() if name == task and record}
        fits = {variant: (_program_title(variant), read_fit(record)) for variant, record in by_variant.items()}
        made += [Heading(TASKS[task]), symbolic_figure(task, fits), _fit_table(fits)]
        programs = [row(title, min(by_variant[variant]["programs"], key=len)) for variant, (title, _) in fits.items()]
        made += ["The shortest of each five programs:", Table(["Method", "program"], programs)]
    return made if len(made) > 2 else [*made, "Not run."]


def _program_title(variant: str) -> str:
    engine, toolbox, method = variant.split("-")
    return f"{PROGRAMS_BY[method]}, {TOOLBOXES[toolbox]} ({engine})"


_BOTH = ("mae", "pearson")
_PAGES: Mapping[str, tuple[str, Callable[[Path], list[Block]]]] = {
    "table1": ("Table 1: nine methods", _table_page("table1", figures=METRICS)),
    "standardized": ("Standardised labels", _table_page("standardized", figures=_BOTH)),
    "ablation": ("Components of GAR", _table_page("ablation", figures=(), gains=False)),
    "alpha": ("Alpha", _alpha_page),
    "batch-size": ("Batch sizes", _batch_page),
    "selected-alpha": ("Which alpha is chosen", _selected_alpha_page),
    "runtime": ("Running time", timing_blocks),
    "synthetic": ("Two curves, and their slopes", _synthetic_page),
    "depth": ("Depth of the network", _depth_page),
    "symbolic": ("Symbolic regression", _symbolic_page),
    "agedb": ("AgeDB", agedb_blocks),
    "by-subject": ("Parkinson split by person", _table_page("by-subject", figures=_BOTH)),
    "train-statistics": ("Features standardised by training rows", _table_page("train-statistics", figures=_BOTH)),
    "differences": ("Text, equations and code", _table_page("differences", figures=(), gains=False)),
}
"""Title and content, by the experiment's name. An experiment that is not made of units adds its page here."""
