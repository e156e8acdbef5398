"""Losses in programs that leave Python: torch.export keeps value and gradient for any number of rows; what cannot is refused."""

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

import gar
from gar.registry import LOSSES

SHAPES = {"pred": (16, 2), "features": (16, 4)}
EXPORTED = [name for name in LOSSES if name != "ranksim"]

pytestmark = pytest.mark.skipif(not hasattr(torch.compiler, "is_exporting"), reason="this PyTorch does not tell that it exports")


def arguments(name: str, rows: int) -> tuple[Tensor, ...]:
    """Fresh inputs of a loss: what it learns from, with gradients, around its labels."""
    learned = [torch.randn(rows, SHAPES[kind][1], requires_grad=True) for kind in LOSSES[name].inputs]
    return learned[0], torch.randn(rows, 2), *learned[1:]


def value_and_gradients(loss: nn.Module, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    value = loss(*inputs)
    return [value, *torch.autograd.grad(value, [values for values in inputs if values.requires_grad])]


@pytest.mark.parametrize("name", EXPORTED)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch's own
def test_an_exported_loss_takes_any_number_of_rows(name: str) -> None:
    loss, example = LOSSES[name].build(), arguments(name, 16)
    rows = Dim("rows", min=3)
    program = export(loss, example, dynamic_shapes=tuple({0: rows} for _ in example)).module()
    for count in (16, 7, 300):
        inputs = arguments(name, count)
        torch.testing.assert_close(value_and_gradients(program, inputs), value_and_gradients(loss, inputs), rtol=1e-4, atol=1e-5)


def test_ranksim_is_not_exported_without_its_gradient() -> None:
    with pytest.raises(gar.InputError, match=r"would lose the gradient of RankSim.*export the model without this loss"):
        export(gar.RankSimLoss(), arguments("ranksim", 16))


@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # jit.trace itself is deprecated
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_jit_trace_is_refused(name: str) -> None:
    """It would return the example's value for ever, or divide by the example's number of rows."""
    inputs = tuple(values.detach() for values in arguments(name, 16))
    with pytest.raises(gar.InputError, match=r"freeze the number of rows.*use torch\.export\.export with dynamic_shapes"):
        torch.jit.trace(LOSSES[name].build(), inputs)
