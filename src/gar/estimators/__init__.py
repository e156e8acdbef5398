"""Estimators for scikit-learn: one network, a grid of networks that tunes itself, and their export to ONNX."""

from gar.estimators.export import export_onnx
from gar.estimators.regressor import GARRegressor
from gar.estimators.regressor_cv import GARRegressorCV

__all__ = ["GARRegressor", "GARRegressorCV", "export_onnx"]
