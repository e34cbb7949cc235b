"""The yardstick: a paired test that knows the noise beforehand, and so neither estimates it nor looks before the
end."""

from __future__ import annotations

import math

import numpy as np

from bench.selftest.noise import Noise

NUM_STUDIES = 4000
LEVEL, POWER = 0.05, 0.95
MAX_ROUNDS = 1000


def oracle_rounds(noise: Noise, delay: float, seed: int) -> int | None:
    """The fewest rounds of two samples with which the mean log ratio, held against its true distribution under equal
    placements at 5 %, finds `delay` in 95 % of studies; None beyond MAX_ROUNDS.

    The distribution is known by simulating it, so heavy tails and bursts are no approximation.
    """
    generator = np.random.default_rng(seed)
    logs = _log_ratios(noise, generator)
    low, high = 1, 2
    while not _finds(logs, delay, high, generator):
        low, high = high, 2 * high
        if low > MAX_ROUNDS:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _finds(logs, delay, middle, generator) else (middle + 1, high)
    return low


def _log_ratios(noise: Noise, generator: np.random.Generator) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Under equal placements: studies × rounds, the two samples of a round in either order."""
    rounds = 64
    studies = [np.log(noise(generator, 2 * rounds)).reshape(rounds, 2) for _ in range(NUM_STUDIES // 8)]
    logs = np.stack(studies)
    signs = generator.choice([-1.0, 1.0], size=logs.shape[:2])
    ratios: np.ndarray[tuple[int, int], np.dtype[np.float64]] = signs * (logs[:, :, 1] - logs[:, :, 0])
    return ratios


def _finds(
    logs: np.ndarray[tuple[int, int], np.dtype[np.float64]], delay: float, rounds: int, generator: np.random.Generator
) -> bool:
    means = generator.choice(logs.reshape(-1), size=(NUM_STUDIES, rounds)).mean(axis=1)
    critical = float(np.quantile(np.abs(means), 1 - LEVEL))
    return bool((np.abs(means + math.log1p(delay)) > critical).mean() >= POWER)
