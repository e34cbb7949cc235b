"""Whatever ends a write, what was there before is there after it, and the error says what to do."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.records import RoundDone, TimeSample, read_records, read_study, write_study
from bench.records.directory import RecordWriter
from bench.records.write import CannotWriteError, LineWriter, cannot_write, make_directory, replace_text, write_json
from tests.builders import make_records, make_study

RECORDS = make_records({"none": [100.0, 101.0]}, {"none": 900}).entries
LINES = b'{"a":1}\n{"a":2}\n'


def full(path: Path) -> Path:
    """`path` on a disk that is full."""
    path.symlink_to("/dev/full")
    return path


def temporary(path: Path) -> Path:
    """Where `replace_text` writes before it replaces `path`."""
    return path.with_name(f".{path.name}.{os.getpid()}")


@pytest.fixture
def small_files() -> Iterator[int]:
    """No file of this process may be longer than this: a write that crosses it is cut in two, as by a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    yield 4096
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_record_that_does_not_fit_leaves_no_half_line(tmp_path: Path, small_files: int) -> None:
    writer = RecordWriter(tmp_path)
    path = tmp_path / "samples.jsonl"
    whole = 0
    with pytest.raises(CannotWriteError) as error:  # noqa: PT012
        while True:
            writer.append(RECORDS[whole % len(RECORDS)])
            whole += 1
    assert error.value.errno == errno.EFBIG
    assert f"{path}: cannot be written (File too large); raise the limit on the size of files" in str(error.value)
    assert "what was measured stays, and the same command goes on from there" in str(error.value)
    assert path.stat().st_size > small_files - 1000, "nearly full"
    assert path.read_bytes().endswith(b"\n")
    records = read_records(tmp_path)
    assert (len(records.entries), records.damaged_lines) == (whole, ())


def test_records_written_together_are_all_there_or_none(tmp_path: Path, small_files: int) -> None:
    writer = RecordWriter(tmp_path)
    writer.append(RECORDS[0])
    with pytest.raises(CannotWriteError):
        writer.append_all(RECORDS * 20)
    assert read_records(tmp_path).entries == RECORDS[:1]


def test_a_writer_goes_on_once_there_is_room(tmp_path: Path, small_files: int) -> None:
    writer = RecordWriter(tmp_path)
    with pytest.raises(CannotWriteError):
        writer.append_all(RECORDS * 20)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    writer.append_all(RECORDS * 20)
    assert read_records(tmp_path).entries == RECORDS * 20


def test_a_full_disk_is_told_with_what_to_do(tmp_path: Path) -> None:
    full(tmp_path / "samples.jsonl")
    with pytest.raises(
        CannotWriteError, match=r"samples\.jsonl: cannot be written \(No space left on device\); make room"
    ):
        RecordWriter(tmp_path).append(RECORDS[0])


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EDQUOT, "make room within the quota"),
        (errno.EROFS, r"make the folder writable, or measure into another folder \(results=FOLDER\)"),
        (errno.EACCES, "make the folder writable"),
        (errno.EIO, "see to the folder"),
    ],
)
def test_every_reason_has_its_remedy(number: int, remedy: str) -> None:
    error = cannot_write(Path("results/x/study.json"), OSError(number, os.strerror(number)))
    assert isinstance(error, OSError)
    assert (error.errno, error.filename) == (number, "results/x/study.json")
    with pytest.raises(CannotWriteError, match=remedy):
        raise error


@pytest.mark.parametrize("name", ["study.json", "environment.json", "frontier.json", "frontier.csv"])
def test_a_file_that_cannot_be_replaced_stays_as_it_was(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_json(path, {"measured": 1})
    before = path.read_bytes()
    full(temporary(path))
    with pytest.raises(CannotWriteError, match="No space left on device"):
        replace_text(path, "x" * 10_000)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [name], "nothing half-written lies about"


def test_a_study_that_cannot_be_extended_is_the_study_it_was(tmp_path: Path) -> None:
    write_study(tmp_path, make_study())
    full(temporary(tmp_path / "study.json"))
    with pytest.raises(CannotWriteError):
        write_study(tmp_path, make_study(("none",)))
    assert read_study(tmp_path) == make_study()


def test_a_folder_that_may_not_be_written_to_is_told() -> None:
    # Not even root makes a folder there.
    with pytest.raises(CannotWriteError, match=r"/proc/self/results: cannot be written \("):
        make_directory(Path("/proc/self/results"))


def test_a_file_where_a_folder_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "results").touch()
    for directory in (tmp_path / "results", tmp_path / "results" / "gpt2-12345678"):
        with pytest.raises(CannotWriteError, match="move away the file that stands where a folder should be"):
            make_directory(directory)


