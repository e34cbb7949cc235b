"""ckptplan 0.1.0rc1's planners (https://pypi.org/project/ckptplan): dynamic programming, greedy and uniform.

They choose which blocks are replayed so that the sum of what these hold falls by a target; the peak is not looked at.
Our profile takes the place of ckptplan's own, which measures bytes on CUDA alone. A budget on the peak becomes the
target `peak of the plain step - budget`. ckptplan leaves out blocks that move state (BatchNorm); here they are offered
to it, since a replay can restore that state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from bench.peers.peer import PeerRefusedError
from bench.placement.types import Placement, Region

if TYPE_CHECKING:
    from ckptplan import BlockProfile

    from bench.plan.profile import StepProfile, UnitProfile

PLANNERS: dict[str, Any] = {"dp": "dynamic_programming", "greedy": "greedy", "uniform": "uniform"}
BUCKETS = 2000
"""The dynamic program counts in buckets of 1 MiB by default, in which the blocks of a small model vanish. Here a bucket
is at most this share of all bytes: as fine, for a model of 2 GB."""
MAX_BUCKET_BYTES = 1 << 20


def planned(profile: StepProfile, budget_bytes: int, planner: str) -> Placement:
    """What `plan_checkpoints` decides; all chains are one list of blocks.

    Args:
        planner: one of PLANNERS.

    Raises:
        PeerRefusedError: all blocks together do not hold what must be saved.
    """
    from ckptplan import CheckpointableBlock, InfeasibleTargetError, plan_checkpoints

    units = [unit for chain in profile.chains for unit in chain.units]
    held = sum(unit.saved_bytes for unit in units)
    blocks = [
        # The planner reads modules for fingerprints alone.
        CheckpointableBlock(block_id=unit.unit, order=order, module=torch.nn.Module())
        for order, unit in enumerate(units)
    ]
    try:
        plan = plan_checkpoints(
            [_block_profile(unit, order) for order, unit in enumerate(units)],
            blocks,
            target_kind="activation_budget_bytes",
            target_value=held - (profile.peak_bytes - budget_bytes),
            planner=PLANNERS[planner],
            activation_bucket_bytes=max(1, min(MAX_BUCKET_BYTES, held // BUCKETS)),
        )
    except InfeasibleTargetError:
        raise PeerRefusedError(
            f"its blocks hold {held:,} bytes, and {profile.peak_bytes - budget_bytes:,} must be saved"
        ) from None
    chosen = tuple(Region(units=(decision.block_id,)) for decision in plan.decisions if decision.checkpointed)
    if not chosen:
        raise PeerRefusedError("it leaves all blocks plain under this budget")
    return Placement(chosen)


def _block_profile(unit: UnitProfile, order: int) -> BlockProfile:
    from ckptplan import BlockProfile

    return BlockProfile(
        block_id=unit.unit,
        order=order,
        device="cpu",
        dtype=str(torch.float32),
        input_shape_signature="",
        output_shape_signature="",
        param_count=0,
        trainable_param_count=0,
        timing_only=False,
        activation_bytes_estimate=unit.saved_bytes,
        activation_bytes_method="isolated_forward_delta",
        forward_time_ms_mean=unit.forward_ms,
        forward_time_ms_std=0.0,
        recompute_time_upper_bound_ms_mean=unit.forward_ms,
        recompute_time_upper_bound_ms_std=0.0,
        recompute_time_source="measured_full_recompute_early_stop_disabled",
        num_warmup=0,
        num_trials=1,
        is_stochastic=None,
        is_stateful=None,
        stochastic_submodules=(),
        stateful_submodules=(),
        eligible_for_checkpoint=True,
        exclusion_reason=None,
        warnings=(),
        pytorch_version=torch.__version__,
        profiler_version="",
    )
