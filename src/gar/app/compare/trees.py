"""Boosted trees as families: one for every tree library, with the losses that it can be trained with."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from gar.app.compare.families import Trial, Winners, method_title
from gar.app.compare.options import Options
from gar.app.compare.source import Prepared
from gar.app.compare.tree_search import TreeGrid, TreeSearchSettings, search_trees, train_targets, tree_key
from gar.app.models.trees import TargetModel, TreeModel
from gar.boosting.library import tree_library
from gar.search import RunContext, Selection

DEPTHS, RATES = (3, 6), (0.05, 0.2)


class BoostedTrees:
    """Trees of one library."""

    def __init__(self, name: str) -> None:
        self.name, self._library = name, tree_library(name)
        _ = self._library.module  # an error says how to install it

    def train(self, loss: str, prepared: Prepared, options: Options, context: RunContext) -> Trial | None:
        models, settings, title = self._grid(loss, options), self._settings(loss, options), method_title(loss, self.name)
        with context.stopwatch(tree_key(prepared.data, self._library, settings)) as watch:
            labelled = context.labelled(f"{prepared.source.name}: {title:<16}")
            history = search_trees(prepared.data, models, self._library, settings, context=labelled)
            seconds = watch.seconds
        return None if history is None else Trial(loss, self.name, title, models, history, seconds)

    def retrain(self, trial: Trial, best: Selection, prepared: Prepared, options: Options) -> Winners:
        models, settings = trial.models.take(best.model), self._settings(trial.loss, options)
        assert isinstance(models, TreeGrid)
        rounds = (best.epoch + 1).tolist()
        trees = [self._retrained(models, index, settings, count, prepared) for index, count in enumerate(rounds)]
        about = trial.about(prepared, best.metric)
        model = TreeModel(library=self.name, trees=trees, encoders=prepared.encoders, targets=prepared.source.targets, about=about)
        return Winners(model, {})

    def _retrained(
        self, models: TreeGrid, index: int, settings: TreeSearchSettings, rounds: int, prepared: Prepared
    ) -> list[TargetModel]:
        """Train the winner of a fold once more, with its best number of rounds."""
        fold = prepared.data.folds[int(models.fold[index])]
        with self._library.translate_errors():
            targets = train_targets(prepared.data, fold, self._library, settings.of_model(models, index), ())
            last = [(next(islice(trained, rounds - 1, None)), scale) for trained, scale in targets]
        return [TargetModel(self._library.to_text(one.booster), *map(float, scale)) for one, scale in last]

    def settings(self, prepared: Prepared, options: Options) -> Mapping[str, Any]:
        settings = self._settings("mae", options)
        return {
            self.name: f"version {self._library.version}",
            "tree_depths": list(DEPTHS),
            "tree_rates": list(RATES),
            "tree_rounds": f"up to {settings.rounds}, until {settings.patience} did not improve validation {settings.monitor}",
            "tree_subsample": settings.subsample,
        }

    @staticmethod
    def _grid(loss: str, options: Options) -> TreeGrid:
        """Return equally many models for every loss: those without a parameter have three seeds, as networks have."""
        seeds, parameters = options.seeds_and_parameters(loss)
        return TreeGrid.of(folds=options.folds, seeds=seeds, depths=DEPTHS, rates=RATES, parameters=parameters)

    @staticmethod
    def _settings(loss: str, options: Options) -> TreeSearchSettings:
        return TreeSearchSettings(loss=loss, monitor=options.metric)
