"""Boosted trees as families: XGBoost and LightGBM, with the losses that trees can be grown with."""

from collections.abc import Mapping
from typing import Any

from gar.app.compare.families import Trial, Winners, method_title
from gar.app.compare.options import Options
from gar.app.compare.source import Prepared
from gar.app.compare.tree_search import TreeGrid, TreePlan, growths, search_trees, tree_key
from gar.app.models.trees import TreeModel, Trees
from gar.boosting.libraries import imported
from gar.search import RunContext, Selection

DEPTHS, RATES = (3, 6), (0.05, 0.2)


class BoostedTrees:
    """Trees of one library."""

    def __init__(self, name: Any) -> None:
        self.name = name
        imported(name)  # an error says how to install it

    def train(self, loss: str, prepared: Prepared, options: Options, context: RunContext) -> Trial | None:
        models, plan, title = self._grid(loss, options), self._plan(loss, options), method_title(loss, self.name)
        with context.stopwatch(tree_key(prepared.data, plan)) as watch:
            history = search_trees(prepared.data, models, plan, context=context.labelled(f"{prepared.source.name}: {title:<16}"))
            seconds = watch.seconds
        return None if history is None else Trial(loss, self.name, title, models, history, seconds)

    def retrain(self, trial: Trial, best: Selection, prepared: Prepared, options: Options) -> Winners:
        models, plan = trial.models.take(best.model), self._plan(trial.loss, options)
        assert isinstance(models, TreeGrid)
        trees = [self._grown(models, place, plan, rounds, prepared) for place, rounds in enumerate((best.epoch + 1).tolist())]
        about = trial.about(prepared, best.metric)
        model = TreeModel(library=self.name, trees=trees, encoders=prepared.encoders, targets=prepared.source.targets, about=about)
        return Winners(model, {})

    @staticmethod
    def _grown(models: TreeGrid, place: int, plan: TreePlan, rounds: int, prepared: Prepared) -> list[Trees]:
        """The winner of a fold, with as many rounds as were best."""
        fold = prepared.data.folds[int(models.fold[place])]
        targets = growths(prepared.data, fold, plan.recipe(models, place), ())
        for one in targets:
            for _ in range(rounds):
                one.trees.grow()
        return [Trees(one.trees.text(), one.center, one.scale) for one in targets]

    def settings(self, prepared: Prepared, options: Options) -> Mapping[str, Any]:
        plan = self._plan("mae", options)
        return {
            self.name: f"version {imported(self.name).__version__}",
            "tree_depths": list(DEPTHS),
            "tree_rates": list(RATES),
            "tree_rounds": f"up to {plan.rounds}, until {plan.patience} did not improve validation {plan.monitor}",
            "tree_subsample": plan.subsample,
        }

    @staticmethod
    def _grid(loss: str, options: Options) -> TreeGrid:
        """As many tries for every loss: those without a parameter have three seeds, as networks have."""
        seeds, parameters = options.seeds_and_parameters(loss)
        return TreeGrid.of(folds=options.folds, seeds=seeds, depths=DEPTHS, rates=RATES, parameters=parameters)

    def _plan(self, loss: str, options: Options) -> TreePlan:
        return TreePlan(library=self.name, loss=loss, monitor=options.metric)
