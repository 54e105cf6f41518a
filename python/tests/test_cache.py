"""The block cache: bytes, settings, errors, processes and signals."""

from __future__ import annotations

import array
import errno
import functools
import http.server
import inspect
import io
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import zipfile
from pathlib import Path
from typing import Any

import pytest

import cachewise
from cachewise import BlockCache, _native

MIB = 1 << 20
#: Far beyond what anything here takes.
LONG = 60


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A directory with files of odd sizes."""
    root = tmp_path / "origin"
    (root / "below" / "it").mkdir(parents=True)
    (root / "large").write_bytes(random.Random(1).randbytes(20 * MIB + 7))
    (root / "below" / "small").write_bytes(b"some bytes")
    (root / "below" / "it" / "odd").write_bytes(random.Random(2).randbytes(300_001))
    (root / "empty").write_bytes(b"")
    return root


def hits(cache: BlockCache, tier: str) -> int:
    rows = {row["name"]: row for row in cache.stat()["tiers"]}
    return int(rows[tier]["hits_total"])


def test_bytes_are_those_of_the_files(origin: Path) -> None:
    large = (origin / "large").read_bytes()
    with BlockCache(origin) as cache:
        assert cache.get("large") == large, "whole, also beyond what one read may have"
        assert cache.get("below/small") == b"some bytes"
        assert cache.get(b"empty") == b""
        for offset, length in [(0, 0), (0, 1), (131_071, 2), (1, 9 * MIB), (20 * MIB, 100), (21 * MIB, 5)]:
            found = cache.get(Path("large"), offset, length)
            assert found == large[offset : offset + length], f"{length} from {offset}"
        assert cache.get("large", 20 * MIB) == large[20 * MIB :], "to the end"


def test_file_that_cannot_be_opened_gives_no_cached_bytes(origin: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("another user's file: needs root")
    secret = origin / "below" / "small"
    secret.chmod(0o600)
    time.sleep(0.2)
    with BlockCache(origin) as cache:
        for _ in range(2):
            assert cache.get("below/small") == b"some bytes", "root may"
        assert hits(cache, "memory") > 0, "it is cached"
        opened = cache.open("below/small")
        os.seteuid(65534)
        try:
            with pytest.raises(PermissionError):
                cache.get("below/small")
            with pytest.raises(PermissionError):
                cache.open("below/small").read()
            assert opened.read() == b"some bytes", "opened when it was allowed"
        finally:
            os.seteuid(0)
        assert cache.get("below/small") == b"some bytes", "root may again"


def test_file_system_without_times_of_change_needs_an_identity() -> None:
    with pytest.raises(ValueError, match="identity: .*proc.*time of last change"):
        BlockCache("/proc/self")
    with BlockCache("/proc/self", identity="this process") as cache:
        assert cache.stat()["tiers"]


def test_buffers_are_filled(origin: Path) -> None:
    large = (origin / "large").read_bytes()
    with BlockCache(origin) as cache:
        place = bytearray(9 * MIB)
        assert cache.readinto("large", place, 5) == 9 * MIB
        assert place == large[5 : 5 + 9 * MIB]
        assert cache.readinto("large", memoryview(place)[:10], 20 * MIB) == 7, "what there is"
        numbers = array.array("q", [0] * 4)
        assert cache.readinto("large", numbers) == 32, "of any type"
        assert numbers.tobytes() == large[:32]
        with pytest.raises(TypeError):
            cache.readinto("large", b"not to be written")


def test_a_file_can_be_read_as_any_other(origin: Path) -> None:
    (origin / "lines").write_text("".join(f"{number}\n" for number in range(100_000)))
    with zipfile.ZipFile(origin / "archive.zip", "w") as archive:
        archive.writestr("member", "text of a member")
    large = (origin / "large").read_bytes()
    with BlockCache(origin) as cache:
        with io.TextIOWrapper(io.BufferedReader(cache.open("lines"))) as lines:
            assert sum(map(int, lines)) == 100_000 * 99_999 // 2
        with zipfile.ZipFile(io.BufferedReader(cache.open("archive.zip"))) as archive:
            assert archive.read("member") == b"text of a member"
        with cache.open("large") as file:
            assert (file.readable(), file.seekable(), file.writable(), file.mode) == (True, True, False, "rb")
            assert file.seek(-7, os.SEEK_END) == 20 * MIB
            assert file.read(100) == large[-7:]
            assert (file.read(1), file.tell()) == (b"", len(large)), "nothing behind the end"
            assert (file.seek(3), file.seek(4, os.SEEK_CUR)) == (3, 7)
            assert file.read() == large[7:]
            with pytest.raises(ValueError, match="negative"):
                file.seek(-1)
            with pytest.raises(io.UnsupportedOperation):
                file.write(b"")
        for use in (file.read, file.tell, lambda: file.seek(0), file.readable, lambda: file.readinto(bytearray(1))):
            with pytest.raises(ValueError, match="closed"):
                use()


def test_what_was_read_is_kept(origin: Path) -> None:
    with BlockCache(origin, memory="64M", block=65536) as cache:
        assert cache.warm() == (4, 20 * MIB + 7 + 10 + 300_001), "all below the origin"
        before = hits(cache, "origin")
        assert before == 321 + 1 + 5, "once each block"
        cache.get("large")
        assert hits(cache, "origin") == before, "not read again"
        assert hits(cache, "memory") == 321
        stat = cache.stat()
        assert [row["name"] for row in stat["tiers"]] == ["memory", "origin"], "what there is"
        assert stat["nodes"] == [] and stat["totals"]["failed_reads_total"] == 0
    with BlockCache(origin) as fresh:
        assert fresh.stat()["tiers"][0]["latency"] is None, "nothing was asked, so nobody knows how long it takes"


def test_a_disk_outlives_the_cache(origin: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"disk": tmp_path / "blocks", "disk_size": "64M", "memory": 4 * MIB}
    with BlockCache(origin, **settings) as cache:
        cache.warm(["large"])
        with BlockCache(origin, **settings) as second, pytest.raises(OSError, match="in use by process") as raised:
            second.get("large")
        assert raised.value.errno == errno.EBUSY
        assert raised.value.filename == str(tmp_path / "blocks")
    with BlockCache(origin, **settings) as cache:
        assert cache.get("large") == (origin / "large").read_bytes()
        assert hits(cache, "disk") > 0, "from the disk"


def test_warming_goes_on_behind_what_fails(origin: Path) -> None:
    with BlockCache(origin) as cache:
        failed: list[OSError] = []
        assert cache.warm(["missing", "below/small"], onerror=failed.append) == (1, 10)
        assert [type(error) for error in failed] == [FileNotFoundError]
        with pytest.raises(FileNotFoundError):
            cache.warm(["missing", "below/it"])
        assert cache.warm(["below/small"] * 5_000) == (5_000, 50_000), "many"
        with pytest.raises(ZeroDivisionError):
            cache.warm(str(1 // number) for number in range(2))
        with pytest.raises(TypeError, match="several"):
            cache.warm("below")
        assert cache.warm([]) == (0, 0)


def test_errors_are_those_of_files(origin: Path, tmp_path: Path) -> None:
    with BlockCache(origin) as cache:
        with pytest.raises(FileNotFoundError) as missing:
            cache.get("below/missing")
        assert (missing.value.errno, missing.value.filename) == (errno.ENOENT, "below/missing")
        with pytest.raises(IsADirectoryError):
            cache.get("below")
        with pytest.raises(IsADirectoryError):
            cache.open("below")
        (tmp_path / "secret").write_text("secret")
        (origin / "link").symlink_to("../secret")
        for outside in ("../origin/empty", str(origin / "empty"), "link"):
            with pytest.raises(OSError) as raised:
                cache.get(outside)
            assert (raised.value.errno, raised.value.filename) == (errno.EINVAL, outside)
        for wrong in (None, 1, ["large"]):
            with pytest.raises(TypeError):
                cache.get(wrong)  # type: ignore[arg-type]
        for offset, length in [(-1, None), (0, -1)]:
            with pytest.raises(ValueError, match="negative"):
                cache.get("large", offset, length)
        with pytest.raises(ValueError, match="out of range"):
            cache.get("large", 1 << 64)
    with pytest.raises(FileNotFoundError):
        BlockCache(tmp_path / "missing")
    with pytest.raises(NotADirectoryError):
        BlockCache(origin / "large")


def test_a_file_that_changed_is_another_one(origin: Path) -> None:
    with BlockCache(origin) as cache:
        file = cache.open("large")
        assert file.read(10) == (origin / "large").read_bytes()[:10]
        (origin / "large").write_bytes(b"another one")
        with pytest.raises(OSError, match="open it again") as raised:
            file.seek(10 * MIB)
            file.read(10)
        assert raised.value.errno == errno.ESTALE
        assert cache.get("large") == b"another one"
        (origin / "large").write_bytes(b"a third one")
        assert cache.get("large") == b"a third one", "never stale"


def test_the_arguments_are_the_table_of_settings(origin: Path, tmp_path: Path) -> None:
    parameters = list(inspect.signature(BlockCache).parameters)
    table = [name for name, *_ in _native.cache_settings()]
    assert parameters == ["origin", *table], "all of them, by the same names, in the same order"
    for name, _, _, default in _native.cache_settings():
        if default:
            # "128.0 KiB", as it is shown.
            said: dict[str, Any] = {name: default}
            BlockCache(origin, disk=tmp_path / "blocks", **said)
    assert not (tmp_path / "blocks").exists(), "nothing is begun before the first call"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"memory": "much"}, "memory: "),
        ({"memory": 1}, "memory: "),
        ({"block": 100_000}, "^block: "),
        ({"disk_size": "1G"}, "disk_size: .*add disk"),
        ({"deadline": 0}, "deadline: "),
        ({"hedge": "often"}, "hedge: "),
        ({"hedge_share": 2.0}, "^hedge_share: "),
        ({"origin_reads": 0}, "^origin_reads: "),
        ({"read_deadline": "10"}, None),
        ({"deadline": 0.05, "hedge": "never", "in_flight": 1 << 20}, None),
        ({"engine": "nonsense://host:1"}, "engine: "),
        ({"engine_user": "somebody"}, "engine_user: .*add engine"),
        ({"engine": "redis://127.0.0.1:1", "engine_user": "somebody"}, "engine_user: .*engine_password_file"),
        ({"engine": "redis://127.0.0.1:1", "engine_ca": "/ca.pem"}, "engine: .*tls"),
        ({"engine": "redis://127.0.0.1:1", "engine_password_file": "/missing"}, "^engine_password_file: "),
    ],
)
def test_settings_are_checked_at_once(origin: Path, settings: dict[str, Any], said: str | None) -> None:
    if said is None:
        BlockCache(origin, **settings)
        return
    with pytest.raises(ValueError, match=said):
        BlockCache(origin, **settings)


def test_settings_of_wrong_types(origin: Path) -> None:
    for wrong in (True, object(), [1]):
        with pytest.raises(TypeError, match="memory"):
            BlockCache(origin, memory=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        BlockCache(origin, 1 << 20)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="the scheme ftp is not supported"):
        BlockCache("ftp://127.0.0.1/data")


def test_a_closed_cache_says_so(origin: Path) -> None:
    cache = BlockCache(origin, memory="8M")
    assert repr(cache) == f"BlockCache({origin!r}, memory='8M')"
    file = cache.open("large")
    cache.close()
    cache.close()
    for use in (lambda: cache.get("empty"), lambda: cache.open("empty"), file.read, cache.stat, cache.warm):
        with pytest.raises(ValueError, match="closed"):
            use()
    BlockCache(origin).close()


def test_threads_share_one(origin: Path) -> None:
    large = (origin / "large").read_bytes()
    wrong: list[str] = []
    with BlockCache(origin) as cache:

        def read(seed: int) -> None:
            places = random.Random(seed)
            for _ in range(50):
                offset, length = places.randrange(len(large)), places.randrange(MIB)
                if cache.get("large", offset, length) != large[offset : offset + length]:
                    wrong.append(f"{length} from {offset}")

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
            assert not thread.is_alive(), "it ends"
    assert wrong == []


def test_closing_waits_for_nobody_s_read(origin: Path) -> None:
    cache = BlockCache(origin)
    ended: list[str] = []

    def read() -> None:
        try:
            while True:
                cache.get("large")
        except ValueError as error:
            ended.append(str(error))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    cache.close()
    for thread in threads:
        thread.join(LONG)
    assert ended == ["the cache is closed"] * 4


def child(work: Any) -> int:
    """Does it in a child of fork, and says how that ended; one that hangs is ended."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    for _ in range(LONG * 100):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -signal.SIGKILL


