"""Orders of reading, and reading in these orders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from . import _native
from ._errors import checked
from ._types import Path

P = TypeVar("P", bound=Path)


def order(paths: Iterable[P]) -> list[P]:
    """Return the same paths in the order with the most hits, for reading whole files: replaces ``sorted``.

    Files with the largest resident share come first, files with unknown residency before those without resident pages.
    Files that cannot be opened come last, so that the caller gets the error when it opens them.
    """
    if isinstance(paths, (str, bytes)):
        raise TypeError("order() expects several paths, not one: put it into a list")
    listed = list(paths)
    return [listed[place] for place in _native.order(listed)]


class Block(NamedTuple):
    """A part of a file."""

    path: str
    offset: int
    data: bytes


@dataclass(frozen=True)
class ScanReport:
    """Result of a scan."""

    read_bytes: int
    #: Bytes read from devices; 0 if the kernel does not account them.
    device_read_bytes: int
    #: Bytes of the planned hits that were not read from a device.
    hit_bytes: int
    planned_hit_bytes: int
    total_bytes: int
    #: Bytes that every order must read: the total minus the maximum that was ever resident.
    bound_bytes: int
    #: Files that changed after planning: they were read in their present state.
    changed: int
    #: The reason if the scan kept the order of the caller.
    fell_back: str | None
    skipped: list[OSError]


class Scan(Iterator[Block]):
    """One reading of all files. ``close()``, or leaving its ``with``, ends it early.

    A block that cannot be read raises ``OSError`` once; the next ``next()`` continues with the other files.
    """

    def __init__(self, native: _native.Scan, errors: str) -> None:
        self._native = native
        self._raise = errors == "raise"

    def __iter__(self) -> Scan:
        return self

    def __next__(self) -> Block:
        try:
            return Block(*next(self._native))
        except StopIteration:
            report = self.report
            if self._raise and report is not None and report.skipped:
                self._raise = False
                raise report.skipped[0] from None
            raise

    @property
    def report(self) -> ScanReport | None:
        """The result; ``None`` before the end of the scan."""
        parts = self._native.report()
        return ScanReport(*parts) if parts else None

    def close(self) -> None:
        """End the scan, and evict pages as ``keep`` says."""
        self._native.close()

    def __enter__(self) -> Scan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Scanner:
    """Reads a set of files repeatedly, each time in the order that costs the least I/O.

    It learns from each scan for the next one, so use the same scanner. ``mode``: ``free`` (any order), ``fixed`` (the
    order given, to the byte) or ``shuffle`` (random by a seed, resident chunks first). ``keep``: ``share`` (inserted pages
    stay, as after any read), ``keep`` (pages that would displace resident ones are evicted after the read: for a single
    reader of files that exceed the cache) or ``as-found`` (all inserted pages are evicted). ``chunk`` is the unit of
    planning, ``block`` the maximum size of a returned block (256 KiB), both in bytes.

    Files that cannot be opened raise after all others have been read, unless ``errors`` is ``"report"``.
    """

    @checked
    def __init__(
        self,
        paths: Iterable[Path],
        *,
        mode: str = "free",
        keep: str = "share",
        seed: int = 0,
        chunk: int | None = None,
        block: int | None = None,
        errors: str = "raise",
    ) -> None:
        if errors not in ("raise", "report"):
            raise ValueError(f"errors: raise or report, not {errors!r}")
        self._native = _native.Scanner(paths, mode, keep, seed, chunk, block)
        self._mode = mode
        self._seed = seed
        self._errors = errors

    @checked
    def scan(self, *, seed: int | None = None) -> Scan:
        """Read residency, plan, and return an iterator over the blocks. Only one scan at a time.

        A worker process of a data loader must make its own scanner: threads do not survive ``fork``.
        """
        seed = self._seed if seed is None else seed
        return Scan(self._native.scan(self._mode, seed), self._errors)

    __iter__ = scan


@checked
def scan(
    paths: Iterable[Path],
    *,
    mode: str = "free",
    keep: str = "share",
    seed: int = 0,
    chunk: int | None = None,
    block: int | None = None,
    errors: str = "raise",
) -> Scan:
    """Read files once in the order that costs the least I/O: ``for path, offset, data in scan(paths)``.

    Each byte is returned once. To read the same files several times use a :class:`Scanner`, which explains the arguments.
    """
    scanner = Scanner(
        paths, mode=mode, keep=keep, seed=seed, chunk=chunk, block=block, errors=errors
    )
    return scanner.scan()
