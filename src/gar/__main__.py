"""``python -m gar`` is ``gar``."""

from gar.cli import main

if __name__ == "__main__":
    main()