def test_a_child_of_fork_has_threads_of_its_own(origin: Path) -> None:
    large = (origin / "large").read_bytes()
    with BlockCache(origin) as cache:
        file = cache.open("large")
        cache.warm(["large"])
        in_the_parent = hits(cache, "origin")
        # Threads that are in the midst of reads when the process forks.
        is_over = threading.Event()

        def read() -> None:
            while not is_over.is_set():
                cache.get("large", 0, 300_000)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()

        def work() -> None:
            assert cache.get("large") == large
            file.seek(5)
            assert file.read(100) == large[5:105], "a file that the parent opened"
            assert 0 < hits(cache, "origin") <= in_the_parent, "counted from its own start"
            cache.close()

        def leave() -> None:
            """Uses nothing, and drops what the parent had."""
            nonlocal cache
            del cache

        try:
            assert [child(work) for _ in range(5)] == [0] * 5
            assert child(leave) == 0
        finally:
            is_over.set()
            for thread in threads:
                thread.join(LONG)
        assert cache.get("large") == large, "and the parent goes on"


def test_a_fork_before_the_first_call(origin: Path, tmp_path: Path) -> None:
    cache = BlockCache(origin, disk=tmp_path / "blocks", disk_size="64M")
    assert child(lambda: cache.get("large")) == 0, "the first has the disk"
    assert cache.get("below/small") == b"some bytes", "which is free again"

    def refused() -> None:
        with pytest.raises(OSError, match="cachewise mount") as raised:
            cache.get("below/small")
        assert raised.value.errno == errno.EBUSY

    assert child(refused) == 0, "while another process has it, that is said"
    cache.close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def test_an_origin_behind_http_also_in_a_child(origin: Path) -> None:
    handler = functools.partial(Quiet, directory=str(origin))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with BlockCache(f"http://127.0.0.1:{server.server_port}/") as cache:
            odd = (origin / "below" / "it" / "odd").read_bytes()
            assert cache.get("below/it/odd") == odd
            assert cache.get("below/it/odd", 200_000, 100) == odd[200_000:200_100]

            def work() -> None:
                assert cache.get("below/it/odd") == odd
                assert cache.get("below/small") == b"some bytes"

            assert child(work) == 0, "over connections of its own"
            assert cache.get("below/small") == b"some bytes", "and the parent's are whole"
            with pytest.raises(FileNotFoundError):
                cache.get("missing")
    finally:
        server.shutdown()
        thread.join(LONG)
        server.server_close()


