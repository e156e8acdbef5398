"""Every loss written as slowly and as plainly as its definition: loops over pairs, one model, float64, no tricks."""

import math
from collections.abc import Callable

import numpy as np

Array = np.ndarray


def mean_over_targets(per_column: Callable[[Array, Array], float], pred: Array, target: Array) -> float:
    """A loss of single columns as the mean over columns of ``(batch, targets)``."""
    return float(np.mean([per_column(pred[:, t], target[:, t]) for t in range(pred.shape[1])]))


def mae(f: Array, y: Array) -> float:
    return sum(abs(a - b) for a, b in zip(f, y, strict=True)) / len(f)


def mse(f: Array, y: Array) -> float:
    return sum((a - b) ** 2 for a, b in zip(f, y, strict=True)) / len(f)


def huber(f: Array, y: Array, delta: float) -> float:
    distances = [abs(a - b) for a, b in zip(f, y, strict=True)]
    return sum(0.5 * d * d if d <= delta else delta * (d - 0.5 * delta) for d in distances) / len(f)


def focal(f: Array, y: Array, beta: float, gamma: float, activation: str, power: int) -> float:
    total = 0.0
    for a, b in zip(f, y, strict=True):
        d = abs(a - b)
        weight = math.tanh(beta * d) if activation == "tanh" else 2.0 / (1.0 + math.exp(-beta * d)) - 1.0
        total += d**power * weight**gamma
    return total / len(f)


def difference(f: Array, y: Array, p: int) -> float:
    """Mean over all pairs of |(f_i - f_j) - (y_i - y_j)|^p / p."""
    n = len(f)
    pairs = (abs((f[i] - f[j]) - (y[i] - y[j])) ** p for i in range(n) for j in range(n))
    return sum(pairs) / n**2 / p


def normalized_difference(f: Array, y: Array, p: int) -> float:
    """| df / |df|_p - dY / |dY|_p |_p^p / p over all pairs."""
    n = len(f)
    df = np.array([f[i] - f[j] for i in range(n) for j in range(n)])
    dy = np.array([y[i] - y[j] for i in range(n) for j in range(n)])
    df_norm, dy_norm = (np.abs(d) ** p for d in (df, dy))
    u, v = df / df_norm.sum() ** (1 / p), dy / dy_norm.sum() ** (1 / p)
    return float((np.abs(u - v) ** p).sum() / p)


def power_mean(losses: list[float], alpha: float) -> float:
    if alpha == 0:
        return max(losses)
    if math.isinf(alpha):
        return math.prod(losses) ** (1 / len(losses))
    return (sum(loss ** (1 / alpha) for loss in losses) / len(losses)) ** alpha


def gar(pred: Array, target: Array, alpha: float, eps: float = 1e-7) -> float:
    components = [
        mean_over_targets(mae, pred, target),
        mean_over_targets(lambda f, y: difference(f, y, 2), pred, target),
        mean_over_targets(lambda f, y: normalized_difference(f, y, 2), pred, target),
    ]
    return math.log(power_mean([c + eps for c in components], alpha))


def in_groups(f: Array, y: Array, groups: Array, p: int, reduction: str, normalized: bool) -> float:
    """Both pairwise losses over the pairs of every group that has two labels."""
    pairs = []
    for group in sorted(set(groups.tolist())):
        rows = np.flatnonzero(groups == group)
        if len(set(y[rows])) > 1:
            df = np.array([f[i] - f[j] for i in rows for j in rows])
            dy = np.array([y[i] - y[j] for i in rows for j in rows])
            pairs.append((df, dy, len(rows)))
    if not pairs:
        return 2 / p if normalized else 0.0

    def power(d: Array) -> float:
        return float((np.abs(d) ** p).sum())

    if reduction == "mean":
        scaled = [(df / power(df) ** (1 / p), dy / power(dy) ** (1 / p), 1) if normalized else (df, dy, n) for df, dy, n in pairs]
        return float(np.mean([power(df - dy) / n**2 / p for df, dy, n in scaled]))
    rows_that_count = sum(n for *_, n in pairs)
    u = v = 1.0
    if normalized:
        u = (sum(power(df) / n for df, _, n in pairs) / rows_that_count) ** (1 / p)
        v = (sum(power(dy) / n for _, dy, n in pairs) / rows_that_count) ** (1 / p)
    return sum(power(df / u - dy / v) / n for df, dy, n in pairs) / rows_that_count / p


def gar_in_groups(pred: Array, target: Array, groups: Array, alpha: float, reduction: str, eps: float = 1e-7) -> float:
    components = [mean_over_targets(mae, pred, target)]
    components.append(mean_over_targets(lambda f, y: in_groups(f, y, groups, 2, reduction, False), pred, target))
    components.append(mean_over_targets(lambda f, y: in_groups(f, y, groups, 2, reduction, True), pred, target))
    return math.log(power_mean([c + eps for c in components], alpha))


