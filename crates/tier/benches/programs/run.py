"""Programs started from a mount of a published version, beside `rclone mount` of the same files, over a slow store.

A Python environment imports a package of many modules, and cargo builds a program with its vendored dependencies. Both
mounts read from one server that speaks S3 and waits 30 ms before each answer: cachewise the store of a published version,
rclone the files as objects. The mounts take turns; each turn begins with a new mount that has nothing cached. Seconds are
from the start of the mount command to the end of the program; "again" is a second run from the same mount.

Needs root or fusermount3, rclone, cargo, Python with venv, and once a network: pip and cargo fetch packages.

Usage: run.py [--turns 5] [--delay 30] [--only python|cargo] [--work DIRECTORY] [--program cachewise-tier]
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
PACKAGE = "sympy==1.13.3"
CARGO = """[package]
name = "built"
version = "0.1.0"
edition = "2021"
[dependencies]
itertools = "0.14"
indexmap = "2"
semver = "1"
itoa = "1"
[workspace]
[profile.dev]
debug = 0
"""
VENDORED = """[source.crates-io]
replace-with = "vendored"
[source.vendored]
directory = "vendor"
"""
MAIN = """fn main() {
    let version = semver::Version::new(1, 2, 3);
    let known: indexmap::IndexSet<u64> = [version.major, version.minor].into_iter().collect();
    println!("{} {}", itoa::Buffer::new().format(known.len()), itertools::join(known, ","));
}
"""


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def make_files(tree):
    """The environment and the program, without links, which buckets do not have."""
    if (tree / "ready").exists():
        return
    shutil.rmtree(tree / "project", ignore_errors=True)
    run(sys.executable, "-m", "venv", "--copies", tree / "venv")
    run(tree / "venv/bin/python", "-m", "pip", "install", "--quiet", PACKAGE)
    # Bytecode of all modules, as `pip install` and images have it.
    run(tree / "venv/bin/python", "-c", "import sympy")
    project = tree / "project"
    (project / "src").mkdir(parents=True)
    (project / ".cargo").mkdir()
    (project / "Cargo.toml").write_text(CARGO)
    (project / "src/main.rs").write_text(MAIN)
    run("cargo", "vendor", "--quiet", cwd=project)
    (project / ".cargo/config.toml").write_text(VENDORED)
    for path in tree.rglob("*"):
        if path.is_symlink():
            path.unlink()
    (tree / "ready").touch()


def measured(program, tree, scratch):
    """Runs a program from a tree, and returns its seconds."""
    began = time.monotonic()
    if program == "python":
        run(tree / "venv/bin/python", "-B", "-c", "import sympy; sympy.Symbol('x')")
    else:
        target = Path(tempfile.mkdtemp(dir=scratch))
        command = ["cargo", "build", "--quiet", "--offline", "--locked"]
        run(*command, cwd=tree / "project", env={**os.environ, "CARGO_TARGET_DIR": str(target), "CARGO_INCREMENTAL": "0"})
        shutil.rmtree(target)
    return time.monotonic() - began


class Mount:
    def __init__(self, kind, port, work, scratch, program):
        self.directory = Path(tempfile.mkdtemp(dir=scratch))
        endpoint = f"http://127.0.0.1:{port}"
        if kind == "cachewise":
            command = [program, "mount", "files@v1", self.directory, "--store", "s3://store"]
            command += ["--trust", work / "key.pub", "--state", tempfile.mkdtemp(dir=scratch), "--memory", "1G"]
            more = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
        else:
            command = ["rclone", "mount", ":s3:tree", self.directory, "--read-only", "--file-perms", "0555"]
            # Without a request per file for its time, and with a cache, as its page recommends for programs.
            command += ["--use-server-modtime", "--vfs-cache-mode", "full", "--cache-dir", tempfile.mkdtemp(dir=scratch)]
            command += ["--dir-cache-time", "24h", "--poll-interval", "0", "--config", "/dev/null"]
            more = {"RCLONE_S3_PROVIDER": "Other", "RCLONE_S3_ENDPOINT": endpoint, "RCLONE_S3_LIST_VERSION": "2"}
        plain = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self.log = open(scratch / f"{kind}.log", "a")
        words = [str(word) for word in command]
        self.began = time.monotonic()
        self.process = subprocess.Popen(words, env={**plain, **more}, stdout=self.log, stderr=self.log)
        while not os.path.ismount(self.directory):
            if self.process.poll() is not None:
                sys.exit(f"{kind} ended: see {self.log.name}\n" + open(self.log.name).read())
            time.sleep(0.002)
        self.ready = time.monotonic() - self.began

    def end(self):
        run("umount", self.directory)
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--delay", type=float, default=30)
    parser.add_argument("--work", type=Path, default=ROOT / "target/programs")
    parser.add_argument("--program", default=ROOT / "target/release/cachewise-tier")
    parser.add_argument("--only", choices=["python", "cargo"])
    options = parser.parse_args()
    programs = [options.only] if options.only else ["python", "cargo"]
    if not shutil.which("rclone"):
        print("skipped: programs from mounts: rclone is not installed")
        return
    work = options.work.resolve()
    tree, store = work / "tree", work / "store"
    tree.mkdir(parents=True, exist_ok=True)
    make_files(tree)
    if not (store / "names/files/latest").exists():
        shutil.rmtree(store, ignore_errors=True)
        (work / "key").unlink(missing_ok=True)
        (work / "key.pub").unlink(missing_ok=True)
        run(options.program, "key", work / "key")
        run(options.program, "publish", tree, "files@v1", "--to", store, "--key", work / "key", "--state", work / "state")
    files = [path for path in tree.rglob("*") if path.is_file()]
    print(f"{len(files)} files, {sum(path.stat().st_size for path in files) >> 20} MiB; {options.delay:g} ms before each answer")
    serve = [sys.executable, HERE / "server.py", str(options.delay), f"tree={tree}", f"store={store}"]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline())
    scratch = Path(tempfile.mkdtemp(prefix="programs-"))

    def counted():
        answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/.count").read()
        return [int(word) for word in answer.split()]

    kinds, results = ["cachewise", "rclone"], {}
    try:
        for program in programs:
            measured(program, tree, scratch)
            for turn in range(options.turns):
                results.setdefault((program, "bare", "cold"), []).append((measured(program, tree, scratch), 0, 0))
                # The first of a turn is another one in each.
                for kind in kinds[turn % 2 :] + kinds[: turn % 2]:
                    counted()
                    mount = Mount(kind, port, work, scratch, options.program)
                    measured(program, mount.directory, scratch)
                    cold = (time.monotonic() - mount.began, *counted())
                    warm = (measured(program, mount.directory, scratch), *counted())
                    mount.end()
                    for when, figures in [("cold", cold), ("again", warm)]:
                        results.setdefault((program, kind, when), []).append(figures)
                    print(f"  {program} turn {turn + 1} {kind}: {cold[0]:.2f} s, again {warm[0]:.2f} s, {cold[1]} requests", flush=True)
    finally:
        server.terminate()
        shutil.rmtree(scratch, ignore_errors=True)
    print("\n| program | bare | cachewise | rclone | rclone / cachewise | requests | MiB |\n|---|---|---|---|---|---|---|")
    for program in programs:
        bare = statistics.median(seconds for seconds, *_ in results[program, "bare", "cold"])
        for when in ["cold", "again"]:
            ours, theirs = (results[program, kind, when] for kind in kinds)
            seconds = [statistics.median(turn[0] for turn in turns) for turns in (ours, theirs)]
            ratios = [their[0] / our[0] for our, their in zip(ours, theirs)]
            ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
            numbers = [[statistics.median(turn[at] for turn in turns) for turns in (ours, theirs)] for at in (1, 2)]
            print(
                f"| {program}, {when} | {bare:.2f} s | {seconds[0]:.2f} s | {seconds[1]:.2f} s | {ratio} "
                f"| {numbers[0][0]:.0f}; {numbers[0][1]:.0f} | {numbers[1][0] / 2**20:.1f}; {numbers[1][1] / 2**20:.1f} |"
            )


main()
