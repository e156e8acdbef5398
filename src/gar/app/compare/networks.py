"""Networks as a family: every loss is one GARRegressorCV on the folds of the comparison, several losses at a time."""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from gar import __version__
from gar.app.compare.families import Finished, LeftOut
from gar.app.compare.grids import mean_curve, predicted_test_rows, scores_of
from gar.app.compare.options import Options
from gar.app.compare.pilot import Sample, estimate_fit
from gar.app.compare.plan import Estimate, Plan
from gar.app.compare.progress import LossBoard, loss_progress, write_share
from gar.app.compare.source import Prepared
from gar.app.models import TableModel, load_model
from gar.app.report.results import Choice, Method
from gar.app.report.summary import WITHIN
from gar.errors import InputError
from gar.estimators import GARRegressorCV
from gar.estimators.base import Member, mean_prediction
from gar.estimators.presets import batch_size_for, epochs_for, network_size
from gar.registry import LOSSES, METRICS, NETWORKS, LossSpec, register, registered
from gar.search import RecordWarning, RunContext
from gar.search.fingerprints import fingerprint

_LEAST_SECONDS = 1.0
"""Time that a fit gets at least, if there is any."""

_PILOT_SHARE = 0.05
"""The share of the time that is left which the pilots of a loss may take."""

_METHOD = TypeAdapter(Method)


@dataclass(frozen=True, kw_only=True)
class FitJob:
    """What a worker process needs to fit one loss."""

    loss: str
    specs: Mapping[str, LossSpec]
    """Losses that were registered in the process that sends the job."""
    arguments: Mapping[str, Any]
    """Arguments of the estimator."""
    prepared: Prepared
    metric: str
    deadline: float | None = None
    """When to stop, on the clock of ``time.time``."""
    share: float = 1.0
    """The share of the time that is left when the fit begins, which it may use."""
    closing: float = 0.0
    """Seconds that scoring takes after training."""
    report: Callable[[float], None] | bool = False


class Networks:
    """Multi-layer perceptrons with the recipe of the estimators, for every loss of the registry."""

    name = NETWORKS

    def measure(self, losses: Sequence[str], prepared: Prepared, options: Options, context: RunContext) -> Mapping[str, Estimate]:
        """Make pilots of as many losses at a time as there are workers; a single loss has all of them to itself."""
        specs, sample, alone = registered(losses), Sample.of(prepared), len(losses) == 1
        budget = math.inf if context.deadline is None else _PILOT_SHARE * max(context.deadline - time.monotonic(), 0.0)
        jobs = [
            ({**self._arguments(loss, options), "n_jobs": context.workers if alone else 1}, sample, budget, specs)
            for loss in losses
        ]
        return dict(zip(losses, [_estimate(*jobs[0])] if alone else context.map(_estimate, jobs), strict=True))

    def compare(
        self, losses: Sequence[str], prepared: Prepared, options: Options, context: RunContext, plan: Plan
    ) -> Iterator[Finished | LeftOut]:
        """Fit losses side by side, one on each core; one that is recorded is read."""
        keys = {loss: self._key(loss, prepared, options) for loss in losses}
        missing = []
        for loss in losses:
            record = _read(context, keys[loss])
            if record is None:
                missing.append(loss)
            else:
                yield record
        if not missing:
            return
        estimates = plan.estimates_of(NETWORKS, missing)
        seconds = [one.seconds for one in estimates]
        with LossBoard(seconds) as board, context.worker_pool() as pool:
            workers = min(pool.size, len(missing))
            jobs = [
                FitJob(
                    loss=loss,
                    specs=registered([loss]),
                    arguments={**self._arguments(loss, options), "n_jobs": context.workers if len(missing) == 1 else 1},
                    prepared=prepared,
                    metric=options.metric,
                    deadline=context.wall_clock_deadline(),
                    share=time_share(seconds, index, workers),
                    closing=estimates[index].closing,
                    report=partial(write_share, board.path, index) if context.progress else False,
                )
                for index, loss in enumerate(missing)
            ]
            run = pool.run(_fit_numbered, enumerate(jobs), stop=lambda: False) if len(jobs) > 1 else map(_fit_numbered, (0,), jobs)
            with loss_progress(context.labelled(f"{prepared.source.name}:"), board, missing) as line:
                for index, found in run:
                    if isinstance(found, Finished) and not found.is_cut:
                        _write(context, keys[missing[index]], found)
                    board.finish(index)
                    line.update(1, found.method.ensemble[options.metric] if isinstance(found, Finished) else np.nan)
                    yield found

    def settings(self, prepared: Prepared, options: Options) -> Mapping[str, Any]:
        rows, given = prepared.train_rows, options.given()
        size = network_size(rows)
        return {
            "networks": "GARRegressorCV: successive halving, mean of the best networks of each fold",
            "hidden_sizes": list(given.get("hidden_sizes", (size.width,) * 3)),
            "epochs": given.get("epochs", epochs_for(rows)),
            "batch_size": options.batch_size or batch_size_for(rows),
            "encoding": f"plain, and {size.expansion} periodic or piecewise features of each number",
        }

    @staticmethod
    def _arguments(loss: str, options: Options) -> dict[str, Any]:
        """Return the arguments of the estimator; what is not given has its default there."""
        parameters = options.parameters.get(loss)
        named = {} if parameters is None else {"alphas" if loss == "gar" else "parameters": parameters}
        batch = {} if options.batch_size is None else {"batch_sizes": (options.batch_size,)}
        return {"loss": loss, "scoring": options.metric, "random_state": options.seed, **options.given(), **batch, **named}

    def _key(self, loss: str, prepared: Prepared, options: Options) -> str:
        source, parts = prepared.source, [list(part) for part in prepared.parts]
        pairs = [] if source.pairs is None else [source.pairs]
        return fingerprint((__version__, self._arguments(loss, options), prepared.digest, source.labels, parts, *pairs))


