"""Residency of files and trees."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from . import _native
from ._errors import checked, reported
from ._native import PAGE_SIZE
from ._types import File, Path


@dataclass(frozen=True)
class Residency:
    """Residency of a file, or of a part of one, in the page cache.

    Pages are base pages of :data:`PAGE_SIZE` bytes; a last partial page counts as one. States are ``None`` if the source
    is ``mincore(2)``, which reports only residency.
    """

    total_pages: int
    resident_pages: int
    #: Newer than the disk.
    dirty_pages: int | None
    #: Being written to the disk.
    writeback_pages: int | None
    #: Reclaimed pages that the kernel remembers.
    evicted_pages: int | None
    #: Those of them whose next read would count as a refault.
    recently_evicted_pages: int | None
    #: Source of the numbers: ``cachestat`` or ``mincore``.
    source: str

    @property
    def resident_bytes(self) -> int:
        """Resident pages in bytes."""
        return self.resident_pages * PAGE_SIZE

    @property
    def resident_ratio(self) -> float | None:
        """The resident share, 0 to 1; ``None`` for an empty part."""
        return self.resident_pages / self.total_pages if self.total_pages else None


@checked
def residency(file: File, offset: int = 0, length: int | None = None) -> Residency:
    """Return the residency of a file, or of a part of it, without changing it: reads no page, updates no access time.

    Raises :class:`ResidencyDenied` if the kernel hides it from this caller, :class:`ResidencyUnknown` if it has no answer,
    and ``OSError`` if the file cannot be opened. For a path to a FUSE file it is unknown (``fuse_not_opened``), because
    opening the file can drop its pages: pass an open file. Costs six system calls.
    """
    return Residency(*_native.residency(file, offset, length))


@checked
def ranges(file: File, offset: int = 0, length: int | None = None) -> list[tuple[int, int]]:
    """Return the resident ranges: offset and length of each in bytes, ascending, in whole pages.

    Raises the exceptions of :func:`residency`. Costs a few microseconds per range.
    """
    return _native.ranges(file, offset, length)


@dataclass(frozen=True)
class Entry:
    """A file that a walk has found."""

    path: str
    size_bytes: int
    #: Its residency; ``None`` if unknown.
    residency: Residency | None
    #: The reason if it is unknown: a stable name.
    reason: str | None


class Walk(Iterator[Entry]):
    """A walk in progress. ``close()``, or leaving its ``with``, ends it early."""

    def __init__(self, native: _native.Walk, onerror: Callable[[OSError], object] | None) -> None:
        self._native = native
        self._onerror = onerror
        self._first: OSError | None = None

    def __iter__(self) -> Walk:
        return self

    def __next__(self) -> Entry:
        for path, size, told, reason, error in self._native:
            if error is not None:
                if self._onerror is not None:
                    self._onerror(error)
                self._first = self._first or error
            elif path is not None:
                return Entry(path, size, Residency(*told) if told else None, reason)
        first, self._first = self._first, None
        if first is not None and self._onerror is None:
            raise first
        raise StopIteration

    def close(self) -> None:
        """End the walk."""
        self._native.close()

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@checked
def walk(
    *roots: Path,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    one_file_system: bool = False,
    threads: int | None = None,
    onerror: Callable[[OSError], object] | None = None,
) -> Walk:
    """Iterate over the files of files and directories with their residency, by several threads, in no particular order.

    Symbolic links are followed only as roots; a file with several names is listed once. Patterns without a slash match
    the name of a file, patterns with a slash the end of its path. Errors are passed to ``onerror``; without it, the first
    error is raised after all other files.
    """
    if not roots:
        raise TypeError("walk() needs a file or a directory")
    native = _native.Walk(roots, _words(include), _words(exclude), one_file_system, threads)
    return Walk(native, onerror)


class ResidencyTable:
    """Residency of trees in columns, a row for each file: :func:`residency_table` makes one.

    It has the PyCapsule interface of Arrow, so ``pyarrow.table(table)``, ``polars.DataFrame(table)``, pandas and DuckDB read
    it without a copy.
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    def __len__(self) -> int:
        return len(self._native)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return self._native.column_names

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the table by the C stream interface of Arrow."""
        return self._native.__arrow_c_stream__(requested_schema)

    def to_pyarrow(self) -> Any:
        """Return it as a ``pyarrow.Table``. Raises ``ImportError`` without pyarrow."""
        import pyarrow

        return pyarrow.table(self)


@checked
def residency_table(
    *roots: Path,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    one_file_system: bool = False,
    threads: int | None = None,
    onerror: Callable[[OSError], object] | None = None,
) -> ResidencyTable:
    """Return the residency of files, and of the files below directories, as an Arrow table, in no particular order.

    The arguments are those of :func:`walk`. Columns: ``path`` as by :func:`printable`, ``size_bytes``, and the fields of
    :class:`Residency`; these are null where residency is unknown, and ``reason`` then has the reason.
    """
    if not roots:
        raise TypeError("residency_table() needs a file or a directory")
    native, errors = _native.Table.of(roots, _words(include), _words(exclude), one_file_system, threads)
    reported(errors, onerror)
    return ResidencyTable(native)


def printable(path: Path) -> str:
    """Return a path as text that every encoding of Unicode can write: bytes that are not UTF-8 become ``\\xNN``.

    Paths of this package are ``str`` of :func:`os.fsdecode`, with surrogates for such bytes, so that they open the file.
    UTF-8, and with it CSV, Parquet and Arrow, refuses surrogates: use this function for names that are stored or shown.
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _words(patterns: Iterable[str]) -> list[str]:
    return [patterns] if isinstance(patterns, str) else list(patterns)
