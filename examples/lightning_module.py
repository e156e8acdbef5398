"""GAR in Lightning, on one process or on several with one loss over all their rows.

    python examples/lightning_module.py --devices 2

``process_group="world"`` under Lightning's DDP makes the loss that of the rows of all processes. It is chosen when training
starts: before, Lightning has not opened the processes. Rows are dealt out in order here, so any number of processes gives the
same result.
"""

import argparse
import gc
import logging
import warnings
from typing import Any

import lightning
import torch
from torch import Tensor, distributed, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from gar import GARLoss
from gar.metrics import pearson


class GARModule(lightning.LightningModule):
    """A small network. What is special to GAR are two lines: the loss, and its group."""

    def __init__(self, *, alpha: float = 1.0, learning_rate: float = 0.05) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
        self.loss = GARLoss(alpha)
        self.learning_rate = learning_rate

    def on_fit_start(self) -> None:
        if self.trainer.world_size > 1:
            self.loss.process_group = "world"

    def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
        x, y = batch
        value = self.loss(self.net(x), y)
        self.log("loss", value)  # the same on every process
        return value

    def validation_step(self, batch: tuple[Tensor, Tensor], number: int) -> None:
        x, y = batch
        self.log("pearson", pearson(self.net(x), y).mean(), sync_dist=True)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=self.learning_rate, momentum=0.9)


def make_rows(rows: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows, 8, generator=generator)
    return TensorDataset(x, (x[:, :1] * x[:, 1:2]).sin() + x[:, 2:3])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--devices", type=int, default=1, help="processes")
    arguments = parser.parse_args()
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    lightning.seed_everything(0, verbose=False)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=arguments.devices,
        strategy="ddp" if arguments.devices > 1 else "auto",
        max_epochs=arguments.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    rows = make_rows(512)
    dealer: DistributedSampler[Any] = DistributedSampler(
        rows, num_replicas=arguments.devices, rank=trainer.global_rank, shuffle=False
    )
    train = DataLoader(rows, batch_size=64 // arguments.devices, sampler=dealer)
    trainer.fit(GARModule(), train, DataLoader(make_rows(200), batch_size=200))
    if trainer.is_global_zero:
        numbers = trainer.callback_metrics
        print(f"loss {numbers['loss']:.4f}, correlation on validation rows {numbers['pearson']:.4f}")


if __name__ == "__main__":
    main()
    if distributed.is_initialized():  # Lightning leaves a gloo group open. Why it should be closed, and how: docs/cluster.md
        gc.collect()
        distributed.destroy_process_group()
