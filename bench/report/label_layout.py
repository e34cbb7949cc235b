"""Where to put small labels beside marks so that nothing overlaps. Deterministic, in any length unit (points here)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Point = tuple[float, float]

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
WIDE_HALF = 8.0
"""Half a width beyond which a label moves out sideways, so that its end and not its middle is near the mark."""
SIDEWAYS = 0.3
"""Cosine from which a direction counts as sideways."""
LOT = 24
"""Places weighed at once, the nearest first: most labels need no second lot."""


class Box(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float


class Place(NamedTuple):
    """Where a label stands."""

    centre: Point
    anchor: int
    """Which of its marks it stands beside."""


def centred(x: float, y: float, width: float, height: float) -> Box:
    return Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


def around(x0: float, y0: float, x1: float, y1: float, margin: float) -> Box:
    """The box of a line, widened by `margin` on all sides."""
    return Box(min(x0, x1) - margin, min(y0, y1) - margin, max(x0, x1) + margin, max(y0, y1) + margin)


def axis_shares(point: Point, x_limits: Point, y_limits: Point) -> Point:
    """Where a point lies between the ends of both axes, from 0 to 1."""
    return (
        (point[0] - x_limits[0]) / (x_limits[1] - x_limits[0]),
        (point[1] - y_limits[0]) / (y_limits[1] - y_limits[0]),
    )


def spread_out(points: Sequence[Point], limit: int, always: Collection[int] = (), apart: float = 0.0) -> list[int]:
    """Indices of at most `limit` points that lie far apart, in their order.

    Those in `always` are taken first, then again and again the one farthest from all that are taken (farthest-first
    traversal; Gonzalez 1985), as long as it is at least `apart` from them. Of equals the first is taken.

    Args:
        points: in units in which both axes count alike.
    """
    if not points:
        return []
    placed = np.array(points, dtype=float)
    taken = list(dict.fromkeys(always))[:limit] or [0]
    distances = np.min([np.hypot(*(placed - placed[index]).T) for index in taken], axis=0)
    distances[taken] = -1.0  # Never again, even where all points are one.
    while len(taken) < limit and distances.max() >= max(apart, 0.0):
        taken.append(int(np.argmax(distances)))
        distances = np.minimum(distances, np.hypot(*(placed - placed[taken[-1]]).T))
        distances[taken[-1]] = -1.0
    return sorted(taken)


def place_labels(
    anchors: Sequence[Point], sizes: Sequence[Point], obstacles: Sequence[Box], bounds: Box, distance: float
) -> list[Point]:
    """Centres of labels that each belong to one mark; the arguments are those of `place_names`."""
    places = place_names([[anchor] for anchor in anchors], sizes, obstacles, bounds, distance)
    return [place.centre for place in places]


def place_names(
    anchors: Sequence[Sequence[Point]],
    sizes: Sequence[Point],
    obstacles: Sequence[Box],
    bounds: Box,
    distance: float,
    *,
    other_side: float = COST_OF_OTHER_SIDE,
    per_point: float = COST_OF_DISTANCE,
) -> list[Place]:
    """Places of the labels, one after another, each at the cheapest place on rings around one of its anchors.

    A place costs its overlap with obstacles, earlier labels and their leader lines, what its own leader line would
    cross, and its distance. Labels are placed from first to last and from last to first; the cheaper one counts.
    Places are weighed from the nearest on, until none of the rest could be cheaper, and against what is within reach
    alone, so that the work grows with the number of labels and not with its square where they lie apart.

    Args:
        anchors: for each label the marks that it may stand beside, one or more.
        sizes: width and height of each label.
        obstacles: boxes to keep clear of (marks, error bars).
        bounds: the labels stay inside.
        distance: from an anchor to the centre of a small label on the first ring; each further ring adds a third of
            it.
        other_side: what a place costs that is not below and to the left.
        per_point: what each point of distance costs, against 1 for each square point of overlap.
    """
    spots = [
        _spots(np.array(own, dtype=float), np.array(size), distance, other_side, per_point)
        for own, size in zip(anchors, sizes, strict=True)
    ]
    order = list(range(len(anchors)))
    attempts = [_place_in_order(indices, spots, obstacles, bounds) for indices in (order, order[::-1])]
    _, places = min(attempts, key=lambda attempt: attempt[0])
    return [places[index] for index in order]


def leader(anchor: Point, centre: Point, size: Point, gap: float) -> tuple[Point, Point]:
    """The line from the edge of a label's box to `gap` before its mark."""
    dx, dy = anchor[0] - centre[0], anchor[1] - centre[1]
    length = math.hypot(dx, dy)
    exits = [half / abs(part) for half, part in ((size[0] / 2, dx), (size[1] / 2, dy)) if part]
    start, end = min([*exits, 1.0]), max(1.0 - gap / length, 0.0) if length else 0.0
    return (centre[0] + start * dx, centre[1] + start * dy), (centre[0] + end * dx, centre[1] + end * dy)


def overlaps(boxes: Array, others: Array) -> Array:
    """Area that each of `boxes` (…, 4) shares with all of `others` (n, 4) together."""
    left, bottom, right, top = (boxes[..., i, None] for i in range(4))
    width = np.minimum(right, others[:, 2]) - np.maximum(left, others[:, 0])
    height = np.minimum(top, others[:, 3]) - np.maximum(bottom, others[:, 1])
    area: Array = (np.clip(width, 0, None) * np.clip(height, 0, None)).sum(axis=-1)
    return area


