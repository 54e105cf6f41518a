#!/usr/bin/env python3
"""Reads a data set that is larger than memory for several epochs, in four orders, and says what each made the disk read.

It needs root: memory is made small by a control group of its own (of version 1 or 2), which is removed again, so that the
machine is not disturbed and the figures mean the same on any machine. The bound is what no order can save: what does not
fit into the group beside the program itself.

    sudo python3 epochs.py [--files 384] [--memory 288] [--epochs 6] [--directory DIR] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import cachewise

MIB = 1 << 20


def read_whole(path: Path) -> int:
    with path.open("rb", buffering=0) as file:
        return len(file.read())


#: For each epoch, the bytes of each file as it is read.
Epochs = Iterator[Iterator[int]]


def random_order(paths: list[Path]) -> Epochs:
    """What a data loader does: another random order each epoch."""
    for epoch in range(sys.maxsize):
        order = list(paths)
        random.Random(epoch).shuffle(order)
        yield map(read_whole, order)


def sampled(paths: list[Path], **options: bool | int) -> Epochs:
    sampler = cachewise.CacheAwareSampler(paths, **options)  # type: ignore[arg-type]
    for epoch in range(sys.maxsize):
        sampler.set_epoch(epoch)
        yield (read_whole(paths[number]) for number in sampler)


def resident_first(paths: list[Path]) -> Epochs:
    """CacheAwareSampler(samples)"""
    return sampled(paths)


def kept(paths: list[Path]) -> Epochs:
    """CacheAwareSampler(samples, resident_first=False, keep=True)"""
    return sampled(paths, resident_first=False, keep=True, behind=4)


def scanned(paths: list[Path]) -> Epochs:
    """Scanner(paths, mode="shuffle", keep="keep").scan(seed=epoch)"""
    scanner = cachewise.Scanner(paths, mode="shuffle", keep="keep")
    for epoch in range(sys.maxsize):
        yield (len(block.data) for block in scanner.scan(seed=epoch))


ORDERS: dict[str, Callable[[list[Path]], Epochs]] = {
    "random": random_order,
    "resident first": resident_first,
    "random, kept": kept,
    "scan, kept": scanned,
}


def from_disk() -> int:
    """What this process and its threads made devices read."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes:"))


class NoGroups(Exception):
    """Memory cannot be made small here."""


def groups(root: Path = Path("/sys/fs/cgroup")) -> tuple[Path, bool]:
    """Say where control groups of memory are made, and whether they are of version 1."""
    if (root / "memory" / "memory.limit_in_bytes").exists() or (root / "memory" / "cgroup.procs").exists():
        return root / "memory", True
    controllers = root / "cgroup.controllers"
    if not controllers.exists():
        raise NoGroups(f"{root} has no control groups: mount them there (cgroup2)")
    if "memory" not in controllers.read_text().split():
        raise NoGroups(f"{controllers} does not have memory: boot with cgroup_enable=memory, or leave the container")
    below = root / "cgroup.subtree_control"
    if "memory" not in below.read_text().split():
        raise NoGroups(f"{below} does not have memory: echo +memory | sudo tee {below}")
    return root, False


class Group:
    """A control group with little memory."""

    def __init__(self, memory: int) -> None:
        parent, self.is_version1 = groups()
        self.path = parent / f"cachewise-{os.getpid()}"
        try:
            self.path.mkdir()
        except OSError as error:
            raise NoGroups(f"control groups cannot be made here: {error}") from error
        (self.path / ("memory.limit_in_bytes" if self.is_version1 else "memory.max")).write_text(f"{memory}")

    def enter(self) -> None:
        (self.path / "cgroup.procs").write_text(f"{os.getpid()}")

    def beside(self) -> int:
        """What the program itself takes of it at this moment, and the kernel for it."""
        stat = dict(line.split() for line in (self.path / "memory.stat").read_text().splitlines())
        if self.is_version1:
            return int(stat["rss"]) + int((self.path / "memory.kmem.usage_in_bytes").read_text())
        # Without a sum of it, before Linux 5.18, its largest parts.
        kernel = stat.get("kernel") or sum(int(stat.get(part, 0)) for part in ("slab", "kernel_stack", "pagetables"))
        return int(stat["anon"]) + int(kernel)

    def remove(self) -> None:
        self.path.rmdir()


