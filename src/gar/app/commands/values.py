"""Types of option values with shell completion, and options that several commands share."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import click
from click.shell_completion import CompletionItem

from gar.registry import LOSSES

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


class DataName(click.ParamType):  # type: ignore[type-arg]
    """Complete the name of a data set."""

    name = "name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from gar.app.compare import CURVES, data_set_names

        return [CompletionItem(name) for name in (*data_set_names(), *CURVES) if name.startswith(incomplete)]


class FileOrDataName(DataName):
    """Complete a file, or the name of a data set."""

    name = "file or name"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [*super().shell_complete(ctx, param, incomplete), CompletionItem(incomplete, type="file")]
