"""The paper, reproduced: what it published, what to run, the records of our runs, and pages that compare the two.

``published`` has the paper's numbers, ``experiments`` lists the experiment cells, ``execution`` runs them and writes a small
record of each, and ``pages`` renders the records. ``gar reproduce`` is the command.
"""
