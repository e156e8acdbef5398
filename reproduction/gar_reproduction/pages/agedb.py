"""AgeDB as a page shows it."""

from pathlib import Path

from gar.metrics import METRICS
from gar.registry import METRICS as TITLES
from gar_reproduction import published
from gar_reproduction.agedb import TASKS, agedb_studies
from gar_reproduction.names import EXPERIMENTS, METHODS
from gar_reproduction.pages.blocks import NOT_RUN, Block, Heading, Table, row
from gar_reproduction.published import with_sd


def agedb_blocks(records: Path) -> list[Block]:
    studies = agedb_studies()
    found = {(study.task, study.variant): study.read(records) for study in studies}
    made: list[Block] = [EXPERIMENTS["agedb"], f"{sum(one is not None for one in found.values())} of {len(found)} were run."]
    columns = ["Method", *(name for metric in METRICS for name in (TITLES[metric].title, "paper"))]
    paper = published.scores("table1")
    for task, title in TASKS.items():
        rows = []
        for method in (method for place, method in found if place == task):
            record = found[task, method]
            ours = {metric: NOT_RUN if record is None else with_sd(*record["test"][metric]) for metric in METRICS}
            rows.append(row(METHODS[method], *(c for m in METRICS for c in (ours[m], with_sd(*paper[task, method, m])))))
        made += [Heading(title), Table(columns, rows)]
    return made
