"""Device code, links and kernel folders of the runtimes that are installed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from stillruns.collect import code_objects as code_files
from stillruns.collect import kernel_library
from stillruns.collect.tree import Tree
from stillruns.lab.machines.probing import Guard
from stillruns.model.absence import Absence
from stillruns.model.code_object import CodeObjects, Linking
from stillruns.model.hip_runtime import HipRuntime
from stillruns.model.kernel_library import KernelLibrary
from stillruns.model.machine import BackendLibrary, Environment, RuntimeInstall
from stillruns.model.raw import Collected
from stillruns.normalise import code_objects, hip_runtime, linking
from stillruns.normalise import kernel_library as library_facts

_DEVICE_CODE = ("rocm", "cuda")
_FOLLOW = re.compile(r"lib(?:rocblas|hipblas|hipblaslt|amdhip64)\.so")


class Libraries:
    """Reads each file once; `code` is what was found, by path."""

    def __init__(self, tree: Tree, folders: Collected, environments: Sequence[Environment], guard: Guard) -> None:
        """`folders` is what the probe of runtimes brought (ld.so.conf is in it)."""
        self.tree, self.guard = tree, guard
        self.code: dict[str, CodeObjects | Absence] = {}
        self.hip: dict[str, HipRuntime | Absence] = {}
        self._loader = linking.loader(folders)
        self._environments = environments
        self._found: dict[str, str] = {}

    def whole(self) -> bool:
        """Whether the tree has a C library: without one it is a part of a system, and absences in it prove
        nothing."""
        return self.tree.live or any(self._find(path) for path in linking.C_LIBRARIES)

    def resolve(self, runtime: RuntimeInstall) -> RuntimeInstall:
        """The runtime with the links of its backends filled in; two levels, as far as this stack goes. A program that
        was linked with its backends is the library of each."""
        if runtime.program:
            runtime = dataclasses.replace(runtime, backends=self._built_in(runtime.program), cpu_variants=("",))
        return dataclasses.replace(runtime, backends=tuple(self._links(runtime, b) for b in runtime.backends))

    def _built_in(self, program: str) -> tuple[BackendLibrary, ...]:
        """The backends of a program by its device code, and by Vulkan's loader; none of one that takes its backends
        from libraries elsewhere."""
        code = self.scan(program)
        if isinstance(code, Absence) or any(name.startswith("libggml") for name in code.linking.needed):
            return ()
        found = {"rocm" if entry.target.startswith("gfx") else "cuda" for entry in code.targets}
        found |= {"vulkan"} if any(name.startswith("libvulkan.") for name in code.linking.needed) else set()
        return tuple(BackendLibrary(name, program) for name in sorted(found))

    def folders(self, runtimes: Sequence[RuntimeInstall], closely: tuple[str, ...]) -> tuple[KernelLibrary, ...]:
        """Every folder of ready-made kernels, those that runtimes and environments point at included; the
        files of solutions of the targets in `closely` are read whole."""
        more: dict[str, None] = {}
        for runtime in runtimes:
            for backend in runtime.backends:
                more |= {path.rpartition("/")[0]: None for path in backend.links.values() if "rocblas" in path}
        for environment in self._environments:
            for name in ("ROCBLAS_TENSILE_LIBPATH", "HIPBLASLT_TENSILE_LIBPATH"):
                place = environment.variables.get(name, "")
                if place.startswith("/"):
                    more[place.rstrip("/")] = None
        found = []
        for path in kernel_library.folders(self.tree, tuple(more)):
            library = self.guard.run(path, lambda path=path: self._folder(path, closely))  # type: ignore[misc]
            if isinstance(library, KernelLibrary):
                found.append(library)
        return tuple(found)

    def _folder(self, path: str, closely: tuple[str, ...]) -> KernelLibrary | Absence:
        with kernel_library.opened(self.tree, path) as folder:
            if isinstance(folder, Absence):
                return folder
            return library_facts.read(folder, closely)

    def _links(self, runtime: RuntimeInstall, backend: BackendLibrary) -> BackendLibrary:
        if backend.backend not in (*_DEVICE_CODE, "vulkan"):
            return backend
        code = self.scan(backend.path)
        if isinstance(code, Absence):
            return backend
        own = backend.path.rpartition("/")[0]
        brought = [own, runtime.folder, *runtime.loaded, *(b.path.rpartition("/")[0] for b in runtime.backends)]
        links = self._needs(code, own, brought)
        for soname, path in list(links.items()):
            if path and _FOLLOW.match(soname):
                deeper = self.scan(path)
                if isinstance(deeper, CodeObjects):
                    links = {**self._needs(deeper, path.rpartition("/")[0], brought), **links}
        hip = next((path for soname, path in links.items() if soname.startswith("libamdhip64.so")), "")
        opens = self._opens(hip, brought) if hip else {}
        nowhere = [soname for soname, path in {**links, **opens}.items() if not path]
        stale = {soname: linking.uncached(soname, self._loader, self._find) for soname in nowhere}
        known = {soname: place for soname, place in stale.items() if place}
        return dataclasses.replace(backend, links=links, opens=opens, uncached=known)

    def _opens(self, path: str, brought: Sequence[str]) -> dict[str, str]:
        """What a HIP runtime opens when it needs it, resolved as it would be."""
        if path not in self.hip:
            self.hip[path] = self.guard.run(path, lambda: self._hip(path))
        runtime = self.hip[path]
        if isinstance(runtime, Absence):
            return {}
        return self._resolved(Linking(needed=runtime.opens), path.rpartition("/")[0], brought)

    def _hip(self, path: str) -> HipRuntime | Absence:
        with self.tree.ranges(path) as source:
            if isinstance(source, Absence):
                return source
            return hip_runtime.read(source.read_at, source.size, path, source.ref())

    def _needs(self, code: CodeObjects, folder: str, brought: Sequence[str]) -> dict[str, str]:
        return self._resolved(code.linking, folder, brought)

    def _resolved(self, names: Linking, folder: str, brought: Sequence[str]) -> dict[str, str]:
        return linking.resolve(names, folder, self._library_path(brought), self._loader, self._find, brought)

    def _library_path(self, brought: Sequence[str]) -> list[str]:
        """LD_LIBRARY_PATH of the process that runs the runtime's program; else of a serving process or unit, else of
        this shell. A process that runs and has none has none."""
        for environment in self._environments:
            folder, _, program = environment.program.rpartition("/")
            mine = program == "ollama" if any("/ollama" in part for part in brought) else folder in brought
            if environment.readable and folder and mine:
                return list(linking.split(environment.variables.get("LD_LIBRARY_PATH", "")))
        for serving in (True, False):
            for environment in self._environments:
                if environment.serving is serving and environment.variables.get("LD_LIBRARY_PATH"):
                    return list(linking.split(environment.variables["LD_LIBRARY_PATH"]))
        return []

    def _find(self, path: str) -> str:
        if path not in self._found:
            entry = self.tree.entry(path)
            self._found[path] = entry.real if not isinstance(entry, Absence) and entry.kind == "file" else ""
        return self._found[path]

    def scan(self, path: str) -> CodeObjects | Absence:
        """The device code and the links of one file, read once."""
        if path not in self.code:
            self.code[path] = self.guard.run(path, lambda: self._scan(path))
        return self.code[path]

    def _scan(self, path: str) -> CodeObjects | Absence:
        with self.tree.ranges(path) as source:
            if isinstance(source, Absence):
                return source
            code = code_objects.read(source.read_at, source.size, path, source.ref)
        if isinstance(code, Absence) or code.kpack is None:
            return code
        with code_files.archives(self.tree, code_objects.archive_patterns(code)) as archives:
            return code_objects.with_archives(code, [(a.read_at, a.size, a.path) for a in archives])
