"""MAE-Pearson: the heuristic that the paper compares with on its synthetic curves."""

from typing import Literal

from torch import Tensor

from gar.functional.formulas import TENSORS, mean_absolute_error, one_minus_pearson, spreads_of
from gar.functional.moments import moments, rounding_unit
from gar.validation import NanPolicy, as_columns, check_choice, check_eps, in_full_precision

Balance = Literal["text", "code"]


@in_full_precision
def mae_pearson_loss(
    pred: Tensor,
    target: Tensor,
    *,
    balance: Balance = "text",
    sample_weight: Tensor | None = None,
    mask: Tensor | None = None,
    nan_policy: NanPolicy = "raise",
    eps: float = 1e-7,
) -> Tensor:
    r"""Return absolute error and correlation, balanced by the correlation of the batch: :math:`b L_{mae} + (1 - b)(1 - \rho)`.

    ``balance="text"`` takes :math:`b = \rho`, as the paper's text has it, ``"code"`` :math:`b = (1 + \rho) / 2`, as the authors'
    code has it; either way ``b`` is a constant for the gradient. Where :math:`\rho` is negative, the text's balance rewards large
    errors and training can run away; the code's does not. Shapes, weights, masks and undefined correlations are as in
    :func:`gar.functional.gar_loss`.

    Example:
        >>> mae_pearson_loss(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor(0.3277)
    """
    check_choice(balance, ("text", "code"), "balance")
    eps = check_eps(eps)
    columns = as_columns(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=nan_policy)
    m = moments(columns)
    mae = columns.over_columns(mean_absolute_error(m))
    spreads = spreads_of(m, eps=eps, unit=rounding_unit(columns.pred), xp=TENSORS)
    diffnorm = columns.over_columns(one_minus_pearson(m, spreads, xp=TENSORS))
    distance = diffnorm.detach()  # 1 - rho
    share = distance if balance == "text" else 0.5 * distance
    return (1.0 - share) * mae + share * diffnorm
