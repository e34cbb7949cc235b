"""Studies side by side: frontiers on common axes, and what the differences are worth. Pure functions, no torch."""

from bench.compare.build import compare as compare
from bench.compare.differences import difference_words as difference_words, unlike_words as unlike_words
from bench.compare.gate import Finding as Finding, findings as findings, parse_rules as parse_rules
from bench.compare.indicators import epsilon_multiplicative as epsilon_multiplicative
from bench.compare.store import (
    COMPARISONS_FOLDER as COMPARISONS_FOLDER,
    read_comparison as read_comparison,
    write_comparison as write_comparison,
)
from bench.compare.types import (
    ABSOLUTE as ABSOLUTE,
    RELATIVE as RELATIVE,
    SCALES as SCALES,
    Against as Against,
    Comparison as Comparison,
    Measured as Measured,
)
