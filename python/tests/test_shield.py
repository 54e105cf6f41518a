"""A shield drops what a scan inserted, and nothing else."""

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
Resident = Callable[[Path], set[int]]
MIB = 1 << 20


def test_pages_resident_before_stay_and_inserted_pages_go(make: Make, tmp_path: Path, resident: Resident) -> None:
    paths = [make(f"file{number}", 512, number * 100) for number in range(4)]
    before = [resident(path) for path in paths]
    with cachewise.shield([tmp_path]) as shield:
        for path in paths:
            path.read_bytes()
    for path, pages in zip(paths, before, strict=True):
        after = resident(path)
        # Reclaim may take a page at any moment; a page that was not there before is gone.
        assert after <= pages, f"{path}: nothing new"
    report = shield.report
    known = sum(map(len, before))
    assert (report.files, report.before_pages) == (4, known), f"{report}"
    assert report.inserted_pages >= 4 * 512 - known, f"all of the others: {report}"
    assert report.dropped_pages == report.inserted_pages and report.kept_pages == 0, f"{report}"
    assert report.dropped_bytes == report.dropped_pages * PAGE_SIZE
    assert report.skipped == [] and report.changed_files == 0, f"{report}"


def test_no_page_of_before_is_dropped_however_files_are_read(make: Make, resident: Resident) -> None:
    path = make("file", 4096, 0)
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for page in range(0, 4096, 97):
            os.pread(file.fileno(), 1, page * PAGE_SIZE)
    before = resident(path)
    told = cachewise.residency(path)
    with cachewise.shield([path]) as shield:
        with shield.open(path) as opened:
            while opened.read(777_777):
                pass
    # A page that is gone, and that the kernel does not remember as reclaimed, would have been dropped.
    after = cachewise.residency(path)
    gone = before - resident(path)
    reclaimed = (after.evicted_pages or 0) - (told.evicted_pages or 0)
    assert len(gone) <= max(reclaimed, 0), f"pages of before are gone: {gone}"
    assert resident(path) <= before, "and nothing else is left"


def test_files_are_dropped_one_by_one_while_they_are_iterated_over(make: Make, resident: Resident) -> None:
    paths = {str(make(f"file{number}", 64, 0)) for number in range(3)}
    left: list[set[int]] = []
    last: Path | None = None
    with cachewise.shield(sorted(paths)) as shield:
        for path in shield:
            if last is not None:
                left.append(resident(last))
            last = Path(path)
            assert last.read_bytes(), "it has content"
            paths.remove(path)
    assert not paths, "each file once"
    assert left == [set(), set()], "the one before is gone when the next one comes"
    assert last is not None and resident(last) == set(), "and the last one at the end"


