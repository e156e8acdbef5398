"""Which learning rates and alphas validation rows choose, counted in records: ``python -m benchmarks.choices``.

It renders the tables of docs/tutorials/settings.md. The paper's tables are trained by SGD with momentum, and each fold chooses one
network by its MAE; ``GARRegressorCV`` trains by AdamW, and chooses several networks in each fold.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks import strength
from benchmarks.pages import write_tables
from gar.registry import LOSSES
from gar_reproduction.folders import records_folder
from gar_reproduction.scores import read_scores, winners

PAGE = Path(__file__).parent.parent / "docs" / "tutorials" / "settings.md"
TRAINED = {"table1": "SGD, labels as they are", "standardized": "SGD, labels standardised"}
ADAMW = "AdamW, labels standardised"
SHOWN = ("gar", "mae", "mse")


def chosen_by_folds(experiment: str, loss: str, column: str) -> Counter[float]:
    """Count the values of one column of the models that folds choose, over all tables of an experiment."""
    found: Counter[float] = Counter()
    for (_, method), summary in read_scores(records_folder(), experiment).summaries.items():
        if method == loss:
            found.update(getattr(summary.models, column)[winners(summary, "mae").model].tolist())
    return found


def chosen_by_estimators(loss: str, name: str) -> Counter[float]:
    """Count the values of one setting of the networks that estimators predict with, over the tables of ``benchmarks.strength``."""
    paths = [path for task in strength.TASKS if (path := strength.record_of(task, loss)).exists()]
    return Counter(network[name] for path in paths for fold in json.loads(path.read_text())["chosen"] for network in fold)


def table(heading: str, values: Sequence[float], counts: Sequence[tuple[str, str, Counter[float]]]) -> str:
    """Return counts by value; a value that is never chosen has an empty cell."""
    lines = [f"| {heading} | loss | " + " | ".join(f"{value:g}" for value in values) + " |", "|---|---|" + "---|" * len(values)]
    for trained, loss, count in counts:
        cells = [str(count[value]) if value in count else "" for value in values]
        lines.append(f"| {trained} | {LOSSES[loss].title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def blocks() -> dict[str, str]:
    """Return every table of the page by name."""
    rates = [(TRAINED[name], loss, chosen_by_folds(name, loss, "learning_rate")) for name in TRAINED for loss in SHOWN]
    rates += [(ADAMW, loss, chosen_by_estimators(loss, "learning_rate")) for loss in strength.COMPARED]
    alphas = [(TRAINED[name], "gar", chosen_by_folds(name, "gar", "parameter")) for name in TRAINED]
    alphas += [(ADAMW, "gar", chosen_by_estimators("gar", "alpha"))]
    counted = {"learning rate": rates, "alpha": alphas}
    return {
        f"chosen {name}": table(name, sorted({value for _, _, count in counts for value in count}), counts)
        for name, counts in counted.items()
    }


if __name__ == "__main__":
    write_tables(PAGE, blocks())
