"""Files on a disk, whose pages come and go as they are told to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import cachewise

PAGE = cachewise.PAGE_SIZE


@pytest.fixture(autouse=True)
def on_a_disk(tmp_path: Path) -> None:
    """Files in memory only have nowhere to be evicted to."""
    file = tmp_path / "probe"
    file.write_bytes(bytes(PAGE))
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
    try:
        gone = cachewise.evict(file, sync=True).after_pages == 0
    except cachewise.ResidencyUnknown as unknown:
        pytest.skip(f"{tmp_path}: {unknown}")
    file.unlink()
    if not gone:
        pytest.skip(f"{tmp_path} is in memory only: set TMPDIR to a directory on a disk")


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """Makes a file of so many pages, of which the first so many are resident."""

    def made(name: str, pages: int, resident: int) -> Path:
        path = tmp_path / name
        path.write_bytes(os.urandom(pages * PAGE))
        cachewise.evict(path, sync=True)
        if resident:
            cachewise.warm(path, 0, resident * PAGE)
        told = cachewise.residency(path)
        assert (told.total_pages, told.resident_pages) == (pages, resident), "as it was wished"
        return path

    return made
