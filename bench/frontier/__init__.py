"""What a study's records amount to: trials, the Pareto frontier and its uncertainty. Pure functions, no torch."""

from bench.frontier.build import build_frontier as build_frontier
from bench.frontier.confidence import frontier_confidence as frontier_confidence
from bench.frontier.dominance import Point as Point, dominates as dominates, nondominated as nondominated
from bench.frontier.gaps import GapPoint as GapPoint, gap_budgets as gap_budgets, gap_points as gap_points
from bench.frontier.hypervolume import (
    PEAK_RATIO_BOUND as PEAK_RATIO_BOUND,
    TIME_RATIO_BOUND as TIME_RATIO_BOUND,
    dominated_area as dominated_area,
)
from bench.frontier.knee import knee_index as knee_index
from bench.frontier.merge import merge_records as merge_records
from bench.frontier.reference import measured_reference as measured_reference
from bench.frontier.store import (
    CSV_FILE as CSV_FILE,
    FRONTIER_FILE as FRONTIER_FILE,
    load_frontier as load_frontier,
    read_frontier as read_frontier,
    source_digest as source_digest,
    write_frontier as write_frontier,
)
from bench.frontier.trials import OK as OK, PENDING as PENDING, summarize_trials as summarize_trials
from bench.frontier.types import (
    Frontier as Frontier,
    Hypervolume as Hypervolume,
    Interval as Interval,
    MemoryReference as MemoryReference,
    Trial as Trial,
)
