"""Exceptions. Everything else that fails raises OSError, or the subclass that Python has for it."""

from __future__ import annotations


class ResidencyUnknown(OSError):
    """Nobody can say what of a file is resident, or not to this caller. Never 0, never 100 %.

    ``reason`` is a name for programs that stays the same, as ``no_permission`` or ``direct_io``.
    """

    reason: str


class ResidencyDenied(ResidencyUnknown, PermissionError):
    """The kernel tells others, but not this caller: its owner, who may write it, and root."""
