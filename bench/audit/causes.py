"""From what a watched step did to what broke it.

The earliest cause in time decides. Going through the replays in the order in which they ran, the first one that leaves
its first pass is looked at, and at its first differing op these are asked in turn:

1. Did autocast, or the dtype that the op made, differ? autocast.
2. Did a tensor that the op was given from outside the region change since the first pass? A buffer or an attribute
   that some region's forward changed is state or attribute; everything else was changed by others: mutation.
3. Does the op draw random numbers, and not the same ones under another rate? Or did the first pass draw from Python's
   or NumPy's generator? rng.
4. Did Python state differ at the two entries? What a hook changed, or which hooks there are, is hook; a source that is
   used up external; a module's own attribute, its members and the records that it holds; a value of a class, a closure
   or a module that moved between the passes control, by a pass external. What the replay left as the first pass had
   left it comes last: it was written, not counted. Then what the region was given in lists and objects: mutation.
   Then settings of the process.
5. Nothing explains it: the replay raised, at once or after other ops (error), other ops ran or the gradient mode
   differs (control), or the same op
   on the same tensors was given another number (external).

Where no op differs, what is different after the steps is traced to the region whose replay moved it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from torch.utils.checkpoint import CheckpointError

from bench.audit import compare
from bench.audit.compare import Difference, changed_paths
from bench.audit.opdiff import DTYPE, OTHER_OP, Diverged, diverged, next_after
from bench.audit.places import (
    ATTRIBUTE_PLACE,
    BUFFER_PLACE,
    EXTERNAL_PLACE,
    GENERATOR_PLACE,
    GLOBAL_PLACE,
    HOOK_PLACE,
    Reading,
)
from bench.audit.seeds import NUMPY, PYTHON
from bench.audit.settings import DEFAULT_DTYPE, GRADIENT_MODE, PRECISION, changed_settings
from bench.audit.verdict import (
    ATTRIBUTE,
    AUTOCAST,
    CONTROL,
    ERROR,
    EXTERNAL,
    GRADIENT,
    HOOK,
    MUTATION,
    RNG,
    STATE,
    STRUCTURE,
    Finding,
    OpDifference,
)
from bench.audit.watch import Call, Pass, Read, Watch
from bench.audit.words import (
    CURES,
    of_difference,
    of_early_stop,
    of_error,
    of_lost_gradients,
    of_moved,
    of_op,
    of_structure,
    of_written_input,
)
from bench.placement.errors import WrongGradientsError

_FIRST_ASKED = (HOOK, EXTERNAL, ATTRIBUTE, STATE, RNG, MUTATION, CONTROL)


def explain(
    watch: Watch, found: Sequence[Difference], error: Exception | None
) -> tuple[tuple[Finding, ...], OpDifference | None]:
    """Findings, the cause first, and the first op that differed.

    Args:
        found: what differs between the plain outcome and the replayed one.
        error: what the replayed step raised.
    """
    pairs = _pairs(watch)
    is_missing = any(d.what == compare.GRADIENT_MISSING for d in found)
    parted = [d for d in (diverged(call, replay) for call, replay in pairs) if d is not None]
    if not parted and {d.what for d in found} & {*compare.OF_VALUES} and not is_missing:
        # A first pass without gradients may take other ops than the plain forward does.
        every = (diverged(call, replay, other_ops_count=True) for call, replay in pairs)
        parted = [d for d in every if d is not None]
    findings: list[Finding] = []
    if parted:
        findings.append(_of_op(watch, parted[0]))
    if error is not None or any(d.what in compare.OF_VALUES for d in found):
        lost = [(call, call.lost_structure) for call in watch.calls.values() if call.lost_structure is not None]
        findings += [of_structure(call.region, made, given) for call, (made, given) in lost]
    if error is not None:
        findings += _of_error(watch, error, pairs)
    if not parted:
        findings += _of_early_stop(watch, found, pairs)
    findings += _of_differences(watch, found, pairs)
    kinds: dict[str, Finding] = {}
    for each in findings:
        kinds.setdefault(each.kind, each)
    # An error, or a gradient that is off, is what something else led to.
    if ERROR in kinds:
        kinds[ERROR] = kinds.pop(ERROR)
    is_lost = error is not None and any(call.loses_gradients for call in watch.calls.values())
    if len(kinds) > 1 and not is_missing and not is_lost:
        kinds.pop(GRADIENT, None)
    return tuple(kinds.values()), parted[0].told() if parted else None


def _pairs(watch: Watch) -> list[tuple[Call, Pass]]:
    pairs = [
        (call, p) for call in watch.calls.values() for p in call.passes if p.is_replay and not call.first.is_replay
    ]
    return sorted(pairs, key=lambda pair: pair[1].time)


# At the first op that differs


def _of_op(watch: Watch, at: Diverged) -> Finding:
    call, first, replay = at.call, at.call.first, at.replay
    region = call.region
    settings = changed_settings(first.entry.settings, replay.entry.settings)
    is_precision = at.what == DTYPE and DEFAULT_DTYPE not in settings
    if is_precision or first.entry.autocast != replay.entry.autocast:
        return of_op(AUTOCAST, region, at.op.name, at.told())
    changed = _changed_read(watch, at)
    if changed is not None:
        name = watch.names.get(changed.key, "")
        given = name or f"a tensor that it was given, {changed.shown},"
        return of_op(_kind_of_tensor(watch, name, changed.key, at), region, given, at.told())
    same_op = at.first is not None and at.replayed is not None and at.what != OTHER_OP
    candidates = [
        (blame(watch, path, *(entry.world[path] for entry in (first.entry, replay.entry) if path in entry.world)), path)
        for path in changed_paths(first.entry.world, replay.entry.world)
    ]
    is_drawn_again = any(
        first.entry.seeds[name] != replay.entry.seeds.get(name) for name in first.entry.seeds.keys() - {PYTHON, NUMPY}
    )
    # From the same numbers, a random op was given another argument: a rate that somebody changed.
    if same_op and at.op.is_random and (at.op.generator or is_drawn_again or not candidates):
        which = "a generator of its own" if at.op.generator else "torch's generator"
        return of_op(RNG, region, which, at.told())
    for generator in (PYTHON, NUMPY):
        if _moved_seed(first, generator) and first.entry.seeds.get(generator) != replay.entry.seeds.get(generator):
            return of_op(RNG, region, generator, at.told())
    if candidates:
        kind, path = min(candidates, key=lambda c: (_is_rewritten(first, replay, c[1]), _FIRST_ASKED.index(c[0])))
        is_of_the_loop = kind == ATTRIBUTE and path not in _moved_by_passes(watch)
        return of_op(kind, region, path, at.told(), CURES[CONTROL] if is_of_the_loop else "")
    arguments = changed_paths(first.arguments, replay.arguments)
    if arguments:
        return of_op(MUTATION, region, arguments[0], at.told())
    if settings:
        kind = AUTOCAST if settings[0] in PRECISION else CONTROL
        return of_op(kind, region, settings[0], at.told())
    if replay.raised is not None and not same_op and not isinstance(replay.raised, CheckpointError):
        return of_error(ERROR, region, replay.raised, ())
    if same_op and first.entry.has_gradients != replay.entry.has_gradients:
        return of_op(CONTROL, region, GRADIENT_MODE, at.told())
    return of_op(EXTERNAL if same_op else CONTROL, region, at.op.name, at.told())


def _changed_read(watch: Watch, at: Diverged) -> Read | None:
    """The first tensor that the op read from outside the region and that had another content than before."""
    first, replay = at.call.first, at.replay
    casts = [op for op in replay.ops if op.is_cast]  # under autocast the op is given a copy of what was changed
    for op in (at.replayed, at.first, *casts):
        for key in op.reads if op is not None else ():
            again = replay.reads.get(key)
            before = first.reads.get(key) or _counterpart(watch, at.call, replay, key)
            if before is not None and again is not None and before.digest != again.digest:
                return before
    return None


def _counterpart(watch: Watch, call: Call, replay: Pass, key: int) -> Read | None:
    """What the first pass read where the replay reads a tensor in other memory: the same argument, or the parameter,
    buffer or attribute of the same name."""
    reads = call.first.reads
    for (before, _), (now, _) in zip(call.first.given, replay.given, strict=False):
        if now == key:
            return reads.get(before)
    name = watch.names.get(key)
    return next((read for read in reads.values() if name and watch.names.get(read.key) == name), None)


def _kind_of_tensor(watch: Watch, name: str, key: int, at: Diverged) -> str:
    place, _, path = name.partition(" ")
    if place not in ("buffer", "attribute", "value") or key in {given for given, _ in at.call.first.given}:
        return MUTATION
    if path in watch.hook_moved:
        return HOOK
    if path in _moved_by_passes(watch):
        return {"buffer": STATE, "attribute": ATTRIBUTE, "value": EXTERNAL}[place]
    return MUTATION


def _moved_seed(ran: Pass, generator: str) -> bool:
    return ran.exit is not None and ran.entry.seeds.get(generator) != ran.exit.seeds.get(generator)


def _is_rewritten(first: Pass, replay: Pass, path: str) -> bool:
    """Whether the replay left there what the first pass had left there."""
    if first.exit is None or replay.exit is None:
        return False
    return path not in changed_paths(first.exit.world, replay.exit.world)


def _moved_by_passes(watch: Watch) -> set[str]:
    return {
        path
        for call in watch.calls.values()
        for ran in call.passes
        if ran.exit is not None
        for path in changed_paths(ran.entry.world, ran.exit.world)
    }


def moved_by_replays(watch: Watch) -> dict[str, str]:
    """Buffers and Python state that a replay left otherwise than it found them, and its region."""
    return {
        path: call.region
        for call in watch.calls.values()
        for ran in call.passes
        if ran.is_replay and ran.exit is not None
        for path in changed_paths(ran.entry.world, ran.exit.world)
        if not _is_rewritten(call.first, ran, path)
    }


def blame(watch: Watch, path: str, reading: Reading, *others: Reading) -> str:
    """The kind of fault that a moved value is, by what was read of it."""
    if path in watch.hook_moved or reading.place == HOOK_PLACE:
        return HOOK
    if reading.place == GENERATOR_PLACE:
        return RNG
    if reading.place == EXTERNAL_PLACE:
        return EXTERNAL
    moved = path in _moved_by_passes(watch)
    if reading.place == BUFFER_PLACE:
        return STATE if moved or not watch.calls else MUTATION
    if reading.place == GLOBAL_PLACE:
        return EXTERNAL if moved else CONTROL
    assert reading.place == ATTRIBUTE_PLACE, reading.place
    is_tensor = all(isinstance(each.value, tuple) for each in (reading, *others))
    return MUTATION if is_tensor and not moved and watch.calls else ATTRIBUTE


# Where the step raised


def _of_error(watch: Watch, error: Exception, pairs: Sequence[tuple[Call, Pass]]) -> Iterator[Finding]:
    for call, shown in watch.changed_boundaries():
        yield of_written_input(call.region, shown)
    yield from (of_lost_gradients(call.region) for call in watch.calls.values() if call.loses_gradients)
    kind = error.kind if isinstance(error, WrongGradientsError) else ERROR
    region = pairs[-1][0].region if pairs else ""
    yield of_error(kind, region, error, pairs)


def _of_early_stop(watch: Watch, found: Sequence[Difference], pairs: Sequence[tuple[Call, Pass]]) -> Iterator[Finding]:
    """An op that fills a tensor which autograd has saved already: the replay ends before it is filled."""
    if not any(d.what == compare.GRADIENT_VALUE for d in found):
        return
    for call, replay in pairs:
        op = next_after(call, replay)
        if op is not None and op.writes:
            yield of_early_stop(RNG if op.is_random else MUTATION, call.region, op)
            return


# Where no op differed


def _of_differences(watch: Watch, found: Sequence[Difference], pairs: Sequence[tuple[Call, Pass]]) -> Iterator[Finding]:
    for d in sorted(found, key=lambda d: d.what != compare.GRADIENT_MISSING):  # the others follow from it
        if d.what == compare.STRUCTURE:
            yield of_structure(d.name, d.plain, d.replayed)
        elif d.what == compare.NAMES:
            yield of_difference(STRUCTURE, "", d)
        elif d.what == compare.GRADIENT_MISSING:
            yield of_difference(GRADIENT, d.name.rpartition(".")[0], d)
        elif d.what == compare.SEED:
            yield of_difference(RNG, _mover(pairs, d.name), d)
        elif d.what == compare.BUFFER:
            yield of_difference(HOOK if d.name in watch.hook_moved else STATE, d.name.rpartition(".")[0], d)
        elif d.what == compare.PYTHON:
            reading = _reading(watch, d.name)
            kind = ATTRIBUTE if reading is None else blame(watch, d.name, reading)
            yield of_difference(kind, d.name.rpartition(".")[0], d)
        elif d.what in compare.OF_VALUES:
            yield of_difference(GRADIENT, d.name.rpartition(".")[0], d)


def parts_beyond_noise(watch: Watch) -> bool:
    """Whether an op of a replay made something that is off its first pass by more than rounding. Both are of one step,
    so a plain step that does not repeat from run to run has no part in it."""
    parted = next((d for d in (diverged(call, replay) for call, replay in _pairs(watch)) if d is not None), None)
    return parted is not None and not parted.is_noise


def of_unrepeatable(watch: Watch, unrepeatable: Collection[str]) -> tuple[Finding, ...]:
    """Of the paths of Python state that two plain runs do not find or leave alike, those that a replay moves."""
    moved = moved_by_replays(watch)
    readings = [(path, _reading(watch, path)) for path in unrepeatable if path in moved]
    return tuple(
        of_moved(blame(watch, path, reading), moved[path], path) for path, reading in readings if reading is not None
    )


def _mover(pairs: Sequence[tuple[Call, Pass]], generator: str) -> str:
    """The region whose replay draws from it."""
    return next((call.region for call, replay in pairs if _moved_seed(replay, generator)), "")


def _reading(watch: Watch, path: str) -> Reading | None:
    for call in reversed(list(watch.calls.values())):
        for ran in reversed(call.passes):
            for around in (ran.exit, ran.entry):
                if around is not None and path in around.world:
                    return around.world[path]
    return None
