"""Orders of samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import cachewise
from cachewise import PAGE_SIZE, CacheAwareSampler

Make = Callable[..., Path]


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


def test_keeping_puts_out_what_was_not_there(make: Make) -> None:
    paths = [make(f"{number}", 512, 512 if number < 4 else 0) for number in range(12)]
    sampler = CacheAwareSampler(paths, resident_first=False, keep=True, behind=1)
    for number in sampler:
        paths[number].read_bytes()
    resident = [cachewise.residency(path).resident_pages for path in paths]
    assert resident[:4] == [512] * 4, "what was there stayed"
    # The first misses stay, so that it is found out whether there is more memory.
    assert sum(resident[4:]) <= 512 * PAGE_SIZE // PAGE_SIZE, f"the others went: {resident}"


def test_the_first_epoch_keeps_what_it_reads(make: Make) -> None:
    paths = [make(f"{number}", 8, 0) for number in range(8)]
    for number in CacheAwareSampler(paths, keep=True, behind=1):
        paths[number].read_bytes()
    assert all(cachewise.residency(path).resident_pages == 8 for path in paths), "nothing to keep yet"


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


def test_pytorch_takes_it(make: Make) -> None:
    data = pytest.importorskip("torch.utils.data")
    paths = [make(f"{number}", 1, number % 2) for number in range(8)]

    class Files(data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return len(paths)

        def __getitem__(self, number: int) -> int:
            return number

    loader = data.DataLoader(Files(), batch_size=2, sampler=CacheAwareSampler(paths))
    seen = [int(number) for batch in loader for number in batch]
    assert sorted(seen) == list(range(8)), "each once"
    assert {number % 2 for number in seen[:4]} == {1}, "resident ones first"
