"""``gar reproduce``, ``gar agedb`` and ``gar data``: commands that appear when this package is installed."""