def length_of(cache: BlockCache) -> int:
    return len(cache.get("large"))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_a_pool(origin: Path, method: str) -> None:
    with BlockCache(origin, memory="32M") as cache:
        assert length_of(cache) == 20 * MIB + 7
        again = pickle.loads(pickle.dumps(cache))
        assert repr(again) == repr(cache)
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(length_of, [cache] * 4) == [20 * MIB + 7] * 4


#: A cache of an engine that takes connections and never answers.
WAITING = """
import os, signal, socket, sys, threading, time
import cachewise

server = socket.create_server(("127.0.0.1", 0))
patient = {"connect": 50, "deadline": 50, "read_deadline": 50, "hedge": "never"}
cache = cachewise.BlockCache(sys.argv[1], engine=f"redis://127.0.0.1:{server.getsockname()[1]}", **patient)
"""


def settled(origin: Path) -> None:
    """Waits until what was written a moment ago is looked for elsewhere than at the origin too."""
    with BlockCache(origin) as cache:
        cache.warm(["below/small"])


def in_a_process_of_its_own(program: str, *arguments: object) -> str:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, check=True, timeout=LONG, capture_output=True, text=True).stdout


def test_ctrl_c_ends_a_call(origin: Path) -> None:
    program = """
# Started in the background by a shell it would be ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    cache.get("below/small")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - began < 20)
"""
    settled(origin)
    assert in_a_process_of_its_own(WAITING + program, origin) == "interrupted True\n"


