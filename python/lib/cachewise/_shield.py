"""Dropping behind a scan the pages that it inserted."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from . import _native
from ._errors import checked
from ._native import PAGE_SIZE
from ._order import order
from ._types import Path

#: Bytes that a :class:`ShieldedFile` reads in sequence before it drops them.
_STEP = 8 << 20
#: A file of which this many dropped bytes, and this share, are read again is not dropped until the end.
_AGAIN_BYTES, _AGAIN_SHARE = 64 * PAGE_SIZE, 32


@dataclass(frozen=True)
class ShieldReport:
    """Result of a :class:`Shield`, so far. Pages that are in use when they are dropped are counted as kept."""

    #: Files whose residency was read at the start.
    files: int
    #: Pages of these that were resident then. They are never dropped.
    before_pages: int
    #: Pages that were inserted since, by any process, and found when pages were dropped.
    inserted_pages: int
    dropped_pages: int
    #: Files that were written or replaced since the start. They are left alone.
    changed_files: int
    #: Files that were deleted since, or could not be looked at. They are left alone.
    skipped: list[OSError]

    @property
    def kept_pages(self) -> int:
        """Inserted pages that stayed: dirty, mapped, locked, or in one folio with pages that were resident before."""
        return self.inserted_pages - self.dropped_pages

    @property
    def dropped_bytes(self) -> int:
        """Dropped pages in bytes."""
        return self.dropped_pages * PAGE_SIZE


@dataclass
class _Counts:
    """Pages of one file."""

    dropped: int = 0
    #: Inserted pages that the latest drop of the whole file left.
    kept: int = 0
    changed: bool = False


class Shield:
    """Keeps a scan from displacing other data in the page cache: :func:`shield` makes one."""

    def __init__(self, paths: Iterable[Path], one_file_system: bool) -> None:
        self._native, self._skipped = _native.Baselines.of(paths, one_file_system)
        self._files = self._native.files()
        self._numbers = {
            (os.makedev(major, minor), inode): number for number, (_, major, minor, inode, *_) in enumerate(self._files)
        }
        self._counts = [_Counts() for _ in self._files]
        self._lock = threading.Lock()
        self._closed = False

    def __iter__(self) -> Iterator[str]:
        """Iterate over the paths of the files, those with the largest resident share first; drop each before the next."""
        for path in order([path for path, *_ in self._files]):
            yield path
            self.passed(path)

    @checked
    def passed(self, file: Path | int, offset: int = 0, length: int | None = None) -> None:
        """Drop now what was inserted of a file, or of a part of it in bytes, because the scan has read it.

        Raises ``ValueError`` for a file that is not among those of the shield. A file that is gone has no pages.
        """
        number = self._number(file)
        if number is not None:
            self._drop(number, file, offset, sys.maxsize if length is None else offset + length)

    def open(self, path: Path) -> io.BufferedReader:
        """Open a file for reading: pages that its reads insert are dropped behind them, every 8 MiB.

        A reader that comes back to dropped pages stops the dropping until the shield ends.
        """
        return io.BufferedReader(ShieldedFile(self, path))

    @property
    def report(self) -> ShieldReport:
        """What was dropped so far."""
        with self._lock:
            dropped = sum(one.dropped for one in self._counts)
            return ShieldReport(
                files=len(self._files),
                before_pages=sum(before for *_, before in self._files),
                inserted_pages=dropped + sum(one.kept for one in self._counts),
                dropped_pages=dropped,
                changed_files=sum(one.changed for one in self._counts),
                skipped=list(self._skipped),
            )

    def close(self) -> None:
        """Drop what was inserted of all files."""
        if not self._closed:
            self._closed = True
            for number, (path, *_) in enumerate(self._files):
                self._drop(number, path, 0, sys.maxsize)

    def __enter__(self) -> Shield:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _number(self, file: Path | int) -> int | None:
        """Say which of the files it is; ``None`` for one that is gone."""
        try:
            found = os.stat(file)
        except FileNotFoundError:
            return None
        number = self._numbers.get((found.st_dev, found.st_ino))
        if number is None:
            raise ValueError(f"not a file of this shield: {file!r}")
        return number

    def _drop(self, number: int, file: Path | int, start: int, end: int) -> None:
        counts = self._counts[number]
        try:
            found = self._native.drop_inserted(number, file, start, end)
        except FileNotFoundError:
            return
        except OSError as error:
            with self._lock:
                self._skipped.append(error)
            return
        with self._lock:
            if found is None:
                counts.changed = True
                return
            inserted, dropped = found
            counts.dropped += dropped
            if start == 0 and end == sys.maxsize:
                counts.kept = inserted - dropped


@checked
def shield(paths: Iterable[Path], *, one_file_system: bool = False) -> Shield:
    """Read the residency of files and of the files below directories, to drop later what a scan of them inserted.

    >>> with shield([path]) as shielded:
    ...     for file in shielded:
    ...         data = open(file, "rb").read()
    >>> shielded.report.kept_pages
    0

    Use it as a context manager: its end drops the pages that were inserted since, whichever way they were read. A scan that
    is larger than memory drops them as it goes: iterate over the shield, call :meth:`Shield.passed`, or read by
    :meth:`Shield.open`.

    A page that was resident at the start is never dropped, nor one that is dirty, mapped or locked. Files that are written
    or replaced meanwhile are left alone, and so are files of unknown residency and files that cannot be opened
    (``report.skipped``). Pages that another process has inserted or read since the start, and does not map, are dropped
    too, as the kernel does not show readers: ``cachewise shield -p PID`` knows them, and needs root.
    """
    return Shield(paths, one_file_system)


class ShieldedFile(io.RawIOBase):
    """A file of a :class:`Shield` that drops pages behind its reads."""

    def __init__(self, shield: Shield, path: Path, *, ends: bool = False) -> None:
        super().__init__()
        self._file = io.FileIO(os.fsdecode(path))
        self._shield = shield
        self._ends = ends
        try:
            self._number = shield._number(self._file.fileno())
        except ValueError:
            self._file.close()
            raise ValueError(f"not a file of this shield: {path!r}") from None
        #: The range that was read in sequence and is not dropped yet.
        self._start = self._end = 0
        #: The dropped ranges, ascending, and how many bytes of them were read again.
        self._dropped: list[tuple[int, int]] = []
        self._again = 0
        self._stopped = False
        self.name = path

    @property
    def mode(self) -> str:
        """As of a file that was opened to be read."""
        return "rb"

    def readable(self) -> bool:
        """It is, until it is closed."""
        return self._file.readable()

    def seekable(self) -> bool:
        """It is, until it is closed."""
        return self._file.seekable()

    def fileno(self) -> int:
        """Return the descriptor. Reads by it are seen when the file is closed."""
        return self._file.fileno()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a place in the file."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Say where in the file it is."""
        return self._file.tell()

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer, and drop what was read before it once that is enough."""
        start = self._file.tell()
        # None is of files that do not block.
        size = self._file.readinto(buffer) or 0
        if size and not self._stopped:
            self._read(start, start + size)
        return size

    def _read(self, start: int, end: int) -> None:
        self._again += sum(max(0, min(end, last) - max(start, first)) for first, last in self._dropped)
        dropped = sum(last - first for first, last in self._dropped)
        if self._again >= max(_AGAIN_BYTES, dropped // _AGAIN_SHARE):
            self._stopped = True
            return
        if start != self._end:
            self._drop(self._start, self._end)
            self._start = start
        self._end = end
        if end - self._start >= _STEP:
            self._drop(self._start, end)
            self._start = end

    def _drop(self, start: int, end: int) -> None:
        if self._number is not None and start < end:
            self._shield._drop(self._number, self.fileno(), start, end)
            self._dropped = _merged([*self._dropped, (start, end)])

    def close(self) -> None:
        """Drop what was inserted of the file, and close it."""
        if not self.closed:
            try:
                if self._number is not None and not self._stopped:
                    self._shield._drop(self._number, self.fileno(), 0, sys.maxsize)
            finally:
                self._file.close()
                super().close()
                if self._ends:
                    self._shield.close()


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Put ranges in order, and those that touch together."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
