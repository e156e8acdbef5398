"""A grid of networks over all folds, trained as one tensor program and tuned by successive halving, in the manner of LassoCV."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.model_selection import KFold, check_cv

from gar.encoding import Encoder
from gar.errors import InputError, whole_number
from gar.estimators.base import NetworkRegressor, Split, WeightedRows, stack_data
from gar.estimators.presets import ESTIMATOR_PRESET, PAPER_PRESET, encode_features, train_rows, train_settings
from gar.registry import LOSSES, METRICS
from gar.search import RunContext, search
from gar.stack import History, Models, StackData, StackedMLP
from gar.validation import check_choice

_EPOCH_FACTOR, _CANDIDATE_FACTOR = 6, 3
"""Successive halving: the first rungs have a sixth of the epochs; a third of the candidates is promoted from one fold to all."""

_MIN_VALIDATION_ROWS = 5
"""Validation rows of a fold below which correlations and R2 are uninformative."""

Stack = tuple[str | None, int]
"""Encoding and batch size, which networks trained as one stack have in common."""

Tables = Mapping[str | None, StackData]
"""The table in each encoding to try."""


class Candidate(NamedTuple):
    """One combination of hyperparameters."""

    encoding: str | None
    batch_size: int
    learning_rate: float
    weight_decay: float
    parameter: float | None

    @property
    def stack(self) -> Stack:
        return self.encoding, self.batch_size

    def params(self, parameter: str | None) -> dict[str, Any]:
        """Return the combination by name, given the name of the parameter of the loss."""
        shared = dict(zip(self._fields[:-1], self, strict=False))
        return shared if parameter is None or self.parameter is None else {**shared, parameter: self.parameter}


@dataclass(frozen=True)
class Rung:
    """A step of successive halving: candidates that were trained on some folds for some epochs.

    ``scores`` are validation scores ``(all folds, candidates)``, larger being better: ``-inf`` for a candidate that failed, NaN on
    folds where it was not tried. ``runs`` has for every stack its models, fold after fold, and their history.
    """

    candidates: list[Candidate]
    epochs: int
    scores: np.ndarray
    runs: Mapping[Stack, tuple[Models, History]]

    def best(self, count: int) -> list[Candidate]:
        """Return the candidates with the highest mean score over the folds tried, in the order of the grid."""
        means = np.nanmean(self.scores, 0)
        return [self.candidates[index] for index in sorted(np.argsort(-means, kind="stable")[:count])]

    def with_scores_of(self, earlier: "Rung") -> "Rung":
        """Return this rung with scores on the folds where an earlier rung tried its candidates, too."""
        indices = [earlier.candidates.index(candidate) for candidate in self.candidates]
        return replace(self, scores=np.where(np.isnan(self.scores), earlier.scores[:, indices], self.scores))

    def of_best_encoding(self) -> "Rung":
        """Return the candidates that have the same encoding as the best one."""
        best = self.best(1)[0].encoding
        indices = [index for index, candidate in enumerate(self.candidates) if candidate.encoding == best]
        runs = {stack: run for stack, run in self.runs.items() if stack[0] == best}
        return replace(self, candidates=[self.candidates[index] for index in indices], scores=self.scores[:, indices], runs=runs)

    def networks(self, indices: Sequence[int]) -> StackedMLP:
        """Return for every fold the network of one candidate, given by its index, with the weights of its best epoch."""
        found = [self._model(fold, self.candidates[index]) for fold, index in enumerate(indices)]
        return StackedMLP(found[0][0].layout, torch.stack([history.best.weights[model] for history, model in found]))

    def best_epochs(self, candidate: Candidate) -> np.ndarray:
        """Return the best epoch of a candidate on every fold, from 0."""
        found = [self._model(fold, candidate) for fold in range(len(self.scores))]
        return np.array([history.best_epoch[model] for history, model in found])

    def _model(self, fold: int, candidate: Candidate) -> tuple[History, int]:
        """Return the history that a candidate's network of a fold is in, and its index there."""
        members = [other for other in self.candidates if other.stack == candidate.stack]
        return self.runs[candidate.stack][1], fold * len(members) + members.index(candidate)


