"""One training step: model, optimizer, batches and precision put together as the controls say."""

from bench.step.build import (
    TrainingStep as TrainingStep,
    UnsupportedControlsError as UnsupportedControlsError,
    build_training_step as build_training_step,
)
from bench.step.family import Family as Family, load_family as load_family
from bench.step.state import StepState as StepState
