"""GlusterFS beside cachewise on this machine: reads while a server is frozen, and names of a tree.

frozen: 120 readers read the first 4 KiB of one of 500 files (64 KiB, 256 KiB or 1 MiB) through a mount and think for 200 ms
on the average between two reads. GlusterFS has five servers with a replica each (`replica 2`), and cachewise a cluster of
five Redis servers with a replica each before a directory. One server is stopped by SIGSTOP. The kernel's pages of a file are
dropped after each read, and cachewise keeps 1 MiB itself, so that reads go to the servers.
tree: find, ls -lR and tar of small files in a GlusterFS volume of one server with its replica and in a mount of a
published version, each beside the bare directory, first and again from one mount. The bare directory is in the page cache.

Both have their default settings but for those above; GlusterFS is a file system that programs write to, and keeps more
promises. All runs in namespaces of its own for mounts, processes and the network: what it starts ends with it, and `kill -9`
leaves a directory in /tmp. Needs root.

Usage: run.py [--turns 3] [--files 1000] [--freeze 5] [--program cachewise-tier] [frozen|tree]...
"""

import argparse
import contextlib
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
# GlusterFS refuses addresses of loopback as servers. This one is for documentation; here it is on `lo` of our namespace.
HOST = "192.0.2.1"
READERS, THINKS, FILES, NODES = 120, 0.2, 500, 5
HEALTHY = 5


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def wait_for(what, is_done, seconds=60):
    end = time.monotonic() + seconds
    while not is_done():
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {seconds} s")
        time.sleep(0.01)


def spread(numbers, digits=1):
    middle, least, most = (
        f"{number:.{digits}f}" for number in (statistics.median(numbers), min(numbers), max(numbers))
    )
    return f"{middle} ({least}-{most})"


