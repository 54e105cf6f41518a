"""The block cache between machines."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable
from typing import Any, Union

from . import _native
from ._errors import checked
from ._types import Path

#: Bytes: a number, or a text such as ``"64M"``.
Size = Union[int, str]
#: Time: seconds, or a text such as ``"10ms"``.
Time = Union[float, str]

#: Bytes that :meth:`BlockCache.readinto` copies at a time.
_STEP = 4 << 20


class BlockCache:
    """A cache of the files of ``origin``, a directory or a URL (``http://``, ``https://``, ``s3://``): memory, then this
    machine's disk, then servers that machines share (Redis Cluster, Valkey, Redis, memcached), then the origin itself;
    filled on the way back. Nothing is ever written to the origin, a changed file is never served stale, and each call
    ends in bounded time, with bytes or ``OSError``.

    The settings are those of ``cachewise tier`` and ``cachewise mount``, by the same names: see docs/tier.md. Without
    any it is a cache in memory. A password comes from ``engine_password_file`` or from ``CACHEWISE_TIER_ENGINE_PASSWORD`` in
    the environment.

    Machines share the blocks of a directory only under the same ``identity``. A directory on a file system that does not keep
    the time of last change (squashfs, FAT, FUSE) needs one, and a new one when its files change; without it, ``ValueError``.
    A file that this process may not open at the origin raises ``PermissionError``, cached or not.

    Paths are relative to the origin, without ``..``. Settings and origin are checked at once; threads are started,
    and servers asked, by the first call that needs them. After ``fork`` the child starts threads and a cache in memory of
    its own, and so does a copy that was pickled: workers of a data loader share what is at the servers. ``disk`` is one
    process's at a time: for several on a machine, ``cachewise mount`` has one cache for all.

    Threads may share one. Calls raise ``FileNotFoundError``, ``PermissionError``, ``TimeoutError`` (after
    ``read_deadline``), ``OSError`` with ``ESTALE`` (a file that changed after :meth:`open`), with ``EBUSY``
    (``disk`` is another process's), or with what the origin said.
    """

    def __init__(
        self,
        origin: Path,
        *,
        memory: Size | None = None,
        disk: Path | None = None,
        disk_size: Size | None = None,
        engine: str | None = None,
        engine_user: str | None = None,
        engine_password_file: Path | None = None,
        engine_key_file: Path | None = None,
        engine_ca: Path | None = None,
        engine_name: str | None = None,
        tenant: str | None = None,
        zone: str | None = None,
        zone_of: str | None = None,
        identity: str | None = None,
        block: Size | None = None,
        connect: Time | None = None,
        deadline: Time | None = None,
        hedge: Time | None = None,
        hedge_share: float | None = None,
        lease: Time | None = None,
        copies: int | None = None,
        in_flight: Size | None = None,
        origin_reads: int | None = None,
        origin_breaker: Time | None = None,
        read_deadline: Time | None = None,
    ) -> None:
        given = locals()
        self._origin = origin
        self._settings = {name: given[name] for name, *_ in _native.cache_settings()}
        said = [(name, value) for name, value in self._settings.items() if value is not None]
        texts = [(name, _text(name, value)) for name, value in said]
        self._native = _native.Cache(origin, texts)

    @checked
    def get(self, path: Path, offset: int = 0, length: int | None = None) -> bytes:
        """Return the present bytes of a file, or of a part of it up to the end.

        Each call requests the state of the file from the origin; to read many parts of one file, use :meth:`open`.
        """
        return self._native.get(path, offset, length)

    def readinto(self, path: Path, buffer: Any, offset: int = 0) -> int:
        """Fill a writable buffer (``bytearray``, ``memoryview``, an array) from a file, and return the number of bytes."""
        with self.open(path) as file:
            file.seek(offset)
            return file.readinto(buffer)

    def open(self, path: Path) -> BlockFile:
        """Open a file for reading, in its present state. Reads of cached blocks need no further requests to the origin.

        It is unbuffered: wrap it in ``io.BufferedReader`` for many small reads.
        """
        return BlockFile(self._native, self._native.look(path), path)

    def warm(
        self, paths: Iterable[Path] = ("",), *, onerror: Callable[[OSError], object] | None = None
    ) -> tuple[int, int]:
        """Fill the cache with files, and with all files below directories; return their number and their bytes.

        Errors are passed to ``onerror``, and so is, once, the number of blocks that were read but not written to the disk
        or the engine; without it, the first error is raised after all other files.
        """
        files, bytes_, failed = self._native.warm(paths)
        for error in failed:
            if onerror is None:
                raise error
            onerror(error)
        return files, bytes_

    def stat(self) -> dict[str, Any]:
        """Return the counters of this process since the cache was opened: ``tiers``, ``nodes`` of the engine, ``totals``.

        The names are those of ``cachewise tier stat --json``; times are in ``latency``, which is ``None`` without calls.
        """
        table: dict[str, Any] = json.loads(self._native.table())
        return table

    def warnings(self) -> list[str]:
        """Return warnings about harmful settings, with the fix. Contacts the engine unless that was done before."""
        return self._native.warnings()

    def close(self) -> None:
        """Write pending blocks to the disk, and end the threads. Without it, only these blocks are lost."""
        self._native.close()

    def __enter__(self) -> BlockCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._origin, self._settings)

    def __repr__(self) -> str:
        said = [f"{name}={value!r}" for name, value in self._settings.items() if value is not None]
        return f"BlockCache({', '.join([repr(self._origin), *said])})"


def _again(origin: Path, settings: dict[str, Any]) -> BlockCache:
    return BlockCache(origin, **settings)


def _text(name: str, value: object) -> str:
    """What a setting's value is as a text."""
    if isinstance(value, (str, bytes, os.PathLike)):
        return os.fsdecode(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: expected a number or a text, not {type(value).__name__}")
    # 0.00001 instead of 1e-05.
    return str(value) if isinstance(value, int) else f"{value:.9f}".rstrip("0").rstrip(".")


class BlockFile(io.RawIOBase):
    """A file of a :class:`BlockCache`, in the state that it had when it was opened."""

    def __init__(self, native: _native.Cache, found: _native.Object, path: Path) -> None:
        super().__init__()
        self._native = native
        self._object = found
        self._at = 0
        self.name = path

    @property
    def mode(self) -> str:
        """As of a file that was opened to be read."""
        return "rb"

    def readable(self) -> bool:
        """It is, until it is closed."""
        self._check()
        return True

    def seekable(self) -> bool:
        """It is, until it is closed."""
        self._check()
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go to a place in the file."""
        self._check()
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._object.size}
        if whence not in bases:
            raise ValueError(f"whence: 0, 1 or 2, not {whence}")
        at = bases[whence] + offset
        if at < 0:
            raise ValueError(f"a place in a file is not negative: {at}")
        self._at = at
        return at

    def tell(self) -> int:
        """Say where in the file it is."""
        self._check()
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        """Return so many bytes, fewer at the file's end alone; all that follow without a number."""
        self._check()
        data = self._native.read(self._object, self._at, None if size is None or size < 0 else size)
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        """Return all bytes that follow."""
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer; with fewer bytes at the file's end alone."""
        self._check()
        with memoryview(buffer) as whole, whole.cast("B") as place:
            filled = 0
            while filled < len(place):
                data = self.read(min(_STEP, len(place) - filled))
                if not data:
                    break
                place[filled : filled + len(data)] = data
                filled += len(data)
        return filled

    def write(self, buffer: Any, /) -> int:
        """Raise: the origin is never written to."""
        self._check()
        raise io.UnsupportedOperation("not writable")

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