def pearson(f: Array, y: Array) -> float:
    return float(1 - np.corrcoef(f, y)[0, 1])


def concordance(f: Array, y: Array) -> float:
    covariance = np.mean((f - f.mean()) * (y - y.mean()))
    return float(1 - 2 * covariance / (f.var() + y.var() + (f.mean() - y.mean()) ** 2))


def nash_sutcliffe(f: Array, y: Array) -> float:
    return mse(f, y) / float(y.var())


def kling_gupta(f: Array, y: Array, variant: str, level: str) -> float:
    scale = f.std() / y.std()
    if variant == "2012":
        scale = (f.std() / f.mean()) / (y.std() / y.mean())
    shift = (f.mean() - y.mean()) / y.std() if level == "deviation" else f.mean() / y.mean() - 1
    return math.sqrt(pearson(f, y) ** 2 + (scale - 1) ** 2 + shift**2)


def gar_of_agreement(pred: Array, target: Array, alpha: float, eps: float = 1e-7) -> float:
    components = [mean_over_targets(one, pred, target) for one in (mae, concordance, nash_sutcliffe)]
    return math.log(power_mean([c + eps for c in components], alpha))


def norm_in_norm(f: Array, y: Array, p: float, q: float) -> float:
    u, v = ((x - x.mean()) / np.mean(np.abs(x - x.mean()) ** q) ** (1 / q) for x in (f, y))
    return float(np.mean(np.abs(u - v) ** p) / p)


def mean_over_groups(per_column: Callable[[Array, Array], float], f: Array, y: Array, groups: Array, undefined: float) -> float:
    rows = [np.flatnonzero(groups == group) for group in sorted(set(groups.tolist()))]
    values = [per_column(f[one], y[one]) for one in rows if len(set(y[one])) > 1]
    return float(np.mean(values)) if values else undefined


def mae_pearson(pred: Array, target: Array, balance: str) -> float:
    distance = mean_over_targets(lambda f, y: normalized_difference(f, y, 2), pred, target)
    b = 1 - distance if balance == "text" else 1 - distance / 2
    return b * mean_over_targets(mae, pred, target) + (1 - b) * distance


def ranks(values: list[float]) -> list[float]:
    """(1 + number of entries larger) / n."""
    return [(1 + sum(other > value for other in values)) / len(values) for value in values]


def ranksim(features: Array, target: Array) -> float:
    """For labels that are all different."""
    n = len(features)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    total = 0.0
    for i in range(n):
        by_feature = ranks([float(unit[i] @ unit[j]) for j in range(n)])
        for t in range(target.shape[1]):
            by_label = ranks([-abs(target[i, t] - target[j, t]) for j in range(n)])
            total += np.mean([(a - b) ** 2 for a, b in zip(by_feature, by_label, strict=True)]) / target.shape[1]
    return float(total)


def rank_n_contrast(features: Array, target: Array, temperature: float) -> float:
    n = len(features)
    s = [[-np.linalg.norm(features[i] - features[j]) / temperature for j in range(n)] for i in range(n)]
    d = [[np.abs(target[i] - target[j]).sum() for j in range(n)] for i in range(n)]
    total = 0.0
    for i in range(n):
        for j in range(n):
            if j != i:
                farther = sum(math.exp(s[i][k]) for k in range(n) if k != i and d[i][k] >= d[i][j])
                total -= math.log(math.exp(s[i][j]) / farther)
    return total / (n * (n - 1))


def conr(
    features: Array, pred: Array, target: Array, temperature: float, window: float, eta: float, count_excluded: bool = False
) -> float:
    n = len(features)
    q = features / np.linalg.norm(features, axis=1, keepdims=True)

    def e(i: int, j: int) -> float:
        return math.exp(float(q[i] @ q[j]) / temperature)

    total = 0.0
    for i in range(n):
        gap = [float(np.abs(target[i] - target[j]).mean()) for j in range(n)]
        close = [float(np.abs(pred[i] - pred[j]).mean()) <= window for j in range(n)]
        positives = [j for j in range(n) if j != i and gap[j] <= window]
        negatives = [j for j in range(n) if gap[j] > window and close[j]]
        if positives and negatives:
            denominator = sum(e(i, p) for p in positives) + sum(math.exp(eta * gap[k]) * e(i, k) for k in negatives)
            denominator += n - len(positives) if count_excluded else 0
            total -= sum(math.log(e(i, p) / denominator) for p in positives) / len(positives)
    return total / n
