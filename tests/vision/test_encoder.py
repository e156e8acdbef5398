"""The network is torchvision's, torchvision comes in whatever its state, and weights come from anywhere."""

import argparse
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from gar.errors import InputError, how_to_install
from gar.vision import load_encoder, resnet18
from gar.vision.torchvision_import import import_torchvision


def torchvisions_own() -> Any:
    import_torchvision()
    from torchvision.models import resnet18 as original

    return original(weights=None)


def test_it_is_torchvisions_network() -> None:
    original, network = torchvisions_own(), resnet18(outputs=1000)
    weights = original.state_dict()
    assert {name: value.shape for name, value in network.state_dict().items()} == {n: v.shape for n, v in weights.items()}
    network.load_state_dict(weights)
    images = torch.randn(2, 3, 64, 64)
    assert torch.equal(network.eval()(images), original.eval()(images))
    assert torch.equal(original.fc(encoder_of(weights)(images)), original(images))


def encoder_of(weights: dict[str, Tensor]) -> torch.nn.Module:
    encoder = resnet18()
    encoder.load_state_dict({name: value for name, value in weights.items() if not name.startswith("fc.")})
    return encoder.eval()


LAYOUTS = {
    "weights alone": lambda weights: weights,
    "DataParallel": lambda weights: {f"module.{name}": value for name, value in weights.items()},
    "Rank-N-Contrast": lambda weights: {
        "opt": argparse.Namespace(lr=0.5),
        "model": {f"encoder.module.{name}": value for name, value in weights.items() if not name.startswith("fc.")},
        "epoch": 400,
    },
    "Lightning": lambda weights: {"state_dict": {f"encoder.{n}": v for n, v in weights.items()} | {"head.mean": torch.zeros(())}},
    "before num_batches_tracked": lambda weights: {n: v for n, v in weights.items() if not n.endswith("num_batches_tracked")},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_checkpoints_of_all_layouts(tmp_path: Path, layout: str) -> None:
    weights = torchvisions_own().state_dict()
    torch.save(LAYOUTS[layout](weights), tmp_path / "encoder.pt")
    images = torch.randn(2, 3, 32, 32)
    assert torch.equal(load_encoder(tmp_path / "encoder.pt")(images), encoder_of(weights)(images))


def test_safetensors(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    weights = torchvisions_own().state_dict()
    save_file(weights, tmp_path / "encoder.safetensors")
    assert torch.equal(load_encoder(tmp_path / "encoder.safetensors").state_dict()["conv1.weight"], weights["conv1.weight"])


def test_weights_of_another_network_are_named_with_their_shapes(tmp_path: Path) -> None:
    weights = resnet18().state_dict()
    weights["stem.weight"] = weights.pop("conv1.weight")
    weights["layer1.0.conv1.weight"] = torch.zeros(64, 64, 1, 1)
    torch.save(weights, tmp_path / "other.pt")
    with pytest.raises(InputError) as error:
        load_encoder(tmp_path / "other.pt")
    for part in (
        "1 missing (conv1.weight)",
        "1 unexpected (stem.weight)",
        "layer1.0.conv1.weight (64, 64, 1, 1), not (64, 64, 3, 3)",
    ):
        assert part in str(error.value)


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "text.pt").write_text("weights")
    torch.save({"state_dict": {"epoch": 3}}, tmp_path / "empty.pt")
    torch.save(SimpleNamespace(), tmp_path / "code.pt")
    whole = tmp_path / "whole.pt"
    torch.save(resnet18().state_dict(), whole)
    (tmp_path / "cut.pt").write_bytes(whole.read_bytes()[:100_000])
    for name, message in {
        "text.pt": "cannot be read",
        "empty.pt": "no weights",
        "code.pt": "cannot be read",
        "cut.pt": "cannot be read",
        "none.pt": "is not a file",
    }.items():
        with pytest.raises(InputError, match=message) as error:
            load_encoder(tmp_path / name)
        assert name in str(error.value)
        assert "\n" not in str(error.value)


STATES = {
    "whole": "",
    "odd": "raise RuntimeError('a fault of another kind')",
    "missing": "raise ImportError",
    "broken": """
import torch
for name in ("nms", "qnms"):
    torch.library.register_fake(f"torchvision::{name}")(lambda dets, scores, threshold: None)
""",
}
ALL = """
import sys
from gar.vision import torchvision_import

for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    try:
        torchvision_import.import_torchvision()
        torchvision_import.import_torchvision()
    except Exception as error:
        print(type(error).__name__, error)
    else:
        print(sys.modules.pop("torchvision").__file__.startswith(folder), len(torchvision_import._DECLARED))
"""


def test_torchvision_is_imported_whatever_its_state(tmp_path: Path) -> None:
    """Stand-ins for torchvision, so that all its states can be had on one machine; they need a process without the real one."""
    for name, code in STATES.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "torchvision.py").write_text(code)
    command = [sys.executable, "-c", ALL, *(str(tmp_path / name) for name in STATES)]
    whole, odd, missing, broken = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert whole == "True 0"
    assert odd == "RuntimeError a fault of another kind"
    assert missing == f"InputError images need torchvision, lightning, pandas and pillow; {how_to_install('vision')}"
    assert broken == "True 1"
