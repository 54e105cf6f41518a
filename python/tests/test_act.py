"""Bringing in and putting out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import cachewise
from cachewise import PAGE_SIZE

Make = Callable[..., Path]


def test_warm_brings_in_what_is_missing(make: Make) -> None:
    path = make("file", 64, 16)
    warmed = cachewise.warm(path, threads=2)
    assert (warmed.total_pages, warmed.before_pages, warmed.after_pages) == (64, 16, 64), "all of it"
    assert warmed.inserted_pages == warmed.brought_in_pages == 48, "only what was missing"
    assert warmed.read_bytes == 48 * PAGE_SIZE, "was read"
    assert (warmed.short, warmed.reason) == (None, None), "and nothing is wrong"


def test_holes_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(64 * PAGE_SIZE)
    warmed = cachewise.warm(path)
    assert (warmed.hole_pages, warmed.read_bytes) == (64, 0), "nothing is stored there"


def test_evict_puts_out_a_part(make: Make) -> None:
    path = make("file", 64, 64)
    with path.open("rb") as file:
        evicted = cachewise.evict(file, 32 * PAGE_SIZE)
    stayed = evicted.stayed
    assert evicted.total_pages == 32 and stayed is not None
    # A large folio that reaches over the edge goes as a whole or not at all.
    assert evicted.went_pages == evicted.evicted_pages == 32 - stayed.edge_pages - stayed.other_pages, f"{evicted}"
    assert cachewise.residency(path, 0, 16 * PAGE_SIZE).resident_pages == 16, "the rest is there"
    assert cachewise.evict(path).after_pages == 0, "and then none"


def test_dirty_pages_stay_unless_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "dirty"
    path.write_bytes(bytes(8 * PAGE_SIZE))
    first = cachewise.evict(path)
    assert first.stayed is not None
    total = first.stayed.dirty_pages + first.stayed.writeback_pages + first.stayed.other_pages
    assert first.after_pages == total, f"what stayed has a reason: {first}"
    assert cachewise.evict(path, sync=True).after_pages == 0, "written, they go"
    assert path.read_bytes() == bytes(8 * PAGE_SIZE), "and nothing is lost"


def test_a_directory_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    for name, call in [("warm", cachewise.warm), ("evict", cachewise.evict)]:
        for path in (tmp_path, str(tmp_path), bytes(tmp_path)):
            with pytest.raises(IsADirectoryError, match=f"walk\\(path\\): {name}") as raised:
                call(path)
            assert raised.value.filename == str(tmp_path), "with the path"


def test_the_earlier_name_of_total_pages_stays(make: Make) -> None:
    path = make("file", 3, 3)
    warmed, evicted = cachewise.warm(path), cachewise.evict(path)
    assert (warmed.pages, evicted.pages) == (warmed.total_pages, evicted.total_pages) == (3, 3)
