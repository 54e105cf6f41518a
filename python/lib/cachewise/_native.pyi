from collections.abc import Iterable, Iterator
from os import PathLike
from typing import IO, Any, final

__all__ = [
    "PAGE_SIZE",
    "Baselines",
    "Cache",
    "Object",
    "Scan",
    "Scanner",
    "SnapshotReader",
    "Table",
    "Walk",
    "cache_settings",
    "evict",
    "evict_trees",
    "order",
    "ranges",
    "residency",
    "samples",
    "snapshot_restore",
    "snapshot_save",
    "warm",
    "warm_trees",
]

PAGE_SIZE: int

_Path = str | bytes | PathLike[str] | PathLike[bytes]
_File = _Path | int | IO[Any]
_Sample = _Path | tuple[_Path, int, int | None]
_Told = tuple[int, int, int | None, int | None, int | None, int | None, str]
_Warmed = tuple[int, int | None, int | None, int | None, int, int, str | None, str | None]
_Stayed = tuple[int, int, int, int, int, int, int]
_Evicted = tuple[int, int | None, int | None, _Stayed | None, str | None]
_Report = tuple[int, int, int, int, int, int, int, str | None, list[OSError]]

def residency(file: _File, offset: int = 0, length: int | None = None) -> _Told: ...
def ranges(file: _File, offset: int = 0, length: int | None = None) -> list[tuple[int, int]]: ...
def samples(samples: Iterable[_Sample]) -> list[tuple[int, int | None]]: ...
def warm(file: _File, offset: int = 0, length: int | None = None, threads: int = 1) -> _Warmed: ...
def evict(file: _File, offset: int = 0, length: int | None = None, sync: bool = False) -> _Evicted: ...
_Sums = tuple[int, int, int, int, int, int, int, int, int, list[OSError]]
_Restored = tuple[int, int, int, int, int, int, int, int, int, int, list[OSError]]

def warm_trees(
    roots: Iterable[_Path],
    include: list[str],
    exclude: list[str],
    one_file_system: bool = False,
    threads: int | None = None,
    rate: int | None = None,
) -> _Sums: ...
def evict_trees(
    roots: Iterable[_Path],
    include: list[str],
    exclude: list[str],
    one_file_system: bool = False,
    threads: int | None = None,
    sync: bool = False,
) -> _Sums: ...
def snapshot_save(
    snapshot: _Path,
    roots: Iterable[_Path],
    include: list[str],
    exclude: list[str],
    one_file_system: bool = False,
) -> tuple[int, int, int, list[OSError]]: ...
def snapshot_restore(
    snapshot: _Path,
    anyway: bool = False,
    threads: int = 8,
    rate: int | None = None,
    most: int | None = None,
) -> _Restored: ...
def order(paths: Iterable[_Path]) -> list[int]: ...
@final
class Walk(Iterator[tuple[str | None, int, _Told | None, str | None, OSError | None]]):
    def __new__(
        cls,
        roots: Iterable[_Path],
        include: list[str],
        exclude: list[str],
        one_file_system: bool = False,
        threads: int | None = None,
    ) -> Walk: ...
    def __iter__(self) -> Walk: ...
    def __next__(self) -> tuple[str | None, int, _Told | None, str | None, OSError | None]: ...
    def close(self) -> None: ...
@final
class Baselines:
    @staticmethod
    def of(roots: Iterable[_Path], one_file_system: bool) -> tuple[Baselines, list[OSError]]: ...
    def files(self) -> list[tuple[str, int, int, int, int, int]]: ...
    def drop_inserted(self, number: int, file: _File, start: int, end: int) -> tuple[int, int] | None: ...
@final
class SnapshotReader(Iterator[tuple[str, int, list[tuple[int, int]]]]):
    def __new__(cls, snapshot: _Path) -> SnapshotReader: ...
    def __iter__(self) -> SnapshotReader: ...
    def __next__(self) -> tuple[str, int, list[tuple[int, int]]]: ...
@final
class Table:
    @staticmethod
    def of(
        roots: Iterable[_Path],
        include: list[str],
        exclude: list[str],
        one_file_system: bool = False,
        threads: int | None = None,
    ) -> tuple[Table, list[OSError]]: ...
    def __len__(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
@final
class Scan(Iterator[tuple[str, int, bytes]]):
    def __iter__(self) -> Scan: ...
    def __next__(self) -> tuple[str, int, bytes]: ...
    def close(self) -> None: ...
    def report(self) -> _Report | None: ...
@final
class Scanner:
    def __new__(
        cls,
        paths: Iterable[_Path],
        mode: str,
        keep: str,
        seed: int = 0,
        chunk: int | None = None,
        block: int | None = None,
    ) -> Scanner: ...
    def scan(self, mode: str, seed: int) -> Scan: ...
@final
class Object:
    @property
    def size(self) -> int: ...

@final
class Cache:
    def __new__(cls, origin: _Path, settings: list[tuple[str, str]]) -> Cache: ...
    def get(self, path: _Path, offset: int, length: int | None) -> bytes: ...
    def look(self, path: _Path) -> Object: ...
    def read(self, object: Object, offset: int, length: int | None) -> bytes: ...
    def warm(self, paths: Iterable[_Path]) -> tuple[int, int, list[OSError]]: ...
    def table(self) -> str: ...
    def warnings(self) -> list[str]: ...
    def close(self) -> None: ...

def cache_settings() -> list[tuple[str, str, str, str]]: ...
