"""From what a watched step did to what broke it.

The earliest cause in time decides. Going through the replays in the order in which they ran, the first one that leaves
its first pass is looked at, and at its first differing op these are asked in turn:

1. Did autocast, or the dtype that the op made, differ? autocast.
2. Did a tensor that the op was given from outside the region change since the first pass? A buffer or an attribute
   that some region's forward changed is state or attribute; everything else was changed by others: mutation.
3. Does the op draw random numbers, other ones, or did the first pass draw from Python's or NumPy's generator? rng.
4. Did Python state differ at the two entries? What a hook changed is hook; what lies outside modules external; a
   module's own attribute; a value of a class or module that moved between the passes control, by a pass external. What
   the replay left as the first pass had left it comes last: it was written, not counted. Then settings of the process.
5. Nothing explains it: the replay raised, at once or after other ops (error), other ops ran (control), or the same op
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
from bench.audit.settings import PRECISION, changed_settings
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
from bench.audit.watch import Call, Pass, Watch
from bench.audit.words import (
    CURES,
    of_difference,
    of_early_stop,
    of_error,
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
    if len(kinds) > 1 and not is_missing:
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
    if at.what == DTYPE or first.entry.autocast != replay.entry.autocast:
        return of_op(AUTOCAST, region, at.op.name, at.told())
    changed = _changed_read(at)
    if changed is not None:
        name = watch.names.get(changed, "")
        given = name or f"a tensor that it was given, {first.reads[changed].shown},"
        return of_op(_kind_of_tensor(watch, name, changed, at), region, given, at.told())
    same_op = at.first is not None and at.replayed is not None and at.what != OTHER_OP
    candidates = [
        (blame(watch, path, first.entry.world.get(path) or replay.entry.world[path]), path)
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
    for name in changed_settings(first.entry.settings, replay.entry.settings):
        return of_op(AUTOCAST if name in PRECISION else CONTROL, region, name, at.told())
    if replay.raised is not None and not same_op and not isinstance(replay.raised, CheckpointError):
        return of_error(ERROR, region, replay.raised, ())
    return of_op(EXTERNAL if same_op else CONTROL, region, at.op.name, at.told())


def _changed_read(at: Diverged) -> int | None:
    """Key of the first tensor that the op read from outside the region and that had another content than before."""
    first, replay = at.call.first, at.replay
    casts = [op for op in replay.ops if op.is_cast]  # under autocast the op is given a copy of what was changed
    for op in (at.replayed, at.first, *casts):
        for key in op.reads if op is not None else ():
            if key in first.reads and key in replay.reads and first.reads[key].digest != replay.reads[key].digest:
                return key
    return None


def _kind_of_tensor(watch: Watch, name: str, key: int, at: Diverged) -> str:
    place, _, path = name.partition(" ")
    if place not in ("buffer", "attribute") or key in {watch._key(t) for t in at.call.boundary}:
        return MUTATION
    if path in watch.hook_moved:
        return HOOK
    if path in _moved_by_passes(watch):
        return STATE if place == "buffer" else ATTRIBUTE
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


def blame(watch: Watch, path: str, reading: Reading) -> str:
    """The kind of fault that a moved value is."""
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
    is_tensor = isinstance(reading.value, tuple)
    return MUTATION if is_tensor and not moved and watch.calls else ATTRIBUTE


# Where the step raised


def _of_error(watch: Watch, error: Exception, pairs: Sequence[tuple[Call, Pass]]) -> Iterator[Finding]:
    for call, shown in watch.changed_boundaries():
        yield of_written_input(call.region, shown)
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
