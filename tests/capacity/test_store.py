"""A capacity directory: written by line, read whatever a kill left of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.capacity.store import (
    PROBES_FILE,
    CapacityWriter,
    capacity_path,
    is_capacity,
    parse_capacity_record,
    read_answer,
    read_capacity_records,
    read_spec,
    write_answer,
    write_spec,
)
from bench.capacity.summary import summarise
from bench.capacity.types import Expected, Probe, Starting
from bench.records import DamagedStudyError
from tests.capacity.capacities import make_spec


def written(directory: Path) -> CapacityWriter:
    writer = CapacityWriter(directory)
    writer.write(Starting, work="probe", placement="none", size=4)
    writer.write(Expected, placement="none", size=4, peak_allocated_bytes=None, reason="why")
    writer.write(Probe, placement="none", size=4, accumulation=1, outcome="fits", stage="end", peak_allocated_bytes=7)
    return writer


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    writer = written(tmp_path)
    assert read_capacity_records(tmp_path).entries == writer.records.entries
    assert [type(entry).__name__ for entry in writer.records.entries] == ["Starting", "Expected", "Probe"]


def test_a_second_writer_goes_on_after_the_first(tmp_path: Path) -> None:
    written(tmp_path).close()
    assert len(CapacityWriter(tmp_path).records.entries) == 3
    assert len(written(tmp_path).records.entries) == 6


def test_a_torn_last_line_is_named_and_costs_nothing_else(tmp_path: Path) -> None:
    written(tmp_path).close()
    path = tmp_path / PROBES_FILE
    path.write_bytes(path.read_bytes()[:-20])
    records = read_capacity_records(tmp_path)
    assert (len(records.entries), records.damaged_lines) == (2, (3,))
    CapacityWriter(tmp_path).write(Starting, work="time")
    records = read_capacity_records(tmp_path)
    assert (len(records.entries), records.damaged_lines) == (3, (3,))


@pytest.mark.parametrize(
    "line",
    [b"", b"{}", b"[]", b"null", b'{"v":1}', b'{"v":1,"kind":"no-such"}', b'{"v":1,"kind":"starting"}',
     b'{"v":99,"kind":"starting","unix_time_s":1.0,"work":"probe"}'],
)  # fmt: skip
def test_what_is_no_record_of_this_version_is_none(line: bytes) -> None:
    assert parse_capacity_record(line) is None


def test_spec_and_answer_come_back_as_they_were_written(tmp_path: Path) -> None:
    spec = make_spec()
    directory = capacity_path(tmp_path, spec)
    assert directory.name == f"toy-capacity-{spec.key[:8]}"
    assert not is_capacity(directory)
    write_spec(directory, spec)
    assert is_capacity(directory)
    assert read_spec(directory) == spec
    answer = summarise(spec, read_capacity_records(directory))
    write_answer(directory, answer)
    assert read_answer(directory) == answer


def test_what_is_no_capacity_directory_is_said(tmp_path: Path) -> None:
    with pytest.raises(DamagedStudyError, match=r"no capacity\.json"):
        read_spec(tmp_path)
    (tmp_path / "capacity.json").write_text("{")
    with pytest.raises(DamagedStudyError, match=r"capacity\.json: not JSON"):
        read_spec(tmp_path)
    (tmp_path / "capacity.json").write_text('{"schema_version": 7}')
    with pytest.raises(DamagedStudyError, match="schema_version 7, expected 1"):
        read_spec(tmp_path)