def test_a_folder_where_a_file_should_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").mkdir()
    (tmp_path / "study.json").mkdir()
    with pytest.raises(CannotWriteError, match="move away the folder that has this name"):
        RecordWriter(tmp_path)
    with pytest.raises(CannotWriteError, match="move away the folder that has this name"):
        write_study(tmp_path, make_study())


def test_a_file_deleted_under_its_writer_is_put_back_whole(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path)
    writer.append_all(RECORDS[:3])
    (tmp_path / "samples.jsonl").unlink()
    with pytest.raises(CannotWriteError, match="was deleted while it was written to; it has been put back whole"):
        writer.append(RECORDS[3])
    assert read_records(tmp_path).entries == RECORDS[:4], "the record at hand too"


def test_a_file_moved_or_replaced_under_its_writer_is_told(tmp_path: Path) -> None:
    path, away = tmp_path / "lines", tmp_path / "away"
    writer = LineWriter(path)
    writer.append(LINES)
    path.rename(away)
    with pytest.raises(CannotWriteError, match="was moved or replaced while it was written to; put it back"):
        writer.append(LINES)
    path.write_bytes(b"somebody else's\n")
    with pytest.raises(CannotWriteError, match="was moved or replaced"):
        writer.append(LINES)
    assert (away.read_bytes(), path.read_bytes()) == (LINES, b"somebody else's\n")


def test_a_file_cut_under_its_writer_is_told(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    writer = LineWriter(path)
    writer.append(LINES)
    os.truncate(path, 8)
    with pytest.raises(CannotWriteError, match="was cut by 8 bytes while it was written to"):
        writer.append(LINES)
    assert path.read_bytes() == LINES[:8]


def test_a_line_torn_by_a_kill_stays_and_the_next_is_its_own(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_bytes(b'{"kind":"round","exec')
    writer = RecordWriter(tmp_path)
    writer.append_all(RECORDS)
    writer.close()
    records = read_records(tmp_path)
    assert (records.entries, records.damaged_lines) == (RECORDS, (1,))


KILLED_WHILE_WRITING = """
import os, sys, threading, signal
from pathlib import Path
from bench.records import read_records
from bench.records.directory import RecordWriter
writer = RecordWriter(Path(sys.argv[1]))
records = read_records(Path(sys.argv[2])).entries
print("begun", flush=True)
while True:
    writer.append_all(records)
"""


def test_a_kill_while_many_records_are_written_costs_at_most_the_last_of_them(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in (source, target):
        folder.mkdir()
    many = make_records({"none": [float(number) for number in range(1, 200)]}).entries
    RecordWriter(source).append_all(many)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED_WHILE_WRITING, str(target), str(source)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate()
    records = read_records(target)
    assert len(records.damaged_lines) <= 1
    assert records.entries == (many * (1 + len(records.entries) // len(many)))[: len(records.entries)]


def test_damage_in_the_middle_costs_the_damaged_lines_alone(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path)
    writer.append_all(RECORDS)
    writer.close()
    path = tmp_path / "samples.jsonl"
    lines = path.read_bytes().splitlines()
    lines[1] = lines[1][: len(lines[1]) // 2]
    lines[2] = b"\x00" * 40  # as a disk leaves a block that it never wrote
    damage = [
        b"\xff\xfe",
        b"[" * 100_000,
        b"null",
        b"NaN",
        b'{"kind":"no such kind"}',
        b'{"kind":"round","round":"one"}',
    ]
    path.write_bytes(b"\n".join([*lines[:3], *damage, *lines[3:]]) + b"\n")
    records = read_records(tmp_path)
    assert records.entries == RECORDS[:1] + RECORDS[3:]
    assert records.damaged_lines == (2, 3, 4, 5, 6, 7, 8, 9)
    assert len(records.of(TimeSample)) == 1
    assert len(records.of(RoundDone)) == 2
