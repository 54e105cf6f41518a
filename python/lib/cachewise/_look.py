"""Residency of files and trees."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from . import _native
from ._errors import checked
from ._native import PAGE_SIZE
from ._types import File, Path


@dataclass(frozen=True)
class Residency:
    """How much of a file, or of a part of one, is in the page cache.

    Pages are base pages of :data:`PAGE_SIZE` bytes; one that the file ends in counts whole. States are ``None``
    where ``mincore(2)`` told (``source``), which knows no more than residency.
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
        """The resident part, 0 to 1; ``None`` of nothing."""
        return self.resident_pages / self.total_pages if self.total_pages else None


@checked
def residency(file: File, offset: int = 0, length: int | None = None) -> Residency:
    """Say how much of a file is resident, without changing it: no page is brought in, no access time written.

    Raises :class:`ResidencyDenied` where the kernel does not tell this caller, :class:`ResidencyUnknown` where it
    tells nobody, and ``OSError`` where the file cannot be opened. A path to a file of FUSE is unknown (``fuse_not_opened``),
    because opening it can drop its pages: pass an open file. Costs six system calls.
    """
    return Residency(*_native.residency(file, offset, length))


@checked
def ranges(file: File, offset: int = 0, length: int | None = None) -> list[tuple[int, int]]:
    """Say which parts are resident: offset and length of each in bytes, ascending, in whole pages.

    Raises what :func:`residency` raises. Costs a few microseconds for each place where residency changes.
    """
    return _native.ranges(file, offset, length)


@dataclass(frozen=True)
class Entry:
    """A file that a walk has met."""

    path: str
    size_bytes: int
    #: Its residency; ``None`` if unknown.
    residency: Residency | None
    #: Why, by a name that stays the same.
    reason: str | None


class Walk(Iterator[Entry]):
    """A walk that is under way. ``close()``, or leaving its ``with``, ends it early."""

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
        """End it."""
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
    """Ask about each file of files and directories, by several threads, in no particular order.

    Symbolic links are not followed, but for the roots; a file with several names is met once. Patterns without a
    slash are for a file's name, with one for the end of its path. What cannot be looked at is given to ``onerror``;
    without it, the first such error is raised after all that could.
    """
    if not roots:
        raise TypeError("walk() needs a file or a directory")
    native = _native.Walk(roots, _words(include), _words(exclude), one_file_system, threads)
    return Walk(native, onerror)


def printable(path: Path) -> str:
    """Return a path as text that every encoding of Unicode can write: bytes that are no UTF-8 as ``\\xNN``.

    Paths here are ``str`` as :func:`os.fsdecode` makes them, with surrogates for such bytes, so that they open the file;
    UTF-8, and with it CSV, Parquet and Arrow, refuses surrogates. Give it to what stores or shows names.
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _words(patterns: Iterable[str]) -> list[str]:
    return [patterns] if isinstance(patterns, str) else list(patterns)
