"""Kinds of models: each trains every loss on all folds and scores it on the test rows. The registry's FAMILIES lists them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from gar.app.compare.options import Options
from gar.app.compare.plan import Estimate, Plan
from gar.app.compare.source import Prepared
from gar.app.models import Model
from gar.app.report.results import Method, Problem
from gar.errors import InputError
from gar.registry import FAMILIES, LOSSES, NETWORKS, PAPER_LOSSES
from gar.search import RunContext


class Finished(NamedTuple):
    """A loss that was trained: its scores, its models of all folds as one, and how good these are on validation rows."""

    method: Method
    model: Model
    validation: float
    """Mean validation score over folds, of which larger is better."""
    notes: tuple[str, ...] = ()
    is_cut: bool = False
    """True if the time limit ended its training early."""


class LeftOut(NamedTuple):
    """A loss without a result."""

    title: str
    reason: str
    is_late: bool = False
    """True if the time limit was reached before it had any result."""


class Family(Protocol):
    """A kind of model."""

    @property
    def name(self) -> str:
        """Return its name in :data:`gar.registry.FAMILIES`."""

    def measure(self, losses: Sequence[str], prepared: Prepared, options: Options, context: RunContext) -> Mapping[str, Estimate]:
        """Return how long each loss takes on one core, from a quick measurement."""

    def compare(
        self, losses: Sequence[str], prepared: Prepared, options: Options, context: RunContext, plan: Plan
    ) -> Iterator[Finished | LeftOut]:
        """Train each of the losses, and yield its result as soon as it is there."""

    def settings(self, prepared: Prepared, options: Options) -> Mapping[str, Any]:
        """Return how it is trained, for the reader of a report."""


class Compared(NamedTuple):
    """The results on a problem, and the best method's models as one, if the problem is a table."""

    problem: Problem
    model: Model | None
    is_late: bool
    """True if the time limit was reached before all losses were done."""


class NothingFinishedError(InputError):
    """There is nothing to report: the time limit was reached too early, or every loss diverged."""


def load_families(options: Options) -> list[Family]:
    """Return the chosen kinds of models, each once; an error names the package that has to be installed."""
    families, losses = list[Family](), options.losses_or(PAPER_LOSSES)
    for name in dict.fromkeys(options.families):
        if name != NETWORKS:
            from gar.app.compare.trees import BoostedTrees  # every other family is a library of boosted trees

            families.append(BoostedTrees(name))
        elif options.preset == "paper":
            from gar.app.compare.paper import PaperNetworks

            families.append(PaperNetworks())
        else:
            families.append(FAMILIES[name].implementation())
    supported = dict.fromkeys(loss for family in families for loss in losses_of(family.name))
    if not set(supported) & set(losses):
        names = ", ".join(family.name for family in families)
        raise InputError(f"{names}: none of {', '.join(losses)} fits; they are trained with {', '.join(supported)}")
    return families


def check_pairs(prepared: Prepared, families: Sequence[Family], options: Options) -> None:
    """Raise an error if rows are to be compared within groups, which only networks of the default preset do."""
    column, others = prepared.source.pairs_within, [family.name for family in families if family.name != NETWORKS]
    if column is not None and (others or options.preset is not None):
        found = f"--models {', '.join(others)}" if others else f"--preset {options.preset}"
        remedy = f"leave {found} out"
        if others:
            remedy += "; for trees there is GARBoostRegressor().fit(X, y, pair_groups=...)"
        raise InputError(
            f"pairs_within {column!r} cannot be combined with {found}: only networks compare rows within groups; {remedy}"
        )


def losses_of(family: str) -> tuple[str, ...]:
    """Return the losses that a family can be trained with."""
    losses = FAMILIES[family].losses
    return tuple(LOSSES) if losses is None else losses


def method_title(loss: str, family: str) -> str:
    """Return the title of a method, such as ``"GAR"`` for networks and ``"GAR (XGBoost)"`` for other families."""
    return LOSSES[loss].title if family == NETWORKS else f"{LOSSES[loss].title} ({FAMILIES[family].title})"
