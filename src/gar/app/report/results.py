"""Results of a comparison as plain data: the content of `results.json`, from which tables, figures and the page are made."""

import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, PlainSerializer, TypeAdapter, ValidationError, field_serializer

from gar.errors import InputError
from gar.registry import METRICS, NETWORKS

FORMAT = 4
_INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}


def _read_number(value: object) -> object:
    """Return NaN for null and an infinity for its name; pydantic checks everything else."""
    return math.nan if value is None else _INFINITIES.get(value, value) if isinstance(value, str) else value


def _write_number(value: float) -> float | str | None:
    """Return a value that JSON can hold: null for NaN, and its name for an infinity."""
    return float(value) if math.isfinite(value) else {number: name for name, number in _INFINITIES.items()}.get(value)


if TYPE_CHECKING:
    Number = float
else:

    class Number(float):
        """A float, of which JSON holds NaN as null and an infinity by its name."""

        @classmethod
        def __get_pydantic_core_schema__(cls, source: type, handler: Any) -> Any:
            rules = BeforeValidator(_read_number), PlainSerializer(_write_number, when_used="json")
            return handler.generate_schema(Annotated[float, *rules])


class _ResultPart:
    """Results are read strictly: no conversion between types, and no field that this version does not know."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True, kw_only=True)
class Choice(_ResultPart):
    """Hyperparameters and the epoch that validation rows selected in one fold; an ensemble has several in a fold."""

    fold: int
    learning_rate: Number
    weight_decay: Number | None
    """None for trees, which have a depth instead."""
    parameter: Number | None
    epoch: int
    """The epoch, or the boosting round of trees, counted from 1."""
    depth: int | None = None
    encoding: str | None = None
    """``"periodic"`` for a network on periodic features."""


@dataclass(frozen=True, kw_only=True)
class ParameterScore(_ResultPart):
    """Test scores of the folds with the parameter of the loss fixed at one value and everything else selected as usual."""

    value: Number
    scores: Mapping[str, Sequence[Number]]
    """One value per fold, by metric."""


@dataclass(frozen=True, kw_only=True)
class Predictions(_ResultPart):
    """Labels and predictions of test rows, one list per target; a prediction is the mean over the folds' winners."""

    true: Sequence[Sequence[Number]]
    """NaN where a label is missing."""
    predicted: Sequence[Sequence[Number]]

    def __post_init__(self) -> None:
        if not self.true or [len(column) for column in self.true] != [len(column) for column in self.predicted]:
            raise InputError("predictions need equally many true and predicted values of every target, and at least one target")


@dataclass(frozen=True, kw_only=True)
class Curve(_ResultPart):
    """A fitted function of one variable: mean and standard deviation over the folds' winners at every ``x`` of its problem."""

    mean: Sequence[Number]
    sd: Sequence[Number]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.sd):
            raise InputError(f"a curve has {len(self.mean)} means and {len(self.sd)} deviations; expected equal numbers of both")


@dataclass(frozen=True, kw_only=True)
class Method(_ResultPart):
    """One loss that trained one family of models on one problem."""

    loss: str
    family: str = NETWORKS
    title: str
    parameter: str | None
    models: int
    failed: int
    seconds: Number
    scores: Mapping[str, Sequence[Number]]
    """Test score of every fold's model, by metric. With the paper's preset, and for trees, each metric selects its own winners."""
    ensemble: Mapping[str, Number] = field(default_factory=dict)
    """Test score of the mean prediction of all folds' models, by metric: how good the model is if it is saved."""
    by_target: Sequence[Mapping[str, Number]] = ()
    """With several targets: the test scores of the mean prediction for each of them, in its own unit."""
    within: Mapping[str, Number] = field(default_factory=dict)
    """With pairs within groups: metrics of agreement of the mean prediction within these, and ``pearson_of_all_rows``."""
    chosen: Sequence[Choice] = ()
    """The winners by the problem's selection metric, which are saved and drawn."""
    learning: Mapping[str, Sequence[Number]] = field(default_factory=dict)
    """Mean validation score over the folds' winners after every epoch, by metric."""
    components: Mapping[str, Sequence[Number]] = field(default_factory=dict)
    """``mae``, ``diff`` (variance of errors) and ``diffnorm`` (one minus correlation) on validation rows after every epoch."""
    sensitivity: Sequence[ParameterScore] = ()
    predictions: Predictions | None = None
    curve: Curve | None = None

    @property
    def name(self) -> str:
        """Return the identifier of the method in a report, made of its loss, and of its family unless that is networks."""
        return self.loss if self.family == NETWORKS else f"{self.loss}-{self.family}"


@dataclass(frozen=True, kw_only=True)
class Truth(_ResultPart):
    """A function of one variable to be fitted, in ascending order of ``x``; ``trained`` marks the training points."""

    x: Sequence[Number]
    y: Sequence[Number]
    trained: Sequence[bool]

    def __post_init__(self) -> None:
        if not len(self.x) == len(self.y) == len(self.trained) > 0:
            sizes = f"{len(self.x)}, {len(self.y)} and {len(self.trained)}"
            raise InputError(f"x, y and trained of a truth have {sizes} values; expected equal numbers above zero")


