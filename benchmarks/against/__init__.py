"""GAR's estimators against RealMLP, TabM, CatBoost, XGBoost, LightGBM and ridge: ``python -m benchmarks.against``."""
