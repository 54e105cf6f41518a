#!/usr/bin/env python3
"""Scans Parquet files twice the size of memory while another process serves hot reads, and says what both made the disk read.

It needs root: memory is made small by a control group of its own (of version 1 or 2), which is removed again. The other
process reads a file of half that memory at random, at a fixed number of reads, in the same group. The scan is done in turn
without a shield and with one. With pyarrow the files are Parquet; without it they are plain files of the same size.

    sudo python3 parquet_scan.py [--memory 512] [--rounds 3] [--directory DIR] [--json]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import runpy
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cachewise

MIB = 1 << 20
PART = 16 * MIB
#: Pages that the other process reads for each file of the scan.
READS = 2048

EPOCHS: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("epochs.py")))


def has_pyarrow() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def write_part(path: Path, seed: int) -> None:
    """Write a file of about 16 MiB that does not compress."""
    content = random.Random(seed).randbytes(PART)
    if has_pyarrow():
        import pyarrow
        from pyarrow import parquet

        numbers = pyarrow.Array.from_buffers(pyarrow.int64(), PART // 8, [None, pyarrow.py_buffer(content)])
        table = pyarrow.table({"number": numbers})
        parquet.write_table(table, path, row_group_size=PART // 32, compression="none", use_dictionary=False)
    else:
        path.write_bytes(content)


def read_part(path: str) -> int:
    """Read a file as an analysis does: row group by row group."""
    if has_pyarrow():
        from pyarrow import parquet

        with parquet.ParquetFile(path, pre_buffer=False) as file:
            return sum(file.read_row_group(number).num_rows for number in range(file.num_row_groups))
    with open(path, "rb") as file:
        return len(file.read())


def from_disk() -> int:
    found: int = EPOCHS["from_disk"]()
    return found


def take_turns() -> None:
    """Let the other process read, so that no clock decides how the two meet."""
    print(flush=True)
    sys.stdin.readline()


def unshielded(paths: list[Path]) -> None:
    """for path in paths"""
    for path in paths:
        read_part(str(path))
        take_turns()


def shielded(paths: list[Path]) -> None:
    """with cachewise.shield(paths) as shield: for path in shield"""
    with cachewise.shield(paths) as shield:
        for path in shield:
            read_part(path)
            take_turns()


SCANS: dict[str, Callable[[list[Path]], None]] = {"without": unshielded, "with a shield": shielded}


def serve(hot: Path, seed: int) -> None:
    """Read pages at random, a number for each line on standard input; at its end, say what the disk read for them."""
    choose, size, page = random.Random(seed), hot.stat().st_size, cachewise.PAGE_SIZE
    file = os.open(hot, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    for offset in range(0, size, MIB):
        os.pread(file, MIB, offset)
    before = from_disk()
    print(flush=True)
    for _ in sys.stdin:
        for _ in range(READS):
            os.pread(file, page, choose.randrange(size // page) * page)
        print(flush=True)
    print(from_disk() - before, flush=True)


def one_round(group: Any, hot: Path, paths: list[Path], scan: str, seed: int) -> dict[str, int]:
    """Scan all files beside the other process, both in the group. Returns the bytes that each made the disk read."""
    for path in [hot, *paths]:
        cachewise.evict(path)
    here = [sys.executable, __file__, "--directory", str(hot.parent), "--part"]

    def start(*part: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*here, *part], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=group.enter
        )

    server = start("serve", str(seed))
    assert server.stdin is not None and server.stdout is not None
    server.stdout.readline()
    scanner = start(scan)
    assert scanner.stdin is not None and scanner.stdout is not None
    scanned = 0
    for line in scanner.stdout:
        if line.strip():
            scanned = int(line)
            continue
        server.stdin.write("\n")
        server.stdin.flush()
        scanner.stdin.write(server.stdout.readline())
        scanner.stdin.flush()
    server.stdin.close()
    served = int(server.stdout.readline())
    if scanner.wait() or server.wait():
        raise SystemExit(f"{scan}: a process failed")
    return {"hot_bytes": served, "scan_bytes": scanned}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--memory", type=int, default=512, help="MiB of the control group [default: %(default)s]")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each way [default: %(default)s]")
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"), help="where the files go [default: %(default)s]")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        part, *rest = arguments.part
        if part == "serve":
            serve(arguments.directory / "hot", int(rest[0]))
        else:
            before = from_disk()
            SCANS[part](sorted(arguments.directory.glob("*.parquet")))
            print(from_disk() - before)
        return
    memory = arguments.memory * MIB
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        hot, paths = Path(directory) / "hot", []
        hot.write_bytes(os.urandom(memory // 2))
        for number in range(2 * memory // PART):
            paths.append(Path(directory) / f"{number:03}.parquet")
            write_part(paths[-1], number)
        for path in [hot, *paths]:
            cachewise.evict(path, sync=True)
        try:
            group = EPOCHS["Group"](memory)
        except EPOCHS["NoGroups"] as error:
            sys.exit(f"{Path(__file__).name}: {error}")
        rows: dict[str, list[dict[str, int]]] = {scan: [] for scan in SCANS}
        try:
            for seed in range(arguments.rounds):
                for scan in SCANS:
                    rows[scan].append(one_round(group, hot, paths, scan, seed))
        finally:
            group.remove()
        total = sum(path.stat().st_size for path in paths)
    if arguments.json:
        print(json.dumps({"memory_bytes": memory, "hot_bytes": memory // 2, "scan_bytes": total, "rows": rows}))
        return
    print(f"{total // MIB} MiB scanned, {memory // 2 // MIB} MiB hot, {memory // MIB} MiB of memory; MiB from the disk:")
    print(f"{'scan':<16}{'hot reads':>20}{'scan':>20}")
    for scan, found in rows.items():
        cells = []
        for key in ("hot_bytes", "scan_bytes"):
            values = sorted(one[key] / MIB for one in found)
            cells.append(f"{statistics.median(values):.1f} ({values[0]:.1f}-{values[-1]:.1f})")
        print(f"{scan:<16}{cells[0]:>20}{cells[1]:>20}")


if __name__ == "__main__":
    main()