def test_a_file_is_dropped_behind_its_reads(
    make: Make, resident: Resident, resident_or_reclaimed: Callable[[Path], int]
) -> None:
    size = 64 * MIB
    path = make("file", size // PAGE_SIZE, 0)
    content = path.read_bytes()
    cachewise.evict(path)
    most = 0
    read = bytearray()
    with cachewise.shield([path]) as shield, shield.open(path) as file:
        # Readahead in front of the reader is the device's.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        while data := file.read(MIB):
            read += data
            most = max(most, len(resident(path)))
    assert read == content, "the bytes are those of the file"
    # 8 MiB are read in sequence before they are dropped, and one folio of 2 MiB may lie at the end of them.
    assert most * PAGE_SIZE <= 12 * MIB, f"{most} pages at once"
    assert resident(path) == set(), "and none at the end"
    pages = shield.report.dropped_pages + resident_or_reclaimed(path)
    assert pages >= size // PAGE_SIZE, f"each page is dropped, or was reclaimed before: {shield.report}"


def test_a_reader_that_comes_back_is_not_dropped_again(make: Make, resident: Resident) -> None:
    path = make("file", 24 * MIB // PAGE_SIZE, 0)
    with cachewise.shield([path]) as shield:
        with shield.open(path) as file:
            file.read()
            file.seek(0)
            file.read()
        assert resident(path), "the second pass keeps its pages"
    assert resident(path) == set(), "until the shield ends"


def test_a_part_can_be_dropped(make: Make, resident: Resident) -> None:
    path = make("file", 8192, 0)
    with cachewise.shield([path]) as shield:
        path.read_bytes()
        half = 4096 * PAGE_SIZE
        for offset in range(0, half, 333 * PAGE_SIZE):
            shield.passed(path, offset, min(333 * PAGE_SIZE, half - offset))
        left = resident(path)
        assert not {page for page in left if page < 4096}, "no folio between two parts is left"
        assert len(left) > 2048, "and the other half is there"


def test_mapped_and_dirty_pages_stay(make: Make, resident: Resident) -> None:
    path = make("mapped", 64, 0)
    with path.open("rb") as file, cachewise.shield([path]) as shield:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            assert len(mapped[: 8 * PAGE_SIZE]) == 8 * PAGE_SIZE
            path.read_bytes()
            shield.passed(path)
            assert resident(path) >= set(range(8)), "mapped pages are in use"
            assert shield.report.kept_pages >= 8, f"{shield.report}"
    assert resident(path) == set(), "unmapped, they go"


def test_a_file_that_is_written_meanwhile_is_left_alone(make: Make, resident: Resident) -> None:
    path = make("file", 16, 0)
    with cachewise.shield([path]) as shield:
        with path.open("ab") as file:
            file.write(bytes(PAGE_SIZE))
            file.flush()
            os.fsync(file.fileno())
        path.read_bytes()
    assert len(resident(path)) == 17, "its pages are those of the writer"
    assert shield.report.changed_files == 1, f"{shield.report}"
    other = make("other", 16, 0)
    with cachewise.shield([path]) as shield:
        os.rename(other, path)
        path.read_bytes()
    assert len(resident(path)) == 16, "nor is another file of the same name touched"


def test_files_that_vanish_are_no_error(make: Make) -> None:
    paths = [make(name, 16, 0) for name in ("one", "two")]
    with cachewise.shield(paths) as shield:
        paths[0].unlink()
        shield.passed(paths[0])
        paths[1].read_bytes()
    assert shield.report.skipped == [] and shield.report.dropped_pages >= 16, f"{shield.report}"


def test_what_cannot_be_looked_at_is_left_alone(make: Make, tmp_path: Path) -> None:
    path, missing = make("file", 16, 0), tmp_path / "missing"
    with cachewise.shield([missing, path]) as shield:
        path.read_bytes()
    (skipped,) = shield.report.skipped
    assert isinstance(skipped, FileNotFoundError) and skipped.filename == str(missing), "with its path"
    assert shield.report.dropped_pages >= 16, "and the other one is dropped"
    with pytest.raises(ValueError, match="not a file of this shield"):
        shield.passed(tmp_path)
    with pytest.raises(ValueError, match="not a file of this shield"):
        shield.open(make("other", 1, 0))
    with pytest.raises(FileNotFoundError):
        shield.open(missing)
    with pytest.raises(TypeError, match="several paths"):
        cachewise.shield(str(path))
    with pytest.raises(TypeError, match="expected a path"):
        cachewise.shield([1.5])  # type: ignore[list-item]


def test_an_exception_in_the_scan_goes_to_the_caller_and_pages_are_dropped(make: Make, resident: Resident) -> None:
    path = make("file", 64, 0)
    with pytest.raises(KeyError), cachewise.shield([path]):
        path.read_bytes()
        raise KeyError("of the scan")
    assert resident(path) == set()


def test_several_threads_read_under_one_shield(make: Make, resident: Resident) -> None:
    paths = [make(f"file{number}", 2048, 0) for number in range(4)]
    with cachewise.shield(paths) as shield:

        def read(path: Path) -> None:
            with shield.open(path) as file:
                assert len(file.read()) == 2048 * PAGE_SIZE

        threads = [threading.Thread(target=read, args=[path]) for path in paths]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [resident(path) for path in paths] == [set()] * 4
    assert shield.report.dropped_pages >= 4 * 2048, f"{shield.report}"


def test_other_names_of_a_file_are_known(make: Make, tmp_path: Path, resident: Resident) -> None:
    path = make("file", 64, 0)
    os.symlink(path, tmp_path / "link")
    os.link(path, tmp_path / "second")
    with cachewise.shield([path]) as shield:
        for name in ("link", "second"):
            (tmp_path / name).read_bytes()
            shield.passed(tmp_path / name)
            assert resident(path) == set(), name
        with path.open("rb") as file:
            file.read()
            shield.passed(file.fileno())
            assert resident(path) == set(), "by descriptor"
