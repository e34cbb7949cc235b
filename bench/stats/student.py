"""Quantiles of Student's t, so that a worker needs no scipy."""

from __future__ import annotations

from statistics import NormalDist

T_QUANTILES_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""97.5 % quantile for 1 to 30 degrees of freedom (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2)."""


def t_quantile_975(degrees: int) -> float:
    """97.5 % quantile of Student's t with `degrees` ≥ 1 degrees of freedom, right to three decimals.

    Beyond the table it is the normal quantile with the first three terms of its expansion in 1/degrees
    (Abramowitz and Stegun 1964, 26.7.5), so that there is no jump at the table's end.
    """
    if degrees <= len(T_QUANTILES_975):
        return T_QUANTILES_975[degrees - 1]
    z = NormalDist().inv_cdf(0.975)
    return (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )
