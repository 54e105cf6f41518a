"""An order of samples for training that reads as little as can be from the disk."""

from __future__ import annotations

import contextlib
import random
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Union

from . import _native
from ._errors import checked
from ._types import Path

Sample = Union[Path, "tuple[Path, int, int | None]"]

#: Minimum of the bytes beyond the kept ones that stay in the cache in an epoch, to detect whether there is more memory.
_LEAST_ADMITTED = 1 << 20


class CacheAwareSampler:
    """Yields the numbers of samples, each once an epoch; for ``DataLoader(sampler=...)`` of PyTorch, or by itself.

    ``samples[i]`` is where sample ``i`` is stored: a path, or (path, offset, length). PyTorch is not needed for it.

    Data that exceeds memory is rarely hit in a fresh random order each epoch: with 3/4 of it in memory LRU hits 40 %, where
    75 % are possible. Two options help, each alone or both:

    ``resident_first``: resident samples come first, in random order; then the others, in random order. This biases the
    beginning of an epoch towards the end of the last one.

    ``keep``: the order stays as random as it was; samples that were less than half resident at the beginning of the epoch
    are evicted after their use, so that resident ones stay. For a single reader of the data. ``behind`` is the number of
    samples between use and eviction: more than the loader fetches in advance (workers x prefetch_factor x batch size).
    Samples that workers read after the last number of the epoch are evicted when the next epoch begins.

    A sample with unknown residency counts as not resident, and is not evicted.

    Call :meth:`set_epoch` before each epoch, as for PyTorch's distributed sampler, for another order.
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        *,
        shuffle: bool = True,
        seed: int = 0,
        resident_first: bool = True,
        keep: bool = False,
        behind: int = 256,
    ) -> None:
        if isinstance(samples, (str, bytes)):
            raise TypeError("expected several samples, not one path")
        if behind < 1:
            raise ValueError(f"behind: 1 or more samples, not {behind}")
        self._samples = list(samples)
        self._shuffle = shuffle
        self._seed = seed
        self._resident_first = resident_first
        self._keep = keep
        self._behind = behind
        self._epoch = 0
        self._admitted = _LEAST_ADMITTED
        self._resident_before: int | None = None
        #: Evicted at the end of the epoch, and again at the next one, because workers of a loader may read them later.
        self._late: list[int] = []

    def __len__(self) -> int:
        return len(self._samples)

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch, which with the seed decides the order."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        for number in self._late:
            self._evict(number)
        self._late = []
        found = checked(_native.samples)(self._samples)
        numbers = list(range(len(found)))
        if self._shuffle:
            random.Random(f"{self._seed}:{self._epoch}").shuffle(numbers)
        if self._resident_first:
            # Sorting is stable, so the order within is as it was.
            numbers.sort(key=lambda number: -_share(*found[number]))
        if self._keep:
            return self._keeping(numbers, found)
        return iter(numbers)

    def _keeping(self, numbers: list[int], found: list[tuple[int, int | None]]) -> Iterator[int]:
        resident = sum(known or 0 for _, known in found)
        # Where nothing is resident there is nothing to be kept, and all may stay.
        admitted = self._admit(resident) if resident else sum(size for size, _ in found)
        used: deque[int] = deque()
        try:
            for number in numbers:
                yield number
                size, known = found[number]
                # A resident sample that lost a page to another program still counts as resident.
                if known is None or 2 * known >= size:
                    continue
                if admitted > 0:
                    admitted -= size - known
                    continue
                used.append(number)
                if len(used) > self._behind:
                    self._evict(used.popleft())
        finally:
            for number in used:
                self._evict(number)
            self._late = list(used)

    def _admit(self, resident: int) -> int:
        """Say how many bytes may stay: twice as much if what stayed last time is there, else a fourth."""
        before, self._resident_before = self._resident_before, resident
        if before is not None:
            came = resident - before >= 0.9 * self._admitted
            self._admitted = self._admitted * 2 if came else self._admitted // 4
            self._admitted = max(self._admitted, _LEAST_ADMITTED)
        return self._admitted

    def _evict(self, number: int) -> None:
        sample = self._samples[number]
        path, offset, length = sample if isinstance(sample, tuple) else (sample, 0, None)
        # A file that is gone has nothing in the cache; the epoch goes on, whatever the reason.
        with contextlib.suppress(OSError):
            _native.evict(path, offset, length, False)


def _share(size: int, known: int | None) -> float:
    """The resident part; of nothing, all is."""
    return (known or 0) / size if size else 1.0
