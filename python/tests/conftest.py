"""Files on a disk, whose pages come and go as they are told to."""

from __future__ import annotations

import ctypes
import mmap
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


def pages_resident_or_reclaimed(path: Path) -> int:
    told = cachewise.residency(path)
    # Without a kernel that tells which pages reclaim took, none may have been taken.
    return told.resident_pages + (told.evicted_pages or 0)


@pytest.fixture
def resident_or_reclaimed() -> Callable[[Path], int]:
    """Pages of a file that are resident, or were until reclaim.

    Reclaimers, as that of DAMON, evict pages of any age at any moment. The kernel remembers reclaimed pages, and not
    pages evicted by advice: a page that is missing in this number was evicted by advice.
    """
    return pages_resident_or_reclaimed


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """Makes a file with this number of pages, of which the first `resident` are resident."""

    def made(name: str, pages: int, resident: int) -> Path:
        path = tmp_path / name
        path.write_bytes(os.urandom(pages * PAGE))
        # A page that the kernel is looking at this very moment stays, and goes the next time.
        tries = (cachewise.evict(path, sync=True) for _ in range(10))
        assert any(evicted.after_pages == 0 for evicted in tries), "nothing of it is resident at first"
        if resident:
            cachewise.warm(path, 0, resident * PAGE)
        assert cachewise.residency(path).total_pages == pages, "as long as it was wished"
        assert pages_resident_or_reclaimed(path) == resident, "and as much of it resident"
        return path

    return made


class Oracle:
    """Residency by ``mincore(2)``, without this package."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.mmap.restype = ctypes.c_void_p
        arguments = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        self.libc.mmap.argtypes = arguments
        self.libc.munmap.argtypes = arguments[:2]
        self.libc.mincore.argtypes = [*arguments[:2], ctypes.c_void_p]

    def __call__(self, path: Path) -> set[int]:
        """The numbers of the resident pages."""
        size = path.stat().st_size
        pages = (ctypes.c_ubyte * -(-size // PAGE))()
        number = os.open(path, os.O_RDONLY | os.O_NOATIME)
        try:
            address = self.libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, number, 0)
        finally:
            os.close(number)
        assert address != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
        assert self.libc.mincore(address, size, pages) == 0, os.strerror(ctypes.get_errno())
        assert self.libc.munmap(address, size) == 0
        return {page for page, told in enumerate(pages) if told & 1}


@pytest.fixture
def resident() -> Oracle:
    """Says which pages of a file are resident, without this package."""
    return Oracle()
