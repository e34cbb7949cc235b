"""Student's t for a handful of values, so that a worker needs no scipy."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

T_QUANTILES: Mapping[float, tuple[float, ...]] = {
    0.95: (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306),
    0.97: (21.205, 5.643, 3.896, 3.298, 3.003, 2.829, 2.715, 2.634),
}
"""Confidence → two-sided quantile for 1 to 8 degrees of freedom (NIST/SEMATECH e-Handbook of Statistical Methods,
1.3.6.7.2, and scipy.stats.t for 0.97)."""


def t_quantile(degrees: int, confidence: float) -> float:
    """Two-sided quantile of Student's t with `degrees` ≥ 1 degrees of freedom, right to two decimals.

    Beyond the table it is the normal quantile with the first three terms of its expansion in 1/degrees
    (Abramowitz and Stegun 1964, 26.7.5).

    Raises:
        ValueError: a confidence that the table does not serve.
    """
    if confidence not in T_QUANTILES:
        raise ValueError(f"confidence: only {' and '.join(map(str, T_QUANTILES))} are supported, got {confidence}")
    if degrees <= len(T_QUANTILES[confidence]):
        return T_QUANTILES[confidence][degrees - 1]
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )


def t_interval(values: npt.NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """Around the mean of at least two values."""
    margin = t_quantile(len(values) - 1, confidence) * float(values.std(ddof=1)) / len(values) ** 0.5
    return float(values.mean()) - margin, float(values.mean()) + margin
