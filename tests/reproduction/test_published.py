"""The paper's numbers: as many as its tables have, and in agreement with each other where the paper derives one from another."""

import pytest

from gar.errors import InputError
from gar.registry import METRICS, PAPER_LOSSES
from gar_reproduction import published
from gar_reproduction.names import TABLE_METRICS
from gar_reproduction.scores import mean_ranks

TABLES = ("concrete", "wine", "parkinson-total", "parkinson-motor", "superconductivity", "ic50")
SHAPES = {
    # rows and columns of each file, counted in the paper's tables
    "table1": (6 * 4 * 9 + 5 * 8 + 5 * 6, 5),  # AgeDB: five metrics; no RNC from scratch, none on features with a linear probe
    "table1-gains": (6 * 4 + 2 * 5, 6),
    "standardized": (6 * 4 * 9, 5),
    "standardized-gains": (6 * 4, 6),
    "ablation": (6 * 4 * 7, 5),
    "ablation-ranks": (7, 2),
    "runtime": (9 * 5 * 2, 5),
    "selected-alpha": (6 * 4 * 5, 4),
    "selected-alpha-means": (6 * 4, 4),
    "batch-size": (5 * 3 * 4, 5),
    "datasets": (6, 4),
}


@pytest.mark.parametrize("table", published.TABLES)
def test_rows_and_columns(table: str) -> None:
    rows = published.read(table)
    assert (len(rows), len(rows[0])) == SHAPES[table]
    assert all(value for row in rows for value in row.values())
    assert len({tuple(row.values()) for row in rows}) == len(rows)


def test_every_cell_of_the_first_table() -> None:
    scores = published.scores("table1")
    assert {key for key in scores if key[0] in TABLES} == {(t, m, x) for t in TABLES for m in PAPER_LOSSES for x in TABLE_METRICS}
    assert {method for task, method, _ in scores if task == "agedb-scratch"} == set(PAPER_LOSSES) - {"rnc"}
    assert {method for task, method, _ in scores if task == "agedb-probe"} == set(PAPER_LOSSES) - {"rnc", "ranksim", "conr"}


def test_spot_values() -> None:
    table1, standardized = published.scores("table1"), published.scores("standardized")
    assert table1["parkinson-motor", "focal_mae", "mae"] == (1.599, 0.047)
    assert table1["ic50", "conr", "rmse"] == (1.668, 0.022)
    assert table1["agedb-scratch", "gar", "r2"] == (0.846, 0.002)
    assert standardized["parkinson-total", "ranksim", "rmse"] == (10.828, 19.644)
    assert standardized["ic50", "rnc", "pearson"] == (-0.012, 0.017)
    assert published.scores("ablation")["wine", "diff+diffnorm", "mae"] == (4.278, 1.875)
    assert published.scores("batch-size")["parkinson-motor", "64", "rmse"] == (2.321, 0.098)
    assert published.running_times()["superconductivity", "rnc", "loss"] == (7.545, 0.168)
    assert published.selected_alphas()["superconductivity", "pearson"] == (0.1, 10, 1, 1, 0.1)
    assert published.gains("table1")["ic50", "pearson"]["gain_over_mae"] == 252.97


@pytest.mark.parametrize("table", ["table1", "standardized"])
def test_gains_follow_from_means(table: str) -> None:
    """Up to rounding: the paper computed them from more digits than it prints."""
    scores = published.scores(table)
    for (task, metric), gains in published.gains(table).items():
        mine, mae = scores[task, "gar", metric].mean, scores[task, "mae", metric].mean
        gain = 100 * (mine - mae) / mae * METRICS[metric].sign
        assert gain == pytest.approx(gains["gain_over_mae"], abs=0.15 + 100 * 2e-3 / abs(mae)), (task, metric)


def test_the_batch_of_256_is_the_first_table() -> None:
    table1 = published.scores("table1")
    for (task, size, metric), score in published.scores("batch-size").items():
        assert size != "256" or score == table1[task, "gar", metric]


def test_the_whole_of_the_ablation_is_the_first_table() -> None:
    table1 = published.scores("table1")
    for (task, variant, metric), score in published.scores("ablation").items():
        assert variant != "gar" or score == table1[task, "gar", metric]


def test_ranks_follow_from_means() -> None:
    """Ours from the printed means: ties that more digits would break make small differences."""
    scores, ranks = published.scores("ablation"), published.ablation_ranks()
    keys = [(task, metric) for task in TABLES for metric in TABLE_METRICS]
    rows = [{variant: scores[task, variant, metric].mean for variant in ranks} for task, metric in keys]
    ours = mean_ranks(rows, [METRICS[metric].larger_is_better for _, metric in keys])
    assert ours == pytest.approx(ranks, abs=0.06)


def test_means_of_alpha_follow_from_folds() -> None:
    for row in published.read("selected-alpha-means"):
        values = published.selected_alphas()[row["task"], row["metric"]]
        mean = sum(values) / 5
        assert float(row["mean"]) == pytest.approx(mean, abs=5e-3)
        assert float(row["sd"]) == pytest.approx((sum((v - mean) ** 2 for v in values) / 5) ** 0.5, abs=5e-4)


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(InputError, match="'table9' is no table of the paper; there are table1, "):
        published.read("table9")
