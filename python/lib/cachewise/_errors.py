"""Exceptions. All other failures raise OSError, or the subclass that Python has for the error number."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class ResidencyUnknown(OSError):
    """The residency of a file is unknown, or hidden from this caller. It is never reported as 0 or 100 %.

    ``reason`` is a stable name for programs, for example ``no_permission`` or ``direct_io``.
    """

    reason: str


class ResidencyDenied(ResidencyUnknown, PermissionError):
    """The kernel shows the residency only to the owner of the file, to users who may write it, and to root."""


def checked(call: Callable[P, R]) -> Callable[P, R]:
    """Make a call raise ``ValueError`` for any number out of range."""

    @functools.wraps(call)
    def checking(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except OverflowError as error:
            raise ValueError(f"a number is out of range: {error}") from None

    return checking


def no_directory(call: str, file: object, raised: ResidencyUnknown) -> OSError:
    """Return an error with the fix for a directory in place of a file; return any other error unchanged."""
    is_path = isinstance(file, (str, bytes, os.PathLike))
    if is_path and raised.reason == "not_a_file" and os.path.isdir(file):  # type: ignore[arg-type]
        text = f"{call}() takes one file; for the files of a directory: {call}_tree(path), or `for entry in walk(path): {call}(entry.path)`"
        return IsADirectoryError(errno.EISDIR, text, raised.filename)
    return raised


def reported(errors: Iterable[OSError], onerror: Callable[[OSError], object] | None) -> None:
    """Pass errors to ``onerror``; without it, raise the first one."""
    for error in errors:
        if onerror is None:
            raise error
        onerror(error)
