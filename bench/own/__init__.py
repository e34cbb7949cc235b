"""A study of somebody's own training step, in their own process: `measure`."""

from bench.own.measure import measure as measure
from bench.own.study import OwnStudy as OwnStudy
