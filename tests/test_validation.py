"""Bad input: the message says what came, what was expected and what to write instead."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from gar import (
    ConRLoss,
    FocalMAELoss,
    GARLoss,
    HuberLoss,
    InputError,
    KlingGuptaLoss,
    MAELoss,
    MAEPearsonLoss,
    NormInNormLoss,
    RankNContrastLoss,
    RankSimLoss,
)
from gar.boosting.objective import GARObjective
from gar.functional import (
    aggregate,
    conr_loss,
    difference_loss,
    focal_mae_loss,
    gar_loss,
    huber_loss,
    kling_gupta_loss,
    mae_loss,
    mae_pearson_loss,
    normalized_difference_loss,
    rank_n_contrast_loss,
    ranksim_loss,
)
from gar.registry import LOSSES
from gar.validation import in_full_precision

ROW = torch.arange(4.0)
COLUMN = ROW[:, None]
FEATURES = torch.randn(4, 3)
STACK = torch.zeros(2, 4, 1)

MISUSES: list[tuple[str, Callable[[], Any], str]] = [
    ("(N,) and (N,1)", lambda: gar_loss(COLUMN, ROW), r"pred has shape \(4, 1\), target \(4,\).*pred\.squeeze\(-1\)"),
    ("(N,1) and (N,)", lambda: mae_loss(ROW, COLUMN), r"target \(4, 1\).*target\.squeeze\(-1\)"),
    ("row and column", lambda: gar_loss(COLUMN, COLUMN.T), r"\(4, 1\).*\(1, 4\).*reshape"),
    ("a shared target", lambda: mae_loss(torch.zeros(2, 4, 1), COLUMN), r"expand_as\(pred\)"),
    ("a number", lambda: gar_loss(torch.tensor(1.0), torch.tensor(1.0)), "batch dimension"),
    ("integer predictions", lambda: gar_loss(torch.arange(4), ROW), r"pred has dtype torch\.int64.*pred\.float\(\)"),
    ("complex predictions", lambda: gar_loss(ROW + 0j, ROW), "complex"),
    ("a list", lambda: gar_loss([1.0, 2.0], ROW), r"pred is a list.*torch\.as_tensor\(pred\)"),  # type: ignore[arg-type]
    ("wrong device", lambda: gar_loss(ROW, ROW.to("meta")), r"pred is on cpu, target on meta; use target\.to"),
    ("negative alpha", lambda: gar_loss(ROW, ROW, alpha=-0.5), r"alpha=-0\.5 is out of range.*>= 0"),
    ("NaN alpha", lambda: gar_loss(ROW, ROW, alpha=float("nan")), "alpha=nan"),
    ("alpha of wrong shape", lambda: gar_loss(ROW, ROW, alpha=torch.ones(3)), r"alpha has shape \(3,\).*one value per model"),
    ("alpha as text", lambda: gar_loss(ROW, ROW, alpha="big"), "alpha='big' is a str"),  # type: ignore[arg-type]
    (
        "a negative alpha in a stack",
        lambda: gar_loss(STACK, STACK, alpha=torch.tensor([1.0, -1.0])),
        "alpha=-1",
    ),
    ("unknown component", lambda: GARLoss(components=("mae", "pearson")), r"component='pearson' is unknown.*'diffnorm'"),  # type: ignore[arg-type]
    ("component as text", lambda: GARLoss(components="mae"), r"components=\('mae',\)"),  # type: ignore[arg-type]
    ("no component", lambda: GARLoss(components=()), "one or more"),
    ("a component twice", lambda: GARLoss(components=("mae", "mae")), "at most once"),
    ("too few weights", lambda: GARLoss(weights=(1, 2)), "2 values for 3 components"),
    ("a weight of zero", lambda: GARLoss(weights=(1, 0, 1)), "positive numbers"),
    ("unknown form", lambda: GARLoss(form="sum"), r"form='sum' is unknown; choose one of 'log', 'exp'"),  # type: ignore[arg-type]
    ("unknown pairs", lambda: GARLoss(pairs="rows"), "pairs='rows' is unknown"),  # type: ignore[arg-type]
    ("unknown nan_policy", lambda: GARLoss(nan_policy="drop"), "nan_policy='drop' is unknown"),  # type: ignore[arg-type]
    ("unknown correction", lambda: GARLoss(correction=2), "correction=2"),
    ("eps of zero", lambda: GARLoss(eps=0.0), "eps=0.0"),
    ("one target in pairs of targets", lambda: gar_loss(COLUMN, COLUMN, pairs="targets"), "at least two targets"),
    ("pairs of targets of a vector", lambda: gar_loss(ROW, ROW, pairs="targets"), "at least two targets"),
    ("NaN labels", lambda: gar_loss(ROW, ROW / 0), r"target has 4 NaN or infinite of 4 values.*nan_policy='omit'"),
    ("NaN labels of a stack", lambda: gar_loss(STACK, STACK * torch.nan), "8 NaN or infinite"),
    ("NaN labels for MAE", lambda: mae_loss(ROW, ROW * torch.nan), "4 NaN"),
    ("infinite labels for RNC", lambda: rank_n_contrast_loss(FEATURES, ROW / 0), "NaN or infinite"),
    (
        "weights of wrong shape",
        lambda: gar_loss(ROW, ROW, sample_weight=torch.ones(3)),
        r"sample_weight has shape \(3,\).*must be \(4,\)",
    ),
    ("negative weights", lambda: gar_loss(ROW, ROW, sample_weight=ROW - 1), "sample_weight contains -1"),
    ("infinite weights", lambda: gar_loss(ROW, ROW, sample_weight=ROW + torch.inf), "inf"),
    ("a mask of numbers", lambda: gar_loss(ROW, ROW, mask=torch.ones(4)), r"mask has dtype torch\.float32.*mask\.bool\(\)"),
    ("a mask of wrong shape", lambda: mae_loss(COLUMN, COLUMN, mask=torch.ones(5, dtype=torch.bool)), r"\(4, 1\) or \(4,\)"),
    ("process group without processes", lambda: GARLoss(process_group="world")(ROW, ROW), "init_process_group"),
    ("unknown process group", lambda: GARLoss(process_group="all")(ROW, ROW), "process_group='all' is unknown"),  # type: ignore[arg-type]
    ("p of zero", lambda: difference_loss(ROW, ROW, p=0), "p=0"),
    ("p of a half", lambda: normalized_difference_loss(ROW, ROW, p=0.5), "whole number"),  # type: ignore[arg-type]
    ("correction with p", lambda: normalized_difference_loss(ROW, ROW, p=3, correction=1), "correction=1 with p=3"),
    ("delta of zero", lambda: huber_loss(ROW, ROW, delta=0.0), "delta=0.0 is out of range"),
    ("unknown activation", lambda: focal_mae_loss(ROW, ROW, activation="relu"), "activation='relu'"),  # type: ignore[arg-type]
    ("negative gamma", lambda: FocalMAELoss(gamma=-1), "gamma=-1"),
    ("unknown balance", lambda: mae_pearson_loss(ROW, ROW, balance="equal"), "balance='equal'"),  # type: ignore[arg-type]
    ("unknown balance of a module", lambda: MAEPearsonLoss(balance="equal"), "balance='equal'"),  # type: ignore[arg-type]
    ("nothing to aggregate", lambda: aggregate([]), "losses is empty"),
    ("numbers to aggregate", lambda: aggregate([1.0, 2.0]), r"losses\[0\] is a float"),  # type: ignore[list-item]
    ("logarithms to aggregate", lambda: aggregate([ROW[2], -ROW[3]]), r"losses hold -3; expected values >= 0.*form='exp'"),
    ("losses of other shapes", lambda: aggregate([ROW, ROW[:2]]), r"losses\[0\] has shape \(4,\), losses\[1\] \(2,\)"),
    ("one weight for all", lambda: GARLoss(weights=2.0), "weights=2.0 is a number"),  # type: ignore[arg-type]
    ("eps as text", lambda: GARLoss(eps="a"), "eps='a' is a str"),  # type: ignore[arg-type]
    ("negative eps", lambda: normalized_difference_loss(ROW, ROW, eps=-1.0), "eps=-1.0"),
    ("negative eps of MAE-Pearson", lambda: mae_pearson_loss(ROW, ROW, eps=-1.0), "eps=-1.0"),
    ("predictions of ConR as a list", lambda: conr_loss(FEATURES, [1.0], ROW), "pred is a list"),  # type: ignore[arg-type]
    ("integer predictions of ConR", lambda: conr_loss(FEATURES, torch.arange(4), ROW), "pred has dtype torch.int64"),
    ("predictions of ConR elsewhere", lambda: conr_loss(FEATURES, ROW.to("meta"), ROW), "pred is on meta"),
    ("negative window", lambda: conr_loss(FEATURES, ROW, ROW, window=-1.0), "window=-1.0"),
    ("a mask elsewhere", lambda: ranksim_loss(FEATURES, ROW, mask=(ROW > 0).to("meta")), "features is on cpu, mask on meta"),
    ("integers to aggregate", lambda: aggregate(torch.tensor([1, 2])), "floating-point"),
    ("features of one dimension", lambda: rank_n_contrast_loss(ROW, ROW), r"features have shape \(4,\)"),
    ("features of other rows", lambda: ranksim_loss(FEATURES, torch.zeros(5)), r"target \(5,\).*\(4,\)"),
    ("features on another device", lambda: ranksim_loss(FEATURES, ROW.to("meta")), "features is on cpu"),
    ("predictions unlike labels", lambda: conr_loss(FEATURES, COLUMN, ROW), r"pred has shape \(4, 1\), target \(4,\)"),
    ("weights unlike rows", lambda: conr_loss(FEATURES, ROW, ROW, sample_weight=torch.ones(4, 1)), "one value per row"),
    ("temperature of zero", lambda: RankNContrastLoss(temperature=0.0), "temperature=0.0"),
    ("temperature of zero for ConR", lambda: ConRLoss(temperature=0.0), "temperature=0.0"),
    ("interpolation of zero", lambda: RankSimLoss(interpolation=0.0), "interpolation=0.0"),
    ("delta as numpy's truth", lambda: HuberLoss(delta=np.True_), "is a bool"),  # type: ignore[arg-type]
    ("delta as truth", lambda: HuberLoss(delta=True), "delta=True is a bool"),
    ("groups of other rows", lambda: gar_loss(ROW, ROW, groups=torch.zeros(3).long()), r"groups has shape \(3,\).*\(4,\)"),
    ("groups of cells", lambda: gar_loss(COLUMN, COLUMN, groups=torch.zeros(4, 1).long()), r"groups has shape \(4, 1\).*\(4,\)"),
    ("missing groups", lambda: gar_loss(ROW, ROW, groups=torch.tensor([1.0, torch.nan, 2.0, 3.0])), "1 NaN of 4 values"),
    ("fractional groups", lambda: gar_loss(ROW, ROW, groups=torch.zeros(4)), "groups has dtype torch.float32.*groups.long"),
    ("groups as a list", lambda: gar_loss(ROW, ROW, groups=[1, 1, 2, 2]), "groups is a list"),  # type: ignore[arg-type]
    ("groups elsewhere", lambda: gar_loss(ROW, ROW, groups=torch.zeros(4).long().to("meta")), "groups on meta"),
    (
        "groups of targets",
        lambda: gar_loss(*[torch.ones(4, 2)] * 2, groups=torch.ones(4).long(), pairs="targets"),
        "pairs='targets'",
    ),
    ("another reduction", lambda: GARLoss(group_reduction="sum"), "group_reduction='sum'"),  # type: ignore[arg-type]
    ("a mean of zero", lambda: kling_gupta_loss(ROW, ROW - ROW.mean()), "mean of .*level='deviation'"),
    ("2012 without means", lambda: kling_gupta_loss(ROW, ROW, variant="2012", level="deviation"), "variant='2012'"),
    ("another year", lambda: KlingGuptaLoss(variant="2010"), "variant='2010'"),  # type: ignore[arg-type]
    ("half a norm", lambda: NormInNormLoss(0.5), "p=0.5; expected a finite number >= 1"),
    ("concordance of trees", lambda: GARObjective(components=("mae", "ccc")), "an objective of trees takes"),
    ("groups for MAE", lambda: MAELoss()(ROW, ROW, groups=torch.zeros(4).long()), "MAELoss takes no groups"),
    ("groups for ConR", lambda: ConRLoss()(COLUMN, COLUMN, FEATURES, groups=torch.zeros(4).long()), "ConRLoss takes no groups"),
    ("a parameter for MAE", lambda: LOSSES["mae"].build(1.0), "MAE has no parameter"),
]


@pytest.mark.parametrize(("misuse", "message"), [case[1:] for case in MISUSES], ids=[case[0] for case in MISUSES])
def test_misuse_is_explained(misuse: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        misuse()
    assert re.search(message, str(caught.value)), str(caught.value)


def test_errors_are_value_errors() -> None:
    assert issubclass(InputError, ValueError)


@pytest.mark.parametrize("number", [np.int64(2), np.float32(2), np.float64(2), Fraction(2)], ids=repr)
def test_numbers_of_other_libraries(number: Any) -> None:
    assert type(GARLoss(number).alpha) is float
    assert torch.equal(gar_loss(ROW, ROW.flip(0), alpha=number), gar_loss(ROW, ROW.flip(0), alpha=2.0))
    assert torch.equal(huber_loss(ROW, ROW.flip(0), delta=number), huber_loss(ROW, ROW.flip(0), delta=2.0))
    options = {"window": number, "temperature": number}
    assert torch.equal(conr_loss(FEATURES, ROW, ROW, **options), conr_loss(FEATURES, ROW, ROW, window=2.0, temperature=2.0))
    assert GARLoss(eps=number / 4e7).settings == GARLoss(eps=float(number / 4e7)).settings


ELSEWHERE = ROW.to("meta")


@pytest.mark.parametrize(
    ("arguments", "options"),
    [((ELSEWHERE, ELSEWHERE), {}), ((), {"pred": ELSEWHERE}), (([ELSEWHERE, ELSEWHERE],), {}), ((), {"losses": (ELSEWHERE,)})],
    ids=["positions", "keywords", "a list", "a tuple by keyword"],
)
def test_autocast_is_off_on_the_device_of_the_tensors(
    arguments: tuple[Any, ...], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever they stand among the arguments. The meta device knows no autocast: it is enough to see that it is switched off."""
    asked = []

    def autocast(device: str, enabled: bool) -> AbstractContextManager[None]:
        asked.append((device, enabled))
        return nullcontext()

    with torch.autocast("cpu", dtype=torch.bfloat16):
        monkeypatch.setattr(torch, "autocast", autocast)
        in_full_precision(lambda *_, **__: None)(*arguments, **options)
    assert asked == [("meta", False)]


def test_labels_may_be_let_through() -> None:
    assert gar_loss(ROW, ROW * torch.nan, nan_policy="propagate").isnan()
    assert mae_loss(ROW, ROW * torch.nan, nan_policy="propagate").isnan()


def test_masked_labels_may_be_nan() -> None:
    labels = torch.tensor([1.0, torch.nan, 3.0, 4.0])
    masked = gar_loss(ROW, labels, mask=~labels.isnan())
    torch.testing.assert_close(masked, gar_loss(ROW, labels, nan_policy="omit"))


def test_huge_labels_are_not_taken_for_infinite() -> None:
    labels = torch.full((8,), 3e38)  # their sum is infinite in single precision, they are not
    assert float(mae_loss(labels, labels)) == 0.0
