"""Orders, and reading by them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cachewise
from cachewise import PAGE_SIZE

Make = Callable[..., Path]


def test_what_is_resident_comes_first(make: Make, tmp_path: Path) -> None:
    cold = make("a-cold", 16, 0)
    half = make("b-half", 16, 8)
    hot = make("c-hot", 16, 16)
    missing = tmp_path / "missing"
    paths = [cold, missing, half, hot]
    assert cachewise.order(paths) == [hot, half, cold, missing], "hottest first, nothing lost"
    assert cachewise.order(map(str, paths))[0] == str(hot), "the same objects, of any iterator"
    again = cachewise.order([cold, hot, cold, hot])
    assert again == [hot, hot, cold, cold], "given twice, there twice"
    assert cachewise.order([]) == [], "of nothing"


def test_a_scan_hands_out_every_byte_once(make: Make) -> None:
    paths = [make(f"file{number}", 300, number * 100) for number in range(3)]
    for mode in ("free", "fixed", "shuffle"):
        parts: dict[str, dict[int, bytes]] = {}
        with cachewise.scan(paths, mode=mode, chunk=1 << 18, block=1 << 16) as scan:
            for path, offset, data in scan:
                assert 0 < len(data) <= 1 << 16, "a block is no longer than asked for"
                assert parts.setdefault(path, {}).setdefault(offset, data) is data, "once"
        for path in map(str, paths):
            whole = b"".join(data for _, data in sorted(parts[path].items()))
            assert whole == Path(path).read_bytes(), f"{mode}: {path}"
        assert scan.report is not None
        assert scan.report.read_bytes == 900 * PAGE_SIZE, f"{mode}: {scan.report}"


def test_a_scan_begins_with_what_is_resident(make: Make) -> None:
    cold, hot = make("cold", 256, 0), make("hot", 256, 256)
    first = next(cachewise.scan([cold, hot]))
    assert first.path == str(hot), "though it was given last"
    fixed = [block.path for block in cachewise.scan([cold, hot], mode="fixed", block=1 << 30)]
    assert fixed == [str(cold), str(hot)], "unless the order is fixed"


def test_as_found_leaves_the_cache_as_it_was(make: Make) -> None:
    path = make("file", 1024, 0)
    digest = hashlib.sha256()
    for block in cachewise.scan([path], mode="fixed", keep="as-found"):
        digest.update(block.data)
    assert digest.hexdigest() == hashlib.sha256(path.read_bytes()).hexdigest(), "all of it"
    cachewise.evict(path)
    for _ in cachewise.scan([path], keep="as-found"):
        pass
    assert cachewise.residency(path).resident_pages == 0, "as before"


def test_a_seed_means_an_order(make: Make) -> None:
    path = make("file", 4096, 0)
    scanner = cachewise.Scanner([path], mode="shuffle", chunk=1 << 20, block=1 << 20)

    def offsets(seed: int) -> list[int]:
        cachewise.evict(path)
        return [offset for _, offset, _ in scanner.scan(seed=seed)]

    assert offsets(1) == offsets(1), "the same"
    assert offsets(1) != offsets(2), "another"
    assert sorted(offsets(3)) == [number << 20 for number in range(16)], "of everything"


def test_what_is_left_early_can_be_begun_again(make: Make) -> None:
    path = make("file", 1024, 0)
    scanner = cachewise.Scanner([path], block=1 << 16)
    for _ in range(20):
        with pytest.raises(ZeroDivisionError), scanner.scan() as scan:
            for block in scan:
                _ = len(block.data) / 0
    scan = scanner.scan()
    next(scan)
    with pytest.raises(RuntimeError, match="under way"):
        scanner.scan()
    scan.close()
    assert list(scan) == [], "it has ended"
    assert sum(len(block.data) for block in scanner.scan()) == 1024 * PAGE_SIZE, "anew"


def test_what_cannot_be_opened_is_said(make: Make, tmp_path: Path) -> None:
    path, missing = make("file", 16, 0), tmp_path / "missing"
    read = 0
    with pytest.raises(FileNotFoundError) as raised:
        for block in cachewise.scan([missing, path]):
            read += len(block.data)
    assert raised.value.filename == str(missing), "with its path"
    assert read == 16 * PAGE_SIZE, "after all else was read"
    scan = cachewise.scan([missing, path], errors="report")
    assert sum(len(block.data) for block in scan) == 16 * PAGE_SIZE
    assert scan.report is not None
    assert [error.filename for error in scan.report.skipped] == [str(missing)], "in the report"


def test_a_file_that_is_cut_meanwhile_is_no_crash(make: Make) -> None:
    path = make("file", 2048, 0)
    scan = cachewise.scan([path], block=PAGE_SIZE)
    next(scan)
    os.truncate(path, PAGE_SIZE)
    assert sum(len(block.data) for block in scan) < 2048 * PAGE_SIZE, "what is left of it"


def in_a_process_of_its_own(program: str, *arguments: object) -> str:
    """Runs it, for what may hang; says what it wrote."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stdout


def test_a_handler_of_a_signal_may_close_what_is_waited_for(tmp_path: Path) -> None:
    # Signals come all the time, in the midst of whatever is done for the next block.
    program = """
import signal, sys, time
import cachewise
from pathlib import Path

paths = [Path(sys.argv[1]) / str(number) for number in range(64)]
for path in paths:
    path.write_bytes(bytes(1 << 20))
scan = cachewise.scan(paths, block=1 << 12)
calls = 0

def handler(*_):
    global calls
    calls += 1
    scan.report
    if calls >= 50:
        scan.close()

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for _ in scan:
    pass
while calls < 50:
    time.sleep(0.001)
signal.setitimer(signal.ITIMER_REAL, 0)
print("ended", scan.report is not None)
"""
    assert in_a_process_of_its_own(program, tmp_path) == "ended True\n"


def test_a_scan_may_be_dropped_at_any_time(make: Make) -> None:
    path = make("file", 4096, 4096)
    for _ in range(50):
        scan = cachewise.scan([path], block=1 << 12)
        next(scan)
        del scan
    assert len(list(cachewise.scan([path]))) > 0, "and again"


def test_a_sparse_file_of_any_size_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        for size in (7 << 60, 15 << 40):
            with contextlib.suppress(OSError):
                file.truncate(size)
                break
    assert path.stat().st_size >= 15 << 40, "file systems have files of 15 TiB"
    script = (
        "import resource, sys, cachewise\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "path = sys.argv[1]\n"
        "assert cachewise.order([path]) == [path]\n"
        "for mode in ('free', 'fixed', 'shuffle'):\n"
        "    with cachewise.scan([path], mode=mode, keep='keep') as scan:\n"
        "        block = next(scan)\n"
        "        assert not any(block.data), block\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
