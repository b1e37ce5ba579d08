"""The promise: each layer's good and wrong states give the right verdict, per card and per path, and calmly."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import described
import machines
import sysroots
from stillruns.model.absence import Absence, AbsenceReason
from stillruns.model.code_object import CodeTarget, Feature
from stillruns.model.gate import GateStatus, Layer, PathStatus
from stillruns.model.kernel_library import LibraryState
from stillruns.model.machine import DeviceInit, Piece, RunEvidence, Vulkan, VulkanDevice
from stillruns.model.raw import Cite

ALLOW, BLOCK, PARTIAL, UNLISTED, UNKNOWN = (
    GateStatus.ALLOW, GateStatus.BLOCK, GateStatus.PARTIAL, GateStatus.UNLISTED, GateStatus.UNKNOWN
)  # fmt: skip


@pytest.fixture()
def root(tmp_path: Path) -> Path:
    """A healthy machine with one MI50, its nodes, a CPU and a Vulkan driver."""
    sysroots.mi50(tmp_path)
    sysroots.nodes(tmp_path, "dev/kfd", "dev/dri/renderD128", mode=0o666)
    sysroots.host(tmp_path)
    sysroots.vulkan(tmp_path)
    return tmp_path


def test_healthy_mi50(root: Path) -> None:
    """Everything that the files decide is allowed, both paths are open, and nothing is advised."""
    matrix = machines.judged(machines.with_runtime(machines.of(root), "gfx906", "gfx900"))
    for layer in (Layer.CODE_OBJECTS, Layer.KERNEL_LIBRARIES, Layer.MODEL_NEEDS, Layer.FIRMWARE, Layer.KERNEL_DRIVER,
                  Layer.PERMISSIONS, Layer.BUS, Layer.POWER):  # fmt: skip
        assert machines.gate(matrix, layer).status is ALLOW, layer
    assert [p.status for p in matrix.paths if p.path != "cpu"] == [PathStatus.OPEN, PathStatus.OPEN]
    assert matrix.targets == ("gfx906:sramecc+",) and matrix.advice == ()
    assert machines.gate(matrix, Layer.SUPPORT).status is UNLISTED
    assert all(g.evidence for g in matrix.gates if g.status is BLOCK)


def test_unlisted_blocks_nothing(root: Path) -> None:
    """Unsupported is not impossible."""
    matrix = machines.judged(machines.with_runtime(machines.of(root), "gfx906"))
    assert machines.gate(matrix, Layer.SUPPORT).status is UNLISTED
    assert machines.path(matrix, "rocm").status is PathStatus.OPEN


def test_support_follows_the_release(root: Path) -> None:
    """Supported in 5.7, deprecated in 6.2, not listed in 6.4: by what is installed."""
    machine = machines.of(root)
    for version, status in (("5.7.0", ALLOW), ("6.2.0", PARTIAL), ("6.4.0", UNLISTED), ("7.13.0", UNLISTED)):
        told = dataclasses.replace(machine, rocm=(Piece("rocm", version, "/opt/rocm", Cite("x")),))
        gate = machines.gate(machines.judged(told), Layer.SUPPORT)
        assert gate.status is status, version
        assert gate.evidence and gate.evidence[0].at.startswith("read 2026")


class TestCodeObjects:
    """What is inside the backend's library."""

    def verdict(self, root: Path, *targets: str, asked: str = "", **more: object) -> tuple[GateStatus, str]:
        """The gate for a library with these targets."""
        found = machines.code(*targets, **more)  # type: ignore[arg-type]
        machine = machines.with_runtime(machines.of(root), "gfx906", found=found)
        gate = machines.gate(machines.judged(machine, asked), Layer.CODE_OBJECTS)
        return gate.status, gate.reason

    def test_missing(self, root: Path) -> None:
        """The reason names the file and what it has."""
        status, reason = self.verdict(root, "gfx1030", "gfx1100")
        assert status is BLOCK and "libggml-hip.so" in reason and "gfx1030, gfx1100" in reason

    def test_generic(self, root: Path) -> None:
        """gfx9-generic serves gfx906 and gfx900, and not gfx90a."""
        assert self.verdict(root, "gfx9-generic")[0] is ALLOW
        assert self.verdict(root, "gfx9-generic", asked="gfx900")[0] is ALLOW
        assert self.verdict(root, "gfx9-generic", asked="gfx90a")[0] is BLOCK

    def test_features(self, root: Path) -> None:
        """xnack+ code does not load on a card that runs with xnack off; sramecc must be the card's."""
        assert self.verdict(root, "gfx906:xnack-")[0] is ALLOW
        assert self.verdict(root, "gfx906:xnack+")[0] is BLOCK
        assert self.verdict(root, "gfx906:sramecc+:xnack-")[0] is ALLOW
        status, reason = self.verdict(root, "gfx906:sramecc-:xnack-")
        assert status is BLOCK and "features" in reason
        assert self.verdict(root, "gfx906:xnack+", asked="gfx906:xnack+")[0] is ALLOW

    def test_unknown_feature_is_a_condition(self, root: Path) -> None:
        """For a card that is not here, code for sramecc+ runs on some cards only."""
        status, reason = self.verdict(root, "gfx90a:sramecc+", asked="gfx90a")
        assert status is PARTIAL and "sramecc+" in reason

    def test_some_bundles_only(self, root: Path) -> None:
        """A target that only some bundles hold is counted."""
        status, reason = self.verdict(root, "gfx906", "gfx900", counts={"gfx906": 1})
        assert status is PARTIAL and "1 of 4 bundles" in reason

    def test_lost_bundles_and_false_labels(self, root: Path) -> None:
        """Registrations without a bundle, and code that is not what its label says."""
        found = dataclasses.replace(machines.code("gfx906"), wrappers=9)
        machine = machines.with_runtime(machines.of(root), "gfx906", found=found)
        assert "5 of 9" in machines.gate(machines.judged(machine), Layer.CODE_OBJECTS).reason
        odd = dataclasses.replace(found, wrappers=4, targets=(CodeTarget("gfx906", "gfx906", mismatches=1, count=4),))
        machine = machines.with_runtime(machines.of(root), "gfx906", found=odd)
        assert machines.gate(machines.judged(machine), Layer.CODE_OBJECTS).status is PARTIAL

    def test_old_hip_runtime(self, root: Path) -> None:
        """A v6 code object with a HIP runtime from before it is said to be inferred."""
        links = {"libamdhip64.so.5": "/usr/lib/libamdhip64.so.5", "librocblas.so.0": machines.ROCBLAS}
        machine = machines.with_runtime(machines.of(root), "gfx906", links=links)
        gate = machines.gate(machines.judged(machine), Layer.CODE_OBJECTS)
        assert gate.status is PARTIAL and "inferred" in gate.reason

    def test_no_runtime(self, root: Path) -> None:
        """Without a runtime nothing is decided, and nothing blocked."""
        matrix = machines.judged(machines.of(root))
        assert machines.gate(matrix, Layer.CODE_OBJECTS).status is UNKNOWN
        assert machines.path(matrix, "rocm").status is PathStatus.UNKNOWN


