"""The file system of fsspec: shielded, and in the order with the most hits."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cachewise
from cachewise import PAGE_SIZE

fsspec = pytest.importorskip("fsspec")

Make = Callable[..., Path]
Resident = Callable[[Path], set[int]]


@pytest.fixture
def system() -> Any:
    """The file system, by the name that the package registers."""
    return fsspec.filesystem("cachewise")


def test_reads_leave_the_cache_as_it_was(make: Make, system: Any, resident: Resident) -> None:
    path = make("file", 512, 100)
    before, content = resident(path), None
    with fsspec.open(f"cachewise://{path}") as file:
        content = file.read()
    assert content is not None and len(content) == 512 * PAGE_SIZE
    assert resident(path) <= before, "an open file"
    assert system.cat_file(str(path)) == content == path.read_bytes()
    cachewise.evict(path)
    assert system.cat_file(str(path), start=10, end=20) == content[10:20]
    assert system.cat(f"cachewise://{path}") == content
    system.get(str(path), f"{path}.copy")
    assert Path(f"{path}.copy").read_bytes() == content
    assert resident(path) == set(), "whichever way"


def test_several_files_come_by_name_and_are_read_resident_first(
    make: Make, system: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(make(f"file{number}", 16, number * 8)) for number in range(3)]
    read: list[str] = []
    whole = type(system).open

    def noting(self: Any, path: str, *arguments: Any, **options: Any) -> Any:
        read.append(path)
        return whole(self, path, *arguments, **options)

    monkeypatch.setattr(type(system), "open", noting)
    found = system.cat(paths)
    assert list(found) == paths, "in the order given"
    assert read == paths[::-1], "read from the most resident one on"
    contents = {path: Path(path).read_bytes() for path in paths}
    assert found == contents
    starts, ends = [5, 0, 7, 3], [9, 4, 8, 6]
    asked = [paths[0], paths[2], paths[0], paths[1]]
    ranges = system.cat_ranges(asked, starts, ends)
    expected = [contents[path][start:end] for path, start, end in zip(asked, starts, ends, strict=True)]
    assert ranges == expected, "each where it was asked"


def test_the_rest_is_the_local_file_system(system: Any, tmp_path: Path) -> None:
    path = tmp_path / "written"
    with system.open(str(path), "wb") as file:
        file.write(b"abc")
    with system.open(str(path), "r") as text:
        assert text.read() == "abc"
    assert system.ls(str(tmp_path), detail=False) == [str(path)]
    assert system.unstrip_protocol(str(path)) == f"cachewise://{path}"
    with pytest.raises(FileNotFoundError):
        system.open(str(tmp_path / "missing"))
    with pytest.raises(IsADirectoryError):
        system.open(str(tmp_path))


def test_parquet_is_read_without_a_trace(system: Any, tmp_path: Path, resident: Resident) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "table.parquet"
    table = pyarrow.table({"number": list(range(500_000)), "text": [str(number) for number in range(500_000)]})
    parquet.write_table(table, path, row_group_size=50_000)
    assert cachewise.evict(path, sync=True).after_pages == 0
    assert parquet.read_table(str(path), filesystem=system).equals(table)
    # Its reader is closed when it is collected.
    gc.collect()
    assert resident(path) == set(), "nothing of it stays"
    with cachewise.shield([path]) as shield, shield.open(path) as file:
        total = sum(batch.num_rows for batch in parquet.ParquetFile(file).iter_batches())
    assert total == 500_000 and resident(path) == set()
