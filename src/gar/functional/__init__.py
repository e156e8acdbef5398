"""The mathematics: pure functions of predictions (or features) and labels, over ``(..., batch, targets)``.

No state, no training. Shapes, dtypes, weights and masks follow one set of conventions, written down in
:func:`gar.functional.gar_loss`.
"""

from gar.functional.aggregation import aggregate
from gar.functional.agreement import (
    concordance_loss,
    kling_gupta_loss,
    nash_sutcliffe_loss,
    norm_in_norm_loss,
    pearson_loss,
)
from gar.functional.conr import conr_loss
from gar.functional.gar import gar_loss
from gar.functional.mae_pearson import mae_pearson_loss
from gar.functional.pairwise import difference_loss, normalized_difference_loss
from gar.functional.pointwise import focal_mae_loss, focal_mse_loss, huber_loss, mae_loss, mse_loss
from gar.functional.rank_n_contrast import rank_n_contrast_loss
from gar.functional.ranksim import ranksim_loss

__all__ = [
    "aggregate",
    "concordance_loss",
    "conr_loss",
    "difference_loss",
    "focal_mae_loss",
    "focal_mse_loss",
    "gar_loss",
    "huber_loss",
    "kling_gupta_loss",
    "mae_loss",
    "mae_pearson_loss",
    "mse_loss",
    "nash_sutcliffe_loss",
    "norm_in_norm_loss",
    "normalized_difference_loss",
    "pearson_loss",
    "rank_n_contrast_loss",
    "ranksim_loss",
]
