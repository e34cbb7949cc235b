"""Where to put small labels beside marks so that nothing overlaps. Deterministic, in any length unit (points here)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# Nothing that is measured lies below and to the left of a frontier point, so that side is tried first, far and wide.
NEAR_SIDE_DEGREES = (225, 210, 240, 195, 255, 180, 270, 165, 150)
OTHER_SIDES_DEGREES = (45, 135, 315, 0, 90)
NUM_RINGS = 12
COST_OF_DISTANCE = 0.4
"""What a label pays for each point of distance, against 1 for each square point of overlap."""
COST_OF_OTHER_SIDE = 25.0
COST_OF_CROSSING = 5.0
COST_OF_LEAVING = 10.0
LEADER_SAMPLES = 12
LEADER_WIDTH = 2.0


class Box(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float


def centred(x: float, y: float, width: float, height: float) -> Box:
    return Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


def around(x0: float, y0: float, x1: float, y1: float, margin: float) -> Box:
    """The box of a line, widened by `margin` on all sides."""
    return Box(min(x0, x1) - margin, min(y0, y1) - margin, max(x0, x1) + margin, max(y0, y1) + margin)


def place_labels(
    anchors: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    obstacles: Sequence[Box],
    bounds: Box,
    distance: float,
) -> list[tuple[float, float]]:
    """Centres of the labels, one after another, each at the cheapest place on rings around its anchor.

    A place costs its overlap with obstacles, earlier labels and their leader lines, what its own leader line would
    cross, and its distance. Labels are placed from first to last and from last to first; the cheaper one counts.

    Args:
        anchors: the marks that the labels belong to.
        sizes: width and height of each label.
        obstacles: boxes to keep clear of (marks, error bars).
        bounds: the labels stay inside.
        distance: from an anchor to the centre of a label on the first ring; each further ring adds a third of it.
    """
    order = list(range(len(anchors)))
    attempts = [
        _place_in_order(indices, anchors, sizes, obstacles, bounds, distance) for indices in (order, order[::-1])
    ]
    _, places = min(attempts, key=lambda attempt: attempt[0])
    return [places[index] for index in order]


def overlaps(boxes: Array, others: Array) -> Array:
    """Area that each of `boxes` (…, 4) shares with all of `others` (n, 4) together."""
    left, bottom, right, top = (boxes[..., i, None] for i in range(4))
    width = np.minimum(right, others[:, 2]) - np.maximum(left, others[:, 0])
    height = np.minimum(top, others[:, 3]) - np.maximum(bottom, others[:, 1])
    area: Array = (np.clip(width, 0, None) * np.clip(height, 0, None)).sum(axis=-1)
    return area


def _place_in_order(
    order: Sequence[int],
    anchors: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    obstacles: Sequence[Box],
    bounds: Box,
    distance: float,
) -> tuple[float, dict[int, tuple[float, float]]]:
    """Total cost, and the place of each label."""
    blocked, frame = np.array(obstacles, dtype=float).reshape(-1, 4), np.array([bounds], dtype=float)
    labels, leaders = np.empty((0, 4)), np.empty((0, 4))
    total, places = 0.0, {}
    offsets, offset_costs = _candidates(distance)
    for index in order:
        centres = np.array(anchors[index]) + offsets
        boxes = _boxes(centres, np.array(sizes[index]))
        own_leaders = _leaders(np.array(anchors[index]), centres)
        hidden = overlaps(boxes, np.concatenate([blocked, labels]))
        crossed = overlaps(own_leaders, np.concatenate([labels, leaders])).sum(axis=-1) + overlaps(boxes, leaders)
        outside = sizes[index][0] * sizes[index][1] - overlaps(boxes, frame)
        costs = offset_costs + hidden + COST_OF_CROSSING * crossed + COST_OF_LEAVING * outside
        best = int(np.argmin(costs.round(6)))
        total += float(costs[best])
        places[index] = (float(centres[best, 0]), float(centres[best, 1]))
        labels = np.concatenate([labels, boxes[best, None]])
        leaders = np.concatenate([leaders, own_leaders[best]])
    return total, places


def _candidates(distance: float) -> tuple[Array, Array]:
    """Offsets from an anchor, nearest first, and what each costs for being there."""
    angles = np.radians(NEAR_SIDE_DEGREES + OTHER_SIDES_DEGREES)
    side = np.array([0.0] * len(NEAR_SIDE_DEGREES) + [COST_OF_OTHER_SIDE] * len(OTHER_SIDES_DEGREES))
    radii = distance * (1 + np.arange(NUM_RINGS) / 3)[:, None]
    offsets = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=-1)
    return offsets.reshape(-1, 2), (side + COST_OF_DISTANCE * (radii - distance)).reshape(-1)


def _boxes(centres: Array, size: Array) -> Array:
    return np.concatenate([centres - size / 2, centres + size / 2], axis=-1)


def _leaders(anchor: Array, centres: Array) -> Array:
    """Lines from a mark to its label as rows of small boxes, the first third left out: the mark is there."""
    shares = np.arange(LEADER_SAMPLES // 3, LEADER_SAMPLES) / LEADER_SAMPLES
    return _boxes(anchor + shares[:, None] * (centres[:, None] - anchor), np.full(2, LEADER_WIDTH))
