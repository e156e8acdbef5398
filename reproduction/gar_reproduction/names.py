"""Names and titles, without any heavy import: what the command line shows before anything is computed."""

from collections.abc import Mapping

EXPERIMENTS: Mapping[str, str] = {
    "table1": "Test scores of nine methods on tables, raw labels (Table 1).",
    "standardized": "The same with labels standardised by training statistics (appendix).",
    "ablation": "GAR with each subset of its three components (appendix).",
    "alpha": "GAR with alpha held at each of 13 values (appendix).",
    "batch-size": "GAR with batches of 32 to 512 rows (appendix).",
    "selected-alpha": "Which alpha the validation rows choose (appendix); needs only GAR's units of table1.",
    "runtime": "Seconds per epoch of nine methods, one model at a time and in a stack (Table 2).",
    "synthetic": "Sine and squared sine with five losses (Figures 1 and 2), and how well slopes are met.",
    "depth": "The sine with networks of 2 to 10 hidden layers (appendix).",
    "symbolic": "The two curves by symbolic regression, with squared error and with GAR as fitness (appendix).",
    "agedb": "Ages from photographs: ResNet18 from scratch, and linear probes (Table 1). Needs the images of AgeDB.",
    "by-subject": "Beyond the paper: Parkinson with no person in two parts of the split.",
    "train-statistics": "Beyond the paper: features standardised with statistics of the training rows only.",
    "differences": "Beyond the paper: what it matters that its text, equations and code are not the same.",
}
"""What each experiment is, in one sentence."""

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

METHODS: Mapping[str, str] = {
    "mae": "MAE",
    "mse": "MSE",
    "huber": "Huber",
    "focal_mae": "Focal (MAE)",
    "focal_mse": "Focal (MSE)",
    "ranksim": "RankSim",
    "rnc": "RNC",
    "conr": "ConR",
    "gar": "GAR",
}
"""The nine methods of the paper's tables, in its order."""

PUBLISHED_TASK: Mapping[str, str] = {"wine-white": "wine"}
"""Which task of the paper another table of ours is held against; all others have its name, or none: GDSC release 5 is not IC50."""

METRICS = ("mae", "rmse", "pearson", "spearman")
"""Those of the paper's tables."""
