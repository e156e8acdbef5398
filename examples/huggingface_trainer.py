"""Train with the Trainer of Hugging Face, alone or over several processes, with gradients accumulated, and one loss over all rows.

    python examples/huggingface_trainer.py --batch 8 --accumulate 4
    torchrun --nproc-per-node 2 examples/huggingface_trainer.py --batch 4 --accumulate 4

Both take 32 rows a step, and print the same losses: ``process_group="world"`` compares the rows of all processes. The first line is
of ExactAccumulation, by which all 32 rows are compared with each other, the second of the usual accumulation, by which the rows of
a micro-batch are. The model is made from a configuration; nothing is downloaded.
"""

import argparse
import gc
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.nn  # before the group is open: see examples/ddp_torchrun.py
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from gar import GARLoss
from gar.integrations.huggingface import ExactAccumulation, TrainerLoss


class RegressionTrainer(ExactAccumulation, Trainer):
    """A Trainer whose accumulated gradients are those of one large batch."""


def make_model(targets: int) -> BertForSequenceClassification:
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=32,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=16,
            num_labels=targets,
            hidden_dropout_prob=0.0,  # processes would draw other numbers than one process does
            attention_probs_dropout_prob=0.0,
        )
    )


def make_rows(rows: int, targets: int) -> list[dict[str, Tensor]]:
    tokens = torch.randint(0, 32, (rows, 8), generator=torch.Generator().manual_seed(1))
    labels = torch.stack([tokens[:, 0] / 10, tokens.float().mean(-1) / 5], -1)
    return [{"input_ids": one, "labels": label[:targets].squeeze()} for one, label in zip(tokens, labels, strict=True)]


def train(kind: type[Trainer], arguments: argparse.Namespace, folder: str) -> list[float]:
    options = TrainingArguments(
        folder,
        max_steps=arguments.steps,
        per_device_train_batch_size=arguments.batch,
        gradient_accumulation_steps=arguments.accumulate,
        optim="sgd",
        learning_rate=0.05,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        ddp_find_unused_parameters=False,
    )
    loss = GARLoss(alpha=1.0, process_group="world" if options.world_size > 1 else None)
    rows = make_rows(256, arguments.targets)
    trainer = kind(make_model(arguments.targets), options, train_dataset=rows, compute_loss_func=TrainerLoss(loss))
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32, help="rows of a micro-batch, on each process")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches of a step")
    parser.add_argument("--targets", type=int, default=1, choices=(1, 2))
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    for kind in (RegressionTrainer, Trainer):
        with tempfile.TemporaryDirectory() as folder:
            losses = train(kind, arguments, folder)
        if not dist.is_initialized() or dist.get_rank() == 0:
            print(f"{kind.__name__}:", *(f"{value:.5f}" for value in losses), flush=True)
    gc.collect()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