class TestKernelLibraries:
    """rocBLAS's folder, the one that the runtime links."""

    @pytest.mark.parametrize(
        ("state", "status", "word"),
        [(LibraryState.COMPLETE, ALLOW, "38 own"), (LibraryState.FALLBACK_ONLY, PARTIAL, "fallback"),
         (LibraryState.FILES_MISSING, BLOCK, "missing files: TensileLibrary_Type_HH_gfx906.co"),
         (LibraryState.INDEX_DAMAGED, BLOCK, "damaged"), (LibraryState.INDEX_MISSING, BLOCK, "without an index"),
         (LibraryState.MIXED, PARTIAL, "another release"), (LibraryState.ABSENT, BLOCK, "no gfx906 in")],
    )  # fmt: skip
    def test_states(self, root: Path, state: LibraryState, status: GateStatus, word: str) -> None:
        """Every state has its own verdict and names its files."""
        gate = machines.gate(
            machines.judged(machines.with_runtime(machines.of(root), "gfx906", state=state)), Layer.KERNEL_LIBRARIES
        )
        assert gate.status is status and word in gate.reason

    def test_another_folder_proves_nothing(self, root: Path) -> None:
        """A folder that the runtime does not link is named and decides nothing."""
        links = {"librocblas.so.4": "/usr/lib/ollama/rocm/librocblas.so.4"}
        matrix = machines.judged(machines.with_runtime(machines.of(root), "gfx906", links=links))
        gate = machines.gate(matrix, Layer.KERNEL_LIBRARIES)
        assert gate.status is UNKNOWN and "proves nothing" in gate.reason

    def test_private_folder(self, root: Path) -> None:
        """ROCBLAS_TENSILE_LIBPATH of the server decides over the folder beside the library."""
        machine = machines.with_runtime(
            machines.of(root), "gfx906", links={"librocblas.so.4": "/elsewhere/librocblas.so.4"}
        )
        machine = machines.with_environment(machine, ROCBLAS_TENSILE_LIBPATH=machines.FOLDER)
        assert machines.gate(machines.judged(machine), Layer.KERNEL_LIBRARIES).status is ALLOW

    def test_rocblas_itself(self, root: Path) -> None:
        """Tensile's files are there, rocBLAS's own code is not: two conditions, both told."""
        machine = machines.with_runtime(machines.of(root), "gfx906")
        own = machines.code("gfx1100", file=machines.ROCBLAS)
        machine = dataclasses.replace(machine, code={**machine.code, machines.ROCBLAS: own})
        gate = machines.gate(machines.judged(machine), Layer.KERNEL_LIBRARIES)
        assert gate.status is PARTIAL and machines.ROCBLAS in gate.reason


class TestModelNeeds:
    """Whether the missing piece matters."""

    @pytest.mark.parametrize(
        ("target", "model", "status"),
        [("gfx900", "", BLOCK), ("gfx900", "moe quantised", PARTIAL), ("gfx906", "", PARTIAL),
         ("gfx90c", "dense quantised", BLOCK)],
    )  # fmt: skip
    def test_missing_rocblas(self, root: Path, target: str, model: str, status: GateStatus) -> None:
        """gfx900 and gfx90c need rocBLAS for dense quantised models; gfx906 runs those without."""
        machine = machines.with_runtime(machines.of(root), target, state=LibraryState.ABSENT)
        gate = machines.gate(machines.judged(dataclasses.replace(machine, model=model), target), Layer.MODEL_NEEDS)
        assert gate.status is status and "hipBLASLt does not matter" in gate.reason


class TestRuntimeFilter:
    """Ollama's filters by version."""

    def verdict(
        self,
        root: Path,
        version: str,
        state: LibraryState = LibraryState.COMPLETE,
        path: str = "rocm",
        target: str = "gfx906",
        layout: str = "lazy",
        **variables: str,
    ) -> tuple[GateStatus, str]:
        """The gate of a release."""
        machine = machines.with_runtime(
            machines.of(root), target, runtime="ollama", version=version, state=state, layout=layout
        )
        machine = machines.with_environment(machine, **variables) if variables else machine
        gate = machines.gate(machines.judged(machine, target), Layer.RUNTIME_FILTER, path)
        return gate.status, gate.reason

    def test_file_gate(self, root: Path) -> None:
        """Since 0.30 the mere existence of the index decides; a damaged one passes, and that is said."""
        assert self.verdict(root, "0.33.0")[0] is ALLOW
        status, reason = self.verdict(root, "0.33.0", LibraryState.ABSENT)
        assert status is BLOCK and "TensileLibrary_lazy_gfx906.dat" in reason
        status, reason = self.verdict(root, "0.30.0", LibraryState.INDEX_DAMAGED)
        assert status is ALLOW and "damaged" in reason

    def test_files_alone_do_not_help(self, root: Path) -> None:
        """Ollama's own library lacks the target: copying rocBLAS's files is not advised, which would pass the filter
        and then fail."""
        for held, word in (("gfx1030", "not bring the code"), ("gfx906", "give Ollama's rocBLAS folder")):
            machine = machines.with_runtime(
                machines.of(root), held, runtime="ollama", version="0.30.0", state=LibraryState.ABSENT
            )
            gate = machines.gate(machines.judged(machine), Layer.RUNTIME_FILTER)
            assert gate.status is BLOCK and word in gate.advice

    def test_file_gate_follows_the_override(self, root: Path) -> None:
        """The override is translated first: the pretended target's file must exist."""
        status, reason = self.verdict(root, "0.33.0", HSA_OVERRIDE_GFX_VERSION="9.0.0")
        assert status is BLOCK and "gfx900" in reason

    def test_list_gate(self, root: Path) -> None:
        """Up to 0.12.3 a merged rocBLAS gives an empty list, and an override skips the check."""
        assert self.verdict(root, "0.12.3", layout="merged")[0] is BLOCK
        assert self.verdict(root, "0.12.3", LibraryState.ABSENT, HSA_OVERRIDE_GFX_VERSION="9.0.6")[0] is ALLOW

    def test_probe_gate(self, root: Path) -> None:
        """From 0.12.4 to 0.24 a child decides: unknown from files."""
        assert self.verdict(root, "0.17.5")[0] is UNKNOWN

    def test_integrated(self, root: Path) -> None:
        """An APU is dropped since 0.30 unless the server's environment lets it in."""
        assert self.verdict(root, "0.33.0", target="gfx90c")[0] is BLOCK
        assert self.verdict(root, "0.33.0", target="gfx90c", OLLAMA_IGPU_ENABLE="1")[0] is ALLOW
        assert self.verdict(root, "0.17.5", target="gfx90c", path="vulkan")[0] is BLOCK  # Vulkan waits for a switch
        assert self.verdict(root, "0.17.5", target="gfx90c", path="vulkan", OLLAMA_VULKAN="1")[0] is ALLOW

    @pytest.mark.parametrize(
        ("mib", "status", "path"), [(512, BLOCK, PathStatus.STOPPED), (4096, ALLOW, PathStatus.OPEN)]
    )
    def test_little_memory(self, tmp_path: Path, mib: int, status: GateStatus, path: PathStatus) -> None:
        """Up to 0.12.3 less than 1 GiB of its own is what drops an integrated GPU, and no switch lets it in."""
        facts = {"os": "arch", "pacman": ["ollama-rocm-0.9.6-1"],
                 "cards": [{"id": "1002:15bf", "gfx": 110003, "gib": 4}],
                 "ollama": {"version": "0.9.6", "home": "/usr/lib/ollama", "rocm": "gfx1103", "blas": "gfx1103",
                            "hip": "6.3.42134"}}  # fmt: skip
        described.build(tmp_path, facts, {})
        machine = machines.of(tmp_path)
        (card,) = machine.cards
        assert card.state is not None
        card = dataclasses.replace(card, state=dataclasses.replace(card.state, vram=mib << 20))
        matrix = machines.judged(dataclasses.replace(machine, cards=(card,)))
        gate = machines.gate(matrix, Layer.RUNTIME_FILTER)
        assert gate.status is status and "OLLAMA_IGPU_ENABLE" not in gate.advice
        assert machines.path(matrix, "rocm").status is path


