"""Residency is saved and restored."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import cachewise
from cachewise import PAGE_SIZE, snapshot

Make = Callable[..., Path]
Resident = Callable[[Path], set[int]]


def test_what_was_resident_is_restored_and_no_more(make: Make, tmp_path: Path, resident: Resident) -> None:
    paths = [make("one", 64, 16), make("two", 64, 64), make("three", 64, 0)]
    before = [resident(path) for path in paths]
    pages = sum(map(len, before))
    file = tmp_path / "db.snap"
    saved = snapshot.save(file, tmp_path, exclude="probe")
    assert (saved.files, saved.pages, saved.empty_files) == (2, pages, 1), f"{saved}: not of the snapshot itself"
    entries = {entry.path: entry for entry in snapshot.entries(file)}
    for path, known in zip(paths[:2], before, strict=False):
        entry = entries[str(path)]
        assert entry.size_bytes == 64 * PAGE_SIZE
        assert sum(length for _, length in entry.ranges) == len(known) * PAGE_SIZE, f"{entry}"
    cachewise.evict_tree(*paths)
    restored = snapshot.restore(file, threads=2)
    assert (restored.files, restored.pages) == (2, pages), f"{restored}"
    assert restored.read_bytes == pages * PAGE_SIZE == restored.inserted_pages * PAGE_SIZE, f"{restored}"
    assert [resident(path) for path in paths] == before, "to the page"
    again = snapshot.restore(file)
    assert (again.read_bytes, again.before_pages) == (0, pages), f"nothing is read twice: {again}"


def test_files_that_changed_or_vanished_are_left_alone(make: Make, tmp_path: Path, resident: Resident) -> None:
    changed, gone = make("changed", 16, 16), make("gone", 16, 16)
    file = tmp_path / "snap"
    snapshot.save(file, changed, gone)
    gone.unlink()
    os.utime(changed, (1, 1))
    cachewise.evict(changed)
    restored = snapshot.restore(file)
    assert (restored.files, restored.changed_files, restored.vanished_files) == (0, 1, 1), f"{restored}"
    assert resident(changed) == set()
    restored = snapshot.restore(file, anyway=True, max_bytes=4 * PAGE_SIZE)
    assert restored.files == 1 and resident(changed) == set(range(4)), "the first pages, although it changed"


def test_what_is_no_snapshot_is_an_error(make: Make, tmp_path: Path) -> None:
    path = make("file", 1, 1)
    missing = tmp_path / "missing"
    for call in (snapshot.restore, snapshot.entries):
        with pytest.raises(ValueError, match="no snapshot of cachewise"):
            call(path)
        with pytest.raises(FileNotFoundError) as raised:
            call(missing)
        assert raised.value.filename == str(missing)
    with pytest.raises(ValueError, match="something else of this name"):
        snapshot.save(path, path)
    with pytest.raises(FileNotFoundError):
        snapshot.save(missing / "snap", path)
    with pytest.raises(FileNotFoundError):
        snapshot.save(tmp_path / "snap", missing)
    with pytest.raises(TypeError, match="needs a file or a directory"):
        snapshot.save(tmp_path / "snap")
    whole = tmp_path / "whole"
    snapshot.save(whole, path)
    cut = tmp_path / "cut"
    cut.write_bytes(whole.read_bytes()[:-5])
    with pytest.raises(ValueError, match="cut off"):
        snapshot.restore(cut)
