"""The promise: a name is resolved where the dynamic loader would look, in its order (ld.so(8))."""

from __future__ import annotations

from collections.abc import Callable

from stillruns.model.code_object import Linking
from stillruns.normalise import linking
from stillruns.normalise.linking import Loader

NAME = "libamdhip64.so.6"


def there(*folders: str) -> Callable[[str], str]:
    """A machine where the library lies in these folders."""
    places = {f"{folder}/{NAME}" for folder in folders}
    return lambda path: path if path in places else ""


def resolved(
    find: Callable[[str], str], *, rpath: tuple[str, ...] = (), runpath: tuple[str, ...] = (),
    library_path: tuple[str, ...] = (), loader: Loader | None = None, loaded: tuple[str, ...] = (),
) -> str:  # fmt: skip
    """Where the name is found."""
    names = Linking(needed=(NAME,), rpath=rpath, runpath=runpath)
    return linking.resolve(names, "/srv/run", library_path, loader or Loader(), find, loaded)[NAME]


def test_order() -> None:
    """RPATH, LD_LIBRARY_PATH, RUNPATH, the cache, the default folders; RPATH not beside a RUNPATH."""
    every = there("/rp", "/llp", "/srv/run/own", "/cached", "/usr/lib")
    cache = Loader(cache={NAME: f"/cached/{NAME}"})
    assert resolved(every, rpath=("/rp",), library_path=("/llp",), loader=cache).startswith("/rp/")
    both = resolved(every, rpath=("/rp",), runpath=("$ORIGIN/own",), library_path=("/llp",), loader=cache)
    assert both.startswith("/llp/")
    assert resolved(every, rpath=("/rp",), runpath=("${ORIGIN}/own",), loader=cache).startswith("/srv/run/own/")
    assert resolved(every, loader=cache).startswith("/cached/")
    assert resolved(every).startswith("/usr/lib/")


def test_the_cache_decides_not_its_configuration() -> None:
    """A folder of ld.so.conf counts once ldconfig has run; until then the place is told."""
    find = there("/opt/rocm/lib")
    fresh = Loader(configured=("/opt/rocm/lib",), cache={})
    assert resolved(find, loader=fresh) == ""
    assert linking.uncached(NAME, fresh, find) == "/opt/rocm/lib"
    unread = Loader(configured=("/opt/rocm/lib",))
    assert resolved(find, loader=unread).startswith("/opt/rocm/lib/")
    assert linking.uncached(NAME, unread, find) == ""


def test_stale_cache() -> None:
    """An entry whose file is gone is passed over."""
    gone = Loader(cache={NAME: f"/opt/rocm-5/lib/{NAME}"})
    assert resolved(there("/usr/lib"), loader=gone).startswith("/usr/lib/")
