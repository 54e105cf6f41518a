"""What files are named by."""

from __future__ import annotations

import os
from typing import IO, Any, Union

#: A path.
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
#: A path, an open file or a descriptor.
File = Union[Path, int, IO[Any]]
