"""A grid of networks over all folds, trained as one program, in the manner of LassoCV."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.model_selection import KFold, check_cv

from gar.errors import InputError
from gar.estimators._base import NetworkRegressor, check_loss, drawn_seed, resolved_device, train_settings
from gar.estimators._table import Rows, Split, stack_data
from gar.functional._inputs import check_choice
from gar.losses import registry
from gar.metrics import LARGER_IS_BETTER, METRICS
from gar.search import search
from gar.stack import History, Models, StackData, StackedMLP, TrainSettings

PAPER = {
    "learning_rates": (1e-1, 1e-2, 1e-3, 1e-4, 1e-5),
    "weight_decays": (1e-3, 1e-4, 1e-5),
    "batch_sizes": (256,),
    "hidden_sizes": "paper",
    "epochs": 100,
    "optimizer": "sgd",
    "schedule": "multistep",
}
"""The paper's recipe for tables. Its labels are not standardised."""


class _Trial(NamedTuple):
    """All models of one batch size, fold after fold, and what became of them."""

    batch_size: int
    models: Models
    history: History


class _Candidate(NamedTuple):
    """A combination of the grids: which trial it is in, and at which place of each fold."""

    trial: _Trial
    place: int
    params: dict[str, float]

    def in_fold(self, fold: int, folds: int) -> int:
        """The place of its model of a fold."""
        return fold * (len(self.trial.models) // folds) + self.place


class GARRegressorCV(NetworkRegressor):
    """A network for tables that tunes itself: every combination of the grids on every fold, trained as one tensor program.

    In each fold the network and the epoch that score best on the rows left out win. Predictions are the mean of these winners, or
    with ``refit="best"`` those of one network trained on all rows with the combination that is best over all folds.

    Args:
        loss: a name of :data:`gar.losses.registry`.
        alphas: values of GAR's alpha to try. Other losses try ``parameters``, or the paper's grid for them.
        learning_rates: to try.
        weight_decays: to try.
        batch_sizes: to try.
        hidden_sizes: widths of the hidden layers; ``"auto"`` is two layers of 128, ``"paper"`` the paper's by number of features.
        epochs: passes over the rows.
        cv: number of folds, a splitter of scikit-learn, or a list of (train, test) rows.
        scoring: ``"pearson"``, ``"spearman"``, ``"r2"``, ``"mae"`` or ``"rmse"`` on the rows left out.
        refit: ``"mean"`` of the winners of all folds, or ``"best"``.
        preset: ``"paper"`` takes the paper's recipe (SGD, its grids, networks and schedule) in place of the arguments above it.
        parameters: values to try of the parameter of a loss other than GAR.
        optimizer: ``"adamw"``, ``"adam"`` or ``"sgd"``.
        schedule: of the learning rate: ``"cosine"``, ``"multistep"`` or ``"constant"``.
        loss_options: further arguments of the loss, for all models alike.
        n_jobs: processes to train with; -1 is one per core. It changes no result.
        verbose: show a line of progress.
        random_state: a number makes a fit repeatable.
        device: ``"auto"`` uses a GPU if there is one.

    Attributes:
        alpha_: the alpha that is best over all folds (for GAR).
        best_params_: the whole combination.
        best_score_: its mean score over the folds; errors count negative, as everywhere in scikit-learn.
        cv_results_: like GridSearchCV's: ``params``, ``mean_test_score``, ``std_test_score``, ``split0_test_score``, ...
        history_: for every batch size its models and what was measured of them after every epoch.
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
        learning_rates: Sequence[float] = (2e-2, 1e-2, 3e-3),
        weight_decays: Sequence[float] = (1e-1, 1e-3),
        batch_sizes: Sequence[int] = (32,),
        hidden_sizes: Any = "auto",
        epochs: int = 100,
        cv: Any = 5,
        scoring: str = "pearson",
        refit: str = "mean",
        preset: str | None = None,
        parameters: Sequence[float] | None = None,
        optimizer: str = "adamw",
        schedule: str = "cosine",
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
        self.epochs = epochs
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
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
        """Train the whole grid on all folds and keep the winners.

        ``sample_weight`` says how often each row counts, in training and in scores; NaN in ``y`` is a missing label.
        """
        self._check_choices()
        rows = self._checked_rows(X, y, sample_weight)
        seed = drawn_seed(self.random_state)
        data = stack_data(rows, self._splits(rows, seed), scale_labels=self.preset is None)
        trials = [self._trial(data, int(size), seed) for size in np.atleast_1d(self._recipe["batch_sizes"])]
        self.history_ = {trial.batch_size: (trial.models, trial.history) for trial in trials}
        winners = self._judge(trials, len(data.folds))
        if self.refit == "best":
            self._refit(rows, seed)
        else:
            self._keep(winners, data.folds)
        return self

    @property
    def _recipe(self) -> Mapping[str, Any]:
        """What is tried and how, from the arguments or from the preset."""
        return PAPER if self.preset == "paper" else {name: getattr(self, name) for name in PAPER}

    def _check_choices(self) -> None:
        check_loss(self.loss)
        check_choice(self.scoring, METRICS, "scoring")
        check_choice(self.refit, ("mean", "best"), "refit")
        if self.preset is not None:
            check_choice(self.preset, ("paper",), "preset")
        for name in ("learning_rates", "weight_decays", "batch_sizes", "alphas"):
            if len(np.atleast_1d(getattr(self, name))) == 0:
                raise InputError(f"{name} is empty; give at least one value to try")

    def _splits(self, rows: Rows, seed: int) -> list[Split]:
        """Shuffled folds for a number; a splitter or a list of splits is taken as it is."""
        count = len(rows.weight)
        if isinstance(self.cv, int) and not 2 <= self.cv <= count:
            raise InputError(f"cv={self.cv} folds are asked of n_samples={count} rows; use 2 folds or more, and no more than rows")
        splitter = KFold(self.cv, shuffle=True, random_state=seed) if isinstance(self.cv, int) else check_cv(self.cv)
        return [(np.asarray(train), np.asarray(valid)) for train, valid in splitter.split(rows.x, rows.y)]

    @property
    def _parameter(self) -> tuple[str | None, Sequence[float] | None]:
        """Name and values of the parameter of the loss."""
        spec = registry[self.loss]
        values = self.alphas if self.loss == "gar" else spec.grid if self.parameters is None else self.parameters
        return spec.parameter, np.atleast_1d(values).tolist() or None

    def _settings(self, features: int, batch_size: int, **more: Any) -> TrainSettings:
        recipe = {name: self._recipe[name] for name in ("hidden_sizes", "epochs", "optimizer", "schedule")}
        return train_settings(
            features=features, batch_size=batch_size, loss=self.loss, loss_options=self.loss_options, **recipe, **more
        )

    def _trial(self, data: StackData, batch_size: int, seed: int) -> _Trial:
        models = Models.grid(
            folds=range(len(data.folds)),
            seeds=(seed,),
            learning_rates=np.atleast_1d(self._recipe["learning_rates"]),
            weight_decays=np.atleast_1d(self._recipe["weight_decays"]),
            parameters=self._parameter[1],
        )
        settings = self._settings(data.x.shape[1], batch_size, keep_best=self.scoring, monitor=self.scoring)
        device = resolved_device(self.device)
        history = search(
            data, models, settings, workers=1 if self.n_jobs is None else self.n_jobs, progress=self.verbose, device=device
        )
        return _Trial(batch_size, models, history)

    def _judge(self, trials: list[_Trial], folds: int) -> StackedMLP:
        """Score all combinations, larger being better; returns the winners of the folds at their best epochs."""
        candidates = [candidate for trial in trials for candidate in self._candidates(trial, folds)]
        scores = np.concatenate([self._scores(trial).reshape(folds, -1) for trial in trials], 1)
        if not np.isfinite(scores.max(1)).all():
            raise InputError("training diverged for every combination of some fold; add smaller learning_rates")
        self._report(candidates, scores)
        chosen = [candidates[place] for place in scores.argmax(1)]
        self.fold_params_ = [candidate.params for candidate in chosen]
        rows = [candidate.trial.history.best.table[candidate.in_fold(fold, folds)] for fold, candidate in enumerate(chosen)]
        return StackedMLP(trials[0].history.layout, torch.stack(rows))

    def _candidates(self, trial: _Trial, folds: int) -> list[_Candidate]:
        models, name = trial.models, self._parameter[0]
        result = []
        for place in range(len(models) // folds):
            params = {"batch_size": trial.batch_size, "learning_rate": float(models.learning_rate[place])}
            params["weight_decay"] = float(models.weight_decay[place])
            if name is not None and models.parameter is not None:
                params[name] = float(models.parameter[place])
            result.append(_Candidate(trial, place, params))
        return result

    def _scores(self, trial: _Trial) -> np.ndarray:
        """The best epoch's score of every model; a model that failed at once has none."""
        values = trial.history.of("valid", self.scoring) * (1.0 if LARGER_IS_BETTER[self.scoring] else -1.0)
        return np.asarray(np.where(np.isnan(values), -np.inf, values).max(1))

    def _report(self, candidates: list[_Candidate], scores: np.ndarray) -> None:
        mean = scores.mean(0)
        finite = np.where(np.isfinite(scores), scores, np.nan)
        with np.errstate(invalid="ignore"):
            spread = finite.std(0)
        self.cv_results_ = {
            "params": [candidate.params for candidate in candidates],
            **{f"split{fold}_test_score": row for fold, row in enumerate(scores)},
            "mean_test_score": mean,
            "std_test_score": spread,
            "rank_test_score": (-mean).argsort(kind="stable").argsort(kind="stable") + 1,
        }
        best = int(mean.argmax())
        self.best_params_, self.best_score_ = candidates[best].params, float(mean[best])
        if self.loss == "gar":
            self.alpha_ = self.best_params_["alpha"]

    def _refit(self, rows: Rows, seed: int) -> None:
        """One network on all rows with the best combination."""
        best, name = self.best_params_, self._parameter[0]
        data = stack_data(rows, [rows.everything()], scale_labels=self.preset is None)
        models = Models(
            seed=seed,
            learning_rate=best["learning_rate"],
            weight_decay=best["weight_decay"],
            parameter=None if name is None else best.get(name),
        )
        settings = self._settings(data.x.shape[1], int(best["batch_size"]), keep_final=True)
        self._keep(search(data, models, settings, device=resolved_device(self.device)).final, data.folds)
