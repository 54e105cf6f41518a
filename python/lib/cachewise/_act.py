"""Bringing in and putting out."""

from __future__ import annotations

from dataclasses import dataclass

from . import _native
from ._errors import ResidencyUnknown, checked, no_directory
from ._types import File


@dataclass(frozen=True)
class Warmed:
    """What warming changed. Counts are ``None`` where nobody can know (``reason``): then everything was read."""

    #: Pages of the part that was given.
    total_pages: int
    before_pages: int | None
    after_pages: int | None
    brought_in_pages: int | None
    #: Bytes that were read.
    read_bytes: int
    #: Not resident and not read: nothing is stored there.
    hole_pages: int
    #: Why fewer pages are resident than requested, in words; ``None`` if all are.
    short: str | None
    reason: str | None

    @property
    def pages(self) -> int:
        """The earlier name of ``total_pages``."""
        return self.total_pages


@checked
def warm(file: File, offset: int = 0, length: int | None = None, *, threads: int = 1) -> Warmed:
    """Bring a file, or a part of it, into the page cache, but for what is there; return when it is.

    Ctrl-C ends it. Raises ``OSError`` where the file cannot be opened, ``IsADirectoryError`` for a directory; failures to read are in ``short``, for what was
    brought in until then stays.
    """
    try:
        return Warmed(*_native.warm(file, offset, length, threads))
    except ResidencyUnknown as unknown:
        raise no_directory("warm", file, unknown) from None


@dataclass(frozen=True)
class Stayed:
    """Pages that stayed, each counted once, by the first reason that is true of it."""

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
    """What evicting changed. Counts are ``None`` where nobody can know (``reason``); it was done all the same."""

    #: Pages of the part that was given.
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
    def went_pages(self) -> int | None:
        """How many went, others' work included."""
        if self.before_pages is None or self.after_pages is None:
            return None
        return max(self.before_pages - self.after_pages, 0)


@checked
def evict(file: File, offset: int = 0, length: int | None = None, *, sync: bool = False) -> Evicted:
    """Put a file, or a part of it, out of the page cache. Nothing is lost; it is everybody's cache, though.

    What is dirty stays, unless ``sync`` has it written first. What is mapped, locked or in use stays, too.
    """
    try:
        pages, before, after, stayed, reason = _native.evict(file, offset, length, sync)
    except ResidencyUnknown as unknown:
        raise no_directory("evict", file, unknown) from None
    return Evicted(pages, before, after, Stayed(*stayed) if stayed else None, reason)
