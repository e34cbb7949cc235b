"""One training step: model, optimizer, batches and precision put together as the controls say, or somebody's own."""

from bench.step.build import (
    TrainingStep as TrainingStep,
    UnsupportedControlsError as UnsupportedControlsError,
    build_training_step as build_training_step,
    digest_of as digest_of,
)
from bench.step.default_chains import default_chains as default_chains
from bench.step.family import Family as Family, load_family as load_family
from bench.step.interface import Stateful as Stateful, Step as Step
from bench.step.state import StepState as StepState
from bench.step.target import describe_error as describe_error
