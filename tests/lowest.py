"""Print the oldest releases that pyproject.toml allows, as constraints for pip: ``make lowest`` runs all tests with these."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

OTHERS = {"pyparsing": "3.1"}
"""Not asked for by us, but the newest of these does not go with the oldest of ours."""


def lowest() -> Iterator[tuple[str, str]]:
    """Each package that is asked for by its name and a lower bound, and that bound."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    for requirement in [*project["dependencies"], *(one for extra in extras for one in extra)]:
        if found := re.fullmatch(r"([\w.-]+)>=([\d.]+)", requirement):
            yield found[1], found[2]


if __name__ == "__main__":
    for name, version in sorted(set(lowest()) | set(OTHERS.items())):
        print(f"{name}=={version}")
