"""What is resident, of files and trees."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import cachewise
from cachewise import PAGE_SIZE

Make = Callable[..., Path]
#: Python has no name for it: reclaim these pages now.
MADV_PAGEOUT = 21


def test_residency_is_exact(make: Make) -> None:
    path = make("file", 64, 16)
    told = cachewise.residency(path)
    assert told.resident_bytes == 16 * PAGE_SIZE, "pages in bytes"
    assert told.resident_ratio == 0.25, "a part of all"
    assert told.source in ("cachestat", "mincore"), "who told"
    assert cachewise.residency(path, 8 * PAGE_SIZE).resident_pages == 8, "from there to the end"
    part = cachewise.residency(path, 8 * PAGE_SIZE, 4 * PAGE_SIZE)
    assert (part.total_pages, part.resident_pages) == (4, 4), "a part"
    assert cachewise.ranges(path) == [(0, 16 * PAGE_SIZE)], "which part it is"


def test_what_reclaim_took_is_told_from_what_was_put_out(make: Make, resident_or_reclaimed: Callable[[Path], int]) -> None:
    path = make("file", 64, 64)
    if cachewise.residency(path).evicted_pages is None:
        pytest.skip("the kernel does not say what reclaim took")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        # MADV_PAGEOUT skips pages that no process maps.
        assert len(mapped[::PAGE_SIZE]) == 64
        mapped.madvise(MADV_PAGEOUT)
    told = cachewise.residency(path)
    assert (told.evicted_pages or 0) > 0, f"reclaimed: {told}"
    assert resident_or_reclaimed(path) == 64, "which the kernel remembers"
    cachewise.evict(path, 0, 16 * PAGE_SIZE)
    assert resident_or_reclaimed(path) == 48, "and forgets where it is put out"


def test_every_way_to_name_a_file(make: Make) -> None:
    path = make("file", 8, 8)
    whole = cachewise.residency(path)
    assert cachewise.residency(str(path)) == whole, "str"
    assert cachewise.residency(os.fsencode(path)) == whole, "bytes"
    with path.open("rb") as file:
        assert cachewise.residency(file) == whole, "an open file"
        assert cachewise.residency(file.fileno()) == whole, "a descriptor"
        assert file.tell() == 0, "which is where it was"
        path.unlink()
        assert cachewise.residency(file) == whole, "that has no name any more"


def test_an_empty_file_has_no_ratio(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    told = cachewise.residency(path)
    assert (told.total_pages, told.resident_pages) == (0, 0), "nothing"
    assert told.resident_ratio is None, "neither 0 nor 1"
    assert cachewise.ranges(path) == [], "of nothing"


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"\xff\n")
    Path(os.fsdecode(path)).write_bytes(b"x")
    assert cachewise.residency(path).total_pages == 1, "bytes as they are"
    (entry,) = cachewise.walk(tmp_path)
    assert os.fsencode(entry.path) == path, "and back again"


def test_walk_meets_every_file_once(make: Make, tmp_path: Path) -> None:
    wanted = {str(make(f"file{number}", 4, number)): number for number in range(5)}
    os.link(tmp_path / "file1", tmp_path / "other-name-of-file1")
    os.symlink("file2", tmp_path / "link")
    os.mkfifo(tmp_path / "fifo")
    found = list(cachewise.walk(tmp_path))
    assert len(found) == 5, "neither a second name nor a link nor a FIFO"
    for entry in found:
        name = entry.path.replace("other-name-of-", "")
        assert entry.residency is not None, "it is ours"
        assert entry.residency.resident_pages == wanted[name], name
        assert entry.size_bytes == 4 * PAGE_SIZE, "its size"
    some = cachewise.walk(tmp_path, include=["*2", "*3"], exclude="*3")
    assert [os.path.basename(entry.path) for entry in some] == ["file2"], "by patterns"


def test_walk_says_what_it_could_not_look_at(make: Make, tmp_path: Path) -> None:
    path = make("file", 1, 1)
    missing = tmp_path / "missing"
    errors: list[OSError] = []
    found = list(cachewise.walk(missing, path, onerror=errors.append))
    assert [entry.path for entry in found] == [str(path)], "the other one is there"
    assert [error.filename for error in errors] == [str(missing)], "and what is not"
    walk = cachewise.walk(missing, path)
    assert next(walk).path == str(path), "what can be looked at comes first"
    with pytest.raises(FileNotFoundError):
        next(walk)
    assert list(walk) == [], "once"


def test_a_walk_can_be_left(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / str(number)).touch()
    before = threading.active_count()
    with cachewise.walk(tmp_path) as walk:
        next(walk)
    assert list(walk) == [], "it has ended"
    for entry in cachewise.walk(tmp_path):
        assert entry.residency is not None
        break
    assert threading.active_count() == before, "and left no thread of Python's"


def test_other_threads_go_on(make: Make) -> None:
    path = make("file", 1024, 1024)
    went = threading.Event()
    ended = threading.Event()

    def count() -> None:
        while not ended.is_set():
            went.set()

    thread = threading.Thread(target=count)
    thread.start()
    try:
        for _ in range(200):
            cachewise.ranges(path)
        assert went.is_set(), "the lock was given to the other thread"
    finally:
        ended.set()
        thread.join()


def test_names_that_are_no_text_can_be_written(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/a\xff\xc3\xa4"
    with open(path, "wb") as file:
        file.write(b"x")
    (entry,) = cachewise.walk(tmp_path, include=["a*"])
    assert os.fsencode(entry.path) == path, "the path opens the file"
    with pytest.raises(UnicodeEncodeError):
        entry.path.encode()
    text = cachewise.printable(entry.path)
    assert text.encode().decode() == text == f"{tmp_path}/a\\xff\u00e4", "and as text it can be stored"
    assert cachewise.printable(path) == text, "of bytes, too"
