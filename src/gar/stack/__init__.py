"""G small networks trained as ONE tensor program: folds, seeds, learning rates, decays and loss parameters side by side.

Every model gives the numbers it would give alone: a stack equals as many plain ``nn.Sequential`` trained one after another with
``torch.optim``. Models that diverge leave the stack without any effect on the others.
"""

from gar.stack.chunking import batch_sizes, chunks
from gar.stack.data import SPLITS, Fold, StackData
from gar.stack.expansion import ExpandedFeatures, PeriodicFeatures, PiecewiseFeatures
from gar.stack.history import History
from gar.stack.network import Layout, Output, StackedMLP
from gar.stack.scaling import BoundedScaling, RobustScaling, Scaling
from gar.stack.settings import Models, TrainSettings
from gar.stack.training import Observer, row_orders, train

__all__ = [
    "SPLITS",
    "BoundedScaling",
    "ExpandedFeatures",
    "Fold",
    "History",
    "Layout",
    "Models",
    "Observer",
    "Output",
    "PeriodicFeatures",
    "PiecewiseFeatures",
    "RobustScaling",
    "Scaling",
    "StackData",
    "StackedMLP",
    "TrainSettings",
    "batch_sizes",
    "chunks",
    "row_orders",
    "train",
]
