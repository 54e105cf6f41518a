"""Files of FUSE: no call that only looks changes what is resident of them."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import cachewise
from cachewise import PAGE_SIZE

PAGES = 64


@pytest.fixture(params=[[], ["-o", "kernel_cache"], ["-o", "auto_cache"]], ids=str)
def mounted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file seen through bindfs."""
    if os.geteuid() != 0 or shutil.which("bindfs") is None:
        pytest.skip("a file system of FUSE: needs root and bindfs")
    source, place = tmp_path / "source", tmp_path / "place"
    source.mkdir()
    place.mkdir()
    (source / "file").write_bytes(os.urandom(PAGES * PAGE_SIZE))
    subprocess.run(["bindfs", "--no-allow-other", *request.param, source, place], check=True)
    try:
        yield place / "file"
    finally:
        subprocess.run(["umount", "-l", place], check=True)


class Mapping:
    """Another reader of the file, which has it mapped, locked against reclaim, and counts what is resident."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("rb")
        self.map = mmap.mmap(self.file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.libc = ctypes.CDLL(None, use_errno=True)
        # Read, not written: the pages are those of the page cache. A lock would write, and so copy them.
        assert sum(self.map[:: PAGE_SIZE]) >= 0

    def resident(self) -> int:
        told = (ctypes.c_ubyte * PAGES)()
        length = ctypes.c_size_t(PAGES * PAGE_SIZE)
        assert self.libc.mincore(ctypes.c_void_p(self.address), length, told) == 0
        return sum(page & 1 for page in told)


def test_looking_drops_no_page(mounted: Path) -> None:
    mapping = Mapping(mounted)
    before = mapping.resident()
    assert before > PAGES // 2, "it was just read"

    def looks() -> Iterator[object]:
        for call in (cachewise.residency, cachewise.ranges):
            with pytest.raises(cachewise.ResidencyUnknown) as raised:
                call(mounted)
            yield raised.value.reason
        yield cachewise.order([mounted])
        for root in (mounted, mounted.parent):
            yield [entry.reason for entry in cachewise.walk(root)]
        yield list(cachewise.CacheAwareSampler([mounted]))
        yield cachewise.residency(mapping.file).total_pages

    expected = ["fuse_not_opened"] * 2 + [[mounted]] + [["fuse_not_opened"]] * 2 + [[0], PAGES]
    for found, wanted in zip(looks(), expected, strict=True):
        assert found == wanted
        # A reclaimer may take a page; opening drops all.
        assert mapping.resident() > before // 2, f"{found} drops nothing"
    told = cachewise.residency(mapping.file)
    assert told.resident_pages > 0, "an open file is asked as any other"


def test_a_file_that_is_read_is_opened(mounted: Path) -> None:
    content = mounted.read_bytes()
    assert b"".join(block.data for block in cachewise.scan([mounted], mode="fixed")) == content
    assert cachewise.warm(mounted).total_pages == PAGES
    assert cachewise.evict(mounted).after_pages == 0, "and can be evicted"
