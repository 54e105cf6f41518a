"""The types that the package promises."""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import cachewise
from cachewise import _native


def test_the_package_is_typed() -> None:
    package = Path(inspect.getfile(cachewise)).parent
    assert (package / "py.typed").exists(), "so that type checkers look"
    assert (package / "_native.pyi").exists(), "and find what is compiled"


def test_all_that_is_named_is_there() -> None:
    for name in cachewise.__all__:
        assert getattr(cachewise, name, None) is not None, name


STRICT = ["mypy", "--strict", "--cache-dir", "/dev/null"]
EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([*STRICT, "-p", "cachewise"], id="package"),
        pytest.param([*STRICT, *map(str, EXAMPLES.glob("*.py"))], id="examples"),
        pytest.param(["mypy.stubtest", _native.__name__], id="stubs"),
    ],
)
def test_types_are_true(arguments: list[str]) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    here = Path(__file__).parent
    ended = subprocess.run(
        [sys.executable, "-m", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=here,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
