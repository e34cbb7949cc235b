"""What a step log says about the peak: pure functions of logs."""

from bench.explain.advice import advise as advise
from bench.explain.compare import Comparison as Comparison, compare as compare
from bench.explain.findings import Advice as Advice
from bench.explain.peak import PeakExplanation as PeakExplanation, explain as explain
from bench.explain.plateau import Plateau as Plateau, PlateauPoint as PlateauPoint, find_plateau as find_plateau
from bench.explain.reading import Reading as Reading, read as read
from bench.explain.replay_cost import ReplayCost as ReplayCost, replay_cost as replay_cost
from bench.explain.residuals import (
    Residuals as Residuals,
    region_residuals as region_residuals,
    unit_residuals as unit_residuals,
)
from bench.trace.categories import CATEGORIES as CATEGORIES, PeakCategories as PeakCategories, at_peak as at_peak
