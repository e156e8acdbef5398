"""A grid of networks over all folds, trained as one tensor program and tuned by successive halving, in the manner of LassoCV."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold, ShuffleSplit, check_cv

from gar.encoding import Encoder
from gar.errors import InputError
from gar.estimators.base import Member, NetworkRegressor, Split, WeightedRows, stack_data
from gar.estimators.budget import Budget, TimeLimit, WorkMeter
from gar.estimators.halving import (
    TRIAL_VALIDATION_ROWS,
    VALIDATION_ROWS,
    Candidate,
    CandidateTrainer,
    Rung,
    Tables,
    with_at_most,
)
from gar.estimators.presets import (
    DEFAULT_ALPHA,
    ESTIMATOR_PRESET,
    PAPER_PRESET,
    SMALL_ROWS,
    batch_size_for,
    encode_features,
    encodings_for,
    epochs_for,
    finalists_for,
    train_rows,
)
from gar.groups import parts_of_groups
from gar.registry import LOSSES, METRICS, metric_name
from gar.stack import StackData
from gar.validation import check_choice, whole_number

_EPOCH_FACTOR, _CANDIDATE_FACTOR = 6, 6
"""Successive halving: trials have a sixth of the epochs; a sixth of the candidates is promoted from one fold to all."""

FOLDS, LARGE_FOLDS, LARGE_ROWS = 5, 2, 20_000
"""Tables of more rows than the last are split ``LARGE_FOLDS`` times at random instead of into ``FOLDS`` folds."""

_MIN_VALIDATION_ROWS = 5
"""Validation rows of a fold below which correlations and R2 are uninformative."""


class GARRegressorCV(NetworkRegressor):
    """A network for tables that tunes itself: combinations of hyperparameters on all folds, trained as one tensor program.

    Tables are taken as they come: frames with text, categories, dates and gaps, or arrays. Predictions are the mean of the best
    networks of all folds, each at its best epoch, or with ``refit="best"`` those of one network trained on all rows with the
    combination that is best over all folds, for as many epochs as the folds found best.

    Combinations are thinned out by successive halving: all are trained for a sixth of the epochs on one fold, the best sixth on
    the other folds, too, and ``n_finalists`` for all epochs, as many of each encoding. The finalists are then weighted by the
    validation score of their mean. Trials see at most 4000 rows, and large tables get fewer epochs, larger batches and fewer
    folds, so that time grows more slowly than rows.

    Args:
        loss: a name of :data:`gar.registry.LOSSES`.
        alphas: values of GAR's alpha to try. ``"auto"`` is 10, and with ``preset="paper"`` the paper's 0.1, 1 and 10. Other losses
            try ``parameters``.
        learning_rates: to try.
        weight_decays: to try.
        batch_sizes: to try; ``"auto"`` is one that grows with the table: 32 rows up to 512.
        hidden_sizes: widths of the hidden layers; ``"auto"`` is three of 64 or, from 2000 training rows on, of 128; ``"paper"``
            the paper's by number of features.
        activation: between the layers: ``"silu"`` or ``"elu"``.
        encoding: of features: ``"periodic"`` adds cosines of each (:class:`gar.stack.PeriodicFeatures`), ``"piecewise"`` ramps of
            each (:class:`gar.stack.PiecewiseFeatures`), both with learned feature gates, which switch off uninformative inputs;
            None is standardised features alone; ``"auto"`` tries all three, and above 8000 training rows the first and the last.
        epochs: passes over the rows; ``"auto"`` is 60 up to 4000 training rows, and fewer for more.
        cv: number of folds, a splitter of scikit-learn, or a list of (train, test) rows. ``"auto"`` is five folds, or above 20,000
            rows two random splits.
        scoring: ``"mae"``, ``"rmse"``, ``"pearson"``, ``"spearman"`` or ``"r2"`` on the validation rows, or scikit-learn's name of
            one of them; ``"auto"`` is ``"mae"``, or ``"pearson"`` where rows are compared in groups. Correlations and R2 need five
            rows of different labels in every fold; otherwise ``"mae"`` is used with a warning.
        n_finalists: combinations that are trained for all epochs; None trains all of them, ``"auto"`` three, or two on tables
            of more than 8000 training rows.
        refit: ``"mean"`` of the best networks of all folds, or ``"best"``.
        time_limit: seconds that ``fit`` may take. It then trains less, and a warning says what was left out. None is no limit.
        bound_predictions: keep predictions within the range of the labels and a quarter of its width on both sides: a row with an
            outlying feature could get any prediction otherwise. False lets a trend go on.
        categorical_features: columns of frames that hold categories: ``"from_dtype"`` are those of a category type; or a list of
            names or of indices, or a mask, as in scikit-learn's HistGradientBoostingRegressor, for arrays too; None are none.
            Text that is neither numbers nor dates is categories in any case.
        preset: ``"paper"`` takes the paper's hyperparameters (SGD, its grids, networks and schedule) instead of those above.
        parameters: values to try of the parameter of a loss other than GAR; None is the grid with which the loss is registered.
        optimizer: ``"adamw"``, ``"adam"`` or ``"sgd"``.
        schedule: of the learning rate: ``"cosine"``, ``"multistep"`` or ``"constant"``.
        loss_options: further arguments of the loss, for all networks alike.
        n_jobs: processes to train with; -1 is one per core. It changes no result, unless a time limit cuts training.
        verbose: show progress lines; or a function that is called about every second with the share of the search that is done.
        random_state: an integer makes a fit repeatable.
        device: ``"auto"`` uses a GPU if there is one.

    Attributes:
        scoring_: the metric that was used to choose.
        alpha_: the alpha that is best over all folds (for GAR).
        best_params_: the combination that is best over all folds.
        best_score_: its mean validation score; errors count negative, as everywhere in scikit-learn.
        cv_results_: like GridSearchCV's: ``params``, ``mean_test_score``, ``std_test_score``, ``split0_test_score``, ...;
            ``epochs`` is how long a combination was trained. The score on a fold where it was not tried is NaN.
        history_: for every encoding and batch size the models that were trained for all epochs, and their metrics after each one.
        fold_params_: the combinations whose networks predict, for each fold; one that counts twice occurs twice.
        members_: the networks that predict.
        encoder_: how columns of the table become features.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = GARRegressorCV(learning_rates=(3e-3,), epochs=10, cv=3, random_state=0).fit(X, y)
        >>> model.alpha_, model.score(X, y) > 0.4
        (10.0, True)
    """

    def __init__(
        self,
        loss: str = "gar",
        alphas: Sequence[float] | str = "auto",
        *,
        learning_rates: Sequence[float] = ESTIMATOR_PRESET["learning_rates"],
        weight_decays: Sequence[float] = ESTIMATOR_PRESET["weight_decays"],
        batch_sizes: Sequence[int] | str = ESTIMATOR_PRESET["batch_sizes"],
        hidden_sizes: Any = ESTIMATOR_PRESET["hidden_sizes"],
        activation: str = ESTIMATOR_PRESET["activation"],
        encoding: str | None = ESTIMATOR_PRESET["encoding"],
        epochs: int | str = ESTIMATOR_PRESET["epochs"],
        cv: Any = "auto",
        scoring: str = "auto",
        n_finalists: int | str | None = "auto",
        refit: str = "mean",
        time_limit: float | None = None,
        bound_predictions: bool = True,
        categorical_features: Any = "from_dtype",
        preset: str | None = None,
        parameters: Sequence[float] | None = None,
        optimizer: str = ESTIMATOR_PRESET["optimizer"],
        schedule: str = ESTIMATOR_PRESET["schedule"],
        loss_options: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        verbose: bool | Callable[[float], None] = False,
        random_state: Any = None,
        device: str = "auto",
    ) -> None:
        self.loss = loss
        self.alphas = alphas
        self.learning_rates = learning_rates
        self.weight_decays = weight_decays
        self.batch_sizes = batch_sizes
        self.hidden_sizes = hidden_sizes
        self.activation = activation
        self.encoding = encoding
        self.epochs = epochs
        self.cv = cv
        self.scoring = scoring
        self.n_finalists = n_finalists
        self.refit = refit
        self.time_limit = time_limit
        self.bound_predictions = bound_predictions
        self.categorical_features = categorical_features
        self.preset = preset
        self.parameters = parameters
        self.optimizer = optimizer
        self.schedule = schedule
        self.loss_options = loss_options
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state
        self.device = device

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        pair_groups: Any = None,
    ) -> "GARRegressorCV":
        """Train the grid on all folds by successive halving and predict with the winners.

        A weight of two equals two copies of a row, in training and in scores; NaN in ``y`` is a missing label. Rows of one of the
        ``groups`` are never in both parts of a fold; a splitter that is given as ``cv`` gets them, too.

        With ``pair_groups``, one value per row such as a day or a patient, the loss compares rows of the same group only, batches
        have several rows of a group, and Pearson's and Spearman's correlations are means over groups. Up to eight rows of a group
        are held out together; pass the same values as ``groups``, too, to hold out whole groups.
        """
        limit = TimeLimit(self.time_limit)
        self._check_arguments()
        rows, seed, device = self._validated(X, y, sample_weight, pair_groups)
        data, encoders = self._stack_data(rows, self._splits(rows, groups, seed))
        self.scoring_ = self._supported_scoring(data)
        tables = self._encode(data, seed)
        trainer = self._trainer(data, seed, device)
        rungs = self._halve(tables, limit, trainer)
        best = self._set_results(rungs, tables)
        members = self._members(rungs, tables, encoders)
        if self.refit == "best":
            members = self._refit(best, rungs, rows, limit, trainer) or members
        self._set_members(members)
        return self

    def planned_work(self, rows: int, folds: int) -> int:
        """Return how many rows all networks of a search pass over, epochs counted, without a time limit.

        Args:
            rows: training rows of a fold.
            folds: number of folds.
        """
        candidates, small = len(self._candidates(self._encodings(rows))), min(rows, SMALL_ROWS)
        planned = self._planned(rows, rows, folds)
        if self._is_whole_grid(candidates, planned):
            return planned._replace(finalists=candidates).cost
        others = min(folds - 1, 1) if planned.rows > SMALL_ROWS else folds - 1
        promoted = max(planned.finalists, candidates // _CANDIDATE_FACTOR)
        return self._trial_epochs(small) * small * (candidates + promoted * others) + planned.cost

    def _check_arguments(self) -> None:
        check_choice(self.refit, ("mean", "best"), "refit")
        if self.preset is not None:
            check_choice(self.preset, ("paper",), "preset")
        if isinstance(self.alphas, str):
            check_choice(self.alphas, ("auto",), "alphas")
        for name in ("epochs", "n_finalists"):
            value = getattr(self, name)
            if not (value == "auto" or (value is None and name == "n_finalists")):
                whole_number(value, name)
        for name in ("learning_rates", "weight_decays", "batch_sizes", "alphas"):
            if len(np.atleast_1d(getattr(self, name))) == 0:
                raise InputError(f"{name} is empty; give at least one value to try")

    def _stack_data(self, rows: WeightedRows, splits: Sequence[Split] = ()) -> tuple[StackData, list[Encoder]]:
        scaled = {"scale_labels": self.preset is None, "bound_predictions": self.bound_predictions}
        return stack_data(self.encoder_, rows, splits, **scaled)

    def _splits(self, rows: WeightedRows, groups: Any, seed: int) -> list[Split]:
        """Return shuffled folds for a number; a splitter or a list of splits is used as it is."""
        count = len(rows.weight)
        if groups is not None and np.shape(groups) != (count,):
            raise InputError(f"groups has shape {np.shape(groups)}, X has {count} rows; pass one group for each row: ({count},)")
        cv = int(self.cv) if isinstance(self.cv, Integral) else self.cv
        if isinstance(cv, int) and not 2 <= cv <= count:
            raise InputError(f"cv={cv} folds are asked of n_samples={count} rows; use 2 folds or more, and no more than rows")
        if groups is None and rows.pair_groups.any() and isinstance(cv, int | str):
            groups = parts_of_groups(rows.pair_groups, np.random.default_rng(seed))
        try:
            splitter = self._splitter(cv, count, groups, seed) if cv is None or isinstance(cv, int | str) else check_cv(cv)
            return [(np.asarray(train), np.asarray(valid)) for train, valid in splitter.split(rows.x, rows.y, groups)]
        except InputError:
            raise
        except ValueError as error:
            advice = "a splitter by groups needs fit(X, y, groups=...); cv may also be a list of (train, test) rows"
            raise InputError(f"cv={self.cv} cannot split these rows ({error}); {advice}") from error

    @staticmethod
    def _splitter(cv: int | str | None, rows: int, groups: Any, seed: int) -> Any:
        """Return a splitter into this many folds, or for ``"auto"`` one that suits the number of rows; groups stay together."""
        if isinstance(cv, str):
            check_choice(cv, ("auto",), "cv")
        by_group = groups is not None
        if cv == "auto" and rows > LARGE_ROWS:
            share = min(0.1, VALIDATION_ROWS / rows)
            return (GroupShuffleSplit if by_group else ShuffleSplit)(LARGE_FOLDS, test_size=share, random_state=seed)
        folds = cv if isinstance(cv, int) else min(FOLDS, len(np.unique(groups)) if by_group else rows)
        return (GroupKFold if by_group else KFold)(folds, shuffle=True, random_state=seed)

    def _supported_scoring(self, data: StackData) -> str:
        """Return the metric, or MAE if a fold has too few rows or labels for it: two points on a line are perfectly correlated."""
        by_default = "mae" if data.pair_groups is None else "pearson"
        scoring = by_default if self.scoring == "auto" else metric_name(self.scoring)
        if not METRICS[scoring].larger_is_better:
            return scoring
        fewest = min(data.count_labelled(data.with_partner(fold.valid)) for fold in data.folds)
        constant = any(not data.has_different_labels(fold.valid) for fold in data.folds)
        if fewest >= _MIN_VALIDATION_ROWS and not constant:
            return scoring
        is_small = fewest < _MIN_VALIDATION_ROWS
        reason = f"{fewest} validation rows, too few" if is_small else "validation rows of one label only, which is not enough"
        warnings.warn(
            f"a fold has {reason} to choose by {scoring}; 'mae' is used instead. Use fewer folds, or scoring='mae'",
            stacklevel=3,
        )
        return "mae"

    def _encode(self, data: StackData, seed: int) -> Tables:
        """Return the table in every encoding to try."""
        return {name: encode_features(data, name, seed=seed) for name in self._encodings(train_rows(data))}

    def _encodings(self, rows: int) -> tuple[str | None, ...]:
        encoding = self._hyperparameters["encoding"]
        return encodings_for(rows) if encoding == "auto" else (encoding,)

    @property
    def _hyperparameters(self) -> Mapping[str, Any]:
        """Grids and settings from the preset, or from the arguments of the same names."""
        return PAPER_PRESET if self.preset == "paper" else {name: getattr(self, name) for name in PAPER_PRESET}

    def _trainer(self, data: StackData, seed: int, device: torch.device) -> CandidateTrainer:
        """Return what trains the candidates on this table."""
        shared = {name: self._hyperparameters[name] for name in ("hidden_sizes", "activation", "optimizer", "schedule")}
        meter = WorkMeter(self.verbose, self.planned_work(train_rows(data), len(data.folds)))
        settings = {**shared, "loss": self.loss, "loss_options": self.loss_options}
        workers = 1 if self.n_jobs is None else self.n_jobs
        return CandidateTrainer(settings, self.scoring_, seed, device, workers, meter)

    def _halve(self, tables: Tables, limit: TimeLimit, trainer: CandidateTrainer) -> list[Rung]:
        """Train the candidates by successive halving; the last rung has the finalists."""
        table, candidates = next(iter(tables.values())), self._candidates(tables)
        planned = self._planned(train_rows(table), max(len(fold.train) for fold in table.folds), len(table.folds))
        folds = range(planned.folds)
        if self._is_whole_grid(len(candidates), planned):
            everything = with_at_most(tables, planned.rows, VALIDATION_ROWS, trainer.seed)
            return [trainer.train_rung(everything, candidates, folds, planned.epochs, limit.deadline)]
        small = with_at_most(tables, SMALL_ROWS, TRIAL_VALIDATION_ROWS, trainer.seed)
        epochs = self._trial_epochs(train_rows(next(iter(small.values()))))
        trial = partial(trainer.train_rung, small, epochs=epochs, deadline=limit.trial_deadline())
        first = int(np.argmax([len(fold.train) for fold in table.folds]))
        rungs = [trial(candidates, [first])]
        others = [fold for fold in folds if fold != first]
        if planned.rows > SMALL_ROWS:  # one more fold has validation rows enough
            others = others[:1]
        if others:
            promoted = rungs[0].best_of_each_encoding(max(planned.finalists, len(candidates) // _CANDIDATE_FACTOR))
            rungs.append(trial(promoted, others).with_scores_of(rungs[0]))
        budget = limit.affordable(planned, min(rung.seconds_per_row for rung in rungs))  # the least has the least overhead
        finalists = rungs[-1].best_of_each_encoding(budget.finalists)
        full = with_at_most(tables, budget.rows, VALIDATION_ROWS, trainer.seed)
        last = trainer.train_rung(full, finalists, folds[: budget.folds], budget.epochs, limit.deadline, varied_seeds=True)
        self._warn_of_cuts(planned, budget, last)
        return [*rungs, last]

    def _planned(self, rows: int, most_rows: int, folds: int) -> Budget:
        """Return what is trained at the end of a search, if there is time, for training rows of the smallest and largest fold."""
        finalists = finalists_for(rows) if self.n_finalists == "auto" else int(self.n_finalists or 0)
        return Budget(epochs=self._epochs(rows), finalists=finalists, folds=folds, rows=most_rows)

    def _is_whole_grid(self, candidates: int, planned: Budget) -> bool:
        """Return True if all candidates are trained for all epochs."""
        return self.preset is not None or self.n_finalists is None or candidates <= planned.finalists

    def _trial_epochs(self, rows: int) -> int:
        return -(-self._epochs(rows) // _EPOCH_FACTOR)

    def _epochs(self, rows: int) -> int:
        epochs = self._hyperparameters["epochs"]
        return epochs_for(rows) if epochs == "auto" else int(epochs)

    def _warn_of_cuts(self, planned: Budget, budget: Budget, last: Rung) -> None:
        cuts = [budget.difference(planned)] if budget != planned else []
        if any(history.is_cut for _, history in last.runs.values()):
            run = min(int(history.epochs_run.min()) for _, history in last.runs.values())
            cuts.append(f"training ended after {run} of {budget.epochs} epochs")
        if cuts:
            warnings.warn(
                f"time_limit={self.time_limit} s was too short for the whole search: {'; '.join(cuts)}. A longer limit, or none, "
                "predicts better",
                stacklevel=4,
            )

    def _candidates(self, encodings: Iterable[str | None]) -> list[Candidate]:
        names = ("batch_sizes", "learning_rates", "weight_decays")
        grids = [np.atleast_1d(self._hyperparameters[name]).tolist() for name in names]
        grids[0] = [None if size == "auto" else size for size in grids[0]]
        parameters: Sequence[float | None] = self.loss_parameters or (None,)
        return [Candidate(*combination) for combination in product(encodings, *grids, parameters)]

    @property
    def loss_parameters(self) -> Sequence[float]:
        """Return the values to try of the loss's parameter; none if it has no parameter."""
        values = self.alphas if self.loss == "gar" else self.parameters
        if isinstance(values, str):  # "auto"
            values = (DEFAULT_ALPHA,) if self.preset is None else None
        return LOSSES[self.loss].grid if values is None else np.atleast_1d(values).tolist()

    def _set_results(self, rungs: list[Rung], tables: Tables) -> Candidate:
        """Report the scores of all candidates, each from the last rung that it reached, and return the best one."""
        last = {candidate: (rung, index) for rung in rungs for index, candidate in enumerate(rung.candidates)}
        scores = np.stack([rung.scores[:, index] for rung, index in last.values()], 1)
        epochs = np.array([rung.epochs for rung, _ in last.values()])
        mean, tried = np.nanmean(scores, 0), (~np.isnan(scores)).sum(0)
        with np.errstate(invalid="ignore"):
            spread = np.where(np.isfinite(mean), np.nanstd(scores, 0), np.nan)
        best_first = np.lexsort((-mean, -tried, -epochs))
        self._batch_size = batch_size_for(train_rows(next(iter(tables.values()))))
        self.cv_results_ = {
            "params": [self._params(candidate) for candidate in last],
            "epochs": epochs,
            **{f"split{fold}_test_score": row for fold, row in enumerate(scores)},
            "mean_test_score": mean,
            "std_test_score": spread,
            "rank_test_score": best_first.argsort() + 1,
        }
        best = int(best_first[0])
        self.best_params_, self.best_score_ = self.cv_results_["params"][best], float(mean[best])
        if self.loss == "gar":
            self.alpha_ = self.best_params_["alpha"]
        return list(last)[best]

    def _params(self, candidate: Candidate) -> dict[str, Any]:
        """Return the combination by name, with the parameter of the loss and a batch size that follows from rows."""
        params = candidate._asdict() | {"batch_size": candidate.batch_size or self._batch_size}
        name, value = LOSSES[self.loss].parameter, params.pop("parameter")
        return params if name is None or value is None else {**params, name: value}

    def _members(self, rungs: list[Rung], tables: Tables, encoders: Sequence[Encoder]) -> list[Member]:
        """Return the networks of every fold whose mean has the best validation score, from the last rung that has any."""
        self.history_ = rungs[-1].runs
        for rung in reversed(rungs if self.time_limit else rungs[-1:]):  # a limit may have ended the last before its first epoch
            chosen = rung.chosen(tables, encoders, self.scoring_)
            if all(chosen) or (any(chosen) and self.time_limit is not None):
                self.fold_params_ = [[self._params(candidate) for candidate in one] for one in chosen if one]
                folds = zip(rung.folds, chosen, strict=True)
                return [member for fold, one in folds for member in rung.members(fold, one, tables, encoders[fold])]
        if self.time_limit is not None and not any(history.epochs_run.any() for _, history in rungs[0].runs.values()):
            raise InputError(f"time_limit={self.time_limit} s was over before the first epoch; allow more seconds")
        raise InputError("training diverged for every combination of some fold; add smaller learning_rates")

    def _refit(
        self, best: Candidate, rungs: list[Rung], rows: WeightedRows, limit: TimeLimit, trainer: CandidateTrainer
    ) -> list[Member]:
        """Train one network on all rows with the best combination, for the median of the epochs that were best on the folds.

        Without time for a single epoch there is none, and the networks of the folds predict.
        """
        rung = next(rung for rung in reversed(rungs) if best in rung.candidates)
        data, encoders = self._stack_data(rows)
        data = encode_features(data, best.encoding, seed=trainer.seed)
        epochs = max(1, int(np.median(rung.best_epochs(best))) + 1)
        _, history = trainer.train_stack(
            data, [best], [0], np.array([trainer.seed]), limit.deadline, epochs=epochs, keep_final=True
        )
        if not (history.epochs_run.any() or history.failed_epoch.max() >= 0):
            warnings.warn(f"time_limit={self.time_limit} s was over before refit='best': the mean predicts", stacklevel=3)
            return []
        return [Member(history.final, encoders[0], data.folds[0].features, data.folds[0].labels)]