def test_a_handler_of_a_signal_may_use_what_is_waited_for(origin: Path) -> None:
    program = """
import os, signal, sys, time
import cachewise

cache = cachewise.BlockCache(sys.argv[1], memory="8M")
calls = 0
is_in_it = False

def handler(*_):
    global calls, is_in_it
    if is_in_it or calls == 50:
        return
    is_in_it = True
    cache.get("below/small")
    cache.stat()
    calls += 1
    if calls == 50:
        cache.close()
    is_in_it = False

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
try:
    while True:
        cache.get("large")
except ValueError as error:
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(error, calls == 50)
"""
    assert in_a_process_of_its_own(program, origin) == "the cache is closed True\n"


def test_others_run_meanwhile(origin: Path) -> None:
    program = """
is_over = threading.Event()
def read():
    try:
        cache.get("below/small")
    finally:
        is_over.set()
threading.Thread(target=read, daemon=True).start()
connection, _ = server.accept()
# The call waits for an answer now. If it held the interpreter's lock, this thread could not count.
count, end = 0, time.monotonic() + 1
while time.monotonic() < end:
    count += 1
print(count > 0, is_over.is_set())
os._exit(0 if not sys.stdout.flush() else 1)
"""
    settled(origin)
    assert in_a_process_of_its_own(WAITING + program, origin) == "True False\n"