@dataclass(frozen=True, kw_only=True)
class _Spots:
    """All places that one label may take, those first that cost least with nothing in the way."""

    size: Array
    """(2,)"""
    centres: Array
    """(places, 2), as `anchors`: the mark that each place is beside."""
    anchors: Array
    owners: list[int]
    """Which mark that is."""
    costs: Array
    """(places,) with nothing in the way."""
    reach: Box
    """Holds the label and its leader line at every place."""


def _spots(own: Array, size: Array, distance: float, other_side: float, per_point: float) -> _Spots:
    angles = np.radians(NEAR_SIDE_DEGREES + OTHER_SIDES_DEGREES)
    side = np.array([0.0] * len(NEAR_SIDE_DEGREES) + [other_side] * len(OTHER_SIDES_DEGREES))
    radii = distance * (1 + np.arange(NUM_RINGS) / 3)[:, None]
    is_sideways = np.abs(np.cos(angles)) > SIDEWAYS
    beside = np.where(is_sideways, np.sign(np.cos(angles)) * max(float(size[0]) / 2 - WIDE_HALF, 0.0), 0.0)
    offsets = np.stack([radii * np.cos(angles) + beside, radii * np.sin(angles)], axis=-1).reshape(-1, 2)
    costs = np.tile((side + per_point * (radii - distance)).reshape(-1), len(own))
    order = np.argsort(costs, kind="stable")
    centres = (own[:, None] + offsets).reshape(-1, 2)[order]
    low, high = centres.min(axis=0) - size / 2, centres.max(axis=0) + size / 2
    return _Spots(
        size=size,
        centres=centres,
        anchors=np.repeat(own, len(offsets), axis=0)[order],
        owners=[int(owner) for owner in np.repeat(np.arange(len(own)), len(offsets))[order]],
        costs=costs[order],
        reach=around(float(low[0]), float(low[1]), float(high[0]), float(high[1]), LEADER_WIDTH),
    )


def _place_in_order(
    order: Sequence[int], spots: Sequence[_Spots], obstacles: Sequence[Box], bounds: Box
) -> tuple[float, dict[int, Place]]:
    """Total cost, and the place of each label."""
    blocked, frame = np.array(obstacles, dtype=float).reshape(-1, 4), np.array([bounds], dtype=float)
    labels, leaders = np.empty((0, 4)), np.empty((0, 4))
    total, places = 0.0, {}
    for index in order:
        own = spots[index]
        solid, named, led = (_within(own.reach, boxes) for boxes in (blocked, labels, leaders))
        best, cost = _cheapest(own, np.concatenate([solid, named]), np.concatenate([named, led]), led, frame)
        total += cost
        places[index] = Place((float(own.centres[best, 0]), float(own.centres[best, 1])), own.owners[best])
        labels = np.concatenate([labels, _boxes(own.centres[best, None], own.size)])
        leaders = np.concatenate([leaders, _leaders(own.anchors[best, None], own.centres[best, None])[0]])
    return total, places


def _cheapest(spots: _Spots, solid: Array, uncrossed: Array, leaders: Array, frame: Array) -> tuple[int, float]:
    """Index and cost of the best place.

    Args:
        solid: what a label should not cover.
        uncrossed: what its leader line should not cross.
        leaders: lines that a label should not lie on.
    """
    area = float(spots.size[0] * spots.size[1])
    best, least = 0, math.inf
    for start in range(0, len(spots.costs), LOT):
        if spots.costs[start] >= least:
            break  # What is in the way only ever adds to a cost, and the rest cost more without it.
        lot = slice(start, start + LOT)
        boxes = _boxes(spots.centres[lot], spots.size)
        own_leaders = _leaders(spots.anchors[lot], spots.centres[lot])
        crossed = overlaps(own_leaders, uncrossed).sum(axis=-1) + overlaps(boxes, leaders)
        outside = area - overlaps(boxes, frame)
        costs = spots.costs[lot] + overlaps(boxes, solid) + COST_OF_CROSSING * crossed + COST_OF_LEAVING * outside
        nearest = int(np.argmin(costs.round(6)))
        if costs[nearest].round(6) < least:
            best, least = start + nearest, float(costs[nearest].round(6))
    return best, least


def _within(reach: Box, boxes: Array) -> Array:
    """Those of `boxes` that touch `reach`."""
    touches = (boxes[:, 0] < reach.right) & (boxes[:, 2] > reach.left)
    found: Array = boxes[touches & (boxes[:, 1] < reach.top) & (boxes[:, 3] > reach.bottom)]
    return found


def _boxes(centres: Array, size: Array) -> Array:
    return np.concatenate([centres - size / 2, centres + size / 2], axis=-1)


def _leaders(anchors: Array, centres: Array) -> Array:
    """Lines from marks to labels as rows of small boxes, the first third left out: the mark is there."""
    shares = np.arange(LEADER_SAMPLES // 3, LEADER_SAMPLES) / LEADER_SAMPLES
    line = anchors[:, None] + shares[:, None] * (centres[:, None] - anchors[:, None])
    return _boxes(line, np.full(2, LEADER_WIDTH))
