"""Orders, and reading by them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from . import _native
from ._errors import checked
from ._types import Path

P = TypeVar("P", bound=Path)


def order(paths: Iterable[P]) -> list[P]:
    """Return the same paths in the order that hits most where whole files are read: in place of ``sorted``.

    Those first of which the largest part is resident; those of which nobody can know before those of which nothing
    is. What cannot be opened comes last, so that who opens it meets the error.
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
    """What a scan came to."""

    read_bytes: int
    #: Bytes read from devices; 0 if the kernel does not account them.
    device_read_bytes: int
    #: Bytes of the planned hits that were not read from a device.
    hit_bytes: int
    planned_hit_bytes: int
    total_bytes: int
    #: Bytes that every order must read: the total minus the maximum that was ever resident.
    bound_bytes: int
    #: Files that changed since they were looked at: they were read as they are.
    changed: int
    #: Why it kept to the caller's order, if it did.
    fell_back: str | None
    skipped: list[OSError]


class Scan(Iterator[Block]):
    """One reading of all files. ``close()``, or leaving its ``with``, ends it early.

    A block that could not be read raises ``OSError`` once; with another ``next()`` the other files follow.
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
        """What it came to; ``None`` before its end."""
        parts = self._native.report()
        return ScanReport(*parts) if parts else None

    def close(self) -> None:
        """End it. What ``keep`` promises is done."""
        self._native.close()

    def __enter__(self) -> Scan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Scanner:
    """Reads a set of files again and again, each time in the order that costs the least I/O.

    It learns from one scan for the next, so keep it. ``mode``: ``free`` (any order will do), ``fixed`` (the order given, to
    the byte) or ``shuffle`` (random by a seed, resident chunks first). ``keep``: ``share`` (what is brought in stays, as
    after any read), ``keep`` (what would throw out what is resident is dropped once it has been read: for the only reader
    of files that are larger than the cache) or ``as-found`` (all is dropped). ``chunk`` is the length of what is planned,
    ``block`` the largest that is handed out (256 KiB), both in bytes.

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
        """Look at the files, plan, and return the blocks to iterate over. One at a time.

        A worker process of a data loader needs a scanner of its own, made there: threads do not survive ``fork``.
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

    Each byte comes once. For several readings of the same files make a :class:`Scanner`, which says what the words mean.
    """
    scanner = Scanner(
        paths, mode=mode, keep=keep, seed=seed, chunk=chunk, block=block, errors=errors
    )
    return scanner.scan()
