"""What `device=auto` becomes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.cli import device
from bench.cli.device import cuda_device_visible, device_kind, usable_cores


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.shutil, "which", lambda _: None)


def test_a_device_file_is_a_device(tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    assert cuda_device_visible({}, tmp_path)
    assert cuda_device_visible({"CUDA_VISIBLE_DEVICES": "0"}, tmp_path)


def test_a_control_file_alone_is_no_device(tmp_path: Path) -> None:
    (tmp_path / "nvidiactl").touch()
    assert not cuda_device_visible({}, tmp_path)


@pytest.mark.parametrize("hidden", ["", " ", "-1"])
def test_a_hidden_device_is_not_there(tmp_path: Path, hidden: str) -> None:
    (tmp_path / "nvidia0").touch()
    assert not cuda_device_visible({"CUDA_VISIBLE_DEVICES": hidden}, tmp_path)


@pytest.mark.parametrize(
    ("build", "visible", "kind"),
    [(True, True, "cuda"), (True, False, "cpu"), (False, True, "cpu"), (False, False, "cpu")],
)
def test_auto_needs_a_device_and_a_torch_that_can_use_it(
    monkeypatch: pytest.MonkeyPatch, build: bool, visible: bool, kind: str
) -> None:
    monkeypatch.setattr(device, "torch_has_cuda", lambda: build)
    monkeypatch.setattr(device, "cuda_device_visible", lambda: visible)
    assert device_kind("auto") == kind


@pytest.mark.parametrize(("version", "cuda"), [("2.13.0+cpu", False), ("2.13.0", True), ("2.11.0+cu128", True)])
def test_cpu_builds_of_torch_are_known_by_their_version(
    monkeypatch: pytest.MonkeyPatch, version: str, cuda: bool
) -> None:
    monkeypatch.setattr(device.importlib.metadata, "version", lambda _: version)
    assert device.torch_has_cuda() == cuda


def test_a_named_device_is_taken_as_it_is() -> None:
    assert [device_kind("cpu"), device_kind("cuda")] == ["cpu", "cuda"]


def test_usable_cores_are_those_this_process_may_run_on() -> None:
    assert usable_cores() == len(os.sched_getaffinity(0))
