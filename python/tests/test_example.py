"""The example's figures, with less data: what orders make the disk read."""

from __future__ import annotations

import json
import os
import runpy
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
EXAMPLE = EXAMPLES / "epochs.py"


def made(root: Path, controllers: str, below: str) -> Path:
    root.mkdir()
    (root / "cgroup.controllers").write_text(controllers)
    (root / "cgroup.subtree_control").write_text(below)
    return root


def test_where_memory_cannot_be_made_small_that_is_said(tmp_path: Path) -> None:
    example: dict[str, Any] = runpy.run_path(str(EXAMPLE))
    groups, no_groups = example["groups"], example["NoGroups"]
    assert groups(made(tmp_path / "v2", "cpu memory\n", "memory\n")) == (tmp_path / "v2", False)
    with pytest.raises(no_groups, match="cgroup_enable"):
        groups(made(tmp_path / "without", "cpu io\n", "cpu\n"))
    with pytest.raises(no_groups, match=r"echo \+memory"):
        groups(made(tmp_path / "not_below", "memory\n", "\n"))
    with pytest.raises(no_groups, match="no control groups"):
        groups(tmp_path / "nothing")
    hybrid = made(tmp_path / "hybrid", "", "")
    (hybrid / "memory").mkdir()
    (hybrid / "memory" / "cgroup.procs").write_text("")
    assert groups(hybrid) == (hybrid / "memory", True)


def read_by_orders(directory: Path) -> dict[str, Any]:
    arguments = ["--files", "128", "--memory", "96", "--epochs", "5", "--json"]
    ended = subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments, "--directory", str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.stderr.startswith("epochs.py: "):
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, ended.stderr
    left = [path for path in directory.iterdir() if path.name != "probe"]
    assert left == [], "and nothing is left"
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


#: Maximum that an order may read beyond the bound: two files are in flight while others are kept, up to four are admitted
#: on trial, each in place of a resident one, and the kernel keeps some memory in batches.
MOST_BEYOND = (2 + 4 + 1) << 20


def test_orders_read_what_does_not_fit(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a control group with little memory needs root")
    found = read_by_orders(tmp_path)
    rows = {row["order"]: row for row in found["rows"]}
    assert len(rows) == 4, "each order"
    after = {}
    for order, row in rows.items():
        first, *_ = row["read_bytes"]
        assert first >= 0.9 * found["total_bytes"], f"{order}: nothing was there at first: {row}"
        after[order] = row["read_bytes"][2:]
        for read, (least, _) in zip(row["read_bytes"], row["bound_bytes"], strict=True):
            assert read >= 0.8 * least, f"{order}: not below the bound: {row}"
    for order in ("resident first", "scan, kept"):
        # Pages that other memory displaced in the epoch before are read in this one.
        most = [most for _, most in rows[order]["bound_bytes"]]
        bounds = list(map(max, most[1:], most[2:]))
        # One epoch may have met a reclaimer, which works every few seconds.
        beyond = statistics.median(read - bound for read, bound in zip(after[order], bounds, strict=True))
        assert beyond <= MOST_BEYOND, f"{order}: as good as the bound: {rows}"
        assert sum(after[order]) < sum(after["random"]), f"{order}: less than at random: {rows}"


def test_a_shielded_scan_leaves_hot_pages_of_another_process_alone(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a control group with little memory needs root")
    arguments = ["--memory", "256", "--rounds", "1", "--json", "--directory", str(tmp_path)]
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / "parquet_scan.py"), *arguments], capture_output=True, text=True, check=False
    )
    if ended.stderr.startswith("parquet_scan.py: "):
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    (without,), (shielded,) = found["rows"]["without"], found["rows"]["with a shield"]
    for row in (without, shielded):
        assert row["scan_bytes"] >= 0.9 * found["scan_bytes"], f"the scan reads all files: {found}"
    assert without["hot_bytes"] > found["hot_bytes"] // 20, f"the scan displaces hot pages: {found}"
    # A reclaimer of the machine may take some too.
    assert shielded["hot_bytes"] < without["hot_bytes"] // 4, f"and a shielded one leaves them: {found}"
