"""The controls of a study: everything that is held fixed while boundary placements vary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Scalar = str | int | float | bool | None
Settings = Mapping[str, Scalar]

OWN_TARGET = "own"
"""Stands for a model family in a study that somebody's training script measured of its own step."""
PRECISIONS = ("fp32", "bf16-autocast", "bf16-pure", "fp16-autocast")


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    name: str
    """What a person calls it (`gpt2`, `gpt2-tiny`); names the study directory and the MLflow experiment."""
    target: str
    """Importable module of the model family (`models.gpt2`): `build`, `batch`, `loss`, `chains`."""
    settings: Settings = field(default_factory=dict)
    """The family's own settings (layers, width, dropout, attention kernel …), passed to its `build`."""


@dataclass(frozen=True, kw_only=True)
class WorkloadSpec:
    micro_batch: int
    """Samples in one forward."""
    accumulation: int = 1
    """Micro-batches accumulated into one optimizer step; the optimizer sees micro_batch × accumulation samples."""
    shape: Mapping[str, int] = field(default_factory=dict)
    """Sizes of one sample in the family's words (`sequence_length: 256`)."""
    data: str = "synthetic"
    """What samples are made of, in the family's words: `synthetic`, `text` or `images`."""
    lengths: str = "fixed"
    """`fixed`, or `variable`: every micro-batch of the step has a length of its own, at most the shape's."""
    seed: int = 0
    """Seeds weights, batches and the RNG state that every memory pass starts from."""


@dataclass(frozen=True, kw_only=True)
class OptimizerSpec:
    name: str = "adamw"
    """`adamw` or `sgd`."""
    settings: Settings = field(default_factory=dict)
    """Keyword arguments of the torch optimizer (`lr`, `weight_decay`, `momentum`)."""
    fused: bool = True
    """Use the fused kernel where device and dtype have one; what ran is recorded as executed."""


@dataclass(frozen=True, kw_only=True)
class RecipeSpec:
    """How a training step is put together around forward and backward."""

    zero_grad: str = "end"
    """`end`: gradients are freed after the optimizer step; `start`: at the beginning of the next step, so that they
    outlive the step and weigh on the peak of the forward (karpathy/nanoGPT#71)."""
    set_to_none: bool = True
    """False keeps zeroed gradient tensors allocated for good."""
    clip_norm: float | None = None
    """Clip the global gradient norm to this value before the optimizer step."""


@dataclass(frozen=True, kw_only=True)
class ParallelismSpec:
    name: str = "single"
    world_size: int = 1
    """Ranks of the worker group; only 1 runs today."""


@dataclass(frozen=True, kw_only=True)
class DeviceSpec:
    kind: str
    """`cpu` or `cuda`."""
    index: int = 0
    """CUDA device ordinal; no part of the control key."""
    threads: int = 1
    """Intra-op threads of the worker."""
    allocator: Settings = field(default_factory=dict)
    """Environment variables that set the allocator up (`PYTORCH_CUDA_ALLOC_CONF`, glibc's `MALLOC_…`); they are given
    to the worker when it starts."""
    openmp: Settings = field(default_factory=dict)
    """Environment variables that set the OpenMP runtime up (`GOMP_SPINCOUNT`, `OMP_WAIT_POLICY`), given likewise."""
    memory_limit_bytes: int | None = None
    """Bytes the step may allocate in all: `set_per_process_memory_fraction` on CUDA, `RLIMIT_DATA` beyond what the
    libraries take on the CPU, where the C allocator's fragmentation counts too. None leaves the device's own limit."""


@dataclass(frozen=True, kw_only=True)
class ProtocolSpec:
    process: str = "shared"
    """`shared`: a worker process measures all placements in shuffled rounds; `fresh`: every sample has a process of its
    own, and a round is one process a placement."""
    executions: int = 1
    """Fresh worker processes that each measure every placement."""
    rounds_min: int = 3
    """Shuffled rounds, each with one sample a placement, before the interval may stop an execution."""
    rounds_max: int = 10
    steps_per_sample: int = 1
    """Timed optimizer steps in one sample."""
    settle_steps: int = 0
    """Untimed optimizer steps after a switch of placement, before the timed ones."""
    warmup_steps_min: int = 1
    """Untimed steps of the reference before the first round; warm-up goes on until step time settles."""
    warmup_steps_max: int = 10
    target_half_width: float = 0.02
    """An execution may stop when the interval of every paired ratio is at most ± this share."""
    confidence: float = 0.95
    shuffle_seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the worker's machine and libraries turned out to be, as executed; read by `bench.worker.probe`."""

    device_name: str
    """`NVIDIA H200`, or the CPU's model name."""
    versions: Mapping[str, str]
    """torch, the model's library, Python, and CUDA/cuDNN where there are any."""
    attention_kernels: tuple[str, ...] = ()
    """Attention ops that one forward of the plain model dispatched to, in order of first use."""
    fused_optimizer: bool = False
    """Whether the optimizer runs its fused kernel."""


@dataclass(frozen=True, kw_only=True)
class Controls:
    model: ModelSpec
    workload: WorkloadSpec
    optimizer: OptimizerSpec
    recipe: RecipeSpec
    precision: str
    """One of PRECISIONS."""
    parallelism: ParallelismSpec
    device: DeviceSpec
    protocol: ProtocolSpec
    facts: Facts | None = None
    """None before the probe has run: such controls have no key."""
