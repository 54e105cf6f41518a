"""The example's figures, with less data: what orders make the disk read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_orders_read_what_does_not_fit(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a control group with little memory needs root")
    groups = [Path("/sys/fs/cgroup/memory/memory.kmem.usage_in_bytes"), Path("/sys/fs/cgroup/cgroup.controllers")]
    if not any(group.exists() for group in groups):
        pytest.skip("no control groups of memory here")
    example = Path(__file__).parents[1] / "examples" / "epochs.py"
    arguments = ["--files", "128", "--memory", "96", "--epochs", "5", "--json"]
    ended = subprocess.run(
        [sys.executable, str(example), *arguments, "--directory", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "Permission denied" in ended.stderr or "Read-only file system" in ended.stderr:
        pytest.skip(f"control groups cannot be made here: {ended.stderr.splitlines()[-1]}")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    rows = {row["order"]: row for row in found["rows"]}
    assert len(rows) == 4, "each order"
    after = {}
    for order, row in rows.items():
        first, *_ = row["read_bytes"]
        assert first >= 0.9 * found["total_bytes"], f"{order}: nothing was there at first: {row}"
        after[order] = sum(row["read_bytes"][2:])
        assert min(row["read_bytes"]) >= 0.8 * row["bound_bytes"], f"{order}: not below the bound: {row}"
    assert after["resident first"] < after["random"], f"less than at random: {rows}"
    assert after["scan, kept"] < after["random"], f"less than at random: {rows}"
    left = [path for path in tmp_path.iterdir() if path.name != "probe"]
    assert left == [], "and nothing is left"
