"""Orders of samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import cachewise
from cachewise import PAGE_SIZE, CacheAwareSampler

Make = Callable[..., Path]
Count = Callable[[Path], int]


def test_each_sample_comes_once_resident_ones_first(make: Make) -> None:
    path = make("shard", 100, 40)
    samples = [(path, number * PAGE_SIZE, PAGE_SIZE) for number in range(100)]
    sampler = CacheAwareSampler(samples, seed=3)
    assert len(sampler) == 100
    order = list(sampler)
    assert sorted(order) == list(range(100)), "each once"
    assert sorted(order[:40]) == list(range(40)), "those that are resident first"
    assert order[:40] != list(range(40)), "in random order"
    assert list(sampler) == order, "which a seed decides"
    sampler.set_epoch(1)
    assert list(sampler) != order, "and the epoch"
    plain = CacheAwareSampler(samples, shuffle=False, resident_first=False)
    assert list(plain) == list(range(100)), "or as it was"


def test_keeping_puts_out_what_was_not_there(make: Make, resident_or_reclaimed: Count) -> None:
    others = [make(f"other {number}", 512, 0) for number in range(8)]
    # These last, so that no reclaimer has the time to take half of one before it is looked at.
    paths = [*(make(f"{number}", 512, 512) for number in range(4)), *others]
    sampler = CacheAwareSampler(paths, resident_first=False, keep=True, behind=1)
    for number in sampler:
        paths[number].read_bytes()
    assert [resident_or_reclaimed(path) for path in paths[:4]] == [512] * 4, "what was there stayed"
    resident = [cachewise.residency(path).resident_pages for path in others]
    # The first misses stay, so that it is found out whether there is more memory.
    assert sum(resident) <= 512, f"the others went: {resident}"


def test_what_lost_a_part_is_not_put_out_for_it(make: Make, resident_or_reclaimed: Count) -> None:
    others = [make(f"{number}", 512, 0) for number in range(4)]
    path, gone = make("most of it", 512, 500), make("little of it", 512, 12)
    paths = [*others, path, gone]
    sampler = CacheAwareSampler(paths, shuffle=False, resident_first=False, keep=True, behind=1)
    # The first misses stay; these come after them.
    for number in sampler:
        paths[number].read_bytes()
    # The last ones go once more, as the kernel leaves what it is looking at.
    iter(sampler)
    assert resident_or_reclaimed(path) == 512, "most of it was there"
    assert cachewise.residency(gone).resident_pages == 0, "as good as nothing was there"


def test_the_first_epoch_keeps_what_it_reads(make: Make, resident_or_reclaimed: Count) -> None:
    paths = [make(f"{number}", 8, 0) for number in range(8)]
    for number in CacheAwareSampler(paths, keep=True, behind=1):
        paths[number].read_bytes()
    assert [resident_or_reclaimed(path) for path in paths] == [8] * 8, "nothing to keep yet"


def test_an_epoch_that_is_left_is_no_harm(make: Make) -> None:
    paths = [make(f"{number}", 8, 8 if number else 0) for number in range(8)]
    for number in CacheAwareSampler(paths, keep=True, behind=1, resident_first=False):
        paths[number].read_bytes()
        break
    assert sorted(CacheAwareSampler(paths)) == list(range(8)), "the next one is whole"


def test_a_file_that_goes_meanwhile_does_not_end_the_epoch(make: Make) -> None:
    paths = [make(f"{number}", 512, 512 if number == 0 else 0) for number in range(8)]
    sampler = CacheAwareSampler(paths, shuffle=False, keep=True, behind=1)
    seen = []
    for number in sampler:
        seen.append(number)
        paths[number].unlink()
    assert sorted(seen) == list(range(8)), "all of it"


def test_a_missing_sample_is_said(make: Make, tmp_path: Path) -> None:
    sampler = CacheAwareSampler([make("a", 1, 1), tmp_path / "missing"])
    with pytest.raises(FileNotFoundError):
        iter(sampler)


def test_what_is_read_after_the_last_number_goes_before_the_next_epoch(make: Make, resident_or_reclaimed: Count) -> None:
    others = [make(f"other {number}", 512, 0) for number in range(7)]
    paths = [make("there", 512, 512), *others]
    sampler = CacheAwareSampler(paths, shuffle=False, keep=True, behind=8)
    # As workers do: numbers are taken in advance.
    for number in list(sampler):
        paths[number].read_bytes()
    sampler.set_epoch(1)
    order = iter(sampler)
    next(order)
    assert resident_or_reclaimed(paths[0]) == 512, "what was there stayed"
    resident = [cachewise.residency(path).resident_pages for path in others]
    assert sum(resident) <= 512, f"but for what is admitted, the others went: {resident}"
