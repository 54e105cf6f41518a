"""Trees are prefetched, evicted, and put into tables."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cachewise
from cachewise import PAGE_SIZE

Make = Callable[..., Path]
Resident = Callable[[Path], set[int]]


@pytest.fixture
def tree(make: Make, tmp_path: Path) -> list[Path]:
    """Three files in directories, of 64 pages each, of which none, 16 and all are resident."""
    for name in ("tree", "tree/a", "tree/b"):
        (tmp_path / name).mkdir()
    return [make(name, 64, pages) for name, pages in [("tree/a/0", 0), ("tree/a/16.idx", 16), ("tree/b/64.idx", 64)]]


def test_warm_tree_brings_in_what_is_missing(tree: list[Path], tmp_path: Path, resident: Resident) -> None:
    before = sum(len(resident(path)) for path in tree)
    warmed = cachewise.warm_tree(tmp_path / "tree", threads=2)
    assert (warmed.files, warmed.total_pages) == (3, 3 * 64), f"{warmed}"
    assert (warmed.before_pages, warmed.after_pages) == (before, 3 * 64), f"{warmed}"
    assert warmed.read_bytes == warmed.inserted_pages * PAGE_SIZE == (3 * 64 - before) * PAGE_SIZE, f"{warmed}"
    assert (warmed.unknown_files, warmed.short_files, warmed.hole_pages) == (0, 0, 0), f"{warmed}"
    assert [len(resident(path)) for path in tree] == [64] * 3


def test_evict_tree_takes_patterns(tree: list[Path], tmp_path: Path, resident: Resident) -> None:
    evicted = cachewise.evict_tree(tmp_path, include="*.idx", exclude=["a"])
    assert (evicted.files, evicted.total_pages, evicted.after_pages) == (1, 64, 0), f"{evicted}"
    assert evicted.evicted_pages == evicted.before_pages and evicted.short_files == 0, f"{evicted}"
    assert resident(tree[2]) == set() and len(resident(tree[1])) > 0, "and the others stay"


def test_dirty_pages_of_a_tree_go_with_sync(tmp_path: Path, resident: Resident) -> None:
    path = tmp_path / "dirty"
    path.write_bytes(bytes(8 * PAGE_SIZE))
    assert cachewise.evict_tree(tmp_path, sync=True).after_pages == 0
    assert resident(path) == set() and path.read_bytes() == bytes(8 * PAGE_SIZE)


@pytest.mark.parametrize("call", [cachewise.warm_tree, cachewise.evict_tree, cachewise.residency_table])
def test_what_is_missing_is_an_error_after_all_else(
    call: Callable[..., object], tree: list[Path], tmp_path: Path, resident: Resident
) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError) as raised:
        call(missing, tree[0])
    assert raised.value.filename == str(missing), "with its path"
    errors: list[OSError] = []
    call(missing, tree[0], onerror=errors.append)
    assert [error.filename for error in errors] == [str(missing)]
    if call is cachewise.warm_tree:
        assert len(resident(tree[0])) == 64, "the other one was worked on"
    with pytest.raises(TypeError, match="needs a file or a directory"):
        call()
    with pytest.raises(TypeError, match="expected a path"):
        call(1.5)
    with pytest.raises(ValueError, match="threads"):
        call(tmp_path, threads=0)


def test_what_may_not_be_opened_is_an_error_with_its_path(tree: list[Path], tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("another user: needs root")
    # Every directory above must be one that others may pass.
    for directory in [tmp_path, *tmp_path.parents[:-1]]:
        if not directory.stat().st_mode & 0o001:
            directory.chmod(directory.stat().st_mode | 0o011)
    tree[0].chmod(0o600)
    program = (
        "import os, sys, cachewise\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "errors = []\n"
        "cachewise.warm_tree(sys.argv[1], onerror=errors.append)\n"
        "print(*[f'{type(error).__name__} {error.filename}' for error in errors], sep='\\n')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "tree"], capture_output=True, text=True, check=False
    )
    if "No module named" in ended.stderr or "can't open" in ended.stderr:
        pytest.skip("the package is in a directory that other users may not read")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [f"PermissionError {tree[0]}"], "that file alone"


def test_a_table_has_a_row_for_each_file(tree: list[Path], tmp_path: Path, resident: Resident) -> None:
    odd = os.fsencode(tmp_path / "tree") + b"/\xff"
    with open(odd, "wb") as file:
        file.write(b"x")
    table = cachewise.residency_table(tmp_path / "tree")
    assert len(table) == 4
    assert table.column_names[:4] == ["path", "size_bytes", "total_pages", "resident_pages"]
    assert table.column_names[-1] == "reason"
    capsule = table.__arrow_c_stream__()
    assert type(capsule).__name__ == "PyCapsule" and "arrow_array_stream" in repr(capsule)
    # One that no reader takes is released.
    del capsule


def test_arrow_reads_a_table(tree: list[Path], tmp_path: Path, resident: Resident) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = cachewise.residency_table(tmp_path / "tree")
    for read in (table.to_pyarrow(), pyarrow.table(table)):
        rows = {row["path"]: row for row in read.to_pylist()}
        assert len(rows) == 3
        for path in tree:
            row = rows[str(path)]
            assert row["resident_pages"] == len(resident(path)), f"{row}"
            assert (row["size_bytes"], row["total_pages"]) == (64 * PAGE_SIZE, 64)
            assert row["reason"] is None and row["source"] in ("cachestat", "mincore")
        assert read.schema.field("resident_pages").type == pyarrow.uint64()
    del table
    assert read.num_rows == 3, "the columns outlive the table"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert cachewise.residency_table(empty).to_pyarrow().num_rows == 0


def test_unknown_residency_is_null_in_a_table(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    made_up = Path("/proc/self/status")
    rows = pyarrow.table(cachewise.residency_table(made_up)).to_pylist()
    assert [(row["resident_pages"], row["dirty_pages"], row["source"]) for row in rows] == [(None, None, None)]
    assert rows[0]["reason"], "with the reason"
