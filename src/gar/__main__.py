"""``gar`` and ``python -m gar``: the command line, or a sentence that says how to install it."""

import sys


def main() -> None:
    """Run the command line, which is an extra: the base install has losses, estimators and nothing that draws or reads tables."""
    try:
        from gar.app.cli import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "gar":
            raise
        from gar.errors import how_to_install

        sys.exit(f"gar: the command line needs the package {error.name}; {how_to_install('app')}")
    run()


if __name__ == "__main__":
    main()
