"""Page-cache residency of files on Linux, reading in the order that costs the least I/O, and a block cache that machines
share.

>>> import cachewise, tempfile
>>> with tempfile.NamedTemporaryFile() as file:
...     _ = file.write(bytes(100_000)); file.flush()
...     cachewise.residency(file.name).resident_ratio
1.0

Unknown residency is never 0 and never 100 %: it raises :class:`ResidencyUnknown`, or a field is ``None``. All work is
done without the interpreter's lock, and Ctrl-C ends long calls. A file is named by a path (``str``, ``bytes``,
``os.PathLike``); calls that take one file also accept an open file or a descriptor.
"""

from . import snapshot
from ._act import Evicted, Stayed, Warmed, evict, warm
from ._cache import BlockCache, BlockFile
from ._errors import ResidencyDenied, ResidencyUnknown
from ._look import Entry, Residency, ResidencyTable, Walk, printable, ranges, residency, residency_table, walk
from ._native import PAGE_SIZE
from ._order import Block, Scan, Scanner, ScanReport, order, scan
from ._sampler import CacheAwareSampler
from ._shield import Shield, ShieldedFile, ShieldReport, shield
from ._trees import TreeEvicted, TreeWarmed, evict_tree, warm_tree

__all__ = [
    "PAGE_SIZE",
    "Block",
    "BlockCache",
    "BlockFile",
    "CacheAwareSampler",
    "Entry",
    "Evicted",
    "Residency",
    "ResidencyDenied",
    "ResidencyTable",
    "ResidencyUnknown",
    "Scan",
    "ScanReport",
    "Scanner",
    "Shield",
    "ShieldReport",
    "ShieldedFile",
    "Stayed",
    "TreeEvicted",
    "TreeWarmed",
    "Walk",
    "Warmed",
    "evict",
    "evict_tree",
    "order",
    "printable",
    "ranges",
    "residency",
    "residency_table",
    "scan",
    "shield",
    "snapshot",
    "walk",
    "warm",
    "warm_tree",
]