class TestDriver:
    """Kernel driver, permissions, board."""

    def test_no_node(self, tmp_path: Path) -> None:
        """amdgpu holds the card and KFD did not take it: ROCm is stopped, Vulkan is not."""
        sysroots.node(tmp_path, 0)
        sysroots.card(tmp_path)
        sysroots.vulkan(tmp_path)
        matrix = machines.judged(machines.with_runtime(machines.of(tmp_path), "gfx906"))
        assert machines.gate(matrix, Layer.KERNEL_DRIVER).status is BLOCK
        assert machines.gate(matrix, Layer.KERNEL_DRIVER, "vulkan").status is ALLOW
        assert machines.path(matrix, "vulkan").status is PathStatus.OPEN
        assert any("Vulkan" in advice.text for advice in matrix.advice)

    @pytest.mark.parametrize(
        ("driver", "word"), [("", "no driver"), ("radeon", "radeon"), ("vfio-pci", "virtual machine")]
    )
    def test_wrong_driver(self, tmp_path: Path, driver: str, word: str) -> None:
        """No driver, the old driver, a card set aside for a guest."""
        sysroots.card(tmp_path, driver=driver)
        gate = machines.gate(machines.judged(machines.of(tmp_path)), Layer.KERNEL_DRIVER)
        assert gate.status is BLOCK and word in gate.reason

    def test_a_card_that_drives_a_screen(self, root: Path) -> None:
        """An old card on radeon: RADV works with amdgpu alone, so Vulkan is stopped too; nobody is told to bind a
        card to amdgpu of which nothing says that amdgpu knows it, and the MI50's advice comes first."""
        sysroots.card(root, "0000:08:00.0", 0x68F9, driver="radeon", minor=129)
        matrix = machines.judged(machines.with_runtime(machines.of(root), "gfx1030"))
        for path in ("rocm", "vulkan"):
            gate = machines.gate(matrix, Layer.KERNEL_DRIVER, path, "0000:08:00.0")
            assert gate.status is BLOCK and not gate.advice
        assert all(" on none" not in entry.text for entry in matrix.advice)

    def test_old_kernel(self, tmp_path: Path) -> None:
        """A topology without gfx_target_version: the PCI id tells the target, and the reason says so."""
        sysroots.node(tmp_path, 0)
        sysroots.node(
            tmp_path, 1, simd_count=256, vendor_id=0x1002, device_id=0x6860, location_id=0x1900, drm_render_minor=128
        )
        sysroots.card(tmp_path, "0000:19:00.0", 0x6860)
        machine = machines.of(tmp_path)
        assert [card.target for card in machine.cards] == ["gfx900"]
        assert "PCI id" in machines.gate(machines.judged(machine), Layer.KERNEL_DRIVER).reason

    def test_log(self, root: Path) -> None:
        """Ring timeouts and faults are counted; lines about another card are not ours."""
        lines = ["[ 9.1] amdgpu 0000:04:00.0: amdgpu: ring gfx timeout, signaled seq=1",
                 "[ 9.2] amdgpu 0000:04:00.0: amdgpu: GPU reset begin!",
                 "[ 9.3] amdgpu 0000:99:00.0: amdgpu: GPU reset begin!"]  # fmt: skip
        sysroots.write(root, "var/log/dmesg", "\n".join(lines))
        gate = machines.gate(machines.judged(machines.of(root)), Layer.KERNEL_DRIVER)
        assert gate.status is PARTIAL and "ring" in gate.reason and "(1x)" in gate.reason
        assert gate.evidence[1].at == "L1" and gate.evidence[1].source == "/var/log/dmesg"

    def test_atomics(self, tmp_path: Path) -> None:
        """A gfx8 card in a slot without atomics: stopped on the bus for ROCm, by the log's own line."""
        sysroots.card(tmp_path, "0000:05:00.0", 0x67DF)
        sysroots.write(
            tmp_path, "var/log/dmesg", "kfd kfd: amdgpu: skipped device 1002:67df, PCI rejects atomics 730<0"
        )
        sysroots.node(tmp_path, 0)
        gate = machines.gate(machines.judged(machines.of(tmp_path)), Layer.BUS)
        assert gate.status is BLOCK and "slot-with-atomics" in gate.workarounds

    def test_bus(self, tmp_path: Path) -> None:
        """A narrow link and a small window are told, for this card and not for its neighbour."""
        sysroots.mi50(tmp_path)
        sysroots.node(tmp_path, 2, simd_count=240, gfx_target_version=90006, vendor_id=0x1002, device_id=0x66A1,
                      location_id=0x0A00, drm_render_minor=129, capability=0x2A801280)  # fmt: skip
        sysroots.card(tmp_path, "0000:0a:00.0", minor=129, width=1, visible=256 << 20)
        matrix = machines.judged(machines.of(tmp_path))
        assert machines.gate(matrix, Layer.BUS, device="0000:04:00.0").status is ALLOW
        gate = machines.gate(matrix, Layer.BUS, device="0000:0a:00.0")
        assert gate.status is PARTIAL and "x1 of x16" in gate.reason and "256 of 16384 MiB" in gate.reason
        assert any("differ: gfx906:sramecc+, gfx906:sramecc-" in note for note in matrix.notes)

    def test_high_windows(self, tmp_path: Path) -> None:
        """A neighbour's window above 44 bits is told for a Vega, which cannot address it."""
        sysroots.mi50(tmp_path)
        window = f"0x{1 << 44:016x} 0x{(1 << 44) + (16 << 30) - 1:016x} 0x14220c"
        sysroots.card(tmp_path, "0000:0a:00.0", 0x740F, minor=129, resource=window)
        gate = machines.gate(machines.judged(machines.of(tmp_path)), Layer.BUS, device="0000:04:00.0")
        assert gate.status is ALLOW and "no peer copies to 0000:0a:00.0" in gate.reason and "44 bits" in gate.reason

    def test_power(self, root: Path) -> None:
        """Memory errors, a lowered cap, stuck clocks."""
        folder = "sys/devices/pci0000:00/0000:00:03.1/0000:04:00.0"
        sysroots.write(root, f"{folder}/ras/umc_err_count", "ue: 2\nce: 7")
        sysroots.write(root, f"{folder}/hwmon/hwmon1/power1_cap", "150000000")
        sysroots.write(root, f"{folder}/gpu_busy_percent", "100")
        gate = machines.gate(machines.judged(machines.of(root)), Layer.POWER)
        assert gate.status is PARTIAL
        for word in ("2 uncorrectable", "150 W", "925 of 1700 MHz"):
            assert word in gate.reason

    def test_sleeping_card(self, root: Path) -> None:
        """A suspended card is not woken for its sensors."""
        folder = "sys/devices/pci0000:00/0000:00:03.1/0000:04:00.0"
        sysroots.write(root, f"{folder}/power/runtime_status", "suspended")
        machine = machines.of(root)
        assert machine.cards[0].state is not None and machine.cards[0].state.asleep
        assert machines.gate(machines.judged(machine), Layer.POWER).status is UNKNOWN

    def test_container_without_kfd(self, root: Path) -> None:
        """A container without /dev/kfd: one sentence, with the option that helps."""
        (root / "dev/kfd").unlink()
        sysroots.write(root, ".dockerenv", "")
        matrix = machines.judged(machines.of(root))
        gate = machines.gate(matrix, Layer.PERMISSIONS)
        assert gate.status is BLOCK and "docker" in gate.reason and "--device /dev/kfd" in gate.advice
        assert machines.gate(matrix, Layer.PERMISSIONS, "vulkan").status is ALLOW

    def test_group_of_the_server(self, root: Path) -> None:
        """The serving user counts, not the one who asks."""
        for name in ("dev/kfd", "dev/dri/renderD128"):
            (root / name).chmod(0o660)
        gid = (root / "dev/kfd").stat().st_gid
        sysroots.write(
            root, "etc/systemd/system/ollama.service", "[Service]\nUser=ollama\nExecStart=/usr/bin/ollama serve"
        )
        sysroots.write(root, "etc/passwd", "ollama:x:997:997::/:/bin/false")
        sysroots.write(root, "etc/group", f"render:x:{gid}:\nollama:x:997:")
        gate = machines.gate(machines.judged(machines.of(root)), Layer.PERMISSIONS)
        assert gate.status is BLOCK and "usermod -aG render ollama" in gate.advice
        sysroots.write(root, "etc/group", f"render:x:{gid}:ollama\nollama:x:997:")
        assert machines.gate(machines.judged(machines.of(root)), Layer.PERMISSIONS).status is ALLOW

    def test_firmware(self, tmp_path: Path) -> None:
        """Files in any packing count; an optional name does not; a needed one that is missing blocks."""
        sysroots.card(tmp_path, driver="")
        names = ["sos", "mec", "rlc", "smc", "sdma"]
        for name in names:
            sysroots.write(tmp_path, f"lib/firmware/amdgpu/vega20_{name}.bin.zst", "x")
        wanted = b"".join(b"firmware=amdgpu/vega20_%s.bin\0" % name.encode() for name in [*names, "cap", "ta"])
        sysroots.write(tmp_path, "proc/sys/kernel/osrelease", "6.12.48")
        module = "lib/modules/6.12.48/kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko"
        sysroots.write(tmp_path, module, b"\x7fELF" + b"\0" * 300 + wanted)
        assert machines.gate(machines.judged(machines.of(tmp_path)), Layer.FIRMWARE).status is ALLOW
        (tmp_path / "lib/firmware/amdgpu/vega20_mec.bin.zst").unlink()
        gate = machines.gate(machines.judged(machines.of(tmp_path)), Layer.FIRMWARE)
        assert gate.status is BLOCK and "vega20_mec.bin" in gate.reason


