"""Exceptions. Everything else that fails raises OSError, or the subclass that Python has for it."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class ResidencyUnknown(OSError):
    """Nobody can say what of a file is resident, or not to this caller. Never 0, never 100 %.

    ``reason`` is a name for programs that stays the same, as ``no_permission`` or ``direct_io``.
    """

    reason: str


class ResidencyDenied(ResidencyUnknown, PermissionError):
    """The kernel tells others, but not this caller: its owner, who may write it, and root."""


def checked(call: Callable[P, R]) -> Callable[P, R]:
    """Have a call raise ``ValueError`` for a number out of range, however far out of range it is."""

    @functools.wraps(call)
    def checking(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except OverflowError as error:
            raise ValueError(f"a number is out of range: {error}") from None

    return checking


def no_directory(call: str, file: object, raised: ResidencyUnknown) -> OSError:
    """Say what to do with a directory where one file is meant; any other error is given back."""
    is_path = isinstance(file, (str, bytes, os.PathLike))
    if is_path and raised.reason == "not_a_file" and os.path.isdir(file):  # type: ignore[arg-type]
        text = f"{call}() takes one file; for those below a directory: `for entry in walk(path): {call}(entry.path)`"
        return IsADirectoryError(errno.EISDIR, text, raised.filename)
    return raised
