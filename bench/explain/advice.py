"""What the explanation of a peak comes to: one headline, which says what the peak is, and findings beside it.

The headline is the first of these that applies:

1. The peak lies in the optimizer's phase → the peak is the optimizer.
2. It lies in the head or the loss, whose tensors are at least as much as a placement could still remove → the loss.
3. One replay's rebuilt tensors are most of the activations and a quarter of what comes and goes → the replay itself.
4. A placement could remove less than a tenth of the peak, and what was there before the step, with gradients, is most
   of it → parameters dominate; or else → temporaries.
5. Gradients are more than a placement could remove → gradients.
6. Activations.
"""

from __future__ import annotations

from bench.explain.findings import Advice, find
from bench.explain.passes import replayed_region
from bench.explain.peak import PeakExplanation, removable_at
from bench.explain.reading import Reading, units_of
from bench.explain.tail import belongs_to, tail_ops, tail_storages
from bench.explain.words import bytes_text, count_text, in_module, join_text, sentences, share_text, tensor_text
from bench.trace.categories import GRADIENTS, OF_OPTIMIZER, OF_REPLAY, SAVED, TEMPORARY, WORKSPACES
from bench.trace.log import NOWHERE

OPTIMIZER, LOSS, REPLAY_ITSELF = "the peak is the optimizer", "the peak is the loss", "the peak is a replay"
PARAMETERS_DOMINATE, TEMPORARIES_DOMINATE = "parameters dominate", "temporaries dominate"
GRADIENTS_GATHER, ACTIVATIONS_DOMINATE = "gradients gather", "activations"

WORTH_SHARE = 0.1
"""Of the peak: where a placement could remove less, it is not the place to look."""
REPLAY_SHARE = 0.25
"""Of what comes and goes: rebuilt tensors below that are not what the peak is made of."""
CROSS_ENTROPY_OPS = frozenset({"_log_softmax", "nll_loss_forward", "nll_loss2d_forward", "_softmax"})


def advise(reading: Reading, explanation: PeakExplanation, *, reserved_bytes: int | None = None) -> tuple[Advice, ...]:
    """The headline first.

    Args:
        reserved_bytes: peak of what the allocator took from the driver, where there is such an allocator.
    """
    headline = _headline(reading, explanation)
    findings = find(
        reading,
        explanation,
        has_reachable_activations=headline.kind in (ACTIVATIONS_DOMINATE, TEMPORARIES_DOMINATE, LOSS),
        reserved_bytes=reserved_bytes,
    )
    return (headline, *findings)


def _headline(reading: Reading, explanation: PeakExplanation) -> Advice:
    peak, movable, removable = explanation.peak_bytes, explanation.movable_bytes, explanation.removable_bytes
    gradients = explanation.bytes_of(GRADIENTS)
    if explanation.moment.phase == "optimizer":
        return _optimizer(explanation)
    tail = tail_ops(reading, explanation.moment.micro_batch)
    in_tail = _held_by_tail(reading, explanation, tail)
    if in_tail and reading.total_bytes(in_tail) >= removable:
        return _loss(reading, explanation, in_tail, tail)
    region, rebuilt = _largest_replay(reading, explanation)
    if region and 2 * rebuilt >= explanation.activation_bytes and rebuilt >= REPLAY_SHARE * movable:
        return _replay(reading, explanation, region, rebuilt)
    if removable < WORTH_SHARE * peak:
        if 2 * (explanation.persistent_bytes + gradients) >= peak:
            return _parameters(explanation, gradients)
        return _temporaries(explanation)
    if gradients > removable:
        return _gradients(explanation, gradients)
    return _activations(reading, explanation, in_tail)


def _held_by_tail(reading: Reading, explanation: PeakExplanation, tail: frozenset[int]) -> list[int]:
    """What head and loss hold at the peak, where the peak lies in them; empty elsewhere."""
    running = reading.log.op_at(explanation.moment.event)
    if running == NOWHERE or not belongs_to(reading.log.ops[running], running, tail):
        return []
    events = explanation.moment.event
    replayable = set(removable_at(reading, events))
    return [storage for storage in tail_storages(reading, events, tail) if storage not in replayable]


