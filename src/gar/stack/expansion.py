"""Features that expand a column into many, so that a network fits steps and bumps of it easily."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gar.stack.scaling import Scaling, quantiles


@dataclass(frozen=True)
class ExpandedFeatures(ABC):
    """Scaled features, followed by several bent lines of some of them: ``bend(slope z + offset)``.

    A network on scaled features alone is slow to fit steps and bumps of a single feature.

    Args:
        scaling: scaling of all features.
        columns: indices of the features that are expanded.
        slopes: ``(columns, lines)``, per standard deviation.
        offsets: ``(columns, lines)``.
    """

    scaling: Scaling
    columns: Tensor
    slopes: Tensor
    offsets: Tensor

    @property
    def count(self) -> int:
        """Return how many features are added to the scaled ones."""
        return self.slopes.numel()

    def apply(self, values: Tensor) -> Tensor:
        """Return scaled and further features of values ``(rows, columns)``: ``(rows, columns + count)``."""
        scaled = self.scaling.apply(values)
        lines = scaled[:, self.columns].unsqueeze(-1) * self.slopes.to(scaled) + self.offsets.to(scaled)
        return torch.cat([scaled, self._bend(lines).flatten(1)], 1)

    @staticmethod
    def joined(features: "Sequence[ExpandedFeatures]", like: Tensor) -> "ExpandedFeatures":
        """Return the features of several folds as one, with a leading dimension, in dtype and device of ``like``."""
        first = features[0]
        slopes, offsets = (torch.stack([getattr(own, name) for own in features]).to(like) for name in ("slopes", "offsets"))
        return replace(first, columns=first.columns.to(like.device), slopes=slopes, offsets=offsets)

    def expand(self, scaled: Tensor, out: Tensor) -> None:
        """Write features ``(..., columns, rows)`` that are scaled already, and further ones, to ``out (..., inputs, rows)``."""
        count = scaled.shape[-2]
        out[..., :count, :] = scaled
        lines = out[..., count:, :].view(*out.shape[:-2], *self.slopes.shape[-2:], -1)
        expanded = scaled.index_select(-2, self.columns).unsqueeze(-2)
        torch.addcmul(self.offsets.unsqueeze(-1), expanded, self.slopes.unsqueeze(-1), out=lines)
        self._bend(lines)

    @staticmethod
    @abstractmethod
    def _bend(lines: Tensor) -> Tensor:
        """Bend straight lines, in place."""


class PeriodicFeatures(ExpandedFeatures):
    """Scaled features, followed by random Fourier features of some of them: ``cos(2 pi (frequency z + phase))``."""

    @staticmethod
    def draw(scaling: Scaling, columns: Sequence[int], count: int, *, seed: Sequence[int]) -> "PeriodicFeatures":
        """Draw ``count`` periodic features per column: uniform phases, log-normal frequencies (median 0.5, sigma 1)."""
        generator = np.random.default_rng(seed)
        shape = (len(columns), count)
        frequencies = 0.5 * np.exp(generator.normal(size=shape))
        phases = generator.uniform(size=shape)
        return PeriodicFeatures(scaling, torch.tensor(columns), torch.from_numpy(frequencies), torch.from_numpy(phases))

    @staticmethod
    def _bend(lines: Tensor) -> Tensor:
        return lines.mul_(2.0 * torch.pi).cos_()


_LEAST_WIDTH = 1e-6
"""Width of a ramp, in standard deviations, below which single precision could not follow it."""


class PiecewiseFeatures(ExpandedFeatures):
    """Scaled features, followed by ramps of some of them, each from -1 to 1 over one part of the training values.

    The parts have equally many values (piecewise linear encoding, Gorishniy et al. 2022), so that a network has as many corners
    to bend at as it has rows to learn them from, however skewed a column is. Values beyond all parts change no ramp.
    """

    @staticmethod
    def of(
        scaling: Scaling, columns: Sequence[int], count: int, values: Tensor, weight: Tensor | None = None
    ) -> "PiecewiseFeatures":
        """Return ``count`` ramps per column for training rows ``values (rows, all columns)``; repeated values make ramps 0."""
        slopes, offsets = torch.zeros(2, len(columns), count, dtype=torch.float64)
        shares = np.linspace(0.0, 1.0, count + 1).tolist()
        for index, column in enumerate(scaling.apply(values.double()).T[list(columns)]):
            ends = torch.tensor(quantiles(column, weight, shares), dtype=torch.float64)
            low, high = torch.stack([ends[:-1], ends[1:]])[:, ends.diff() > _LEAST_WIDTH]
            slopes[index, : len(low)] = 2.0 / (high - low)
            offsets[index, : len(low)] = -(high + low) / (high - low)
        return PiecewiseFeatures(scaling, torch.tensor(columns), slopes, offsets)

    @staticmethod
    def _bend(lines: Tensor) -> Tensor:
        return lines.clamp_(-1.0, 1.0)
