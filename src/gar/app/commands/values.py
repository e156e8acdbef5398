"""Types of option values with shell completion, and options that several commands share."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import click
from click.shell_completion import CompletionItem

from gar.registry import FAMILIES, LOSSES, METRICS, NETWORKS

BACKENDS = ("loky", "dask", "ray")

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def several(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Return several options as one decorator; help shows them in this order."""

    def decorate(command: F) -> F:
        for one in reversed(decorators):
            command = one(command)
        return command

    return decorate


def option(*names: str, default: Any = None, **rest: Any) -> Callable[[F], F]:
    """Return an option whose help shows its default, if it has one."""
    return click.option(*names, default=default, show_default=default is not None, **rest)


def text_options(command: F) -> F:
    """Add ``--delimiter`` and ``--encoding``, for text where they cannot be detected."""
    return several(
        option("--delimiter", metavar="CHAR", help="Column delimiter of text, such as ';' or tab [default: detected]."),
        option("--encoding", metavar="NAME", help="Encoding of text, such as shift_jis [default: detected]."),
    )(command)


def backend_options(command: F) -> F:
    """Add ``--backend`` and ``--address``, the parallel backend of a :class:`gar.search.RunContext`."""
    address = "Address of a running Dask scheduler or Ray head [default: start one here]."
    backend = "Parallel backend: processes of this machine (loky), or a cluster."
    return several(
        option("--backend", type=click.Choice(BACKENDS), default="loky", help=backend),
        option("--address", metavar="HOST:PORT", help=address),
    )(command)


class CommaList(click.ParamType, Generic[T]):  # type: ignore[type-arg]
    """Parse values with commas between them.

    Example:
        >>> CommaList(float, "numbers").convert("0.1,1", None, None)
        (0.1, 1.0)
    """

    def __init__(self, kind: Callable[[str], T], name: str, known: Iterable[str] = ()) -> None:
        self._kind, self.name, self._known = kind, name, tuple(known)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[T, ...]:
        try:
            parts = [part.strip() for part in value.split(",")]
            return tuple(self._kind(part) for part in parts)
        except ValueError:
            self.fail(f"{value!r} is not a list of {self.name} with commas between them, such as {self._example()}", param, ctx)

    def _example(self) -> str:
        return "64,32" if self._kind is int else "mae,gar" if self._known else "0.01,0.001"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        *before, last = incomplete.split(",")
        prefix = "".join(f"{part}," for part in before)
        return [CompletionItem(prefix + name) for name in self._known if name.startswith(last) and name not in before]


class Widths(CommaList[int]):
    """Parse widths of layers, or ``paper`` for the paper's."""

    def __init__(self) -> None:
        super().__init__(int, "whole numbers", ["paper"])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "paper" else super().convert(value, param, ctx)


class Grid(click.ParamType):  # type: ignore[type-arg]
    """Parse ``LOSS=VALUE,VALUE``: values of the parameter of one loss."""

    name = "loss=values"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, tuple[float, ...]]:
        loss, sign, values = value.partition("=")
        if not sign:
            self.fail(f"{value!r} has no '='; write the loss and its values, such as gar=0.1,1,10", param, ctx)
        return loss.strip(), CommaList(float, "numbers").convert(values, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(f"{name}=") for name in LOSSES if name.startswith(incomplete)]


class FileOrDataName(click.ParamType):  # type: ignore[type-arg]
    """Complete a file, or the name of a data set."""

    name = "file or name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from gar.app.compare import CURVES, data_set_names

        names = [name for name in (*data_set_names(), *CURVES) if name.startswith(incomplete)]
        return [*map(CompletionItem, names), CompletionItem(incomplete, type="file")]


def comparison_options(command: F) -> F:
    """Add the options that ``gar compare`` and ``gar demo`` share."""
    numbers, count = CommaList(float, "numbers"), click.IntRange(min=1)
    trees = "Networks (mlp), and boosted trees (xgboost, lightgbm) with mae, mse, huber and gar."
    rates = "Learning rates to try [default: 0.02,0.01,0.005; curves 0.01,0.003]."
    limit = "Minutes until the report is there; training is cut to keep it [default: 9; none with --full]."
    losses = "Losses to compare [default: of the paper's nine as many as take a few minutes]."
    metric = "Validation metric that selects winners [default: mae; pearson with --pairs-within]."
    plugin = "Python module that registers losses of your own on import."
    return several(
        option("--losses", type=CommaList(str, "losses", LOSSES), help=losses),
        option("--full", is_flag=True, help="All nine losses of the paper, whole tables and no time limit."),
        option("--dry-run", is_flag=True, help="Show the plan with an estimate of the time, and train nothing."),
        option("--plugin", "plugins", multiple=True, metavar="MODULE", help=plugin),
        option("--models", "families", type=CommaList(str, "models", FAMILIES), default=NETWORKS, help=trees),
        option("--parameters", type=Grid(), multiple=True, help="Values to try of a loss's parameter: gar=0.1,1,10."),
        option("--metric", type=click.Choice(list(METRICS)), help=metric),
        option("--preset", type=click.Choice(["paper"]), help="The paper's preset: SGD, its grids and networks, raw labels."),
        option("--epochs", type=count, help="Passes over the training rows [default: 60, fewer for large tables; curves 300]."),
        option("--batch-size", type=count, help="Rows of a mini-batch [default: 32, more for large tables; curves 128]."),
        option("--hidden-sizes", type=Widths(), help="Widths of hidden layers, or 'paper' [default: 64 or 128, three times]."),
        option("--learning-rates", type=numbers, help=rates),
        option("--weight-decays", type=numbers, help="Weight decays to try [default: 0.1,0.01; curves 0]."),
        option("--folds", type=click.IntRange(min=2), help="Cross-validation folds [default: 5; above 20,000 rows 3 splits]."),
        option("--seed", type=click.IntRange(min=0), default=123, help="Random seed of splits and networks."),
        option("--workers", type=int, default=-1, help="Number of processes; -1 is one per core."),
        backend_options,
        option("--time-limit", type=click.FloatRange(min=0, min_open=True), metavar="MIN", help=limit),
        option("--quiet", is_flag=True, help="Show no progress bar."),
    )(command)