def time_share(seconds: Sequence[float], index: int, workers: int) -> float:
    """Return the share of the time that is left when a loss begins, which it may use, so that all later ones get theirs.

    Example:
        >>> [round(time_share([1.0, 1.0, 1.0, 1.0], index, 2), 2) for index in range(4)]
        [0.5, 0.67, 1.0, 1.0]
    """
    return seconds[index] / max(seconds[index], sum(seconds[index:]) / workers)


def _estimate(arguments: Mapping[str, Any], sample: Sample, budget: float, specs: Mapping[str, LossSpec]) -> Estimate:
    _register(specs)
    return estimate_fit(arguments, sample, budget)


def _register(specs: Mapping[str, LossSpec]) -> None:
    for name, spec in specs.items():  # a worker process does not know losses that were registered in another one
        register(name, spec)


def _fit_numbered(index: int, job: FitJob) -> tuple[int, Finished | LeftOut]:
    return index, fit_loss(job)


def fit_loss(job: FitJob) -> Finished | LeftOut:
    """Fit one loss on all folds and score it."""
    _register(job.specs)
    start, title = time.monotonic(), LOSSES[job.loss].title
    limit = None if job.deadline is None else job.share * (job.deadline - time.time())
    if limit is not None and limit <= 0:
        return LeftOut(title, "the time limit was reached before it began; the same command continues", is_late=True)
    limit = limit and max(limit - min(job.closing, 0.5 * limit), _LEAST_SECONDS)
    rows = np.sort(np.concatenate([job.prepared.parts[0][0], job.prepared.parts[0][1]]))
    splits = [(np.searchsorted(rows, train), np.searchsorted(rows, valid)) for train, valid, _ in job.prepared.parts]
    source = job.prepared.source
    model = GARRegressorCV(**job.arguments, cv=splits, time_limit=limit, verbose=job.report)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            pairs = job.prepared.pairs_of(rows) if LOSSES[job.loss].takes("groups") else None
            model.fit(source.features.iloc[rows], source.labels[rows], pair_groups=pairs)
        except InputError as error:
            return LeftOut(title, str(error), is_late=str(error).startswith("time_limit="))
    notes = tuple(dict.fromkeys(f"{title}: {str(one.message).partition(': ')[2] or one.message}" for one in caught))
    is_cut = any(str(one.message).startswith("time_limit=") for one in caught)
    return _scored(model, job, time.monotonic() - start, notes, is_cut)


