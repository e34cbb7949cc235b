"""How step times vary on machines that people have: models of noise for studies on a simulated clock.

Each yields the factors by which consecutive samples of a study are slower than the machine at its best, whatever is
sampled. They are severe on purpose: shared machines look like this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Floats]
"""(generator, number of samples) → one factor a sample, in the order of time."""


def normal(generator: np.random.Generator, count: int) -> Floats:
    """Independent, 2 %."""
    return np.exp(generator.normal(0, 0.02, count))


def drift(generator: np.random.Generator, count: int) -> Floats:
    """A machine that gets 15 % slower over 100 samples and wanders besides, with 1.5 % from sample to sample."""
    trend = 0.0015 * np.arange(count) + np.cumsum(generator.normal(0, 0.004, count))
    return np.exp(trend + generator.normal(0, 0.015, count))


def bursts(generator: np.random.Generator, count: int) -> Floats:
    """Another process comes for five samples on average and takes 10 to 40 %, a fifth of the time; 1 % otherwise."""
    busy = np.zeros(count, dtype=bool)
    state = generator.random() < 0.2
    for index, draw in enumerate(generator.random(count)):
        state = draw > 0.2 if state else draw < 0.05
        busy[index] = state
    return np.exp(generator.normal(0, 0.01, count) + busy * generator.uniform(0.1, 0.4, count))


def bimodal(generator: np.random.Generator, count: int) -> Floats:
    """Two speeds 5 % apart, the slower one in 30 % of samples (a clock that boosts, a page that is huge); 1 % in
    each."""
    return np.exp(generator.normal(0, 0.01, count) + 0.05 * (generator.random(count) < 0.3))


def heavy_tails(generator: np.random.Generator, count: int) -> Floats:
    """Student's t with three degrees of freedom, 2.5 %: now and then a sample is far off, to either side."""
    return np.exp(0.025 / np.sqrt(3) * generator.standard_t(3, count))


def one_sided(generator: np.random.Generator, count: int) -> Floats:
    """Interruptions only ever add time: a Pareto tail of index 1.5 on 0.6 %, so heavy that it has no variance."""
    return 1 + np.minimum(0.006 * generator.pareto(1.5, count), 2.0)


NOISES: Mapping[str, Noise] = {
    "normal": normal,
    "drift": drift,
    "bursts": bursts,
    "bimodal": bimodal,
    "heavy tails": heavy_tails,
    "one-sided": one_sided,
}
