"""Prefetching and evicting trees of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from . import _native
from ._errors import checked, reported
from ._look import _words
from ._types import Path


@dataclass(frozen=True)
class TreeWarmed:
    """Sums of :func:`warm_tree`. Pages before, after and inserted are those of files of known residency."""

    files: int
    #: Files of unknown residency: all of their pages were read.
    unknown_files: int
    #: Files of which fewer pages are resident than requested.
    short_files: int
    total_pages: int
    before_pages: int
    after_pages: int
    inserted_pages: int
    read_bytes: int
    #: Pages of holes, which are neither resident nor read.
    hole_pages: int


@dataclass(frozen=True)
class TreeEvicted:
    """Sums of :func:`evict_tree`. Pages before and after are those of files of known residency."""

    files: int
    #: Files of unknown residency: their pages were evicted anyway.
    unknown_files: int
    #: Files of which pages stayed.
    short_files: int
    total_pages: int
    before_pages: int
    after_pages: int

    @property
    def evicted_pages(self) -> int:
        """Number of pages that left the cache, including those that other programs evicted meanwhile."""
        return max(self.before_pages - self.after_pages, 0)


@checked
def warm_tree(
    *roots: Path,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    one_file_system: bool = False,
    threads: int | None = None,
    rate: int | None = None,
    onerror: Callable[[OSError], object] | None = None,
) -> TreeWarmed:
    """Prefetch the missing pages of files, and of the files below directories, by several threads (8), and wait for them.

    The arguments are those of :func:`cachewise.walk`; ``rate`` limits all reads together, in bytes per second. Files that
    vanish meanwhile are left out. Errors are passed to ``onerror``; without it, the first error is raised after all other
    files. Ctrl-C ends it.
    """
    if not roots:
        raise TypeError("warm_tree() needs a file or a directory")
    *sums, errors = _native.warm_trees(roots, _words(include), _words(exclude), one_file_system, threads, rate)
    reported(errors, onerror)
    return TreeWarmed(*sums)


@checked
def evict_tree(
    *roots: Path,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    one_file_system: bool = False,
    threads: int | None = None,
    sync: bool = False,
    onerror: Callable[[OSError], object] | None = None,
) -> TreeEvicted:
    """Evict files, and the files below directories, from the page cache. No data is lost.

    The arguments are those of :func:`cachewise.walk`. Dirty pages stay, unless ``sync`` writes them first. Errors are
    handled as by :func:`warm_tree`.
    """
    if not roots:
        raise TypeError("evict_tree() needs a file or a directory")
    parts = _native.evict_trees(roots, _words(include), _words(exclude), one_file_system, threads, sync)
    reported(parts[-1], onerror)
    return TreeEvicted(*parts[:6])
