"""The page on boosting shows the numbers of the records."""

import pytest

from benchmarks.boosting import PAGE, tables
from benchmarks.boosting_grid import GROUPED, RECORDS, TASKS


@pytest.mark.parametrize("task", [*TASKS, *GROUPED])
def test_tables_are_rendered_from_records(task: str) -> None:
    assert tables(task) in PAGE.read_text()


def test_records_are_small() -> None:
    assert 0 < sum(file.stat().st_size for file in RECORDS.glob("*.json")) < 500_000