class TestEnvironment:
    """Masks and overrides."""

    def verdict(self, root: Path, *targets: str, path: str = "rocm", **variables: str) -> tuple[GateStatus, str]:
        """The gate under a server's environment."""
        machine = machines.with_environment(
            machines.with_runtime(machines.of(root), *(targets or ("gfx906",))), **variables
        )
        gate = machines.gate(machines.judged(machine), Layer.ENVIRONMENT, path)
        return gate.status, gate.reason

    def test_empty_masks(self, root: Path) -> None:
        """ROCR's empty mask hides all, HIP's counts as unset."""
        assert self.verdict(root, ROCR_VISIBLE_DEVICES="")[0] is BLOCK
        assert self.verdict(root, HIP_VISIBLE_DEVICES="")[0] is ALLOW
        assert self.verdict(root, path="vulkan", GGML_VK_VISIBLE_DEVICES="")[0] is BLOCK

    def test_masks_that_cancel_out(self, root: Path) -> None:
        """HIP counts what ROCR left: 0 then 1 leaves nothing."""
        assert self.verdict(root, HIP_VISIBLE_DEVICES="0")[0] is ALLOW
        status, reason = self.verdict(root, ROCR_VISIBLE_DEVICES="0", HIP_VISIBLE_DEVICES="1")
        assert status is BLOCK and "HIP_VISIBLE_DEVICES=1" in reason and "unit ollama.service" in reason
        assert self.verdict(root, HIP_VISIBLE_DEVICES="-1")[0] is BLOCK
        assert self.verdict(root, ROCR_VISIBLE_DEVICES="GPU-0123456789abcdef")[0] is UNKNOWN
        assert self.verdict(root, path="vulkan", GGML_VK_VISIBLE_DEVICES="3")[0] is UNKNOWN

    def test_override(self, root: Path) -> None:
        """What an override turns the card into, whether code for that exists, and whether it changes anything."""
        status, reason = self.verdict(root, HSA_OVERRIDE_GFX_VERSION="9.0.6")
        assert status is ALLOW and "changes nothing" in reason
        assert self.verdict(root, HSA_OVERRIDE_GFX_VERSION="9.0.10")[0] is BLOCK  # gfx90a: no code here
        status, reason = self.verdict(root, "gfx906", "gfx90a", HSA_OVERRIDE_GFX_VERSION="9.0.10")
        assert status is BLOCK and "gfx90a" in reason and "another instruction set" in reason
        status, reason = self.verdict(root, "gfx906", "gfx900", HSA_OVERRIDE_GFX_VERSION="9.0.0")
        assert status is PARTIAL and "not known to be compatible" in reason
        assert self.verdict(root, HSA_OVERRIDE_GFX_VERSION="gfx906")[0] is BLOCK
        assert "does not exist" in self.verdict(root, HSA_OVERRIDE_GFX_VERSION="9.9.9")[1]

    def test_neighbour(self, tmp_path: Path) -> None:
        """A 6700 XT as gfx1030: files are judged by what the runtime sees, the path is open, and the card keeps its
        name. Without the override the same files stop it, and the override is the first advice."""
        sysroots.node(tmp_path, 0)
        sysroots.node(tmp_path, 1, simd_count=80, gfx_target_version=100301, vendor_id=0x1002, device_id=0x73DF,
                      location_id=0x400, drm_render_minor=128)  # fmt: skip
        sysroots.card(tmp_path, device=0x73DF)
        machine = machines.with_runtime(machines.of(tmp_path), "gfx1030", library_target="gfx1030")
        plain = machines.judged(machine)
        assert machines.path(plain, "rocm").status is PathStatus.STOPPED
        assert plain.advice[0].text.startswith("set HSA_OVERRIDE_GFX_VERSION=10.3.0")
        assert plain.advice[0].workarounds[0] == "override-gfx-neighbour"
        for name in ("HSA_OVERRIDE_GFX_VERSION", "HSA_OVERRIDE_GFX_VERSION_1"):
            matrix = machines.judged(machines.with_environment(machine, **{name: "10.3.0"}))
            for layer in (Layer.CODE_OBJECTS, Layer.KERNEL_LIBRARIES, Layer.MODEL_NEEDS):
                gate = machines.gate(matrix, layer)
                assert gate.status is ALLOW and gate.target == "gfx1031" and "judged as gfx1030" in gate.reason
            assert machines.gate(matrix, Layer.ENVIRONMENT).status is PARTIAL
            assert machines.path(matrix, "rocm").status is PathStatus.OPEN

    def test_an_override_or_another_release(self, tmp_path: Path) -> None:
        """Both are ways around one obstacle: the setting comes first, and the release says that it is for its stead.
        The ids of each, too, are alternatives; a build that an override needs besides is none."""
        sysroots.node(tmp_path, 0)
        sysroots.node(tmp_path, 1, simd_count=80, gfx_target_version=100301, vendor_id=0x1002, device_id=0x73DF,
                      location_id=0x400, drm_render_minor=128)  # fmt: skip
        sysroots.card(tmp_path, device=0x73DF)
        machine = machines.with_runtime(
            machines.of(tmp_path), "gfx1030", library_target="gfx1030", runtime="ollama", version="0.12.0"
        )
        assert machines.gate(machines.judged(machine), Layer.BUILD_FILTER).status is BLOCK
        advice = [entry for entry in machines.judged(machine).advice if entry.path == "rocm"]
        (setting,) = [entry for entry in advice if entry.gate is Layer.CODE_OBJECTS]
        (release,) = [entry for entry in advice if entry.gate is Layer.BUILD_FILTER]
        assert setting.text.startswith("set HSA_OVERRIDE_GFX_VERSION=10.3.0") and setting.one_is_enough
        assert release.text.startswith("instead of the override above (one of the two is enough): take a release")
        assert setting.rank < release.rank

    def test_a_build_that_an_override_needs(self, tmp_path: Path) -> None:
        """It is no alternative to the override: nothing is said to be enough."""
        sysroots.node(tmp_path, 0)
        sysroots.node(tmp_path, 1, simd_count=24, gfx_target_version=110003, vendor_id=0x1002, device_id=0x15BF,
                      location_id=0x400, drm_render_minor=128)  # fmt: skip
        sysroots.card(tmp_path, device=0x15BF)
        machine = machines.with_runtime(machines.of(tmp_path), "gfx1103", library_target="gfx1100")
        advice = machines.judged(machines.with_kernels(machine, "gfx1100")).advice
        (both,) = [entry for entry in advice if "HSA_OVERRIDE" in entry.text]
        assert both.text.startswith("build a runtime for gfx1100 and set") and not both.one_is_enough
        assert not any(entry.text.startswith("instead of") for entry in advice)

    def test_more_instructions_than_the_card_has(self, tmp_path: Path) -> None:
        """gfx906 adds dot products to gfx900, though one generic target serves both: a Vega 56 as gfx906 may die. Its
        own code is here, so the advice is to take the override away."""
        sysroots.node(tmp_path, 0)
        sysroots.node(tmp_path, 1, simd_count=224, gfx_target_version=90000, vendor_id=0x1002, device_id=0x687F,
                      location_id=0x400, drm_render_minor=128)  # fmt: skip
        sysroots.card(tmp_path, device=0x687F)
        machine = machines.with_runtime(machines.of(tmp_path), "gfx900", "gfx906")
        matrix = machines.judged(machines.with_environment(machine, HSA_OVERRIDE_GFX_VERSION="9.0.6"))
        gate = machines.gate(matrix, Layer.ENVIRONMENT)
        assert gate.status is PARTIAL and "illegal instructions" in gate.reason
        assert matrix.advice[0].text.startswith("remove HSA_OVERRIDE_GFX_VERSION")

    def test_override_beside_another_card(self, root: Path) -> None:
        """The plain variable renames every GPU: beside an MI50 the advice for an integrated GPU names its node."""
        sysroots.node(root, 2, simd_count=28, gfx_target_version=90012, vendor_id=0x1002, device_id=0x1636,
                      location_id=0x800, drm_render_minor=129)  # fmt: skip
        sysroots.card(root, "0000:08:00.0", 0x1636, minor=129)
        machine = machines.with_kernels(machines.with_runtime(machines.of(root), "gfx906", "gfx900"), "gfx900")
        (advice,) = [entry.text for entry in machines.judged(machine).advice if "HSA_OVERRIDE" in entry.text]
        assert advice.startswith("set HSA_OVERRIDE_GFX_VERSION_2=9.0.0")

    @pytest.mark.parametrize(
        ("code", "kernels", "advice"),
        [
            (("gfx1100", "gfx1103"), ("gfx1100",), "set HSA_OVERRIDE_GFX_VERSION=11.0.0"),
            (("gfx1103",), ("gfx1100",), "build a runtime for gfx1100 and set HSA_OVERRIDE_GFX_VERSION=11.0.0"),
            (("gfx1100",), ("gfx1030",), ""),
            (("gfx1101",), ("gfx1100", "gfx1101"), "set HSA_OVERRIDE_GFX_VERSION=11.0.1"),
        ],
    )
    def test_a_neighbour_in_code_and_kernels(
        self, tmp_path: Path, code: tuple[str, ...], kernels: tuple[str, ...], advice: str
    ) -> None:
        """An override leads to code and to rocBLAS's kernels alike: one without the other is no way."""
        sysroots.node(tmp_path, 0)
        sysroots.node(tmp_path, 1, simd_count=24, gfx_target_version=110003, vendor_id=0x1002, device_id=0x15BF,
                      location_id=0x400, drm_render_minor=128)  # fmt: skip
        sysroots.card(tmp_path, device=0x15BF)
        machine = machines.with_runtime(machines.of(tmp_path), *code, library_target=kernels[0])
        texts = [entry.text for entry in machines.judged(machines.with_kernels(machine, *kernels)).advice]
        found = [text for text in texts if "HSA_OVERRIDE" in text]
        assert (found[0].startswith(advice) and len(found) == 1) if advice else not found, texts

    @pytest.mark.parametrize(
        ("card", "library", "advice"),
        [
            ({"id": "10de:1db4", "model": "Tesla V100-PCIE-16GB"}, "cuda", "the Vulkan backend on sm_70: it is open"),
            ({"id": "8086:e20b", "driver": "xe"}, "", "use a runtime with the Vulkan backend: the card's driver"),
        ],
    )
    def test_vulkan_instead(self, tmp_path: Path, card: dict[str, object], library: str, advice: str) -> None:
        """Vulkan is the way out of a stopped CUDA too, and the only one of an Intel card that no runtime uses."""
        files = {"/usr/lib/ollama/libggml-cpu.so": "elf"}
        if library:
            files |= {
                "/usr/lib/ollama/libggml-cuda.so": "cuda 75,86 12",
                "/usr/lib/ollama/libggml-vulkan.so": "vulkan",
            }
        icd = {"icd": "nvidia" if library else "intel"}
        card |= {"address": "0000:01:00.0", "gib": 16}
        described.build(
            tmp_path, {"os": "arch", "cards": [card], "nvidia": "580.82.07", "vulkan": icd, "files": files}, {}
        )
        texts = [entry.text for entry in machines.judged(machines.of(tmp_path)).advice]
        assert any(advice in text for text in texts), texts

    def test_kernels_without_code(self, tmp_path: Path) -> None:
        """Where the runtime's library lacks the target as well, rocBLAS's files come after a build that has it."""
        machine = machines.with_runtime(machines.of(tmp_path), "gfx1030", library_target="gfx1030")
        texts = [entry.text for entry in machines.judged(machine, "gfx803").advice]
        assert texts[0].startswith("take or build a runtime whose library holds gfx803")
        assert any("rocBLAS kernels" in text for text in texts[1:])

    def test_advice_fits_the_target(self, root: Path) -> None:
        """Packages that carry no gfx1031 are not advised for it."""
        matrix = machines.judged(machines.with_runtime(machines.of(root), "gfx1100"), "gfx1031")
        assert machines.gate(matrix, Layer.CODE_OBJECTS).status is BLOCK
        assert all("debian-rocm-packages" not in entry.workarounds for entry in matrix.advice)

    def test_suffix_counts_nodes(self, root: Path) -> None:
        """_0 is the CPU here; the card is node 1."""
        status, reason = self.verdict(root, "gfx906", "gfx900", HSA_OVERRIDE_GFX_VERSION_0="9.0.0")
        assert status is PARTIAL and "node 1" in reason
        assert (
            "turns the card into gfx900"
            in self.verdict(root, "gfx906", "gfx900", HSA_OVERRIDE_GFX_VERSION_1="9.0.0")[1]
        )

    def test_serving_process_first(self, root: Path) -> None:
        """What the unit sets decides over what this shell has."""
        sysroots.write(root, "etc/systemd/system/ollama.service.d/override.conf",
                       '[Service]\nEnvironment="HIP_VISIBLE_DEVICES=7" "OLLAMA_HOST=0.0.0.0"')  # fmt: skip
        sysroots.write(root, "proc/self/environ", "HIP_VISIBLE_DEVICES=0\0")
        machine = machines.with_runtime(machines.of(root), "gfx906")
        gate = machines.gate(machines.judged(machine), Layer.ENVIRONMENT)
        assert gate.status is BLOCK and "ollama.service" in gate.reason


