"""Names and titles of experiments and tasks, without any heavy import: the command line shows them before anything is computed."""

from collections.abc import Mapping

from gar.registry import METRICS

EXPERIMENTS: Mapping[str, str] = {
    "table1": "Test scores of nine methods on tables, raw labels (Table 1).",
    "standardized": "Table 1 with labels standardised by training statistics (appendix).",
    "ablation": "GAR with each subset of its three components (appendix).",
    "alpha": "GAR with alpha fixed at each of 13 values (appendix).",
    "batch-size": "GAR with batches of 32 to 512 rows (appendix).",
    "selected-alpha": "The alpha that the validation rows select (appendix); needs only GAR's cells of table1.",
    "runtime": "Time per epoch of nine methods, one model at a time and in a stack (Table 2).",
    "synthetic": "Sine and squared sine with five losses (Figures 1 and 2), and the error of the fits' slopes.",
    "depth": "The sine with networks of 2 to 10 hidden layers (appendix).",
    "symbolic": "The two curves by symbolic regression, with squared error and with GAR as fitness (appendix).",
    "agedb": "Ages from photographs: ResNet18 from scratch, and linear probes (Table 1). Needs the images of AgeDB.",
    "by-subject": "Beyond the paper: Parkinson split by person, so that no person is in two parts of a split.",
    "train-statistics": "Beyond the paper: features standardised with statistics of the training rows only.",
    "differences": "Beyond the paper: how much the differences between its text, its equations and its code change scores.",
}
"""One sentence about each experiment."""

TASKS: Mapping[str, str] = {
    "concrete": "Concrete",
    "wine": "Wine quality (6497 rows)",
    "wine-white": "Wine quality (4898 white)",
    "parkinson-total": "Parkinson (total)",
    "parkinson-motor": "Parkinson (motor)",
    "superconductivity": "Superconductivity",
    "gdsc": "GDSC release 5",
    "sine": "Sine",
    "squared-sine": "Squared sine",
}
"""Titles of the tables and curves that networks are trained on."""

PUBLISHED_TASK: Mapping[str, str] = {"wine-white": "wine"}
"""Our tasks whose published scores have another name; GDSC release 5 has none, for it is not the paper's IC50 table."""

TABLE_METRICS = tuple(metric for metric in METRICS if metric != "r2")
"""The metrics of the paper's tables."""
