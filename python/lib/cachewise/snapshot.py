"""Snapshots: residency saved to a file, and restored.

>>> from cachewise import snapshot
>>> saved = snapshot.save(directory + "/db.snap", directory)
>>> restored = snapshot.restore(directory + "/db.snap")
>>> restored.pages == saved.pages
True

The files are those of ``cachewise snapshot``: ``cachewise snapshot save --of -- COMMAND`` writes what one command touches,
and ``cachewise tier warm --snapshot`` fills a block cache with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from . import _native
from ._errors import checked, reported
from ._look import _words
from ._types import Path

__all__ = ["Entry", "Restored", "Saved", "entries", "restore", "save"]


@dataclass(frozen=True)
class Saved:
    """Result of :func:`save`."""

    #: Files with resident pages, which are in the snapshot.
    files: int
    pages: int
    #: Files without resident pages, which are not.
    empty_files: int


@checked
def save(
    file: Path,
    *roots: Path,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    one_file_system: bool = False,
    onerror: Callable[[OSError], object] | None = None,
) -> Saved:
    """Save which pages of files, and of the files below directories, are resident.

    The arguments after ``file`` are those of :func:`cachewise.walk`. The snapshot replaces an older one once it is complete;
    ``ValueError`` is raised if something else is in its place. Errors of files are passed to ``onerror``; without it, the
    first error is raised after the snapshot has been written.
    """
    if not roots:
        raise TypeError("save() needs a file or a directory")
    files, pages, empty, errors = _native.snapshot_save(
        file, roots, _words(include), _words(exclude), one_file_system
    )
    reported(errors, onerror)
    return Saved(files, pages, empty)


@dataclass(frozen=True)
class Restored:
    """Result of :func:`restore`."""

    #: Files that were restored.
    files: int
    #: Pages that the snapshot has of them.
    pages: int
    before_pages: int
    after_pages: int
    inserted_pages: int
    read_bytes: int
    #: Restored files of unknown residency, whose pages before, after and inserted are not counted.
    unknown_files: int
    #: Restored files of which fewer pages are resident than requested.
    short_files: int
    #: Files that were left alone, because their size or time is another.
    changed_files: int
    #: Files that no longer exist.
    vanished_files: int


@checked
def restore(
    file: Path,
    *,
    anyway: bool = False,
    threads: int = 8,
    rate: int | None = None,
    max_bytes: int | None = None,
    onerror: Callable[[OSError], object] | None = None,
) -> Restored:
    """Read the pages of a snapshot that are missing, in the order of their places on the device, and wait for them.

    Files that changed are left alone, except with ``anyway``. ``rate`` limits all reads together, in bytes per second;
    ``max_bytes`` is the most that is read or found resident, from the start of the snapshot. Raises ``ValueError`` if the
    file is no complete snapshot. Errors of files are passed to ``onerror``; without it, the first error is raised after all
    other files.
    """
    *counts, errors = _native.snapshot_restore(file, anyway, threads, rate, max_bytes)
    reported(errors, onerror)
    return Restored(*counts)


@dataclass(frozen=True)
class Entry:
    """A file of a snapshot."""

    path: str
    size_bytes: int
    #: Offset and length of each resident range in bytes, ascending, in whole pages.
    ranges: list[tuple[int, int]]


def entries(file: Path) -> Iterator[Entry]:
    """Iterate over the files of a snapshot. Raises ``ValueError`` if the file is no complete snapshot."""
    return (Entry(*parts) for parts in _native.SnapshotReader(file))
