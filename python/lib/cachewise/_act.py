"""Prefetching and evicting files."""

from __future__ import annotations

from dataclasses import dataclass

from . import _native
from ._errors import ResidencyUnknown, checked, no_directory
from ._types import File


@dataclass(frozen=True)
class Warmed:
    """Result of :func:`warm`. Counts are ``None`` if residency is unknown (``reason``); then all pages were read."""

    #: Pages of the given part.
    total_pages: int
    before_pages: int | None
    after_pages: int | None
    #: Pages that are resident now and were not before.
    inserted_pages: int | None
    #: Bytes that were read.
    read_bytes: int
    #: Pages of holes, which are neither resident nor read.
    hole_pages: int
    #: Why fewer pages are resident than requested, in words; ``None`` if all are.
    short: str | None
    reason: str | None

    @property
    def pages(self) -> int:
        """The earlier name of ``total_pages``."""
        return self.total_pages

    @property
    def brought_in_pages(self) -> int | None:
        """The earlier name of ``inserted_pages``."""
        return self.inserted_pages


@checked
def warm(file: File, offset: int = 0, length: int | None = None, *, threads: int = 1) -> Warmed:
    """Prefetch the missing pages of a file, or of a part of it, into the page cache, and wait for them.

    ``offset`` and ``length`` are in bytes; without ``length``, to the end of the file. Raises ``OSError`` if the file
    cannot be opened, ``IsADirectoryError`` for a directory. Read errors are in ``short``, as pages read before them stay.
    Ctrl-C ends it.
    """
    try:
        return Warmed(*_native.warm(file, offset, length, threads))
    except ResidencyUnknown as unknown:
        raise no_directory("warm", file, unknown) from None


@dataclass(frozen=True)
class Stayed:
    """Pages that stayed, each counted once, by the first matching reason."""

    #: In memory only (tmpfs).
    only_copy_pages: int
    dirty_pages: int
    writeback_pages: int
    locked_pages: int
    mapped_pages: int
    #: At the edge of the part, where a large folio may reach beyond it.
    edge_pages: int
    #: None of these: in use at that moment, locked or mapped.
    other_pages: int


@dataclass(frozen=True)
class Evicted:
    """Result of :func:`evict`. Counts are ``None`` if residency is unknown (``reason``); pages were evicted anyway."""

    #: Pages of the given part.
    total_pages: int
    before_pages: int | None
    after_pages: int | None
    stayed: Stayed | None
    reason: str | None

    @property
    def pages(self) -> int:
        """The earlier name of ``total_pages``."""
        return self.total_pages

    @property
    def evicted_pages(self) -> int | None:
        """Number of pages that left the cache, including those that other programs evicted meanwhile."""
        if self.before_pages is None or self.after_pages is None:
            return None
        return max(self.before_pages - self.after_pages, 0)

    @property
    def went_pages(self) -> int | None:
        """The earlier name of ``evicted_pages``."""
        return self.evicted_pages


@checked
def evict(file: File, offset: int = 0, length: int | None = None, *, sync: bool = False) -> Evicted:
    """Evict a file, or a part of it, from the page cache. No data is lost, but other programs read it from the disk again.

    ``offset`` and ``length`` are in bytes; without ``length``, to the end of the file. Dirty pages stay, unless ``sync``
    writes them first. Mapped and locked pages, and pages in use, stay too.
    """
    try:
        pages, before, after, stayed, reason = _native.evict(file, offset, length, sync)
    except ResidencyUnknown as unknown:
        raise no_directory("evict", file, unknown) from None
    return Evicted(pages, before, after, Stayed(*stayed) if stayed else None, reason)
