"""A placement kept in a file, and what applying it checks."""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
import pickle
import warnings
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from bench.placement import Fingerprint, Origin, Placement, PlacementError
from bench.placement.applying import UnsupportedPlacementError, apply, undo
from bench.placement.fingerprint import OtherModelWarning, fingerprint_of
from tests.tiny_models import GPT2

EACH = "transformer.h.0..5:each:keep.matmul"


def origin(model: nn.Module, **changed: object) -> Origin:
    found = Origin(
        study="gpt2-1a2b3c4d",
        key="1a2b3c4d5e6f7a8b",
        model="gpt2",
        fingerprint=fingerprint_of(model),
        units={"decoder": ("transformer.h.0",)},
        precision="fp32",
        device="cpu",
        device_name="Toy CPU",
        versions={"torch": str(torch.__version__)},
        micro_batch=2,
        shape={"sequence_length": 16},
        time_ratio=1.2,
        reference="none",
        peak_allocated_bytes=1000,
    )
    return dataclasses.replace(found, **changed)  # type: ignore[arg-type]


def saved(folder: Path, of: Origin | None, text: str = EACH) -> Path:
    path = folder / "placement.json"
    dataclasses.replace(Placement.parse(text), origin=of).save(path)
    return path


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    of = origin(GPT2.build())
    loaded = Placement.load(saved(tmp_path, of))
    assert loaded == Placement.parse(EACH)
    assert loaded.text == EACH
    assert loaded.origin == of


def test_a_plain_placement_can_be_saved_too(tmp_path: Path) -> None:
    loaded = Placement.load(saved(tmp_path, None, "none"))
    assert loaded == Placement()
    assert loaded.origin is None


def test_where_a_placement_was_measured_is_no_part_of_what_it_is() -> None:
    with_origin = dataclasses.replace(Placement.parse(EACH), origin=origin(GPT2.build()))
    assert with_origin == Placement.parse(EACH)
    assert hash(with_origin) == hash(Placement.parse(EACH))
    assert with_origin.id == Placement.parse(EACH).id


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON"),
        ("[]", "no saved placement"),
        ('{"placement": "none"}', "no saved placement"),
        ('{"kind": "boundary-bench placement", "schema_version": 9}', "schema_version 9, expected 1"),
        ('{"kind": "boundary-bench placement", "schema_version": 1}', "placement: expected a text, got None"),
    ],
)
def test_another_file_is_refused_with_what_is_wrong(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "placement.json").write_text(content)
    with pytest.raises(PlacementError, match=said):
        Placement.load(tmp_path / "placement.json")


def test_a_missing_file_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(
        PlacementError, match=r"cannot be read \(No such file or directory\); write it with .* recommend"
    ):
        Placement.load(tmp_path / "placement.json")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("placement", "transformer.h.0..4:each", "its text was changed"),
        ("placement", "transformer.h.0..", "is no module path"),
        ("origin", {"study": "a"}, "origin.* missing"),
        ("origin", {"hostile": "<b>"}, "origin"),
    ],
)
def test_a_file_that_was_changed_by_hand_is_refused(tmp_path: Path, field: str, value: object, said: str) -> None:
    path = saved(tmp_path, origin(GPT2.build()))
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(PlacementError, match=said):
        Placement.load(path)


