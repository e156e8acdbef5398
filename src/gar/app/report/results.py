"""Results of a comparison as plain data: what `results.json` holds, and all that tables, figures and the page are made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from gar.app.report.coding import decode, encode
from gar.app.report.style import METRICS
from gar.errors import InputError
from gar.registry import NETWORKS

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What won in one fold by its validation rows."""

    fold: int
    learning_rate: float
    weight_decay: float | None
    """None for trees, which have a depth instead."""
    parameter: float | None
    epoch: int
    """Or round, of trees; counted from 0."""
    depth: int | None = None


@dataclass(frozen=True, kw_only=True)
class ParameterScore:
    """Test scores of the folds when the parameter of the loss is held at one value and only the rest is chosen."""

    value: float
    scores: Mapping[str, Sequence[float]]
    """One value per fold, by metric."""


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Labels and predictions of test rows, one list per target; a prediction is the mean of the folds' winners."""

    true: Sequence[Sequence[float]]
    """NaN where a label is missing."""
    predicted: Sequence[Sequence[float]]

    def __post_init__(self) -> None:
        if not self.true or [len(column) for column in self.true] != [len(column) for column in self.predicted]:
            raise InputError("predictions need as many true as predicted values of every target, and at least one target")


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A fitted function of one variable: mean and standard deviation over the folds' winners at every ``x`` of its problem."""

    mean: Sequence[float]
    sd: Sequence[float]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.sd):
            raise InputError(f"a curve has {len(self.mean)} means and {len(self.sd)} deviations; expected as many of both")


@dataclass(frozen=True, kw_only=True)
class Method:
    """One loss, or another model, on one problem."""

    loss: str
    family: str = NETWORKS
    title: str
    parameter: str | None
    models: int
    failed: int
    seconds: float
    scores: Mapping[str, Sequence[float]]
    """Test value of every fold, by metric; each metric is chosen by its own validation values, as in the paper."""
    chosen: Sequence[Choice] = ()
    """The winners by the metric that the problem is judged by: what is saved and drawn."""
    learning: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Validation value after every epoch, by metric: the mean over the folds' winners."""
    components: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """``mae``, ``diff`` (variance of errors) and ``diffnorm`` (one minus correlation) on validation rows after every epoch."""
    sensitivity: Sequence[ParameterScore] = ()
    predictions: Predictions | None = None
    curve: Curve | None = None

    @property
    def name(self) -> str:
        """Return what identifies the method in a report: its loss, and its family where that is not networks."""
        return self.loss if self.family == NETWORKS else f"{self.loss}-{self.family}"


@dataclass(frozen=True, kw_only=True)
class Truth:
    """A function of one variable that is to be fitted, in ascending order of ``x``; ``trained`` tells which points trained."""

    x: Sequence[float]
    y: Sequence[float]
    trained: Sequence[bool]

    def __post_init__(self) -> None:
        if not len(self.x) == len(self.y) == len(self.trained) > 0:
            sizes = f"{len(self.x)}, {len(self.y)} and {len(self.trained)}"
            raise InputError(f"x, y and trained of a truth have {sizes} values; expected one number of them, above zero")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One table, and what every method made of it."""

    name: str
    title: str
    source: str
    """Where the table came from: a file name or a description."""
    rows: int
    features: int
    targets: Sequence[str]
    train_rows: int
    """Training rows of a fold (the mean, where folds differ)."""
    test_rows: int
    judged_by: str
    """The metric by which winners are chosen."""
    settings: Mapping[str, Any]
    methods: Sequence[Method]
    notes: Sequence[str] = ()
    """What a reader should know: rows left out, values imputed, columns encoded, quirks of the data."""
    truth: Truth | None = None
    saved: str | None = None
    """The method whose winners were saved as a model, if any."""

    def __post_init__(self) -> None:
        names = [method.name for method in self.methods]
        if not names or len(set(names)) < len(names):
            raise InputError(f"problem {self.name!r} has methods {names}; expected at least one, and each name once")
        if self.judged_by not in METRICS:
            raise InputError(f"judged_by={self.judged_by!r} is no metric; use one of {', '.join(METRICS)}")
        points = 0 if self.truth is None else len(self.truth.x)
        for method in self.methods:
            if method.curve is not None and len(method.curve.mean) != points:
                raise InputError(f"{method.name!r} has a curve of {len(method.curve.mean)} points, its truth {points}")


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything a report shows."""

    command: str
    created: str
    gar: str
    problems: Sequence[Problem]
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise InputError(
                f"these results have format {self.format}, this version reads {FORMAT}; use the version that wrote them"
            )
        if not self.problems:
            raise InputError("results without any problem cannot be shown; compare on at least one table")

    def to_json(self) -> str:
        """As text for :meth:`from_json`; numbers that are missing are null."""
        return encode(self)

    @staticmethod
    def from_json(text: str | bytes) -> "Results":
        """What :meth:`to_json` wrote, with every value checked; an error names the value that is wrong."""
        return decode(Results, text)

    @staticmethod
    def read(path: str | PathLike[str]) -> "Results":
        """The results in a file, or in the ``results.json`` of a report's folder."""
        file = Path(path) / "results.json" if Path(path).is_dir() else Path(path)
        try:
            return Results.from_json(file.read_bytes())
        except OSError as error:
            raise InputError(f"{file} cannot be read ({error.strerror}); expected the results.json of a report") from error
        except InputError as error:
            raise InputError(f"{file}: {error}") from error
