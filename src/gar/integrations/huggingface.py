"""GAR, and any other loss of this library, in the Trainer of Hugging Face's transformers.

The Trainer adds up the losses of the micro-batches of an optimizer step, and neither divides them by their number nor averages them
over processes: it passes the number of labels of the step, ``num_items_in_batch``, and expects a sum over rows divided by that. A
loss of pairs is no such sum. :class:`TrainerLoss` scales it so that a step follows the mean over micro-batches, each counted by its
rows; pairs are those inside a micro-batch. With :class:`ExactAccumulation` they are those of the whole step.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from gar.accumulation import WholeBatch, random_state, replayed
from gar.errors import InputError

_NOT_COUNTED = -100
"""The label that the Trainer does not count: the sign of 'ignored' for tokens."""
_NO_LABELS = (
    "the batch has no 'labels'; call the column of the data set 'labels', and set remove_unused_columns=False if forward "
    "of the model does not take it"
)


class TrainerLoss:
    """A loss as the Trainer calls it: ``Trainer(..., compute_loss_func=TrainerLoss(GARLoss()))``.

    Args:
        loss: called as ``loss(pred, target)``, such as ``GARLoss(alpha=0.5)``. Under torchrun, with
            ``GARLoss(process_group="world")`` a micro-batch is that of all processes, exactly: the Trainer gives each as many rows.

    A head of one target has outputs ``(rows, 1)`` for labels ``(rows,)``; with several targets both are ``(rows, targets)``. Whole
    numbers are fine as labels.

    With ``gradient_accumulation_steps=k`` a step follows the mean of the losses of its ``k`` micro-batches, by their rows, as on
    several processes without ``process_group``. **Not exact** is the set of pairs then: rows of different micro-batches are not
    compared. :class:`ExactAccumulation` compares them too. The ``eval_loss`` is the mean over batches in the same sense; take a
    correlation of the whole data set from ``compute_metrics``.

    Example:
        >>> from gar import GARLoss
        >>> loss = TrainerLoss(GARLoss())
        >>> logits, labels = torch.randn(8, 1), torch.randn(8)
        >>> half = loss({"logits": logits}, labels, num_items_in_batch=16)  # one of two micro-batches
        >>> torch.allclose(2 * half, GARLoss()(logits, labels.unsqueeze(-1)))
        True
    """

    def __init__(self, loss: Callable[..., Tensor]) -> None:
        self.loss = loss

    def __call__(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        value = self.of_rows(predictions_of(outputs), labels)
        if num_items_in_batch is None or labels is None:
            return value
        counted = labels.ne(_NOT_COUNTED).sum()
        # Under DataParallel there is the same number for every GPU, and the Trainer multiplies by their number: hence the sum.
        return value * (counted / torch.as_tensor(num_items_in_batch, device=value.device).sum().clamp(min=1))

    def of_rows(self, pred: Tensor, labels: Tensor | None) -> Tensor:
        """Return the loss of these rows, not yet scaled for the Trainer."""
        if labels is None:
            raise InputError(_NO_LABELS)
        target = labels if labels.is_floating_point() else labels.float()
        if target.ndim + 1 == pred.ndim and pred.shape[-1] == 1:
            target = target.unsqueeze(-1)
        value = self.loss(pred, target)
        if value.ndim:
            raise InputError(f"outputs have shape {tuple(pred.shape)}; expected (rows, targets): one prediction per row and target")
        return value


class ExactAccumulation:
    """A mixin for Trainers by which accumulated gradients are those of one large batch: all pairs of the step are compared.

    ``class RegressionTrainer(ExactAccumulation, Trainer): pass``, with ``compute_loss_func=TrainerLoss(...)``. The outputs of all
    micro-batches are made first, without a graph, then the loss of all rows by :class:`gar.accumulation.WholeBatch`. The price is a
    second forward pass. With ``GARLoss(process_group="world")`` the pairs are those of all processes too.

    Dropout draws the same numbers in both passes. It needs whole models: DistributedDataParallel, not FSDP or DeepSpeed.
    """

    args: Any
    model: Any
    compute_loss_func: Any
    _prepare_inputs: Callable[[Any], dict[str, Any]]

    def get_batch_samples(self, *args: Any) -> tuple[list[Any], Any]:
        """Return the micro-batches of the next step; their outputs and the loss of all are evaluated here."""
        batches, count = super().get_batch_samples(*args)  # type: ignore[misc]
        if batches:
            self._first_pass(batches)
        return batches, count

    def compute_loss(self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None) -> Any:
        """Return the share of this micro-batch in the loss, with the gradient of the whole step by its outputs."""
        if not model.training:  # an evaluation
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)  # type: ignore[misc]
        with replayed(self._states.pop(0), self.args.device):
            outputs = model(**_without_labels(inputs))
        value = self._batch.part(predictions_of(outputs))
        value = value - value.detach() * (1 - 1 / self._parts)  # the Trainer adds up what it logs
        return (value, outputs) if return_outputs else value

    def _first_pass(self, batches: list[Any]) -> None:
        loss = self._checked_loss()
        self._parts, self._batch = len(batches), WholeBatch(loss.of_rows)
        self._states: list[list[Tensor]] = []
        self.model.train()
        prepared = [self._prepare_inputs(batch) for batch in batches]
        if any("labels" not in inputs for inputs in prepared):
            raise InputError(_NO_LABELS)
        with torch.no_grad():
            for inputs in prepared:
                self._states.append(random_state(self.args.device))
                self._batch.add(predictions_of(self.model(**_without_labels(inputs))))
        self._batch.evaluate(torch.cat([inputs["labels"] for inputs in prepared]))

    def _checked_loss(self) -> TrainerLoss:
        if not isinstance(self.compute_loss_func, TrainerLoss):
            raise InputError(
                f"compute_loss_func={self.compute_loss_func!r}; expected TrainerLoss(loss), such as TrainerLoss(GARLoss())"
            )
        for name in ("is_deepspeed_enabled", "is_fsdp_enabled"):
            if getattr(self, name, False):
                raise InputError(
                    f"{name} is True; ExactAccumulation needs a whole model on each process. Leave it out: TrainerLoss alone "
                    "compares the rows of each micro-batch"
                )
        return self.compute_loss_func


def predictions_of(outputs: Any) -> Tensor:
    """Return the predictions among a model's outputs: ``logits``, the first of a tuple, or the tensor itself.

    Example:
        >>> predictions_of((torch.ones(2), "more"))
        tensor([1., 1.])
    """
    if isinstance(outputs, Mapping):
        if "logits" not in outputs:
            raise InputError(
                f"the model's outputs are {', '.join(outputs)}; expected 'logits', as models with a regression head have"
            )
        outputs = outputs["logits"]
    found = outputs[0] if isinstance(outputs, tuple) else outputs
    if not isinstance(found, Tensor):
        raise InputError(f"the model's predictions are of type {type(found).__name__}; expected a tensor (rows, targets)")
    return found


def _without_labels(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in inputs.items() if name != "labels"}
