"""Whether a run's binaries and model are still the files that it began with.

Their digests are taken once, before the first trial; a model that is replaced, or a runtime that is upgraded, while a
run of days goes on would otherwise be counted under the name of the old one. A look costs one stat a file.
"""

from __future__ import annotations

from pathlib import Path

from stillruns.act.runtimes.digests import digest_file
from stillruns.lab.runs.preparing import Prepared
from stillruns.model.backend import Runtime

Sign = tuple[int, int, int, int]


class Unchanged:
    """The files of a prepared run, as they were when this was made."""

    def __init__(self, prepared: Prepared) -> None:
        self._files: dict[Path, tuple[str, str]] = {}
        every = (prepared.model, prepared.twin, *prepared.models.values())
        for model in (model for model in every if model is not None):
            what = "a part of the model" if model.parts else "the model"
            self._files |= {Path(file.path): (what, file.sha256) for file in model.files}
        for backend in prepared.spec.backends:
            engine = prepared.engines.get(backend.id)
            if engine is None or backend.runtime is not Runtime.LLAMA_CPP:
                continue
            binary = Path(engine.binary).resolve()
            self._files[binary] = (f"the binary of backend {backend.id}", engine.sha256)
            for name, sha256 in engine.libraries.items():
                if (binary.parent / name).is_file():
                    self._files[binary.parent / name] = (f"a library of backend {backend.id}", sha256)
        self._signs = {path: _sign(path) for path in self._files}

    def first_changed(self) -> str:
        """`the model /m.gguf` for the first file that differs, else empty; a touched file is read again."""
        for path, (what, sha256) in self._files.items():
            sign = _sign(path)
            if sign == self._signs[path]:
                continue
            if sign is None or digest_file(path) != sha256:
                return f"{what} {path}"
            self._signs[path] = sign
        return ""


def _sign(path: Path) -> Sign | None:
    """What changes with a file's content; None for a file that is gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
