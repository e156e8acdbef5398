"""Tables of docs/faces.md, from the records alone: ``python -m benchmarks.faces_page``."""

import json
from collections.abc import Iterable, Mapping
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.faces import IMAGES, METHODS, PILOT, PROBED, RECORDS, SEEDS, SHARED, TEST, TIMING, best_rates, folder, read
from benchmarks.pages import write_tables
from benchmarks.vision import speed_table
from gar.registry import LOSSES, METRICS
from gar_reproduction import published

PAGE = Path(__file__).parents[1] / "docs" / "faces.md"
Method = tuple[str, float | None]
"""A loss and its parameter."""
Scores = Mapping[str, Mapping[str, float]]
"""A score by loss and metric."""


def studies() -> list[tuple[int, int]]:
    """Return training images and epochs of the studies in which all losses have been trained with one seed at least."""
    words = [path.name.split("-") for path in RECORDS.glob("*-images-*-epochs")]
    return [study for study in sorted((int(images), int(epochs)) for images, _, epochs, _ in words) if complete_seeds(*study)]


def complete_seeds(images: int, epochs: int) -> list[int]:
    """Return the seeds with which all losses were trained, GAR with one alpha at least."""
    found = [(one["seed"], one["loss"], one["parameter"]) for one in trained(images, epochs)]
    return [seed for seed in SEEDS if all((seed, *method) in found for method in PILOT)]


def trained(images: int, epochs: int) -> list[dict[str, Any]]:
    """Return the records of runs with the learning rates that the pilot chose."""
    rates = best_rates(images)
    return [one for one in read(folder(images, epochs)) if one["learning_rate"] == rates[one["loss"]]]


def runs(images: int, epochs: int) -> dict[Method, list[dict[str, Any]]]:
    """Return the records of each method that was trained with all complete seeds, one for each of them."""
    seeds, found = complete_seeds(images, epochs), trained(images, epochs)
    records = {
        method: [one for one in found if (one["loss"], one["parameter"]) == method and one["seed"] in seeds]
        for method in in_order(METHODS)
    }
    return {method: known for method, known in records.items() if len(known) == len(seeds)}


def in_order(methods: Iterable[Method]) -> list[Method]:
    """Return methods with GAR last and parameters ascending."""
    return sorted(methods, key=lambda method: (method[0] == "gar", list(LOSSES).index(method[0]), method[1] or 0.0))


def mean(records: list[dict[str, Any]], split: str, metric: str) -> float:
    return float(np.mean([one[split][metric] for one in records]))


def chosen(images: int, epochs: int) -> dict[str, Method]:
    """Return the method of each loss with the least mean absolute error on the validation images."""
    found = runs(images, epochs)
    worst_first = sorted(found, key=lambda method: mean(found[method], "val", "mae"), reverse=True)
    best = {method[0]: method for method in worst_first}
    return {loss: best[loss] for loss, _ in in_order(best.values())}


def scratch_scores(images: int, epochs: int) -> Scores:
    """Return the mean test scores of each loss with its chosen parameter."""
    found = runs(images, epochs)
    return {
        loss: {metric: mean(found[best], "test", metric) for metric in METRICS} for loss, best in chosen(images, epochs).items()
    }


def probe_scores(images: int, epochs: int) -> Scores:
    """Return the mean test scores of the probes."""
    return {one["loss"]: {metric: one["test"][metric][0] for metric in METRICS} for one in read(folder(images, epochs), "probe-*")}


def probe_table(images: int, epochs: int) -> str:
    """Return the scores of the probes with the chosen configuration of each loss, and the standard deviation over its seeds."""
    found = {one["loss"]: one for one in read(folder(images, epochs), "probe-*")}
    rows = []
    for loss in PROBED:
        configuration = f"{found[loss]['learning_rate']:g}, {found[loss]['weight_decay']:g}"
        scores = [published.with_sd(*found[loss]["test"][metric]) for metric in METRICS]
        rows.append([name((loss, found[loss]["parameter"])), configuration, *scores])
    return table(["loss", "learning rate, decay", *(spec.title for spec in METRICS.values())], rows)


def order(scores: Scores, metric: str) -> str:
    """Return the losses from best to worst, each with its score; equal ones, as they are shown, are joined by an equals sign."""
    shown = {loss: f"{values[metric]:.3f}" for loss, values in scores.items()}
    ranked = sorted(scores, key=lambda loss: -METRICS[metric].sign * float(shown[loss]))
    words = [f"{LOSSES[loss].title} {shown[loss]}" for loss in ranked]
    joints = [" = " if shown[one] == shown[other] else ", " for one, other in pairwise(ranked)]
    return "".join(map("".join, zip_longest(words, joints, fillvalue="")))


def order_table(task: str, scores: Scores) -> str:
    """Return the order of losses in each metric, here and in the paper."""
    known = published.scores("table1")
    theirs = {loss: {metric: known[task, loss, metric].mean for metric in METRICS} for loss in scores}
    rows = [[METRICS[metric].title, order(scores, metric), order(theirs, metric)] for metric in METRICS]
    return table(["metric", "here, from best to worst", "the paper, on AgeDB"], rows)


