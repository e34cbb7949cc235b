"""What Checkmate plans: a graph of forward and backward nodes, and a schedule that computes and keeps their outputs.

Source: Jain, Jain, Nrusimha, Gholami, Abbeel, Keutzer, Stoica, Gonzalez, "Checkmate: breaking the memory wall with
optimal tensor rematerialization", MLSys 2020 (arXiv 1910.02653), section 4. A schedule has one stage a node, in order;
stage t is the first to compute node t. It is two boolean matrices of the paper: R[t, i], node i is computed in stage t,
and S[t, i], its output is kept from before stage t on.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.bool_]
"""bool[nodes, nodes]: stage by node."""


@dataclass(frozen=True, kw_only=True)
class Node:
    name: str
    cost: float
    """C_i: time or FLOPs of computing it once."""
    output_bytes: int
    """M_i."""
    inputs: tuple[int, ...]
    """DEPS[i]: nodes before it whose outputs it reads."""
    working_bytes: int = 0
    """Held while it is computed, on top of what it reads and makes. Not in the paper, where it is 0."""
    kept_with: int | None = None
    """A node whose output is a part of what this one makes: it must be kept wherever this one is. Not in the paper."""


@dataclass(frozen=True, kw_only=True)
class Graph:
    nodes: tuple[Node, ...]
    """In an order in which they can be computed."""
    num_forward: int
    """The first nodes are the forward pass; the next is the loss."""
    fixed_bytes: int = 0
    """Alive all the time: parameters, their gradients, the batch."""

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            for source in node.inputs:
                found[source].append(index)
        return tuple(tuple(readers) for readers in found)

    @property
    def cost(self) -> float:
        """Of computing each node once."""
        return sum(node.cost for node in self.nodes)


@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule:
    computed: Matrix
    """R."""
    kept: Matrix
    """S."""


def training_graph(layers: Sequence[Node], *, loss_bytes: int = 0, fixed_bytes: int = 0) -> Graph:
    """Forward layers, a loss, and one backward node a layer, as Checkmate draws them from a network: gradients are as
    large as outputs and cost twice the forward (a matmul's gradients by its two inputs); backward of a layer reads the
    layer's output, and outputs and gradients of its readers."""
    count = len(layers)
    total = 2 * count + 1
    reads: list[set[int]] = [set(layer.inputs) for layer in layers]
    reads += [{count - 1}, *({index} for index in reversed(range(count)))]
    reads[count + 1].add(count)
    for index, layer in enumerate(layers):
        for source in layer.inputs:
            reads[total - 1 - source] |= {index, total - 1 - index}
    backward = [
        Node(
            name=f"grad {layer.name}",
            cost=2 * layer.cost,
            output_bytes=layer.output_bytes,
            inputs=tuple(sorted(reads[total - 1 - index])),
        )
        for index, layer in reversed(list(enumerate(layers)))
    ]
    loss = Node(name="loss", cost=0, output_bytes=loss_bytes, inputs=(count - 1,))
    return Graph(nodes=(*layers, loss, *backward), num_forward=count, fixed_bytes=fixed_bytes)


def schedule_of(graph: Graph, kept: Matrix) -> Schedule:
    """The least computation that makes `kept` possible: the paper's second phase, a closed form of R from S."""
    count = len(graph.nodes)
    computed = np.eye(count, dtype=bool)
    computed[:-1] |= kept[1:] & ~kept[:-1]
    for stage in range(count):
        for index in range(stage, -1, -1):
            if computed[stage, index]:
                for source in graph.nodes[index].inputs:
                    computed[stage, source] |= not kept[stage, source]
    return Schedule(computed=computed, kept=kept)


def cost_of(graph: Graph, schedule: Schedule) -> float:
    return float(schedule.computed.sum(axis=0) @ np.array([node.cost for node in graph.nodes]))


def recomputed_cost(graph: Graph, schedule: Schedule) -> float:
    """What the schedule costs beyond computing each node once."""
    return cost_of(graph, schedule) - graph.cost


def peak_bytes(graph: Graph, schedule: Schedule) -> int:
    """The schedule's peak, found by running it: an output is freed after its last reader in a stage, unless it is
    kept."""
    count = len(graph.nodes)
    nodes = graph.nodes
    peak = 0
    for stage in range(count):
        computed = schedule.computed[stage]
        kept_after = schedule.kept[stage + 1] if stage + 1 < count else np.zeros(count, dtype=bool)
        last_use = [max((j for j in graph.readers[i] if computed[j]), default=-1) for i in range(count)]
        alive = {i for i in range(stage) if schedule.kept[stage, i] and (kept_after[i] or last_use[i] >= 0)}
        held = sum(nodes[i].output_bytes for i in alive)
        peak = max(peak, held)
        for index in range(stage + 1):
            if not computed[index]:
                continue
            if index not in alive:
                alive.add(index)
                held += nodes[index].output_bytes
            peak = max(peak, held + nodes[index].working_bytes)
            for i in (*nodes[index].inputs, index):
                if i in alive and last_use[i] <= index and not kept_after[i]:
                    alive.remove(i)
                    held -= nodes[i].output_bytes
    return graph.fixed_bytes + peak


def kept_at_checkpoints(graph: Graph, checkpoints: Sequence[int], *, until_end: bool = False) -> Matrix:
    """S of a schedule that keeps the outputs of some forward nodes and rebuilds the segments between them, each once:
    how Checkmate runs the heuristics of Chen et al. on graphs. All forward nodes as checkpoints: nothing is rebuilt.

    until_end: checkpoints, and a segment that is rebuilt, are kept though nothing reads them again: a checkpoint to the
        end of the step, a segment to the end of its backward. Checkmate's own code does so, and its published numbers
        for these heuristics have it in them. Otherwise an output is freed after its last reader.
    """
    count = len(graph.nodes)
    kept = np.zeros((count, count), dtype=bool)
    for index, node in enumerate(graph.nodes):
        kept[index, list(node.inputs)] = True
        if index > graph.num_forward:
            kept[index + 1 : max(graph.readers[index], default=index) + 1, index] = True
    bounds = [0, *sorted(checkpoints), graph.num_forward]
    for checkpoint in checkpoints:
        kept[checkpoint + 1 :, checkpoint] = True
    for start, end in itertools.pairwise(bounds):
        for index in range(start, end):
            kept[index + 1 : end + 1, index] = True
            backward = slice(count - end, count - start)
            kept[backward, index] = True
            kept[count - index : count - start, count - 1 - index] = True
    if graph.num_forward - 1 not in checkpoints:
        # The last segment is there when backward begins.
        kept[bounds[-2] + 1 : graph.num_forward + 1, bounds[-2] : graph.num_forward] = True
    kept &= np.tri(count, k=-1, dtype=bool)
    return kept if until_end else trimmed(graph, kept)


def trimmed(graph: Graph, kept: Matrix) -> Matrix:
    """The same schedule with every output freed after its last reader."""
    computed = schedule_of(graph, kept).computed
    trimmed_kept = kept.copy()
    for index in range(len(graph.nodes)):
        read: Matrix = np.any(computed[:, list(graph.readers[index])], axis=1)
        needed = False
        for stage in range(len(graph.nodes) - 1, index, -1):
            # Going back in time: kept for a later reader only where it is kept all the way to it.
            needed = bool(kept[stage, index]) and (needed or bool(read[stage]))
            trimmed_kept[stage, index] = needed
    return trimmed_kept