def inside(name: str, directory: Path, group: Group, epochs: int) -> dict[str, object]:
    """Reads, in a process that is in the group, and says how much came from the disk each epoch."""
    group.enter()
    paths = sorted(directory.iterdir())
    total = sum(path.stat().st_size for path in paths)
    readings = ORDERS[name](paths)
    per_epoch, beside = [], []
    for _ in range(epochs):
        before = from_disk()
        read = 0
        # Buffers of files in flight are a part of it, and what the kernel keeps for a time.
        meanwhile = []
        for length in next(readings):
            read += length
            meanwhile.append(group.beside())
        assert read == total, f"every byte once: {read} of {total}"
        per_epoch.append(from_disk() - before)
        beside.append([min(meanwhile), max(meanwhile)])
    return {"read_bytes": per_epoch, "beside_bytes": beside}


def in_a_child(name: str, directory: Path, group: Group, epochs: int) -> dict[str, object]:
    for path in directory.iterdir():
        # A page that the kernel is looking at this very moment stays, and goes the next time.
        tries = (cachewise.evict(path, sync=True) for _ in range(10))
        assert any(evicted.after_pages == 0 for evicted in tries), f"it begins with nothing in memory: {path}"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        status = 1
        try:
            os.write(write, json.dumps(inside(name, directory, group, epochs)).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as answer_of:
        answer = answer_of.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"{name}: the process in the group ended with {status}")
    found: dict[str, object] = json.loads(answer)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=384, help="files of 1 MiB")
    parser.add_argument("--memory", type=int, default=288, help="MiB that the group has")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--directory", type=Path, help="where the data set is made; on a disk")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("epochs.py: a control group with little memory needs root")
    if arguments.epochs < 3:
        sys.exit("epochs.py: three epochs at least: the first two are left out of the medians")
    total = arguments.files * MIB
    try:
        group = Group(arguments.memory * MIB)
    except NoGroups as why:
        sys.exit(f"epochs.py: {why}")
    rows = []
    try:
        with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
            directory = Path(name)
            for number in range(arguments.files):
                (directory / f"{number:05}").write_bytes(os.urandom(MIB))
            subprocess.run(["sync", "-f", name], check=True)
            for order in ORDERS:
                found = in_a_child(order, directory, group, arguments.epochs)
                per_epoch = found["read_bytes"]
                beside = found["beside_bytes"]
                assert isinstance(per_epoch, list) and isinstance(beside, list)
                # Of each epoch: with the least and the most memory beside the data.
                bounds = [[max(0, total - (arguments.memory * MIB - most)) for most in epoch] for epoch in beside]
                rows.append({"order": order, "bound_bytes": bounds, "read_bytes": per_epoch})
    finally:
        group.remove()
    if arguments.json:
        print(json.dumps({"total_bytes": total, "memory_bytes": arguments.memory * MIB, "rows": rows}))
        return
    print(f"{arguments.files} MiB in files of 1 MiB, {arguments.memory} MiB of memory; MiB from the disk")
    print(f"{'order':16} {'bound':>6} {'median':>7}   each epoch")
    for row in rows:
        per_epoch = row["read_bytes"]
        # In the first epoch nothing is there, and in the second what the first left is found out.
        median = statistics.median(per_epoch[2:])
        bound = statistics.median(most for _, most in row["bound_bytes"][2:])
        each = " ".join(f"{bytes_ / MIB:.0f}" for bytes_ in per_epoch)
        print(f"{row['order']:16} {bound / MIB:6.0f} {median / MIB:7.0f}   {each}")


if __name__ == "__main__":
    main()