def _scored(model: GARRegressorCV, job: FitJob, seconds: float, notes: tuple[str, ...], is_cut: bool) -> Finished:
    """Return an estimator as a method of the comparison, with its networks as a model."""
    prepared, spec, members = job.prepared, LOSSES[job.loss], fold_members(model)
    features, labels = prepared.source.features, prepared.source.labels
    tested = model.encoder_.codes(features.iloc[prepared.test])
    each = [mean_prediction(own, tested) for own in members]
    weights = [len(chosen) for chosen in model.fold_params_]  # every network counts alike
    scores = [scores_of(labels[prepared.test], predicted, prepared.pairs_of(prepared.test)) for predicted in each]
    valid = [
        scores_of(labels[rows], mean_prediction(own, model.encoder_.codes(features.iloc[rows])), prepared.pairs_of(rows))[
            job.metric
        ]
        for own, (_, rows, _) in zip(members, prepared.parts, strict=False)
    ]
    histories = [history for _, history in model.history_.values()]
    drawn = set(METRICS) - set(WITHIN if prepared.source.pairs is not None else ())  # only some losses are measured within groups
    method = Method(
        loss=job.loss,
        title=spec.title,
        parameter=spec.parameter,
        models=len(model.cv_results_["params"]),
        failed=int(sum((history.failed_epoch >= 0).sum() for history in histories)),
        seconds=round(seconds, 3),
        scores={name: [one[name] for one in scores] for name in METRICS},
        chosen=list(_choices(model)),
        learning={
            name: mean_curve(np.concatenate([one.of("valid", name) for one in histories])) for name in METRICS if name in drawn
        },
        **predicted_test_rows(np.average(each, axis=0, weights=weights), prepared),
    )
    about = prepared.about(job.loss, spec.title, job.metric)
    saved = TableModel(members=members, encoders=[own[0].encoder for own in members], targets=prepared.source.targets, about=about)
    return Finished(method, saved, METRICS[job.metric].sign * float(np.mean(valid)), notes, is_cut)


def fold_members(model: GARRegressorCV) -> list[list[Member]]:
    """Return the members of an estimator fold by fold."""
    members, folds = iter(model.members_), []
    for chosen in model.fold_params_:
        own: list[Member] = []
        while sum(len(member.networks) for member in own) < len(chosen):
            own.append(next(members))
        folds.append(own)
    return folds


def _choices(model: GARRegressorCV) -> Iterator[Choice]:
    """Yield the distinct combinations whose networks predict, fold by fold, each with its best epoch."""
    name = LOSSES[model.loss].parameter
    for fold, chosen in enumerate(model.fold_params_):
        seen = {tuple(params.items()): params for params in chosen}
        for params in seen.values():
            yield Choice(
                fold=fold,
                learning_rate=params["learning_rate"],
                weight_decay=params["weight_decay"],
                parameter=params.get(name) if name else None,
                epoch=_best_epoch(model, fold, params, name),
                encoding=params["encoding"],
            )


def _best_epoch(model: GARRegressorCV, fold: int, params: Mapping[str, Any], parameter: str | None) -> int:
    """Return the epoch, from 1, of the network of a combination on a fold; 0 if only a trial of it was trained."""
    for (encoding, batch_size), (models, history) in model.history_.items():
        if encoding != params["encoding"] or batch_size not in (None, params["batch_size"]):
            continue
        own = (models.fold == fold) & (models.learning_rate == params["learning_rate"])
        own &= models.weight_decay == params["weight_decay"]
        if parameter is not None and parameter in params and models.parameter is not None:
            own &= models.parameter == params[parameter]
        if own.any():
            return int(history.best_epoch[np.flatnonzero(own)[0]]) + 1
    return 0


# ---- Records: a loss that was finished is read again by the same command


def _folder(context: RunContext, key: str) -> Path | None:
    return None if context.records is None else Path(context.records) / f"loss-{key[:16]}"


def _write(context: RunContext, key: str, found: Finished) -> None:
    """Save a finished loss as a model that says how good it is."""
    folder = _folder(context, key)
    if folder is not None:
        kept = {"method": _METHOD.dump_json(found.method).decode(), "validation": found.validation, "notes": list(found.notes)}
        replace(found.model, about={"record": kept, "about": dict(found.model.about)}).save(folder)


def _read(context: RunContext, key: str) -> Finished | None:
    """Return a finished loss; a record that cannot be read is none."""
    folder = _folder(context, key)
    if folder is None or not folder.is_dir():
        return None
    try:
        model = load_model(folder)
        kept = model.about["record"]
        method = _METHOD.validate_json(kept["method"])
        return Finished(method, replace(model, about=model.about["about"]), float(kept["validation"]), tuple(kept["notes"]))
    except (InputError, LookupError, ValueError) as error:
        warnings.warn(f"the record {folder} cannot be used ({error}); its loss is trained again", RecordWarning, stacklevel=2)
        return None
