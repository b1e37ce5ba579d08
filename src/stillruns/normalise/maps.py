"""/proc/PID/maps -> the shared libraries that the process has mapped."""

from __future__ import annotations

import re

_LIBRARY = re.compile(r"\.so(?:\.|\Z)")
_DELETED = " (deleted)"


def libraries(maps: bytes) -> tuple[str, ...]:
    """Paths of the mapped shared libraries, each once, in the order of their first mapping.

    Only files with `.so` in their name count; `(deleted)` is taken off. A library that is mapped was loaded, which
    does not show that it was used. Lines of another form are passed over; an empty snapshot (a zombie's) gives ().
    """
    found: dict[str, None] = {}
    for line in maps.decode("utf-8", "surrogateescape").split("\n"):
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith("/"):
            path = fields[5].removesuffix(_DELETED)
            if _LIBRARY.search(path.rpartition("/")[2]):
                found[path] = None
    return tuple(path.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for path in found)