def _activations(reading: Reading, explanation: PeakExplanation, in_tail: list[int]) -> Advice:
    held = reading.total_bytes(in_tail)
    beside = f"beside them, head and loss hold {bytes_text(held)}, which no placement frees" if held else ""
    return Advice(
        kind=ACTIVATIONS_DOMINATE,
        text=sentences(_bound(explanation), f"the peak lies in {_where(explanation)}", beside),
        evidence=_evidence(explanation, loss_bytes=held),
    )


def _bound(explanation: PeakExplanation) -> str:
    """The sentence that every headline ends in: what a placement can reach at most.

    A placement that does not replay the op is not bound by what is there at its replay: its forward finds less."""
    share = share_text(explanation.activation_bytes, explanation.peak_bytes)
    most = share_text(explanation.removable_bytes, explanation.peak_bytes)
    op = explanation.moment.op
    who = f"no placement that replays {op.module or op.region}" if op is not None and op.is_replay else "no placement"
    if explanation.removable_bytes == 0:
        return f"activations are {share} of the peak; {who} can save any of it"
    limit = "that" if most == share else f"{bytes_text(explanation.removable_bytes)}, {most}"
    return f"activations are {share} of the peak; {who} can save more than {limit}"


def _where(explanation: PeakExplanation) -> str:
    moment = explanation.moment
    if moment.op is None:
        return "what was there before the step"
    what = f"{moment.op.op} {in_module(moment.op.module)}"
    if moment.op.is_replay:
        return f"the replay of {moment.op.region}, at {what}"
    return f"{moment.phase}, at {what}"


def _evidence(explanation: PeakExplanation, **more: int | float | str) -> dict[str, int | float | str]:
    return {
        "peak_bytes": explanation.peak_bytes,
        "persistent_bytes": explanation.persistent_bytes,
        "activation_bytes": explanation.activation_bytes,
        "removable_bytes": explanation.removable_bytes,
        **more,
    }


def _optimizer(explanation: PeakExplanation) -> Advice:
    name = explanation.moment.op.op if explanation.moment.op else ""
    temporaries = sum(t.bytes for t in explanation.tensors if t.kind == OF_OPTIMIZER or (t.category == WORKSPACES))
    if name.startswith("_fused"):
        mend = "it is fused already, so only fewer trained parameters, smaller state or sharding makes it lower"
    elif name.startswith("_foreach"):
        mend = "with fused=True it makes no temporaries, with foreach=False those of one parameter at a time"
    else:
        mend = "with fused=True, where the optimizer has it, it makes no temporaries"
    return Advice(
        kind=OPTIMIZER,
        text=sentences(
            f"the peak is the optimizer's step: {name} holds {bytes_text(temporaries)} of temporaries beside all "
            f"gradients ({bytes_text(explanation.bytes_of(GRADIENTS))}) and states",
            _bound(explanation),
            mend,
        ),
        evidence=_evidence(explanation, temporaries_bytes=temporaries, op=name),
    )


def _loss(reading: Reading, explanation: PeakExplanation, in_tail: list[int], tail: frozenset[int]) -> Advice:
    held = reading.total_bytes(in_tail)
    largest = max((reading.log.storages[s] for s in in_tail), key=lambda s: s.size_bytes)
    alike = [s for s in in_tail if reading.log.storages[s].size_bytes == largest.size_bytes]
    op = reading.log.ops[reading.log.op_at(explanation.moment.event)]
    if CROSS_ENTROPY_OPS & {reading.log.ops[index].name for index in tail}:
        mend = (
            "compute it in chunks of tokens, or with a fused linear cross-entropy, so that logits, probabilities and "
            "their gradients are never whole; or ask the head for fewer logits"
        )
    else:
        mend = "compute it in chunks of the batch"
    return Advice(
        kind=LOSS,
        text=sentences(
            f"the peak is the loss: at {op.name}, head and loss hold {bytes_text(held)}, "
            f"{share_text(held, explanation.movable_bytes)} of what comes and goes "
            f"({count_text(len(alike), 'tensor')} of {tensor_text(largest.shape, largest.dtype)})",
            _bound(explanation),
            f"to lower it, {mend}",
        ),
        evidence=_evidence(
            explanation, loss_bytes=held, op=op.name, largest_bytes=largest.size_bytes, num_largest=len(alike)
        ),
    )


