"""Base classes of the losses."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from gar import functional
from gar.errors import InputError
from gar.functional.features import join_batch
from gar.validation import NanPolicy, check_nan_policy

if TYPE_CHECKING:
    from gar.distributed import ProcessGroup


class RegressionLoss(nn.Module):
    """Base class of the losses: it prints their options.

    A loss of your own may derive from it, and need not. What the rest of the library asks of a loss:

    - ``forward(pred, target)`` returns one value per model: predictions are ``(..., batch, targets)``, the value has the leading
      shape. Losses on features take ``forward(features, target)`` or ``forward(pred, target, features)``.
    - ``forward`` may take the keyword ``sample_weight (..., batch)``; otherwise weighted rows are an error.
    - The constructor may take ``nan_policy``; otherwise missing labels are an error. It takes the tuned parameter by its name, as a
      number or as a tensor with one value per model.
    - A loss of predictions alone may have a method ``value_and_gradient(pred, target, *, sample_weight=None)`` which returns the
      value and its gradient by ``pred`` without autograd: training a stack then calls it instead of ``forward``.

    :class:`gar.registry.LossSpec` declares the rest.
    """

    def extra_repr(self) -> str:
        """Return the tuned parameter, and the options that are not at their default, as one would write them."""
        shown = []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = self.option(name, parameter.empty)
            at_default = not isinstance(value, Tensor) and value == parameter.default
            if value is not parameter.empty and not (parameter.kind is parameter.KEYWORD_ONLY and at_default):
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)

    def refuse(self, more: dict[str, object]) -> None:
        """Raise if the loss was called with keywords that it does not know, such as groups for a loss that compares no rows."""
        if given := [name for name, value in more.items() if value is not None]:
            raise InputError(
                f"{type(self).__name__} takes no {', '.join(given)}; leave it out, or use a loss that does, such as GARLoss"
            )

    def option(self, name: str, absent: object) -> object:
        """Return an argument of the constructor by its name, or ``absent`` if it is not kept."""
        return getattr(self, name, absent)


class FunctionLoss(RegressionLoss):
    """A loss that passes its inputs and options on to one function of :mod:`gar.functional`."""

    function: ClassVar[Callable[..., Tensor]]
    options: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that the function takes as keywords, besides ``nan_policy``."""

    def __init__(self, *, nan_policy: NanPolicy = "raise") -> None:
        super().__init__()
        check_nan_policy(nan_policy)
        self.nan_policy = nan_policy

    def forward(
        self, pred: Tensor, target: Tensor, *, sample_weight: Tensor | None = None, mask: Tensor | None = None, **more: object
    ) -> Tensor:
        self.refuse(more)
        options = {name: getattr(self, name) for name in (*self.options, "nan_policy")}
        return self.function(pred, target, sample_weight=sample_weight, mask=mask, **options)


class RegularisedLoss(RegressionLoss):
    """Absolute error plus a regulariser on features; with ``process_group``, of the joined batch of all ranks."""

    def __init__(self, nan_policy: NanPolicy, process_group: "ProcessGroup | None") -> None:
        super().__init__()
        check_nan_policy(nan_policy)
        self.nan_policy, self.process_group = nan_policy, process_group

    def joined(self, features: Tensor, target: Tensor, sample_weight: Tensor | None, mask: Tensor | None, pred: Tensor) -> Any:
        if self.process_group is None:
            return features, target, sample_weight, mask, pred
        return join_batch(self.process_group, features, target, sample_weight, mask, pred)

    def mae(self, pred: Tensor, target: Tensor, sample_weight: Tensor | None, mask: Tensor | None) -> Tensor:
        return functional.mae_loss(pred, target, sample_weight=sample_weight, mask=mask, nan_policy=self.nan_policy)
