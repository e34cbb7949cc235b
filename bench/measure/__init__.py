"""Clocks, steady state, allocator peaks, counted operations, and what is known of the machine.

As a function, `bench.measure(…)` is `bench.own.measure`: `help(bench.own.measure)` explains it.
"""

from bench.measure.allocator import allocator_state as allocator_state
from bench.measure.clock import time_steps as time_steps
from bench.measure.environment import environment_record as environment_record
from bench.measure.memory import MemoryReading as MemoryReading, measure_memory as measure_memory
from bench.measure.memory_limit import limit_memory as limit_memory, raise_memory_limit as raise_memory_limit
from bench.measure.ops import OpCounter as OpCounter, UncountedOpError as UncountedOpError
from bench.measure.out_of_memory import is_out_of_memory as is_out_of_memory
from bench.measure.steady import has_settled as has_settled