def start_glusterd():
    # Private, and gone with the namespace.
    for place in ("/var/lib/glusterd", "/var/log/glusterfs", "/run"):
        run("mount", "-t", "tmpfs", "tmpfs", place)
    subprocess.Popen(["glusterd", "-N", "--log-level", "ERROR"])
    answers = ["gluster", "pool", "list"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    wait_for("glusterd", lambda: subprocess.call(answers, **quiet) == 0)


@contextlib.contextmanager
def volume(name, scratch, nodes):
    """A volume of GlusterFS, of servers with a replica each: the process ids of its servers, pair by pair."""
    bricks = [scratch / f"brick{node}{copy}" / "data" for node in range(nodes) for copy in "ab"]
    for brick in bricks:
        brick.parent.mkdir()
    gluster = ["gluster", "--mode=script", "--xml", "volume"]
    run(*gluster, "create", name, "replica", "2", *(f"{HOST}:{brick}" for brick in bricks), "force")
    run(*gluster, "start", name)
    try:
        status = xml.etree.ElementTree.fromstring(run(*gluster, "status", name))
        servers = [node for node in status.iter("node") if node.findtext("hostname") == HOST]
        yield [int(node.findtext("pid")) for node in servers]
    finally:
        run(*gluster, "stop", name, "force")


@contextlib.contextmanager
def mounted(command, scratch):
    """A mount: the words of its command, with None for the directory."""
    place = Path(tempfile.mkdtemp(dir=scratch))
    words = [str(place if word is None else word) for word in command]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        wait_for(" ".join(words), lambda: os.path.ismount(place))
        yield place
    finally:
        run("umount", place)
        process.wait()


def mounted_volume(name, scratch):
    return mounted(["glusterfs", "-N", f"--volfile-server={HOST}", f"--volfile-id={name}", None], scratch)


def name_of(number):
    return f"file{number // 10}/block{number % 10}.bin"


def read(place, number):
    descriptor = os.open(place / name_of(number), os.O_RDONLY)
    try:
        if len(os.pread(descriptor, 4096, 0)) != 4096:
            raise OSError("a short read")
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def paced(place, seconds):
    """Returns the times of all reads in milliseconds, the reads per second that ended in time, and the errors."""
    times, errors, within = [], [], []
    end = time.monotonic() + seconds

    def reader(seed):
        numbers = random.Random(seed)
        while True:
            time.sleep(numbers.expovariate(1 / THINKS))
            began = time.monotonic()
            if began >= end:
                return
            try:
                read(place, numbers.randrange(FILES))
            except OSError as error:
                errors.append(error)
            now = time.monotonic()
            times.append(1e3 * (now - began))
            within.append(now < end)

    threads = [threading.Thread(target=reader, args=(seed,)) for seed in range(READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, sum(within) / seconds, len(errors)


@contextlib.contextmanager
def redis_cluster(options, scratch):
    """The address of a cluster with a replica for each server, and the process ids of the masters."""
    command = [options.program, "dev-cluster", "--nodes", str(NODES), "--replicas", "1", "--dir", str(scratch / "redis")]
    redis = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        engine = redis.stdout.readline().strip()
        rows = [redis.stdout.readline().split() for _ in range(1 + 2 * NODES)]
        yield engine, [int(row[-1]) for row in rows if row[1] == "master"]
    finally:
        redis.terminate()
        redis.wait()


def frozen(options, scratch):
    origin = scratch / "origin"
    with contextlib.ExitStack() as stack:
        pairs = stack.enter_context(volume("reads", scratch, NODES))
        theirs = stack.enter_context(mounted_volume("reads", scratch))
        for place in (origin, theirs):
            numbers = random.Random(0)
            for number in range(FILES):
                (place / name_of(number)).parent.mkdir(exist_ok=True, parents=True)
                (place / name_of(number)).write_bytes(numbers.randbytes((64 << 10, 256 << 10, 1 << 20)[number % 3]))
        engine, masters = stack.enter_context(redis_cluster(options, scratch))
        words = [options.program, "mount", origin, None, "--engine", engine, "--block", "64K", "--memory", "1M"]
        ours = stack.enter_context(mounted(words, scratch))
        # A server of each pair.
        kinds = {"cachewise": (ours, masters), "GlusterFS": (theirs, pairs[::2])}
        for place, _ in kinds.values():
            for number in [*range(FILES)] * 2:
                read(place, number)
        print(f"\nOne of {NODES} servers with a replica each frozen for {options.freeze:g} s, {options.turns} turns")
        found = {}
        for turn in range(options.turns):
            for kind, (place, servers) in kinds.items():
                found.setdefault((kind, "healthy"), []).append(paced(place, HEALTHY))
                server = servers[turn % NODES]
                os.kill(server, signal.SIGSTOP)
                thaw = threading.Timer(options.freeze, os.kill, (server, signal.SIGCONT))
                thaw.start()
                found.setdefault((kind, "frozen"), []).append(paced(place, options.freeze))
                thaw.join()
    print("| | reads per second | p50 ms | p99 ms | max ms | errors |\n|---|---|---|---|---|---|")
    for kind in kinds:
        for state in ("healthy", "frozen"):
            turns = found[kind, state]
            at = lambda part: [sorted(times)[int(part * (len(times) - 1))] for times, *_ in turns]
            cells = [spread([rate for _, rate, _ in turns], 0), *(spread(at(part)) for part in (0.5, 0.99, 1))]
            print(f"| {kind}, {state} | {' | '.join(cells)} | {sum(errors for *_, errors in turns)} |")


def tree(options, scratch):
    bare, store, key = scratch / "bare", scratch / "store", scratch / "key"
    for number in range(options.files):
        folder = bare / str(number % 10) / str(number // 10 % 10)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number // 100}.txt").write_bytes(b"%d\n" % number * (50 + number % 800))
    with volume("tree", scratch, 1):
        with mounted_volume("tree", scratch) as filled:
            began = time.monotonic()
            run("cp", "-a", f"{bare}/.", filled)
            copied = time.monotonic() - began
        run(options.program, "key", key)
        began = time.monotonic()
        run(options.program, "publish", bare, "tree@1", "--to", store, "--key", key, "--state", scratch / "state")
        print(f"\n{options.files:,} small files, {options.turns} turns; cp -a {copied:.1f} s, publish {time.monotonic() - began:.1f} s")
        commands = {"find": "find {} -printf '%s %T@\\n'", "ls -lR": "ls -lR {}", "tar": "tar cf - -C {} . | cat"}

        def seconds_of(text, place):
            began = time.monotonic()
            run("sh", "-c", f"{text.format(place)} > /dev/null")
            return time.monotonic() - began

        seconds_of(commands["tar"], bare)
        found = {}
        for _ in range(options.turns):
            words = [options.program, "mount", "tree@1", None, "--store", store, "--trust", f"{key}.pub"]
            words += ["--state", scratch / "seen"]
            with mounted(words, scratch) as ours, mounted_volume("tree", scratch) as theirs:
                for name, text in commands.items():
                    for when in ("first", "again"):
                        for kind, place in (("bare", bare), ("cachewise", ours), ("GlusterFS", theirs)):
                            found.setdefault((name, when, kind), []).append(seconds_of(text, place))
    print("| | bare s | cachewise s | GlusterFS s | cachewise / bare | GlusterFS / bare |\n|---|---|---|---|---|---|")
    for name in commands:
        for when in ("first", "again"):
            seconds = {kind: found[name, when, kind] for kind in ("bare", "cachewise", "GlusterFS")}
            ratios = [
                spread([other / plain for other, plain in zip(seconds[kind], seconds["bare"])])
                for kind in ("cachewise", "GlusterFS")
            ]
            cells = [spread(of, 2) for of in seconds.values()] + ratios
            print(f"| {name}, {when} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--freeze", type=float, default=5)
    parser.add_argument("--program", default=str(ROOT / "target/release/cachewise-tier"))
    # As process 1 of its own namespaces.
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("parts", nargs="*", choices=["frozen", "tree", []], default=[])
    options = parser.parse_args()
    for program in ("glusterd", "unshare", "ip"):
        if not shutil.which(program):
            print(f"skipped: GlusterFS: {program} is not installed")
            return
    if os.geteuid():
        print("skipped: GlusterFS: not root")
        return
    if not options.inside:
        # In place of this process, so that nothing is left when it is killed.
        apart = ["unshare", "--mount", "--propagation", "slave", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        os.execvp("unshare", [*apart, sys.executable, __file__, "--inside", *sys.argv[1:]])
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{HOST}/32", "dev", "lo")
    print(f"load {os.getloadavg()[0]:.1f} at the beginning; clients and servers share {os.cpu_count()} CPUs")
    start_glusterd()
    for name, part in (("frozen", frozen), ("tree", tree)):
        if not options.parts or name in options.parts:
            with tempfile.TemporaryDirectory(prefix="gluster-") as scratch:
                part(options, Path(scratch))


main()