def _largest_replay(reading: Reading, explanation: PeakExplanation) -> tuple[str, int]:
    """(region, bytes) of the region whose replay has most of its rebuilt tensors at the peak."""
    rebuilt: dict[str, int] = {}
    for tensor in explanation.tensors:
        if tensor.category == SAVED and tensor.kind == OF_REPLAY:
            maker = reading.maker(tensor.storage)
            region = "" if maker is None else replayed_region(reading.log, maker.region_pass)
            if region:
                rebuilt[region] = rebuilt.get(region, 0) + tensor.bytes
    return max(rebuilt.items(), key=lambda item: item[1], default=("", 0))


def _replay(reading: Reading, explanation: PeakExplanation, region: str, rebuilt: int) -> Advice:
    units = units_of(region)
    kinds = next((chain.kinds for chain in reading.chains if units[0] in chain.units), {})
    if explanation.removable_bytes < WORTH_SHARE * explanation.peak_bytes:
        mend = ""  # what is there is what the op takes in: a smaller region finds it too
    elif len(units) > 1:
        mend = f"split it: regions of fewer than {len(units)} units rebuild less at a time"
    elif kinds:
        mend = f"regions inside it (of kind {join_text(list(kinds))}) rebuild less at a time"
    else:
        mend = "regions inside it rebuild less at a time"
    return Advice(
        kind=REPLAY_ITSELF,
        text=sentences(
            f"the peak is the replay of {region}: {bytes_text(rebuilt)} that it rebuilt are there at once, "
            f"{share_text(rebuilt, explanation.movable_bytes)} of what comes and goes",
            _bound(explanation),
            mend,
        ),
        evidence=_evidence(explanation, region=region, rebuilt_bytes=rebuilt, num_units=len(units)),
    )


def _parameters(explanation: PeakExplanation, gradients: int) -> Advice:
    share = share_text(explanation.persistent_bytes + gradients, explanation.peak_bytes)
    return Advice(
        kind=PARAMETERS_DOMINATE,
        text=sentences(
            f"parameters, their gradients and the optimizer's state are {share} of the peak: {_bound(explanation)}",
            "a larger batch makes placements matter; fewer trained parameters, smaller state or sharding lower it",
        ),
        evidence=_evidence(explanation, gradient_bytes=gradients),
    )


def _temporaries(explanation: PeakExplanation) -> Advice:
    held = explanation.bytes_of(TEMPORARY, WORKSPACES)
    return Advice(
        kind=TEMPORARIES_DOMINATE,
        text=sentences(
            f"the peak is what the step works with in {_where(explanation)}: temporaries and workspaces are "
            f"{bytes_text(held)}, {share_text(held, explanation.movable_bytes)} of what comes and goes",
            _bound(explanation),
        ),
        evidence=_evidence(explanation, temporaries_bytes=held),
    )


def _gradients(explanation: PeakExplanation, gradients: int) -> Advice:
    return Advice(
        kind=GRADIENTS_GATHER,
        text=sentences(
            f"the peak is where gradients have gathered: they are {bytes_text(gradients)}, "
            f"{share_text(gradients, explanation.movable_bytes)} of what comes and goes, and wait for the optimizer",
            _bound(explanation),
            "an optimizer step inside backward frees each as it comes",
        ),
        evidence=_evidence(explanation, gradient_bytes=gradients),
    )
