"""A grid of networks over all folds, trained as one program, in the manner of LassoCV."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import KFold, check_cv

from gar.errors import InputError
from gar.estimators.base import NetworkRegressor, check_loss, drawn_seed, resolved_device
from gar.estimators.presets import DEFAULT, PAPER, encoded, train_rows, train_settings
from gar.estimators.rows import Rows, Split, stack_data
from gar.estimators.trials import Candidate, Recipe, Tryout, try_out
from gar.losses import registry
from gar.metrics import LARGER_IS_BETTER, METRICS
from gar.search import RunContext, search
from gar.stack import History, Models, StackData, StackedMLP, TrainSettings
from gar.validation import check_choice

_SHARED = ("hidden_sizes", "activation", "encoding", "epochs", "optimizer", "schedule")
"""What all networks of a recipe have in common."""

_SHORT = 6
"""The shortlist is drawn up after one in so many epochs."""

_PART = 3
"""One in so many combinations is tried on more than one fold."""

_FEWEST = 5
"""Rows that a fold must leave out for correlations and R2 to say something."""


class GARRegressorCV(NetworkRegressor):
    """A network for tables that tunes itself: the combinations of its grids on all folds, trained as one tensor program.

    In each fold the network and the epoch that score best on the rows left out win. Predictions are the mean of these winners, or
    with ``refit="best"`` those of one network trained on all rows with the combination that is best over all folds.

    Args:
        loss: a name of :data:`gar.losses.registry`.
        alphas: values of GAR's alpha to try. Other losses try ``parameters``, or the paper's grid for them.
        learning_rates: to try.
        weight_decays: to try.
        batch_sizes: to try.
        hidden_sizes: widths of the hidden layers; ``"auto"`` is three of 64 or, from 2000 training rows on, of 128; ``"paper"``
            the paper's by number of features.
        activation: between them: ``"silu"`` or ``"elu"``.
        encoding: of features: ``"periodic"`` adds cosines of each (:class:`gar.stack.PeriodicFeatures`) and gates that turn off what tells
            nothing; None is their standardised numbers alone; ``"auto"`` tries both.
        epochs: passes over the rows.
        cv: number of folds, a splitter of scikit-learn, or a list of (train, test) rows.
        scoring: ``"pearson"``, ``"spearman"``, ``"r2"``, ``"mae"`` or ``"rmse"`` on the rows left out. The first three need five
            of them in every fold; with fewer, ``"mae"`` is used, and a warning says so.
        shortlist: how many combinations are trained in full. A sixth of the epochs decides: of all combinations on one fold, of the
            better third on the others too. None trains all.
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
        scoring_: the score that chose.
        alpha_: the alpha that is best over all folds (for GAR).
        best_params_: the whole combination.
        best_score_: its mean score over the folds; errors count negative, as everywhere in scikit-learn.
        cv_results_: like GridSearchCV's: ``params``, ``mean_test_score``, ``std_test_score``, ``split0_test_score``, ...;
            ``epochs`` tells which combinations were trained in full. NaN is the score on a fold that was not tried.
        history_: for every batch size its models that were trained in full, and what was measured of them after every epoch.
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
        learning_rates: Sequence[float] = DEFAULT["learning_rates"],
        weight_decays: Sequence[float] = DEFAULT["weight_decays"],
        batch_sizes: Sequence[int] = DEFAULT["batch_sizes"],
        hidden_sizes: Any = DEFAULT["hidden_sizes"],
        activation: str = DEFAULT["activation"],
        encoding: str | None = DEFAULT["encoding"],
        epochs: int = DEFAULT["epochs"],
        cv: Any = 5,
        scoring: str = "pearson",
        shortlist: int | None = 4,
        refit: str = "mean",
        preset: str | None = None,
        parameters: Sequence[float] | None = None,
        optimizer: str = DEFAULT["optimizer"],
        schedule: str = DEFAULT["schedule"],
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
        self.shortlist = shortlist
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
        self.scoring_ = self._able_scoring(data)
        tables = self._encoded(data, seed)
        tryouts = self._tryouts(tables, seed)
        self._report(tryouts)
        winners = self._winners(tryouts[-1])
        if self.refit == "best":
            self._refit(rows, seed)
        else:
            self._keep(winners, tables[self.best_params_["encoding"]].folds)
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
        if self.shortlist is not None and self.shortlist < 1:
            raise InputError(f"shortlist={self.shortlist} leaves nothing to train; use 1 or more, or None for all")

    def _splits(self, rows: Rows, seed: int) -> list[Split]:
        """Shuffled folds for a number; a splitter or a list of splits is taken as it is."""
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

    def _able_scoring(self, data: StackData) -> str:
        """``scoring``, or MAE where some fold has too few rows for it: of two points, any rising line has a perfect correlation."""
        fewest = min(data.count_labelled(fold.valid) for fold in data.folds)
        if fewest == 0:
            raise InputError(f"cv={self.cv} makes a fold that leaves out no row with a label and a weight; use fewer folds")
        if fewest >= _FEWEST or not LARGER_IS_BETTER[self.scoring]:
            return self.scoring
        warnings.warn(
            f"a fold leaves {fewest} rows out, too few to choose by {self.scoring}; 'mae' is used instead. Use fewer folds, or "
            "scoring='mae'",
            stacklevel=3,
        )
        return "mae"

    @property
    def _parameter(self) -> tuple[str | None, Sequence[float] | None]:
        """Name and values of the parameter of the loss."""
        spec = registry[self.loss]
        values = self.alphas if self.loss == "gar" else spec.grid if self.parameters is None else self.parameters
        return spec.parameter, np.atleast_1d(values).tolist() or None

    def _settings(self, data: StackData, batch_size: int, **more: Any) -> TrainSettings:
        recipe = {**{name: self._recipe[name] for name in _SHARED}, **more}
        size: dict[str, Any] = {"features": data.x.shape[1], "rows": train_rows(data), "batch_size": batch_size}
        return train_settings(loss=self.loss, loss_options=self.loss_options, **size, **recipe)

    def _encoded(self, data: StackData, seed: int) -> dict[str | None, StackData]:
        """The table in every encoding that is tried."""
        encoding = self._recipe["encoding"]
        return {name: encoded(data, name, seed=seed) for name in (("periodic", None) if encoding == "auto" else (encoding,))}

    def _tryouts(self, tables: Mapping[str | None, StackData], seed: int) -> list[Tryout]:
        """All combinations, and at last those that decide, which have one encoding.

        With a shortlist, all are trained for a short time on one fold, that with most rows to learn from, the better part on the
        other folds too, and then the best of the better encoding in full.
        """
        epochs, candidates, folds = int(self._recipe["epochs"]), self._candidates(tables), next(iter(tables.values())).folds
        every_fold = range(len(folds))
        trial = partial(try_out, of_folds=len(folds), seed=seed, scoring=self.scoring_, train=self._trainer(tables))
        if self.preset is not None or self.shortlist is None or len(candidates) <= self.shortlist:
            in_full = trial(candidates, folds=every_fold, epochs=epochs)
            return [in_full, in_full.of_best_encoding()]
        short = -(-epochs // _SHORT)
        longest = int(np.argmax([len(fold.train) for fold in folds]))
        tryouts = [trial(candidates, folds=[longest], epochs=short)]
        if others := [fold for fold in every_fold if fold != longest]:
            good = tryouts[0].best(max(self.shortlist, len(candidates) // _PART))
            tryouts.append(tryouts[0].joined(trial(good, folds=others, epochs=short)))
        return [*tryouts, trial(tryouts[-1].of_best_encoding().best(self.shortlist), folds=every_fold, epochs=epochs)]

    def _candidates(self, encodings: Iterable[str | None]) -> list[Candidate]:
        names = ("batch_sizes", "learning_rates", "weight_decays")
        sizes, rates, decays = (np.atleast_1d(self._recipe[name]).tolist() for name in names)
        parameters: Sequence[float | None] = self._parameter[1] or [None]
        recipes = [Recipe(*values) for values in product(encodings, sizes)]
        return [Candidate(*values) for values in product(recipes, rates, decays, parameters)]

    def _trainer(self, tables: Mapping[str | None, StackData]) -> Callable[[Models, Recipe, int], History]:
        context = RunContext(workers=1 if self.n_jobs is None else self.n_jobs, progress=self.verbose)
        device = resolved_device(self.device)

        def train(models: Models, recipe: Recipe, epochs: int) -> History:
            data, scored = tables[recipe.encoding], {"keep_best": self.scoring_, "monitor": self.scoring_}
            settings = self._settings(data, recipe.batch_size, epochs=epochs, encoding=recipe.encoding, **scored)
            return search(data, models, settings, context=context, device=device)

        return train

    def _winners(self, tryout: Tryout) -> StackedMLP:
        """The best network of every fold at its best epoch."""
        self.history_ = {recipe.batch_size: run for recipe, run in tryout.runs.items()}
        if not np.isfinite(tryout.scores.max(1)).all():
            raise InputError("training diverged for every combination of some fold; add smaller learning_rates")
        places = tryout.scores.argmax(1).tolist()
        self.fold_params_ = [tryout.candidates[place].params(self._parameter[0]) for place in places]
        return StackedMLP(tryout.layout, torch.stack([tryout.best_weights(fold, place) for fold, place in enumerate(places)]))

    def _report(self, tryouts: list[Tryout]) -> None:
        """Scores of all combinations, from the last time each was tried."""
        last = {candidate: (tryout, place) for tryout in tryouts for place, candidate in enumerate(tryout.candidates)}
        scores = np.stack([tryout.scores[:, place] for tryout, place in last.values()], 1)
        epochs = np.array([tryout.epochs for tryout, _ in last.values()])
        mean, tried = np.nanmean(scores, 0), (~np.isnan(scores)).sum(0)
        with np.errstate(invalid="ignore"):
            spread = np.where(np.isfinite(mean), np.nanstd(scores, 0), np.nan)
        best_first = np.lexsort((-mean, -tried, -epochs))
        self.cv_results_ = {
            "params": [candidate.params(self._parameter[0]) for candidate in last],
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

    def _refit(self, rows: Rows, seed: int) -> None:
        """One network on all rows with the best combination."""
        best, name = self.best_params_, self._parameter[0]
        plain = stack_data(rows, [rows.everything()], scale_labels=self.preset is None)
        data = encoded(plain, best["encoding"], seed=seed)
        models = Models(
            seed=seed,
            learning_rate=best["learning_rate"],
            weight_decay=best["weight_decay"],
            parameter=None if name is None else best.get(name),
        )
        settings = self._settings(data, best["batch_size"], encoding=best["encoding"], keep_final=True)
        self._keep(search(data, models, settings, device=resolved_device(self.device)).final, data.folds)