class Redis:
    """A server of our own."""

    def __init__(self, directory: Path, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self.process = subprocess.Popen(
            [*command, "--dir", str(directory), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(LONG * 20):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        self.end()
        raise AssertionError("redis-server does not listen")

    def end(self) -> None:
        self.process.kill()
        self.process.wait(LONG)


def served(directory: Path, *options: str) -> Redis:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    return Redis(directory, *options)


#: So that each block arrives, however busy the machine is.
PATIENT: dict[str, Any] = {"connect": 10, "deadline": 10, "hedge": "never"}


def test_processes_share_what_is_at_servers(origin: Path, tmp_path: Path) -> None:
    redis = served(tmp_path)
    large = (origin / "large").read_bytes()
    try:
        with BlockCache(origin, engine=f"redis://127.0.0.1:{redis.port}", **PATIENT) as cache:
            assert cache.warm(["large"]) == (1, len(large))
            assert cache.stat()["totals"]["dropped_fills_total"] == 0
            assert cache.warnings() == []

            def work() -> None:
                assert cache.get("large") == large
                assert hits(cache, "origin") == 0, "nothing from the origin"
                assert hits(cache, "remote") == 161

            assert child(work) == 0
            redis.end()
            # Whatever becomes of the servers.
            assert BlockCache(origin, engine=f"redis://127.0.0.1:{redis.port}").get("large") == large
    finally:
        redis.end()


def test_a_password_comes_from_the_environment_or_a_file(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis = served(tmp_path, "--requirepass", "open sesame")
    engine = f"redis://127.0.0.1:{redis.port}"
    try:
        (tmp_path / "password").write_text("open sesame\n")
        (tmp_path / "password").chmod(0o600)
        with BlockCache(origin, engine=engine, engine_password_file=tmp_path / "password", **PATIENT) as cache:
            cache.warm(["large"])
            assert "sesame" not in repr(cache) + repr(cache.stat())
        monkeypatch.setenv("CACHEWISE_ENGINE_PASSWORD", "open sesame")
        with BlockCache(origin, engine=engine, **PATIENT) as cache:
            cache.get("large")
            assert hits(cache, "remote") == 161
            assert "sesame" not in repr(pickle.dumps(cache))
        monkeypatch.setenv("CACHEWISE_TIER_ENGINE_PASSWORD", "wrong")
        with BlockCache(origin, engine=engine, **PATIENT) as cache:
            with pytest.raises(OSError, match="check user and password") as raised:
                cache.get("below/small")
            assert "sesame" not in str(raised.value) and "wrong" not in str(raised.value)
    finally:
        redis.end()


def test_the_names_are_there() -> None:
    assert {"BlockCache", "BlockFile"} <= set(cachewise.__all__)
