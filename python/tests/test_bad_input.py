"""What is no file, no path, no list, or is gone."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cachewise

Make = Callable[..., Path]
ONE_FILE = [cachewise.residency, cachewise.ranges, cachewise.warm, cachewise.evict]
MANY_FILES = [cachewise.order, cachewise.scan, cachewise.Scanner, cachewise.CacheAwareSampler]


@pytest.mark.parametrize("call", ONE_FILE)
def test_a_closed_file(call: Callable[[Any], object], make: Make) -> None:
    file = make("file", 1, 1).open("rb")
    number = file.fileno()
    file.close()
    with pytest.raises(ValueError, match="closed file"):
        call(file)
    with pytest.raises(OSError) as raised:
        call(number)
    assert raised.value.errno == 9, "EBADF"


@pytest.mark.parametrize("call", ONE_FILE)
@pytest.mark.parametrize("wrong", [None, 1.5, True, [], {}, object(), "text".upper, -1.0])
def test_what_is_no_file(call: Callable[[Any], object], wrong: object) -> None:
    with pytest.raises(TypeError, match="expected a path"):
        call(wrong)


@pytest.mark.parametrize("call", ONE_FILE)
@pytest.mark.parametrize("name", ["fileno", "__fspath__"])
def test_what_an_object_of_the_callers_raises(call: Callable[[Any], object], name: str) -> None:
    def raises(_: object) -> object:
        raise ConnectionError("of its own")

    with pytest.raises(ConnectionError, match="of its own"):
        call(type("Failing", (), {name: property(raises)})())
    with pytest.raises(ConnectionError, match="of its own"):
        call(type("Failing", (), {name: raises})())


@pytest.mark.parametrize("call", ONE_FILE)
def test_numbers_that_are_none_of_a_file(call: Callable[[Any], object]) -> None:
    with pytest.raises(ValueError, match="negative"):
        call(-1)
    with pytest.raises(ValueError, match="out of range"):
        call(1 << 40)
    with pytest.raises(OSError):
        call((1 << 31) - 1)


@pytest.mark.parametrize("call", ONE_FILE)
def test_paths_that_lead_nowhere(call: Callable[[Any], object], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        call(tmp_path / "missing")
    assert raised.value.filename == str(tmp_path / "missing"), "with the path"
    assert raised.value.strerror == os.strerror(2), "and the kernel's words"
    with pytest.raises(ValueError, match="null byte"):
        call("a\0b")
    with pytest.raises(OSError):
        call("")
    with pytest.raises(OSError):
        call("x" * 5000)


@pytest.mark.parametrize("call", ONE_FILE)
def test_what_has_no_pages(call: Callable[[Any], object], tmp_path: Path) -> None:
    with pytest.raises(OSError):
        call(tmp_path)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(OSError):
        call(fifo)
    read, write = os.pipe()
    try:
        with pytest.raises(OSError):
            call(read)
    finally:
        os.close(read)
        os.close(write)


def test_what_the_kernel_makes_up_is_unknown() -> None:
    with pytest.raises(cachewise.ResidencyUnknown) as raised:
        cachewise.residency("/proc/self/status")
    assert raised.value.reason == "made_up", "by a name that stays the same"
    assert isinstance(raised.value, OSError)


def test_who_may_not_know_is_told_so(make: Make) -> None:
    if os.geteuid() != 0:
        pytest.skip("another user's file: needs root")
    path = make("file", 4, 4)
    path.chmod(0o644)
    for directory in path.parents[:3]:
        directory.chmod(0o755)
    script = (
        "import os, sys, cachewise\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try:\n    cachewise.residency(sys.argv[1])\n"
        "except PermissionError as error:\n"
        "    assert isinstance(error, cachewise.ResidencyDenied), error\n"
        "    print(error.reason)\n"
        "print([entry.reason for entry in cachewise.walk(sys.argv[1])])\n"
        "print(cachewise.order([sys.argv[1]]) == [sys.argv[1]])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split("\n")[:3] == ["no_permission", "['no_permission']", "True"]


@pytest.mark.parametrize("call", MANY_FILES)
def test_one_path_is_no_list(call: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match="several"):
        call("/etc/hostname")
    with pytest.raises(TypeError):
        call(7)


@pytest.mark.parametrize("call", [cachewise.order, cachewise.scan])
def test_what_an_iterator_raises_comes_through(call: Callable[[Any], object]) -> None:
    def paths() -> Iterator[str]:
        yield "/etc/hostname"
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        call(paths())
    with pytest.raises(TypeError, match="expected a path"):
        call(["/etc/hostname", 3])


def test_a_path_like_that_is_wrong() -> None:
    class Wrong:
        def __fspath__(self) -> int:
            return 3

    class Raises:
        def __fspath__(self) -> str:
            raise KeyError("where")

    with pytest.raises(TypeError, match="expected a path"):
        cachewise.residency(Wrong())  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        cachewise.residency(Raises())


def test_a_huge_list(make: Make) -> None:
    path = make("file", 1, 1)
    paths = [path] * 100_000
    assert len(cachewise.order(paths)) == 100_000, "all are there"
    missing = [f"/nonexistent/{number}" for number in range(100_000)]
    assert cachewise.order(missing) == missing, "as they were"


def test_values_out_of_range(make: Make) -> None:
    path = make("file", 4, 4)
    with pytest.raises(ValueError, match="negative"):
        cachewise.residency(path, -1)
    with pytest.raises(ValueError, match="negative"):
        cachewise.residency(path, 0, -1)
    with pytest.raises(ValueError, match="out of range"):
        cachewise.residency(path, 1 << 64)
    with pytest.raises(OSError):
        cachewise.residency(path, (1 << 63) - 1, 2)
    beyond = cachewise.residency(path, 1 << 40)
    assert (beyond.total_pages, beyond.resident_pages) == (0, 0), "nothing is there"
    for threads in (0, 513):
        with pytest.raises(ValueError, match="threads"):
            cachewise.warm(path, threads=threads)
        with pytest.raises(ValueError, match="threads"):
            cachewise.walk(path, threads=threads)
    for size in (0, 1 << 40):
        with pytest.raises(ValueError, match="block"):
            cachewise.scan([path], block=size)
    with pytest.raises(ValueError, match="mode"):
        cachewise.scan([path], mode="best")
    with pytest.raises(ValueError, match="keep"):
        cachewise.scan([path], keep="all")
    with pytest.raises(ValueError, match="errors"):
        cachewise.scan([path], errors="ignore")
    with pytest.raises(ValueError, match="pattern"):
        cachewise.walk(path, include="[")
    with pytest.raises(TypeError):
        cachewise.walk()
    with pytest.raises(ValueError, match="behind"):
        cachewise.CacheAwareSampler([path], behind=0)


def test_records_are_plain_data(make: Make) -> None:
    told = cachewise.residency(make("file", 4, 4))
    assert pickle.loads(pickle.dumps(told)) == told, "to another process and back"
    with pytest.raises(AttributeError):
        told.total_pages = 3  # type: ignore[misc]


def test_ctrl_c_ends_what_takes_long(tmp_path: Path) -> None:
    # A sparse file is walked through without a read; a large one from a disk takes its time.
    path = tmp_path / "large"
    with path.open("wb") as file:
        for _ in range(64):
            file.write(os.urandom(1 << 20))
    cachewise.evict(path, sync=True)
    script = (
        "import cachewise, signal, sys\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
        "try:\n"
        "    while True:\n"
        "        for _ in cachewise.scan([sys.argv[1]]): pass\n"
        "except KeyboardInterrupt:\n"
        "    print('ended')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.stdout == "ended\n", ended.stderr
