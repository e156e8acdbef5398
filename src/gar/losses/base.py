"""Base class of the losses."""

from torch import nn


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
        shown = {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "training"}
        shown |= {name: f"tensor{tuple(value.shape)}" for name, value in self.named_buffers()}
        return ", ".join(f"{name}={value}" for name, value in shown.items())