@dataclass(frozen=True, kw_only=True)
class Problem(_ResultPart):
    """One table or curve, and the results of every method on it."""

    name: str
    title: str
    source: str
    """Where the table came from, as a file name or a description."""
    rows: int
    features: int
    targets: Sequence[str]
    train_rows: int
    """Training rows of a fold (the mean, where folds differ)."""
    test_rows: int
    selected_by: str
    """The metric whose validation score selects the winners that are saved and drawn."""
    settings: Mapping[str, Any]
    methods: Sequence[Method]
    notes: Sequence[str] = ()
    """Remarks for the reader, such as dropped rows, imputed values, encoded columns or peculiarities of the data."""
    warnings: Sequence[str] = ()
    """What may make the scores wrong or useless, such as rows that are in training and in test; shown at the top."""
    references: Sequence[Method] = ()
    """A constant and a linear model, which every method should beat; they take no part in rankings."""
    sha256: str | None = None
    """Checksum of the file, if the table is one."""
    plan: Sequence[str] = ()
    """What was planned, and what was left out to keep the time reasonable."""
    estimated_seconds: Number | None = None
    """How long it would take from the plan to the report, by the plan."""
    truth: Truth | None = None
    pairs_within: str | None = None
    """The column within whose values rows were compared; Pearson and Spearman are then means over these groups."""
    saved: str | None = None
    """The method whose winners were saved as a model, if any."""

    def __post_init__(self) -> None:
        names = [method.name for method in self.methods]
        if not names or len(set(names)) < len(names):
            raise InputError(f"problem {self.name!r} has methods {names}; expected at least one, and each name once")
        if self.selected_by not in METRICS:
            raise InputError(f"selected_by={self.selected_by!r} is not a metric; use one of {', '.join(METRICS)}")
        self._plain_settings(self.settings)  # an error now is better than one when the report is written
        points = 0 if self.truth is None else len(self.truth.x)
        for method in self.methods:
            if method.curve is not None and len(method.curve.mean) != points:
                raise InputError(f"{method.name!r} has a curve of {len(method.curve.mean)} points, its truth {points}")

    @field_serializer("settings", when_used="json")
    def _plain_settings(self, settings: Mapping[str, Any]) -> Any:
        """Return settings as values that JSON can hold."""
        text = json.dumps(dict(settings), default=_plain)
        return json.loads(text, parse_constant=lambda name: name if name in _INFINITIES else None)


@dataclass(frozen=True, kw_only=True)
class Results(_ResultPart):
    """Everything that a report shows."""

    command: str
    created: str
    gar: str
    problems: Sequence[Problem]
    machine: Mapping[str, str] = field(default_factory=dict)
    """What computed the results: operating system, processor, cores, versions of Python and torch."""
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise InputError(
                f"these results have format {self.format}, this version reads {FORMAT}; use the version that wrote them"
            )
        if not self.problems:
            raise InputError("results without any problem cannot be shown; compare on at least one table")

    def to_json(self) -> str:
        """Return text for :meth:`from_json`; missing numbers are null."""
        return _ADAPTER.dump_json(self, indent=1).decode()

    @staticmethod
    def from_json(text: str | bytes) -> "Results":
        """Read the output of :meth:`to_json` and check every value; an error names the value that is wrong."""
        try:
            return _ADAPTER.validate_json(text)
        except ValidationError as error:
            raise _explained(error) from error

    @staticmethod
    def read(path: str | PathLike[str]) -> "Results":
        """Read the results in a file, or in the ``results.json`` of a report's folder."""
        file = Path(path) / "results.json" if Path(path).is_dir() else Path(path)
        try:
            return Results.from_json(file.read_bytes())
        except OSError as error:
            raise InputError(f"{file} cannot be read ({error.strerror}); expected the results.json of a report") from error
        except InputError as error:
            raise InputError(f"{file}: {error}") from error


_ADAPTER = TypeAdapter(Results)


def _plain(value: Any) -> object:
    if hasattr(value, "tolist"):  # arrays and numbers of numpy
        return value.tolist()
    if isinstance(value, Set | Mapping):
        return dict(value) if isinstance(value, Mapping) else list(value)
    raise InputError(f"settings contain {value!r}, which results cannot hold; use text, numbers, lists and mappings")


def _explained(error: ValidationError) -> InputError:
    """Return an error that names the first wrong value by its location, and what was expected there."""
    first = error.errors(include_url=False)[0]
    cause, kind = first.get("ctx", {}).get("error"), first["type"]
    if isinstance(cause, InputError):
        return cause
    if kind == "json_invalid":
        return InputError(f"this is not JSON ({cause}); expected the results.json of a report")
    where = "results" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    if kind == "missing":
        return InputError(f"{where} is missing; expected the results.json of a report, whole and unchanged")
    if kind == "unexpected_keyword_argument":
        return InputError(f"{where} is unknown to this version; read the file with the version that wrote it")
    shown, expected = repr(first["input"]), first["msg"].replace("Input should be", "expected")
    return InputError(f"{where} is {shown[:60]}{'...' if len(shown) > 60 else ''}; {expected}")
