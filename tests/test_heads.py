"""The five heads: predictions by their definition, one row alone, and what training makes of a matrix."""

import pickle

import pytest
import torch
from torch import Tensor

from gar.errors import InputError
from gar.heads import FiveHeadLoss, FiveHeads
from gar.metrics import along_rows_and_columns


def standardised(values: Tensor) -> Tensor:
    return (values - values.mean()) / values.std(correction=0)


def test_predictions_are_those_of_the_definition() -> None:
    torch.manual_seed(0)
    out = FiveHeads(6, 4).double()(torch.randn(9, 6).double())
    for row in range(9):
        expected = standardised(out.row_correlation[row]) * out.row_difference[row].std(correction=0) + out.level[row].mean()
        torch.testing.assert_close(out.by_row[row], expected)
    for column in range(4):
        scale = out.column_difference[:, column].std(correction=0)
        expected = standardised(out.column_correlation[:, column]) * scale + out.level[:, column].mean()
        torch.testing.assert_close(out.by_column[:, column], expected)
    torch.testing.assert_close(out.prediction, (out.by_row + out.by_column) / 2)


def test_the_loss_is_that_of_the_definition() -> None:
    torch.manual_seed(0)
    out, target = FiveHeads(6, 4).double()(torch.randn(9, 6).double()), torch.randn(9, 4).double()
    expected = sum(((one - target).abs().mean() for one in (out.level, out.by_row, out.by_column, out.prediction)), torch.zeros(()))
    for difference, correlation, dim in (
        (out.row_difference, out.row_correlation, 1),
        (out.column_difference, out.column_correlation, 0),
    ):
        expected = expected + 0.5 * (difference - target).var(dim, correction=0).mean()
        pairs = zip(correlation.unbind(1 - dim), target.unbind(1 - dim), strict=True)
        expected = expected + torch.stack([1 - torch.corrcoef(torch.stack(pair))[0, 1] for pair in pairs]).mean()
    torch.testing.assert_close(FiveHeadLoss()(out, target), expected)


def test_a_row_alone_is_predicted_as_among_others() -> None:
    torch.manual_seed(0)
    heads, features = FiveHeads(6, 4), torch.randn(64, 6)
    for _ in range(200):
        heads(features)
    alone = heads.eval()(features[:1]).prediction
    torch.testing.assert_close(alone, heads(features).prediction[:1])
    whole = FiveHeads(6, 4, statistics="batch").eval()
    whole.load_state_dict(heads.state_dict())
    torch.testing.assert_close(whole(features).prediction, heads(features).prediction, rtol=1e-3, atol=1e-3)
    assert not torch.allclose(whole(features[:9]).prediction[:1], alone, atol=1e-3)


def test_it_learns_a_matrix_along_rows_and_columns() -> None:
    torch.manual_seed(0)
    features = torch.randn(200, 5)
    target = features @ torch.randn(5, 8) + 3 * torch.randn(200, 1) + 5 * torch.randn(8)
    target[::9, 2] = torch.nan
    heads, loss = FiveHeads(5, 8), FiveHeadLoss(nan_policy="omit")
    optimizer = torch.optim.Adam(heads.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        loss(heads(features), target).backward()
        optimizer.step()
    scores = along_rows_and_columns(pickle.loads(pickle.dumps(heads)).eval()(features).prediction.detach(), target)
    assert scores["pearson_of_rows"] > 0.95
    assert scores["pearson_of_columns"] > 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FiveHeads(6, 1), "targets=1 is not a whole number of 2 or more"),
        (lambda: FiveHeads(6, 4, momentum=0.0), "momentum=0.0; expected a number above 0"),
        (lambda: FiveHeads(6, 4)(torch.randn(1, 6)), "a batch of 1 has no statistics of columns"),
        (lambda: FiveHeads(6, 4, statistics="own"), "statistics='own' is unknown"),  # type: ignore[arg-type]
        (lambda: FiveHeadLoss(nan_policy="drop"), "nan_policy='drop' is unknown"),  # type: ignore[arg-type]
    ],
)
def test_misuse(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]
