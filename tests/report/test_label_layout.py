"""Labels beside marks: inside, apart, near, and always at the same place."""

from __future__ import annotations

import itertools
import math

from bench.report.label_layout import Box, centred, place_labels

BOUNDS = Box(0, 0, 200, 200)
SIZE = (10.0, 8.0)


def boxes_of(centres: list[tuple[float, float]]) -> list[Box]:
    return [centred(*centre, *SIZE) for centre in centres]


def share(a: Box, b: Box) -> bool:
    return min(a.right, b.right) > max(a.left, b.left) and min(a.top, b.top) > max(a.bottom, b.bottom)


def test_a_lone_label_goes_below_and_to_the_left() -> None:
    [(x, y)] = place_labels([(100, 100)], [SIZE], [], BOUNDS, distance=10)
    assert (round(x, 2), round(y, 2)) == (92.93, 92.93)


def test_crowded_labels_stay_apart_from_each_other_and_from_obstacles() -> None:
    anchors = [(100 + 5 * i, 100 - 8 * i) for i in range(8)]
    obstacles = [centred(x, y, 8, 8) for x, y in anchors]
    boxes = boxes_of(place_labels(anchors, [SIZE] * 8, obstacles, BOUNDS, distance=10))
    assert not any(share(a, b) for a, b in itertools.combinations(boxes, 2))
    assert not any(share(a, b) for a in boxes for b in obstacles)


def test_labels_stay_inside_at_a_corner() -> None:
    [box] = boxes_of(place_labels([(2, 2)], [SIZE], [], BOUNDS, distance=10))
    assert box.left >= BOUNDS.left
    assert box.bottom >= BOUNDS.bottom


def test_equal_anchors_get_different_places_near_by() -> None:
    centres = place_labels([(100, 100)] * 3, [SIZE] * 3, [], BOUNDS, distance=10)
    assert len(set(centres)) == 3
    assert all(math.hypot(x - 100, y - 100) <= 20 for x, y in centres)


def test_no_labels() -> None:
    assert place_labels([], [], [], BOUNDS, distance=10) == []
