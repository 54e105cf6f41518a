"""A file system of fsspec for local files: shielded reads, and many files in the order with the most hits.

It needs fsspec, which registers it as ``cachewise``:

    fsspec.open("cachewise:///data/part.parquet")
    pyarrow.parquet.read_table("/data/part.parquet", filesystem=cachewise.fsspec.CachewiseFileSystem())
    pandas.read_parquet("cachewise:///data/part.parquet")
"""

from __future__ import annotations

import io
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from ._order import order
from ._shield import Shield, ShieldedFile, shield

__all__ = ["CachewiseFileSystem"]

_PREFIX = "cachewise://"


class CachewiseFileSystem(LocalFileSystem):
    """Local files, of which reads drop the pages that they inserted (:func:`cachewise.shield`).

    Each file that is opened for reading has a shield of its own, from its opening to its closing. ``cat`` and ``cat_ranges``
    of several files begin with those that have the largest resident share. Everything else is as of fsspec's local file
    system.
    """

    protocol = "cachewise"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, (list, tuple)):
            return [cls._strip_protocol(one) for one in path]
        if isinstance(path, str) and path.startswith(_PREFIX):
            path = path[len(_PREFIX) :]
        return super()._strip_protocol(path)

    def unstrip_protocol(self, name: str) -> str:
        """Return the path with the protocol in front."""
        return _PREFIX + str(self._strip_protocol(name))

    def _open(self, path: Any, mode: str = "rb", block_size: int | None = None, **options: Any) -> Any:
        if mode != "rb":
            return super()._open(path, mode=mode, block_size=block_size, **options)
        local = self._strip_protocol(path)
        shielded: Shield = shield([local])
        # A file that cannot be looked at is opened all the same, or its opening has the error.
        try:
            return io.BufferedReader(ShieldedFile(shielded, local, ends=True))
        except ValueError:
            return super()._open(path, mode=mode, block_size=block_size, **options)

    def get_file(self, path1: Any, path2: Any, callback: Any = None, **options: Any) -> Any:
        """Copy a file, and drop what the copy inserted of its source."""
        if callback is not None:
            options["callback"] = callback
        with shield([self._strip_protocol(path1)]):
            return super().get_file(path1, path2, **options)

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **options: Any) -> Any:
        """Return the bytes of files; of several files as a dictionary by path, read in the order with the most hits."""
        paths = self.expand_path(path, recursive=recursive)
        if len(paths) == 1 and not isinstance(path, list) and paths[0] == self._strip_protocol(path):
            return super().cat(path, recursive=recursive, on_error=on_error, **options)
        found: dict[str, Any] = {}
        for name in order(paths):
            try:
                found[name] = self.cat_file(name, **options)
            except Exception as error:
                if on_error == "raise":
                    raise
                if on_error == "return":
                    found[name] = error
        return {name: found[name] for name in paths if name in found}

    def cat_ranges(
        self, paths: Any, starts: Any, ends: Any, max_gap: Any = None, on_error: str = "return", **options: Any
    ) -> Any:
        """Return the bytes of ranges, in the order given; read by file, resident files first, and by offset."""
        many = len(paths)
        starts = list(starts) if isinstance(starts, (list, tuple)) else [starts] * many
        ends = list(ends) if isinstance(ends, (list, tuple)) else [ends] * many
        if len(starts) != many or len(ends) != many:
            raise ValueError("as many starts and ends as paths")
        places = {path: place for place, path in enumerate(order(list(dict.fromkeys(paths))))}
        turn = sorted(range(many), key=lambda number: (places[paths[number]], starts[number] or 0))
        read = super().cat_ranges(
            [paths[number] for number in turn],
            [starts[number] for number in turn],
            [ends[number] for number in turn],
            max_gap=max_gap,
            on_error=on_error,
            **options,
        )
        found: list[Any] = [None] * many
        for number, data in zip(turn, read, strict=True):
            found[number] = data
        return found
