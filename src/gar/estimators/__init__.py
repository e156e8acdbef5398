"""Scikit-learn estimators: networks for tables that gar trains."""

from gar.estimators.regressor import GARRegressor
from gar.estimators.regressor_cv import GARRegressorCV

__all__ = ["GARRegressor", "GARRegressorCV"]