class TestVulkan:
    """Loader, drivers, rasterisers."""

    def test_only_a_rasteriser(self, tmp_path: Path) -> None:
        """A box with llvmpipe only is told that it computes on the CPU."""
        sysroots.host(tmp_path)
        sysroots.vulkan(tmp_path, "lvp_icd", "libvulkan_lvp.so")
        matrix = machines.judged(machines.of(tmp_path))
        gate = machines.gate(matrix, Layer.VULKAN, "vulkan")
        assert gate.status is BLOCK and "software rasteriser" in gate.reason
        assert machines.path(matrix, "vulkan").status is PathStatus.STOPPED

    def test_no_gpu_at_all(self, tmp_path: Path) -> None:
        """An empty machine: a note, no traceback, no blame."""
        matrix = machines.judged(machines.of(tmp_path))
        assert matrix.targets == () and any("no GPU" in note for note in matrix.notes)
        assert not [g for g in matrix.gates if g.status is BLOCK and g.layer is not Layer.VULKAN]

    def test_no_runtime(self, root: Path) -> None:
        """A driver that no runtime here uses opens no path; the advice for a stopped ROCm says what is lacking."""
        found = machines.with_runtime(machines.of(root), "gfx1100")
        rocm = dataclasses.replace(found.runtimes[0], backends=found.runtimes[0].backends[:1])
        matrix = machines.judged(dataclasses.replace(found, runtimes=(rocm,)))
        assert machines.gate(matrix, Layer.VULKAN, "vulkan").status is ALLOW
        assert machines.path(matrix, "vulkan").status is PathStatus.UNKNOWN
        assert "no runtime with a vulkan backend" in machines.path(matrix, "vulkan").reason
        assert any(entry.text.startswith("use a runtime with the Vulkan backend") for entry in matrix.advice)

    def test_part_of_a_system(self, tmp_path: Path) -> None:
        """A folder of unpacked packages has no C library either: what is not in it may be elsewhere, and nothing is
        blocked for that. The same files beside a C library are a system, and block."""
        sysroots.card(tmp_path)
        for status in (UNKNOWN, BLOCK):
            machine = machines.with_runtime(machines.of(tmp_path), "gfx906", links={"libhipblas.so.2": ""})
            matrix = machines.judged(machine)
            assert machines.gate(matrix, Layer.VULKAN, "vulkan").status is status
            assert machines.gate(matrix, Layer.VERSIONS).status is status
            pascal = machines.judged(machine, "sm_61")
            assert machines.gate(pascal, Layer.VERSIONS, "cuda").status is status
            sysroots.host(tmp_path)

    @pytest.mark.parametrize(
        ("driver", "target", "dropped"),
        [("590.44.01", "sm_61", True), ("580.95.05", "sm_61", False), ("590.44.01", "sm_75", False),
         ("535.183.01", "sm_35", True), ("470.256.02", "sm_35", False)],
    )  # fmt: skip
    def test_a_driver_that_dropped_the_card(self, tmp_path: Path, driver: str, target: str, dropped: bool) -> None:
        """A newer branch is there, and works, and not for this card."""
        sysroots.write(
            tmp_path, "proc/driver/nvidia/version", f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  x"
        )
        gate = machines.gate(machines.judged(machines.of(tmp_path), target), Layer.VERSIONS, "cuda")
        assert (gate.status is BLOCK and f"driver {driver} has dropped {target}" in gate.reason) == dropped, gate

    @pytest.mark.parametrize(("target", "branch"), [("sm_35", "470"), ("sm_61", "580"), ("sm_90", "")])
    def test_the_driver_that_still_knows_the_card(self, root: Path, target: str, branch: str) -> None:
        """What is advised to be installed is of a branch that has not dropped the card."""
        texts = [entry.text for entry in machines.judged(machines.of(root), target).advice]
        assert [text for text in texts if "NVIDIA's driver" in text], texts
        assert all((f"(branch {branch}: " in text) == bool(branch) for text in texts if "NVIDIA's driver" in text)

    def test_no_gpu_calls_for_no_driver(self, root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Without a GPU nothing is advised to be installed; a board's GPU that is on no PCI bus is not denied, and
        vulkaninfo decides."""
        bare = tmp_path_factory.mktemp("bare")
        sysroots.host(bare)
        matrix = machines.judged(machines.of(bare))
        assert machines.gate(matrix, Layer.VULKAN, "vulkan").status is UNKNOWN and matrix.advice == ()
        sysroots.vulkan(bare, "broadcom_icd", "libvulkan_broadcom.so")
        sysroots.vulkan(bare, "lvp_icd", "libvulkan_lvp.so")
        machine = machines.of(bare)
        assert machines.gate(machines.judged(machine), Layer.VULKAN, "vulkan").status is UNKNOWN
        assert isinstance(machine.vulkan, Vulkan)
        board = VulkanDevice("V3D 7.1", "INTEGRATED_GPU", "V3DV Mesa", "1.3", 0x14E4, 1, False, Cite("vulkaninfo"))
        lavapipe = VulkanDevice("llvmpipe", "CPU", "llvmpipe", "1.4", 0x10005, 0, True, Cite("vulkaninfo"))
        for devices, status in (((lavapipe, board), ALLOW), ((lavapipe,), BLOCK)):
            told = dataclasses.replace(machine, vulkan=dataclasses.replace(machine.vulkan, devices=devices))
            assert machines.gate(machines.judged(told), Layer.VULKAN, "vulkan").status is status

    def test_vulkaninfo_disagrees(self, root: Path) -> None:
        """A whole manifest, and vulkaninfo that lists no device: not allowed. One name for two cards: partial."""
        sysroots.mi50(root, 2, "0000:0a:00.0", 129)
        machine = machines.of(root)
        assert isinstance(machine.vulkan, Vulkan)
        none = Absence(AbsenceReason.UNPARSABLE, "vulkaninfo lists no device: ERROR_INCOMPATIBLE_DRIVER")
        told = dataclasses.replace(machine, vulkan=dataclasses.replace(machine.vulkan, devices=none))
        gate = machines.gate(machines.judged(told), Layer.VULKAN, "vulkan")
        assert gate.status is UNKNOWN and "ERROR_INCOMPATIBLE_DRIVER" in gate.reason
        card = VulkanDevice(
            "AMD Radeon VII", "DISCRETE_GPU", "radv", "1.4", 0x1002, 0x66A1, False, Cite("vulkaninfo")
        )
        for listed, status in (((card,), PARTIAL), ((card, card), ALLOW)):
            told = dataclasses.replace(machine, vulkan=dataclasses.replace(machine.vulkan, devices=listed))
            assert machines.gate(machines.judged(told), Layer.VULKAN, "vulkan").status is status

    def test_library_gone(self, root: Path) -> None:
        """A manifest whose library is not there is no driver."""
        (root / "usr/lib/x86_64-linux-gnu/libvulkan_radeon.so").unlink()
        gate = machines.gate(machines.judged(machines.of(root)), Layer.VULKAN, "vulkan")
        assert gate.status is BLOCK and "libvulkan_radeon.so" in gate.reason

    def test_two_drivers(self, root: Path) -> None:
        """Two drivers for one card compete."""
        sysroots.vulkan(root, "amd_icd64", "amdvlk64.so")
        assert machines.gate(machines.judged(machines.of(root)), Layer.VULKAN, "vulkan").status is PARTIAL


class TestOthers:
    """Targets of other makers and ages; what runs showed."""

    @pytest.mark.parametrize("target", ["gfx90a", "gfx906:sramecc+:xnack-", "gfx1031", "gfx803", "sm_61", "gfx9999"])
    def test_any_target_is_answered(self, tmp_path: Path, target: str) -> None:
        """A card that is not here: no block is invented, no path is called open."""
        matrix = machines.judged(machines.of(tmp_path), target)
        assert matrix.targets == (target,)
        assert {path.status for path in matrix.paths} <= {PathStatus.UNKNOWN, PathStatus.STOPPED}
        assert [g.layer for g in matrix.gates if g.status is BLOCK and g.path == "rocm"] == []

    def test_unknown_number(self, root: Path) -> None:
        """A target that no table has is judged by the files, and that is said."""
        (note,) = machines.judged(machines.of(root), "gfx999").notes
        assert "gfx999 is in no table" in note

    def test_neighbour_is_no_match(self, root: Path) -> None:
        """gfx1031 is not gfx1030, though an override would pretend it."""
        machine = machines.with_runtime(machines.of(root), "gfx1030")
        gate = machines.gate(machines.judged(machine, "gfx1031"), Layer.CODE_OBJECTS)
        assert gate.status is BLOCK and "gfx1030" in gate.reason

    def test_pascal(self, tmp_path: Path) -> None:
        """A P40: known by its name, unlisted since CUDA 13, code for sm_60 runs on it and sm_70 does not."""
        sysroots.card(tmp_path, "0000:3b:00.0", 0x1B38, vendor=0x10DE, driver="nvidia", kind="0x030200")
        sysroots.write(
            tmp_path, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  x"
        )
        sysroots.write(tmp_path, "proc/driver/nvidia/gpus/0000:3b:00.0/information", "Model: \t\t Tesla P40\nIRQ: 1")
        machine = machines.of(tmp_path)
        assert [card.target for card in machine.cards] == ["sm_61"]
        assert machines.gate(machines.judged(machine), Layer.SUPPORT, "cuda").status is UNLISTED
        absent = machines.judged(machine, "sm_70")
        assert [g.layer for g in absent.gates if g.layer is Layer.FIRMWARE] == []  # amdgpu's files are not for it

    def test_execution_decides(self, root: Path) -> None:
        """Trials that passed open a path whatever else says; none are never guessed."""
        machine = dataclasses.replace(
            machines.with_runtime(machines.of(root), "gfx1030"), runs=(RunEvidence("rocm", "gfx906", 6, 0, "r", ""),)
        )
        matrix = machines.judged(machine)
        assert machines.gate(matrix, Layer.EXECUTION).status is ALLOW
        assert machines.path(matrix, "rocm").status is PathStatus.OPEN
        assert machines.gate(matrix, Layer.EXECUTION, "vulkan").status is UNKNOWN

    def test_execution_elsewhere(self, root: Path) -> None:
        """Trials that name no target say nothing about a card that is not in this machine."""
        runs = (RunEvidence("vulkan", "", 6, 0, "r", ""),)
        machine = dataclasses.replace(machines.of(root), runs=runs)
        assert machines.gate(machines.judged(machine), Layer.EXECUTION, "vulkan").status is ALLOW
        for target in ("gfx1030", "sm_90"):
            assert machines.gate(machines.judged(machine, target), Layer.EXECUTION, "vulkan").status is UNKNOWN

    def test_device_init(self, root: Path) -> None:
        """A listing that dies blocks, with the runtime's words."""
        init = DeviceInit(
            "llama-server", "rocm", False, (), "--list-devices died with SIGABRT: rocBLAS error", Cite("x")
        )
        machine = dataclasses.replace(machines.with_runtime(machines.of(root), "gfx906"), inits=(init,))
        gate = machines.gate(machines.judged(machine), Layer.DEVICE_INIT)
        assert gate.status is BLOCK and "rocBLAS error" in gate.reason

    def test_device_init_of_several(self, root: Path) -> None:
        """A list names devices and no slots: with one name for two cards neither is called good, with two both are;
        where another maker's card is all that is listed, ours are left out."""
        sysroots.mi50(root, 2, "0000:0a:00.0", 129)
        machine = machines.with_runtime(machines.of(root), "gfx906")
        name = "AMD Radeon VII (16368 MiB, 16320 MiB free)"
        for listed, status in (((name,), PARTIAL), ((name, name), ALLOW), (("NVIDIA GeForce GTX 1080",), BLOCK)):
            devices = tuple(f"ROCm{index}: {text}" for index, text in enumerate(listed))
            inits = (DeviceInit("llama-server", "rocm", True, devices, "", Cite("x")),)
            matrix = machines.judged(dataclasses.replace(machine, inits=inits))
            for device in ("0000:04:00.0", "0000:0a:00.0"):
                assert machines.gate(matrix, Layer.DEVICE_INIT, device=device).status is status

    def test_execution_of_several(self, root: Path) -> None:
        """Trials on one of two cards open no path of the other that something stops; nor do trials that name no
        target where several cards could have run them."""
        sysroots.mi50(root, 2, "0000:0a:00.0", 129)
        machine = machines.with_runtime(machines.of(root), "gfx1030")
        runs = (RunEvidence("rocm", "gfx906", 6, 0, "r", ""), RunEvidence("vulkan", "", 6, 0, "r", ""))
        matrix = machines.judged(dataclasses.replace(machine, runs=runs))
        gate = machines.gate(matrix, Layer.EXECUTION)
        assert gate.status is PARTIAL and "which of 2 cards" in gate.reason
        assert machines.path(matrix, "rocm").status is PathStatus.STOPPED
        assert machines.gate(matrix, Layer.EXECUTION, "vulkan").status is PARTIAL

    def test_unresolved_library(self, root: Path) -> None:
        """A library that the loader would not find is named with the file that needs it."""
        machine = machines.with_runtime(machines.of(root), "gfx906", links={"libamdhip64.so.6": ""})
        gate = machines.gate(machines.judged(machine), Layer.VERSIONS)
        assert gate.status is BLOCK and "libamdhip64.so.6" in gate.reason and machines.HIP in gate.reason

    def test_five_pieces_of_advice(self, tmp_path: Path) -> None:
        """At most five, ranked, each tied to a gate, known workarounds only."""
        sysroots.card(tmp_path, driver="radeon", width=1)
        machine = machines.with_environment(
            machines.with_runtime(machines.of(tmp_path), "gfx1030", links={"libamdhip64.so.6": ""}),
            HSA_OVERRIDE_GFX_VERSION="10.3.0", ROCR_VISIBLE_DEVICES="",
        )  # fmt: skip
        advice = machines.judged(machine).advice
        assert 1 < len(advice) <= 5 and [a.rank for a in advice] == list(range(1, len(advice) + 1))
        assert advice[0].gate is Layer.ENVIRONMENT


def test_feature_enum_is_used() -> None:
    """The feature of a code object that nothing tells is no condition."""
    assert Feature.UNKNOWN not in (Feature.ON, Feature.OFF)