def scratch_table(images: int, epochs: int) -> str:
    """Return the scores of all methods; the chosen ones are bold."""
    best, rows = chosen(images, epochs).values(), []
    for method, records in runs(images, epochs).items():
        cells = [name(method), f"{records[0]['learning_rate']:g}", cell(records, "val", "mae")]
        cells += [cell(records, "test", metric) for metric in METRICS]
        rows.append([f"**{word}**" for word in cells] if method in best and method[0] == "gar" else cells)
    return table(["loss", "learning rate", "MAE on val", *(spec.title for spec in METRICS.values())], rows)


def name(method: Method) -> str:
    loss, parameter = method
    return LOSSES[loss].title + ("" if parameter is None else f", {LOSSES[loss].parameter} {parameter:g}")


def cell(records: list[dict[str, Any]], split: str, metric: str) -> str:
    """Return a mean over seeds, with the standard deviation if there are several."""
    values = [one[split][metric] for one in records]
    return published.with_sd(float(np.mean(values)), float(np.std(values))) if len(values) > 1 else f"{values[0]:.3f}"


def verdict(scores: Scores, where: str) -> str:
    """Return in how many metrics GAR is ahead, and how its absolute error compares with the best of the others."""
    others = {loss: values for loss, values in scores.items() if loss != "gar"}
    first = [spec.title for metric, spec in METRICS.items() if is_ahead(scores["gar"][metric], others, metric)]
    rival = min(others, key=lambda loss: others[loss]["mae"])
    ours, theirs = scores["gar"]["mae"], others[rival]["mae"]
    error = np.sqrt((scores["gar"]["rmse"] ** 2 - ours**2) / TEST)
    named = f" ({', '.join(first)})" if first else ""
    return (
        f"{where}: GAR is alone in front in {len(first)} of {len(METRICS)} metrics{named}. Its MAE is {ours:.3f}, that of "
        f"{LOSSES[rival].title}, the best other loss, {theirs:.3f}; the standard error of such a mean over {TEST} images is "
        f"{error:.3f}."
    )


def is_ahead(ours: float, others: Scores, metric: str) -> bool:
    """Return True if a score is better than all others in three digits."""
    sign = METRICS[metric].sign
    return all(sign * round(ours, 3) > sign * round(values[metric], 3) for values in others.values())


def rates_table(images: int) -> str:
    """Return the error of each loss on the validation images after the pilot, by learning rate; the least is bold."""
    errors = {(one["loss"], one["learning_rate"]): one["val"]["mae"] for one in read(folder(images))}
    rates, chosen_rates = sorted({rate for _, rate in errors}), best_rates(images)
    rows = []
    for method in in_order(PILOT):
        words = {rate: _error(errors.get((method[0], rate))) for rate in rates}
        words[chosen_rates[method[0]]] = f"**{words[chosen_rates[method[0]]]}**"
        rows.append([name(method), *words.values()])
    return table(["loss", *(f"{rate:g}" for rate in rates)], rows)


def _error(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if np.isfinite(value) else "diverged"


def timing_table() -> str:
    """Return the seconds of an epoch of each loss, and how they compare with those of MAE."""
    seconds = json.loads(TIMING.read_text())
    steps = IMAGES // SHARED.batch_size
    rows = [[LOSSES[loss].title, f"{value * steps:.1f}", f"{value / seconds['mae']:.2f}"] for loss, value in seconds.items()]
    return table(["loss", "seconds of an epoch", "of MAE's"], rows)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def title(images: int, epochs: int) -> str:
    return f"{images} training images, {epochs} epochs"


def seed_words(images: int, epochs: int) -> str:
    found = complete_seeds(images, epochs)
    return f"seed{'s' * (len(found) > 1)} {' and '.join(map(str, found))}"


def blocks() -> dict[str, str]:
    """Return every table of the page by name, those of all studies below each other."""
    probed = [study for study in studies() if set(PROBED) <= set(probe_scores(*study))]
    verdicts = [verdict(scratch_scores(*study), f"From scratch, {title(*study)}, {seed_words(*study)}") for study in studies()]
    verdicts += [verdict(probe_scores(*study), f"Linear probes, {title(*study)}") for study in probed]
    scratch = [f"{title(*study)}, {seed_words(*study)}:\n\n{scratch_table(*study)}" for study in studies()]
    probes = [f"{title(*study)}:\n\n{probe_table(*study)}" for study in probed]
    return {
        "verdict": "\n".join(f"- {words}" for words in verdicts),
        "learning rates": rates_table(IMAGES),
        "from scratch": "\n\n".join(scratch),
        "orders": "\n\n".join(order_table("agedb-scratch", scratch_scores(*study)) for study in studies()),
        "probes": "\n\n".join(probes) or "Not run yet.",
        "orders of probes": "\n\n".join(order_table("agedb-probe", probe_scores(*study)) for study in probed),
        "seconds": timing_table(),
        "speed": speed_table(),
    }


if __name__ == "__main__":
    write_tables(PAGE, blocks())
