"""The base install: losses and estimators without the packages that only extras bring, in a process that cannot import them."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
WITHOUT = [
    "click",
    "jinja2",
    "lightgbm",
    "lightning",
    "matplotlib",
    "onnx",
    "pandas",
    "pyarrow",
    "ray",
    "rich",
    "safetensors",
    "torchvision",
    "xgboost",
]
BLOCK = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {WITHOUT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.split(".")[0])
sys.meta_path.insert(0, Missing())
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCK + code], capture_output=True, text=True, check=False)


def test_losses_and_estimators_need_no_extra() -> None:
    done = run(
        "import numpy as np, torch\n"
        "from gar import GARLoss, GARRegressor, GARRegressorCV\n"
        "GARLoss()(torch.randn(8, 1, requires_grad=True), torch.randn(8, 1)).backward()\n"
        "x = np.random.default_rng(0).normal(size=(60, 3)); y = x.sum(1)\n"
        "print(GARRegressorCV(epochs=1, cv=2, random_state=0).fit(x, y).predict(x).shape, GARRegressor(epochs=1).fit(x, y))"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(60,)")


def test_frames_of_polars_need_no_pandas() -> None:
    done = run(
        "import datetime, numpy as np, polars as pl\n"
        "from gar import GARRegressor\n"
        "frame = pl.DataFrame({'size': [1.0, None, 3.0] * 20, 'colour': ['red', None, 'blue'] * 20,\n"
        "    'new': [True, False, None] * 20,\n"
        "    'when': [datetime.date(2020, 1, 1 + row % 28) for row in range(60)]})\n"
        "print(GARRegressor(epochs=1, random_state=0).fit(frame, np.arange(60.0)).predict(frame).shape)"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(60,)")


def test_the_command_says_what_to_install() -> None:
    done = run("from gar.__main__ import main\nmain()")
    assert done.returncode == 1
    assert "pip install" in done.stderr
    assert "app" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_base_dependencies_are_torch_numpy_and_scikit_learn() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {requirement.split(">")[0] for requirement in project["dependencies"]}
    assert names == {"torch", "numpy", "scikit-learn", "scipy", "joblib"}