def test_the_model_and_controls_of_the_study_warn_of_nothing(tmp_path: Path) -> None:
    model = GPT2.build()
    placement = Placement.load(saved(tmp_path, origin(model)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apply(model, placement)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"versions": {"torch": "2.11.0"}}, rf"torch is {torch.__version__.replace('+', '.')}, the study had 2\.11\.0"),
        ({"device": "cuda"}, "the model is on cpu, the study's was on cuda"),
        ({"precision": "bf16-pure"}, "trained weights are float32, the study trained in bf16-pure"),
    ],
)
def test_other_controls_warn_with_both_sides(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    model = GPT2.build()
    placement = Placement.load(saved(tmp_path, origin(model, **changed)))
    with pytest.warns(OtherModelWarning, match=said) as seen:
        apply(model, placement)
    assert len(seen) == 1
    assert seen[0].filename == __file__


def test_a_wider_model_warns_and_is_placed_all_the_same(tmp_path: Path) -> None:
    placement = Placement.load(saved(tmp_path, origin(GPT2.build())))
    wider = GPT2.build(width=64)
    with pytest.warns(OtherModelWarning, match=r"the model has [\d,]+ parameters in \d+ modules, that of the study"):
        applied = apply(wider, placement)
    assert len(applied.counts) == 6


def test_other_names_are_refused_and_close_ones_named(tmp_path: Path) -> None:
    placement = Placement.load(saved(tmp_path, origin(GPT2.build())))
    with pytest.raises(PlacementError, match=r"the model has no transformer\.h\.4; there are transformer\.h\.0\.\.3"):
        apply(GPT2.build(layers=4), placement)
    wrapped = nn.ModuleDict({"module": GPT2.build()})
    with pytest.raises(PlacementError, match=r"did you mean .*module\.transformer\.h\.0"):
        apply(wrapped, placement)


def test_a_model_that_checkpoints_itself_is_refused() -> None:
    switched = GPT2.build()
    switched.activation_checkpointing_enable()  # type: ignore[operator]
    with pytest.raises(UnsupportedPlacementError, match="turn it off"):
        apply(switched, EACH)
    wrapped = nn.Sequential(checkpoint_wrapper(nn.Linear(2, 2)))
    with pytest.raises(UnsupportedPlacementError, match="take it off"):
        apply(wrapped, "0")


def test_checkpointing_that_is_turned_on_after_apply_is_refused_at_the_step() -> None:
    for text in ("transformer.h.0..5:each", "transformer.h.0..5.mlp:each", "transformer.h.0..2"):
        model = GPT2.build()
        apply(model, text, forward=GPT2.loss(model))
        GPT2.loss(model)()
        model.activation_checkpointing_enable()  # type: ignore[operator]
        with pytest.raises(UnsupportedPlacementError, match=r"transformer\.h\.0 was told to checkpoint itself"):
            GPT2.loss(model)()
        undo(model)
        model.activation_checkpointing_disable()  # type: ignore[operator]
        GPT2.loss(model)()


def test_a_copy_of_a_placed_unit_brings_no_model_with_it() -> None:
    model = GPT2.build()
    apply(model, "transformer.h.0..5.mlp:each")
    block = model.get_submodule("transformer.h.0")
    assert len(pickle.dumps(block)) < 2 * len(pickle.dumps(block.state_dict()))
    copied = copy.deepcopy(model)
    copied.activation_checkpointing_enable()
    GPT2.loss(model)()
    with pytest.raises(UnsupportedPlacementError, match=r"transformer\.h\.0 was told"):
        GPT2.loss(copied)()


def test_a_placed_block_keeps_no_model_alive() -> None:
    model = GPT2.build()
    apply(model, "transformer.h.0..5.mlp:each")
    block, gone = model.get_submodule("transformer.h.0"), weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert block is not None


def test_chains_that_are_not_a_whole_list_say_nothing_of_its_length(tmp_path: Path) -> None:
    of = origin(GPT2.build(), units={"first": ("transformer.h.0", "transformer.h.1"), "last": ("transformer.h.3",)})
    path = saved(tmp_path, of)
    with pytest.warns(OtherModelWarning) as told:
        apply(GPT2.build(width=64), Placement.load(path))
    assert "units" not in str(told[0].message)
    parts = origin(GPT2.build(), units={f"chain{i}": (f"transformer.h.{i}",) for i in range(6)})
    with pytest.warns(OtherModelWarning) as told:
        apply(GPT2.build(width=64), Placement.load(saved(tmp_path, parts)))
    assert "units" not in str(told[0].message)


def test_other_dropout_and_another_number_of_blocks_are_told(tmp_path: Path) -> None:
    of = origin(GPT2.build(), units={"decoder": tuple(f"transformer.h.{i}" for i in range(6))}, dropout=0.0)
    path = saved(tmp_path, of)
    noisy = GPT2.build()
    noisy.get_submodule("transformer.drop").p = 0.1  # type: ignore[assignment]
    with pytest.warns(OtherModelWarning, match=r"dropout is 0\.1, the study had 0"):
        apply(noisy, Placement.load(path))
    with pytest.warns(
        OtherModelWarning, match=r"transformer\.h has 8 units, the study's had 6.*transformer\.h\.6\.\.7"
    ):
        apply(GPT2.build(layers=8), Placement.load(path))
    quiet = GPT2.build()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apply(quiet, Placement.load(path))


def test_a_fingerprint_is_that_of_the_structure_alone() -> None:
    model = GPT2.build()
    known = fingerprint_of(model)
    with FakeTensorMode():
        assert fingerprint_of(GPT2.build()) == known
    assert fingerprint_of(GPT2.build().to(torch.bfloat16)) == known
    with apply(model, EACH):
        assert fingerprint_of(model) == known
    assert fingerprint_of(GPT2.build(width=64)).digest != known.digest
    assert fingerprint_of(GPT2.build(layers=5)).digest != known.digest


def test_another_class_of_equal_shape_is_another_model() -> None:
    first, second = nn.Sequential(nn.ReLU()), nn.Sequential(nn.GELU())
    assert fingerprint_of(first).digest != fingerprint_of(second).digest


def test_a_study_records_a_fingerprint_as_texts() -> None:
    known = fingerprint_of(GPT2.build())
    assert Fingerprint.of_recorded({"git_commit": "abc"} | known.recorded()) == known
    assert Fingerprint.of_recorded({"git_commit": "abc"}) is None
