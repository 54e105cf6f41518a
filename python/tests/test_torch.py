"""PyTorch's data loader, where PyTorch is installed: in this process and with workers, kept or started anew each epoch."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import cachewise
from cachewise import BlockCache, CacheAwareSampler

data = pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")

Make = Callable[..., Path]
Count = Callable[[Path], int]

#: How loaders work: workers, whether they are kept, how they are started.
WAYS = [(0, False, None), (2, False, "fork"), (2, True, "fork"), (2, True, "spawn")]


class Files(data.Dataset):  # type: ignore[misc, name-defined]
    """Numbers of files, each with the sum of its bytes."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> tuple[int, int]:
        return number, sum(self.paths[number].read_bytes())


class Cached(Files):
    """The same, read through a block cache that was made before the workers were."""

    def __init__(self, paths: list[Path], cache: BlockCache) -> None:
        super().__init__(paths)
        self.cache = cache

    def __getitem__(self, number: int) -> tuple[int, int]:
        return number, sum(self.cache.get(self.paths[number].name))


@pytest.mark.parametrize(("workers", "kept", "start"), WAYS)
def test_each_sample_comes_once_an_epoch(make: Make, workers: int, kept: bool, start: str | None) -> None:
    paths = [make(f"{number}", 1, number % 2) for number in range(24)]
    sums = {number: sum(path.read_bytes()) for number, path in enumerate(paths) if number % 2}
    sampler = CacheAwareSampler(paths)
    loader = data.DataLoader(
        Files(paths),
        batch_size=4,
        sampler=sampler,
        num_workers=workers,
        persistent_workers=kept,
        multiprocessing_context=start,
    )
    assert len(loader) == 6
    orders = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        seen = [(int(number), int(total)) for numbers, totals in loader for number, total in zip(numbers, totals)]
        orders.append([number for number, _ in seen])
        assert sorted(orders[-1]) == list(range(24)), "each once"
        assert all(total == sums[number] for number, total in seen if number % 2), "with its bytes"
    assert {number % 2 for number in orders[0][:12]} == {1}, "resident ones first"
    assert orders[1] != orders[2], "in another order each epoch"


@pytest.mark.parametrize(("workers", "kept", "start"), WAYS)
def test_what_was_there_stays(
    make: Make, resident_or_reclaimed: Count, workers: int, kept: bool, start: str | None
) -> None:
    others = [make(f"other {number}", 512, 0) for number in range(24)]
    there = [make(f"{number}", 512, 512) for number in range(8)]
    paths = [*there, *others]
    sampler = CacheAwareSampler(paths, resident_first=False, keep=True, behind=9)
    loader = data.DataLoader(
        Files(paths),
        batch_size=2,
        sampler=sampler,
        num_workers=workers,
        persistent_workers=kept,
        multiprocessing_context=start,
    )
    for epoch in range(2):
        sampler.set_epoch(epoch)
        assert sum(len(numbers) for numbers, _ in loader) == 32
        assert [resident_or_reclaimed(path) for path in there] == [512] * 8, f"what was there stayed in epoch {epoch}"
        # An epoch takes a while: what a reclaimer took meanwhile is there again when the next one is planned.
        for path in there:
            cachewise.warm(path)
    # Evicts the files that workers read last.
    iter(sampler)
    assert [resident_or_reclaimed(path) for path in there] == [512] * 8, "what was there stayed"
    resident = [cachewise.residency(path).resident_pages for path in others]
    # Admitted: 1 MiB in the first epoch, and at most twice that in the second; a file is 2 MiB.
    assert sum(pages > 0 for pages in resident) <= 3, f"the others went: {resident}"


@pytest.mark.parametrize(("workers", "kept", "start"), WAYS)
def test_workers_read_through_a_block_cache(tmp_path: Path, workers: int, kept: bool, start: str | None) -> None:
    origin = tmp_path / "origin"
    origin.mkdir()
    paths = [origin / f"{number}" for number in range(16)]
    for number, path in enumerate(paths):
        path.write_bytes(random.Random(number).randbytes(100_000))
    expected = [(number, sum(path.read_bytes())) for number, path in enumerate(paths)]
    with BlockCache(origin, memory="16M") as cache:
        assert cache.warm()[0] == 16, "threads are there before workers are"
        loader = data.DataLoader(
            Cached(paths, cache),
            batch_size=2,
            num_workers=workers,
            persistent_workers=kept,
            multiprocessing_context=start,
        )
        for _ in range(2):
            seen = [(int(number), int(total)) for numbers, totals in loader for number, total in zip(numbers, totals)]
            assert sorted(seen) == expected, "each once, with its bytes"
        assert cache.get("3") == paths[3].read_bytes(), "and the parent goes on"


def test_a_model_is_loaded_through_a_block_cache(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    weights = {"layer": torch.arange(300_000, dtype=torch.float32)}
    (tmp_path / "origin").mkdir()
    torch.save(weights, tmp_path / "origin" / "model.pt")
    with BlockCache(tmp_path / "origin") as cache:
        with cache.open("model.pt") as file:
            loaded = torch.load(file, weights_only=True)
        assert torch.equal(loaded["layer"], weights["layer"])