class GARRegressorCV(NetworkRegressor):
    """A network for tables that tunes itself: combinations of hyperparameters on all folds, trained as one tensor program.

    In each fold the network and epoch with the best validation score win. Predictions are the mean of these winners, or with
    ``refit="best"`` those of one network trained on all rows with the combination that is best over all folds, for as many epochs
    as the folds found best.

    Combinations are thinned out by successive halving: all are trained for a sixth of the epochs on one fold, the better third on
    the other folds, too, and ``n_finalists`` of the better encoding for all epochs.

    Args:
        loss: a name of :data:`gar.registry.LOSSES`.
        alphas: values of GAR's alpha to try. Other losses try ``parameters``.
        learning_rates: to try.
        weight_decays: to try.
        batch_sizes: to try.
        hidden_sizes: widths of the hidden layers; ``"auto"`` is three of 64 or, from 2000 training rows on, of 128; ``"paper"``
            the paper's by number of features.
        activation: between the layers: ``"silu"`` or ``"elu"``.
        encoding: of features: ``"periodic"`` adds cosines of each (:class:`gar.stack.PeriodicFeatures`) and learned feature gates,
            which switch off uninformative inputs; None is standardised features alone; ``"auto"`` tries both.
        epochs: passes over the rows.
        cv: number of folds, a splitter of scikit-learn, or a list of (train, test) rows.
        scoring: ``"mae"``, ``"rmse"``, ``"pearson"``, ``"spearman"`` or ``"r2"`` on the validation rows. The last three need five
            of them in every fold; with fewer, ``"mae"`` is used with a warning.
        n_finalists: combinations that are trained for all epochs; None trains all of them.
        refit: ``"mean"`` of the winners of all folds, or ``"best"``.
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
        n_jobs: processes to train with; -1 is one per core. It changes no result.
        verbose: show a progress line.
        random_state: an integer makes a fit repeatable.
        device: ``"auto"`` uses a GPU if there is one.

    Attributes:
        scoring_: the metric that was used to choose.
        alpha_: the alpha that is best over all folds (for GAR).
        best_params_: the combination that is best over all folds.
        best_score_: its mean validation score; errors count negative, as everywhere in scikit-learn.
        cv_results_: like GridSearchCV's: ``params``, ``mean_test_score``, ``std_test_score``, ``split0_test_score``, ...;
            ``epochs`` is how long a combination was trained. The score on a fold where it was not tried is NaN.
        history_: for every batch size the models that were trained for all epochs, and their metrics after every epoch.
        fold_params_: the combination that won each fold.
        networks_: the networks that predict.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = GARRegressorCV(learning_rates=(3e-3,), epochs=10, cv=3, random_state=0).fit(X, y)
        >>> model.alpha_ in (0.1, 1, 10), model.score(X, y) > 0.4
        (True, True)
    """

    def __init__(
        self,
        loss: str = "gar",
        alphas: Sequence[float] = (0.1, 1.0, 10.0),
        *,
        learning_rates: Sequence[float] = ESTIMATOR_PRESET["learning_rates"],
        weight_decays: Sequence[float] = ESTIMATOR_PRESET["weight_decays"],
        batch_sizes: Sequence[int] = ESTIMATOR_PRESET["batch_sizes"],
        hidden_sizes: Any = ESTIMATOR_PRESET["hidden_sizes"],
        activation: str = ESTIMATOR_PRESET["activation"],
        encoding: str | None = ESTIMATOR_PRESET["encoding"],
        epochs: int = ESTIMATOR_PRESET["epochs"],
        cv: Any = 5,
        scoring: str = "mae",
        n_finalists: int | None = 4,
        refit: str = "mean",
        bound_predictions: bool = True,
        categorical_features: Any = "from_dtype",
        preset: str | None = None,
        parameters: Sequence[float] | None = None,
        optimizer: str = ESTIMATOR_PRESET["optimizer"],
        schedule: str = ESTIMATOR_PRESET["schedule"],
        loss_options: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "GARRegressorCV":  # noqa: N803
        """Train the grid on all folds by successive halving and predict with the winners.

        A weight of two equals two copies of a row, in training and in scores; NaN in ``y`` is a missing label.
        """
        self._check_arguments()
        rows, seed, device = self._validated(X, y, sample_weight)
        data, encoders = self._stack_data(rows, self._splits(rows, seed))
        self.scoring_ = self._supported_scoring(data)
        tables = self._encode(data, seed)
        rungs = self._halve(tables, seed, device)
        best = self._set_results(rungs)
        winners = self._fold_winners(rungs[-1])
        if self.refit == "best":
            self._refit(best, rungs[-1].best_epochs(best), rows, seed, device)
        else:
            self._set_networks(winners, tables[best.encoding].folds, encoders)
        return self

    def _check_arguments(self) -> None:
        check_choice(self.scoring, tuple(METRICS), "scoring")
        check_choice(self.refit, ("mean", "best"), "refit")
        if self.preset is not None:
            check_choice(self.preset, ("paper",), "preset")
        whole_number(self.epochs, "epochs")
        for name in ("learning_rates", "weight_decays", "batch_sizes", "alphas"):
            if len(np.atleast_1d(getattr(self, name))) == 0:
                raise InputError(f"{name} is empty; give at least one value to try")
        if self.n_finalists is not None and self.n_finalists < 1:
            raise InputError(f"n_finalists={self.n_finalists} leaves nothing to train; use 1 or more, or None for all")

    def _stack_data(self, rows: WeightedRows, splits: Sequence[Split] = ()) -> tuple[StackData, list[Encoder]]:
        scaled = {"scale_labels": self.preset is None, "bound_predictions": self.bound_predictions}
        return stack_data(self.encoder_, rows, splits, **scaled)

    def _splits(self, rows: WeightedRows, seed: int) -> list[Split]:
        """Return shuffled folds for an integer ``cv``; a splitter or a list of splits is used as it is."""
        count = len(rows.weight)
        cv = 5 if self.cv is None else int(self.cv) if isinstance(self.cv, Integral) else self.cv
        if isinstance(cv, int) and not 2 <= cv <= count:
            raise InputError(f"cv={cv} folds are asked of n_samples={count} rows; use 2 folds or more, and no more than rows")
        splitter = KFold(cv, shuffle=True, random_state=seed) if isinstance(cv, int) else check_cv(cv)
        try:
            return [(np.asarray(train), np.asarray(valid)) for train, valid in splitter.split(rows.x, rows.y)]
        except ValueError as error:
            advice = "it may be a list of splits: cv=list(splitter.split(X, y, groups))"
            raise InputError(f"cv={cv} cannot split these rows ({error}); {advice}") from error

    def _supported_scoring(self, data: StackData) -> str:
        """Return ``scoring``, or MAE if a fold is too small for it: two points on any rising line are perfectly correlated."""
        fewest = min(data.count_labelled(fold.valid) for fold in data.folds)
        if fewest >= _MIN_VALIDATION_ROWS or not METRICS[self.scoring].larger_is_better:
            return self.scoring
        warnings.warn(
            f"a fold has {fewest} validation rows, too few to choose by {self.scoring}; 'mae' is used instead. Use fewer folds, or "
            "scoring='mae'",
            stacklevel=3,
        )
        return "mae"

    def _encode(self, data: StackData, seed: int) -> Tables:
        """Return the table in every encoding to try."""
        encoding = self._hyperparameters["encoding"]
        tried = ("periodic", None) if encoding == "auto" else (encoding,)
        return {name: encode_features(data, name, seed=seed) for name in tried}

    @property
    def _hyperparameters(self) -> Mapping[str, Any]:
        """Grids and settings from the preset, or from the arguments of the same names."""
        return PAPER_PRESET if self.preset == "paper" else {name: getattr(self, name) for name in PAPER_PRESET}

    def _halve(self, tables: Tables, seed: int, device: torch.device) -> list[Rung]:
        """Train the candidates by successive halving; the last rung has the finalists, which share one encoding."""
        epochs, candidates = self._hyperparameters["epochs"], self._candidates(tables)
        train_sizes = [len(fold.train) for fold in next(iter(tables.values())).folds]
        every_fold = range(len(train_sizes))
        trial = partial(self._train, tables, seed, device)
        if self.preset is not None or self.n_finalists is None or len(candidates) <= self.n_finalists:
            full = trial(candidates, every_fold, epochs)
            return [full, full.of_best_encoding()]
        short, first_fold = -(-epochs // _EPOCH_FACTOR), int(np.argmax(train_sizes))
        rungs = [trial(candidates, [first_fold], short)]
        if other_folds := [fold for fold in every_fold if fold != first_fold]:
            promoted = rungs[0].best(max(self.n_finalists, len(candidates) // _CANDIDATE_FACTOR))
            rungs.append(trial(promoted, other_folds, short).with_scores_of(rungs[0]))
        finalists = rungs[-1].of_best_encoding().best(self.n_finalists)
        return [*rungs, trial(finalists, every_fold, epochs)]

    def _candidates(self, encodings: Iterable[str | None]) -> list[Candidate]:
        names = ("batch_sizes", "learning_rates", "weight_decays")
        grids = [np.atleast_1d(self._hyperparameters[name]).tolist() for name in names]
        values = self.alphas if self.loss == "gar" else LOSSES[self.loss].grid if self.parameters is None else self.parameters
        parameters: Sequence[float | None] = np.atleast_1d(values).tolist() or [None]
        return [Candidate(*combination) for combination in product(encodings, *grids, parameters)]

    def _train(
        self, tables: Tables, seed: int, device: torch.device, candidates: list[Candidate], folds: Sequence[int], epochs: int
    ) -> Rung:
        """Train candidates on some folds; those with equal encoding and batch size are one stack."""
        scores = np.full((len(next(iter(tables.values())).folds), len(candidates)), np.nan)
        runs = {}
        for stack in dict.fromkeys(candidate.stack for candidate in candidates):
            indices = [index for index, candidate in enumerate(candidates) if candidate.stack == stack]
            members = [candidates[index] for index in indices]
            more = {"epochs": epochs, "keep_best": self.scoring_, "monitor": self.scoring_}
            runs[stack] = self._train_stack(tables[stack[0]], members, folds, seed, device, **more)
            values = METRICS[self.scoring_].sign * runs[stack][1].of("valid", self.scoring_)
            best = np.where(np.isnan(values), -np.inf, values).max(1)
            scores[np.ix_(folds, indices)] = best.reshape(len(folds), -1)
        return Rung(candidates, epochs, scores, runs)

    def _train_stack(
        self, data: StackData, candidates: list[Candidate], folds: Sequence[int], seed: int, device: torch.device, **more: Any
    ) -> tuple[Models, History]:
        """Train candidates of one stack, all on the first fold, then all on the next; ``more`` are settings of training."""
        given = {name: self._hyperparameters[name] for name in ("hidden_sizes", "activation", "epochs", "optimizer", "schedule")}
        given |= {"loss": self.loss, "loss_options": self.loss_options, "features": data.x.shape[1], "rows": train_rows(data)}
        given |= {"encoding": candidates[0].encoding, "batch_size": candidates[0].batch_size, **more}
        settings = train_settings(**given)
        _, _, rates, decays, parameters = zip(*candidates, strict=True)
        models = Models(
            fold=np.repeat(folds, len(candidates)),
            seed=seed,
            learning_rate=np.tile(rates, len(folds)),
            weight_decay=np.tile(decays, len(folds)),
            parameter=None if parameters[0] is None else np.tile(parameters, len(folds)),
        )
        context = RunContext(workers=1 if self.n_jobs is None else self.n_jobs, progress=self.verbose)
        return models, search(data, models, settings, context=context, device=device)

    def _set_results(self, rungs: list[Rung]) -> Candidate:
        """Report the scores of all candidates, each from the last rung that it reached, and return the best one."""
        last = {candidate: (rung, index) for rung in rungs for index, candidate in enumerate(rung.candidates)}
        scores = np.stack([rung.scores[:, index] for rung, index in last.values()], 1)
        epochs = np.array([rung.epochs for rung, _ in last.values()])
        mean, tried = np.nanmean(scores, 0), (~np.isnan(scores)).sum(0)
        with np.errstate(invalid="ignore"):
            spread = np.where(np.isfinite(mean), np.nanstd(scores, 0), np.nan)
        best_first = np.lexsort((-mean, -tried, -epochs))
        self.cv_results_ = {
            "params": [candidate.params(LOSSES[self.loss].parameter) for candidate in last],
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

    def _fold_winners(self, rung: Rung) -> StackedMLP:
        """Return the best network of every fold at its best epoch."""
        self.history_ = {batch_size: run for (_, batch_size), run in rung.runs.items()}
        if not np.isfinite(rung.scores.max(1)).all():
            raise InputError("training diverged for every combination of some fold; add smaller learning_rates")
        best = rung.scores.argmax(1).tolist()
        self.fold_params_ = [rung.candidates[index].params(LOSSES[self.loss].parameter) for index in best]
        return rung.networks(best)

    def _refit(self, best: Candidate, epochs: np.ndarray, rows: WeightedRows, seed: int, device: torch.device) -> None:
        """Train one network on all rows with the best combination, for the median of the epochs that were best on the folds."""
        data, encoders = self._stack_data(rows)
        data = encode_features(data, best.encoding, seed=seed)
        _, history = self._train_stack(data, [best], [0], seed, device, keep_final=True, epochs=int(np.median(epochs)) + 1)
        self._set_networks(history.final, data.folds, encoders)
