"""GAR in the Trainer of Hugging Face: steps are those of plain loops, with accumulated gradients and over processes too."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gar import GARLoss, InputError, MSELoss
from gar.integrations.huggingface import ExactAccumulation, TrainerLoss, predictions_of
from gar.vision.torchvision_import import import_torchvision
from tests.test_parallel_examples import EXAMPLES, HALF_TORCHVISION, TORCHRUN, output_of

needs_transformers = pytest.mark.skipif(
    find_spec("transformers") is None, reason="transformers is not installed: the extra 'huggingface'"
)
RATE = 0.05


@pytest.fixture(scope="module")
def transformers() -> Any:
    if find_spec("torchvision"):
        import_torchvision()  # transformers imports it, and its wheel may lack operators
    return pytest.importorskip("transformers", reason="transformers is not installed: the extra 'huggingface'")


class Trained:
    """A tiny model that a Trainer has trained, the batches that it saw, and what it logged."""

    def __init__(self, transformers: Any, folder: Path, *, exact: bool, targets: int, loss: nn.Module, **options: Any) -> None:
        base: Any = transformers.Trainer
        kind = type("RegressionTrainer", (ExactAccumulation, base), {}) if exact else base
        dropout, options = options.pop("dropout", 0.0), {"max_steps": 3} | options
        self.batches: list[dict[str, Tensor]] = []
        self.trainer = kind(
            make_model(transformers, targets, dropout),
            transformers.TrainingArguments(
                str(folder),
                optim="sgd",
                learning_rate=RATE,
                lr_scheduler_type="constant",
                max_grad_norm=0.0,
                logging_steps=1,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
                use_cpu=True,
                **options,
            ),
            data_collator=self._collate,
            train_dataset=make_rows(targets),
            eval_dataset=make_rows(targets),
            compute_loss_func=TrainerLoss(loss),
        )

    def _collate(self, rows: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        self.batches.append({name: torch.stack([row[name] for row in rows]) for name in rows[0]})
        return dict(self.batches[-1])

    def run(self) -> "Trained":
        self.trainer.train()
        return self

    @property
    def weights(self) -> Tensor:
        return flat(self.trainer.model)

    @property
    def losses(self) -> list[float]:
        return [entry["loss"] for entry in self.trainer.state.log_history if "loss" in entry]


def make_model(transformers: Any, targets: int, dropout: float = 0.0) -> Any:
    torch.manual_seed(0)
    sizes = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 16, "max_position_embeddings": 16}
    layers = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_labels": targets}
    drops = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    return transformers.BertForSequenceClassification(transformers.BertConfig(**sizes, **layers, **drops))


def make_rows(targets: int) -> list[dict[str, Tensor]]:
    """Forty rows; with one target labels are whole numbers without a dimension, as data sets often have them."""
    tokens = torch.randint(0, 32, (40, 8), generator=torch.Generator().manual_seed(1))
    if targets == 1:
        return [{"input_ids": row, "labels": row[0]} for row in tokens]
    return [{"input_ids": row, "labels": row[:targets] / 10} for row in tokens]


def flat(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def loss_of(model: Any, batch: dict[str, Tensor], loss: Callable[..., Tensor]) -> Tensor:
    logits = model(input_ids=batch["input_ids"]).logits
    return loss(logits, batch["labels"].float().reshape(logits.shape))


@pytest.mark.parametrize("targets", [1, 2])
def test_a_step_follows_the_mean_of_micro_batches_by_their_rows(transformers: Any, tmp_path: Path, targets: int) -> None:
    sizes = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 3, "max_steps": 1}
    trained = Trained(transformers, tmp_path, exact=False, targets=targets, loss=GARLoss(), **sizes).run()
    assert [len(batch["labels"]) for batch in trained.batches] == [16, 16, 8]
    model = make_model(transformers, targets)
    expected = sum(share * loss_of(model, batch, GARLoss()) for share, batch in zip((0.4, 0.4, 0.2), trained.batches, strict=True))
    assert isinstance(expected, Tensor)
    expected.backward()
    torch.optim.SGD(model.parameters(), lr=RATE).step()
    torch.testing.assert_close(trained.weights, flat(model), atol=1e-6, rtol=0)
    assert trained.losses == pytest.approx([expected.item()], abs=1e-5)


@pytest.mark.parametrize("targets", [1, 2])
def test_exact_accumulation_is_a_large_batch(transformers: Any, tmp_path: Path, targets: int) -> None:
    whole, exact, usual = (
        Trained(
            transformers,
            tmp_path / name,
            exact=name == "exact",
            targets=targets,
            loss=GARLoss(0.5),
            per_device_train_batch_size=rows,
            gradient_accumulation_steps=16 // rows,
        ).run()
        for name, rows in (("whole", 16), ("exact", 4), ("usual", 4))
    )
    torch.testing.assert_close(exact.weights, whole.weights, atol=1e-6, rtol=0)
    assert exact.losses == pytest.approx(whole.losses, abs=1e-5)
    assert (usual.weights - whole.weights).abs().max() > 1e-3
    values = [trained.trainer.evaluate()["eval_loss"] for trained in (exact, whole)]
    assert values[0] == pytest.approx(values[1], abs=1e-5)


def test_dropout_draws_the_same_numbers_in_both_passes(transformers: Any, tmp_path: Path) -> None:
    sizes = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "dropout": 0.4}
    trained = Trained(transformers, tmp_path, exact=True, targets=1, loss=GARLoss(), **sizes).run()  # or WholeBatch refuses
    assert len(trained.losses) == 3


def test_exact_accumulation_asks_for_its_loss(transformers: Any, tmp_path: Path) -> None:
    sizes = {"per_device_train_batch_size": 8}
    trained = Trained(transformers, tmp_path, exact=True, targets=1, loss=GARLoss(), **sizes)
    trained.trainer.is_fsdp_enabled = True
    with pytest.raises(InputError, match="needs a whole model"):
        trained.trainer._checked_loss()
    trained.trainer.is_fsdp_enabled = False
    with pytest.raises(InputError, match="no 'labels'"):
        trained.trainer._first_pass([{"input_ids": torch.zeros(2, 8, dtype=torch.long)}])
    trained.trainer.compute_loss_func = GARLoss()
    with pytest.raises(InputError, match=r"expected TrainerLoss\(loss\)"):
        trained.run()


@pytest.mark.xdist_group("parallel examples")
@needs_transformers
def test_two_processes_are_one() -> None:
    """Micro-batches of four rows on each of two processes are those of eight rows on one, with pairs of a step and without."""
    program, common = str(EXAMPLES / "huggingface_trainer.py"), ["--accumulate", "4", "--steps", "4", "--targets", "2"]
    alone, together = (
        re.findall(r"^(\w+): (.*)$", output_of(*launch, program, *common, "--batch", rows, PYTHONPATH=str(HALF_TORCHVISION)), re.M)
        for launch, rows in (((), "8"), ((*TORCHRUN, "2"), "4"))
    )
    assert [name for name, _ in together] == ["RegressionTrainer", "Trainer"]
    for (_, one), (_, other) in zip(alone, together, strict=True):
        values = [float(value) for value in one.split()]
        assert values[-1] < values[0]
        assert [float(value) for value in other.split()] == pytest.approx(values, abs=2e-5)
    assert together[0] != together[1]


def test_the_same_count_for_every_gpu_is_scaled_once() -> None:
    """DataParallel: the Trainer passes a count per GPU, multiplies by their number and takes the mean."""
    pred, labels = torch.randn(8, 1), torch.randn(8)
    values = TrainerLoss(GARLoss())({"logits": pred}, labels, num_items_in_batch=torch.tensor([16, 16]))
    assert float(values * 2) == pytest.approx(float(GARLoss()(pred, labels.unsqueeze(-1))) / 2, abs=1e-6)


def test_a_label_that_the_trainer_does_not_count_keeps_its_row() -> None:
    pred, labels = torch.randn(8, 1), torch.full((8,), -100.0)
    assert TrainerLoss(MSELoss())((pred,), labels[:4].repeat(2), num_items_in_batch=torch.tensor(0)) == 0
    labels[:4] = 1.0
    value = TrainerLoss(MSELoss())((pred,), labels, num_items_in_batch=torch.tensor(4))
    torch.testing.assert_close(value, MSELoss()(pred, labels.unsqueeze(-1)))


@pytest.mark.parametrize(
    ("outputs", "labels", "message"),
    [
        ({"logits": torch.zeros(4, 1)}, None, "no 'labels'"),
        ({"last_hidden_state": torch.zeros(4, 1)}, torch.zeros(4), "last_hidden_state; expected 'logits'"),
        (("text",), torch.zeros(4), "of type str"),
        (torch.zeros(4, 5, 1), torch.zeros(4, 5, 1), r"shape \(4, 5, 1\); expected \(rows, targets\)"),
        (torch.zeros(4, 2), torch.zeros(4), "target"),
    ],
)
def test_what_is_wrong_is_named(outputs: Any, labels: Tensor | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TrainerLoss(GARLoss())(outputs, labels, num_items_in_batch=4)


def test_predictions_of_a_tensor_are_the_tensor() -> None:
    pred = torch.zeros(3, 1)
    assert predictions_of(pred) is pred
