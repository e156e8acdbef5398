"""The paper, reproduced: what it published, what to run, the records of our runs, and pages that hold one beside the other.

``published`` has the paper's numbers, ``experiments`` says what to run, ``running`` does it and leaves a small record of each unit,
and ``report`` makes pages of records alone. ``gar reproduce`` is the command.
"""
