"""The fuzzing run counts what it should: crashes and hangs of a child, and every other item too."""

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import fuzz
from benchmarks.fuzz import Attempt, children


def work(items: Sequence[str]) -> Counter[str]:
    for item in items:
        if item == "crash":
            os.abort()
        if item == "hang":
            time.sleep(600)
    return Counter(items)


def test_crashes_and_hangs_are_counted_and_the_rest_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "SECONDS", 10.0)
    found = children.outcomes(work, ["a", "b", "crash", "a", "hang"], at_once=2)
    assert found == {"a": 2, "b": 1, children.CRASH: 2}


def test_the_table_of_the_page_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "RECORD", tmp_path / "fuzz.json")
    monkeypatch.setattr(fuzz, "PAGE", tmp_path / "page.md")
    (tmp_path / "page.md").write_text("before\n\nTABLE\n\nafter\n")
    for times in (1000, 2000):
        fuzz.write([Attempt("bits", times, crashes=1)])
        assert "before" in (tmp_path / "page.md").read_text()
    lines = (tmp_path / "page.md").read_text().splitlines()
    assert lines[-3:] == ["| bits | 2,000 | 0 | 0 | 1 | 0 | 0 |", "", "after"]
    assert fuzz.read_record() == [Attempt("bits", 2000, crashes=1)]
