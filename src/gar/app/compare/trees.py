"""Boosted trees as families: XGBoost and LightGBM, with the losses that trees can be grown with."""

from collections.abc import Mapping
from typing import Any

from gar.app.compare.families import Trial, Winners
from gar.app.compare.options import Options
from gar.app.compare.preparing import Prepared
from gar.app.compare.tree_search import TreeGrid, TreePlan, growths, search_trees, tree_key
from gar.app.models import TreeModel
from gar.app.models.trees import Trees
from gar.boosting.libraries import imported
from gar.boosting.metrics import Library
from gar.boosting.rounds import LOSSES
from gar.losses import registry
from gar.registry import FAMILIES
from gar.search import RunContext, Selection

DEPTHS, RATES = (3, 6), (0.05, 0.2)


class BoostedTrees:
    """Trees of one library."""

    losses = LOSSES

    def __init__(self, library: Library) -> None:
        self.name: Library = library

    def title_of(self, loss: str) -> str:
        return f"{registry[loss].title} ({FAMILIES[self.name].title})"

    def check(self) -> None:
        imported(self.name)

    def attempt(self, loss: str, prepared: Prepared, options: Options, run: RunContext) -> Trial | None:
        models, plan, title = self._grid(loss, options), self._plan(loss, options), self.title_of(loss)
        with run.stopwatch(tree_key(prepared.data, plan)) as watch:
            history = search_trees(prepared.data, models, plan, context=run.labelled(f"{prepared.source.name}: {title:<16}"))
            seconds = watch.seconds
        return None if history is None else Trial(loss, self.name, title, models, history, seconds)

    def train_again(self, trial: Trial, best: Selection, prepared: Prepared, options: Options) -> Winners:
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
        seeds, parameters = options.tries(loss)
        return TreeGrid.of(folds=options.folds, seeds=seeds, depths=DEPTHS, rates=RATES, parameters=parameters)

    def _plan(self, loss: str, options: Options) -> TreePlan:
        return TreePlan(library=self.name, loss=loss, monitor=options.metric)
