from collections.abc import Iterable, Iterator
from os import PathLike
from typing import IO, Any, final

__all__ = [
    "PAGE_SIZE",
    "Scan",
    "Scanner",
    "Walk",
    "evict",
    "order",
    "ranges",
    "residency",
    "samples",
    "warm",
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
