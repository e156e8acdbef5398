"""When, where and by which version records were made: one small file beside the records of each experiment."""

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gar import __version__
from gar.files import write_whole


def machine() -> dict[str, Any]:
    """Describe the machine, without which seconds mean little."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": version("torch"),  # importing it would make every command wait
    }


def in_words(machine: dict[str, Any]) -> str:
    """Return the description of a machine as part of a sentence."""
    return "{processor}, {cores} cores, {system}, Python {python}, torch {torch}".format(**machine)


def note(records: Path, experiment: str) -> None:
    """Add today, this version and this machine to those that made an experiment's records."""
    made = read(records, experiment)
    today = datetime.now(UTC).date().isoformat()
    new = {"dates": today, "versions": __version__, "machines": in_words(machine())}
    made = {name: sorted({*made.get(name, ()), value}) for name, value in new.items()}
    made["dates"] = [made["dates"][0], made["dates"][-1]]
    write_whole(_path(records, experiment), (json.dumps(made, indent=1) + "\n").encode())


def read(records: Path, experiment: str) -> dict[str, list[str]]:
    """Return the first and last date, the versions and the machines; empty if there is no such file, or a damaged one."""
    try:
        found = json.loads(_path(records, experiment).read_text())
        return {name: [str(one) for one in found[name]] for name in ("dates", "versions", "machines")}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def sentence(records: Path, experiment: str, command: str) -> str:
    """Return how to cite a page: dates, versions, machines, and the command that makes its records."""
    made, by = read(records, experiment), f"Made by `{command}`, rendered by `gar reproduce report`."
    if not made:
        return by
    dates = " to ".join(dict.fromkeys(made["dates"]))
    return f"gar {', '.join(made['versions'])}; records of {dates}, from {'; '.join(made['machines'])}. {by}"


def _path(records: Path, experiment: str) -> Path:
    return records / experiment / "made.json"


def _processor() -> str:
    """Return the name of the processor, where the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
