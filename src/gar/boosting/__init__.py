"""GAR for boosted trees: objectives and early-stopping metrics of XGBoost and LightGBM, and an estimator for both."""

from gar.boosting.metrics import EarlyStoppingMetric
from gar.boosting.objective import GARObjective
from gar.boosting.regressor import GARBoostRegressor

__all__ = ["EarlyStoppingMetric", "GARBoostRegressor", "GARObjective"]
