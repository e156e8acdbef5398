"""Scaling of features with outliers, of labels with bounds, and expanded features batch by batch."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gar.stack import ExpandedFeatures, PeriodicFeatures, PiecewiseFeatures, RobustScaling, Scaling


def test_a_wrong_cell_leaves_differences_between_the_others() -> None:
    """One of 300 cells is 999999: standardised, all others would be equal up to 1e-5; squashed, they keep their spread."""
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(300, 2)))
    values[7, 0] = 999_999.0
    scaling = RobustScaling.of_features(values)
    scaled = scaling.apply(values)
    others = np.delete(np.arange(300), 7)
    assert 0.5 < scaled[others, 0].std() < 1.2
    assert scaled[7, 0] == pytest.approx(3.0, rel=1e-3)
    np.testing.assert_allclose(scaled[:, 1], Scaling.of(values).apply(values)[:, 1], rtol=1e-12)
    assert bool(scaling.apply(torch.full((1, 2), 1e300, dtype=torch.float64)).isfinite().all())


def test_indicators_and_short_tails_are_standardised() -> None:
    """A rare indicator is far from its mean, too, but has nothing to squash; neither have uniform and normal distributions."""
    generator = np.random.default_rng(0)
    values = torch.from_numpy(np.column_stack([np.arange(1000) == 3, generator.uniform(size=1000), generator.normal(size=1000)]))
    plain = Scaling.of(values)
    np.testing.assert_allclose(RobustScaling.of_features(values).apply(values), plain.apply(values), rtol=1e-12)


def test_robust_scaling_counts_weights_as_copies() -> None:
    values = torch.from_numpy(np.random.default_rng(0).standard_t(1.5, size=(200, 3)))
    counts = torch.from_numpy(np.random.default_rng(1).integers(1, 4, 200))
    weighted = RobustScaling.of_features(values, counts.double())
    copies = RobustScaling.of_features(values.repeat_interleave(counts, 0))
    assert (weighted.knee < 10).any()
    for name in ("center", "scale", "knee"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(copies, name), rtol=1e-9)


VALUES = torch.from_numpy(np.random.default_rng(0).normal(size=(64, 3)))


@pytest.mark.parametrize(
    "features",
    [
        PeriodicFeatures.draw(Scaling.of(VALUES), (0, 2), 5, seed=(1,)),
        PiecewiseFeatures.of(Scaling.of(VALUES), (0, 2), 5, VALUES),
    ],
    ids=["periodic", "piecewise"],
)
def test_expanded_features_of_a_batch_are_those_of_the_table(features: ExpandedFeatures) -> None:
    assert features.count == 2 * 5
    other = replace(features, slopes=features.slopes + 1.0)
    out = torch.empty(2, 3 + 2 * 5, 64, dtype=torch.float64)
    scaled = features.scaling.apply(VALUES).T.contiguous()
    ExpandedFeatures.joined([features, other], out).expand(torch.stack([scaled, scaled]), out)
    np.testing.assert_allclose(out[0].T, features.apply(VALUES), rtol=0, atol=1e-12)
    np.testing.assert_allclose(out[1].T, other.apply(VALUES), rtol=0, atol=1e-12)


def test_ramps_have_equally_many_values() -> None:
    """A skewed column: every ramp but one is at its lower or upper end, and each is climbed by a quarter of the values."""
    values = torch.from_numpy(np.random.default_rng(0).lognormal(sigma=2.0, size=(400, 1)))
    ramps = PiecewiseFeatures.of(Scaling.of(values), (0,), 4, values).apply(values)[:, 1:]
    climbing = (ramps > -1) & (ramps < 1)
    assert int(climbing.sum(1).max()) == 1
    np.testing.assert_allclose(climbing.sum(0), 100, atol=1)
    beyond = torch.tensor([[-5.0], [1e9]], dtype=torch.float64)
    ends = PiecewiseFeatures.of(Scaling.of(values), (0,), 4, values).apply(beyond)[:, 1:]
    assert ends.tolist() == [[-1.0] * 4, [1.0] * 4]


def test_ramps_between_repeated_values() -> None:
    """Three values have two ramps between them, however many are asked for; the others are constant."""
    values = torch.tensor([0.0] * 50 + [1.0] * 30 + [5.0] * 20, dtype=torch.float64).unsqueeze(1)
    ramps = PiecewiseFeatures.of(Scaling.of(values), (0,), 10, values).apply(values)[:, 1:]
    assert ramps[[0, 50, 80]].T.round(decimals=9).unique(dim=0).tolist() == [[-1.0, -1.0, 1.0], [-1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]


def test_ramps_count_weights_as_copies() -> None:
    counts = torch.from_numpy(np.random.default_rng(1).integers(1, 4, 64))
    weighted = PiecewiseFeatures.of(Scaling.of(VALUES), (0, 2), 5, VALUES, counts.double())
    copies = PiecewiseFeatures.of(Scaling.of(VALUES), (0, 2), 5, VALUES.repeat_interleave(counts, 0))
    np.testing.assert_allclose(weighted.apply(VALUES), copies.apply(VALUES), rtol=0, atol=1e-9)
