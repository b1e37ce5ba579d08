"""Tests of judge/cells/matrix.py: which cells a spec has."""

from __future__ import annotations

from typing import Any

import pytest

from stillruns.errors import SpecError
from stillruns.judge.cells.experiment import cells, floor_plan, reference_plan
from stillruns.model.backend import Backend, Runtime
from stillruns.model.spec import BackendSpec, Spec


def spec(*backends: BackendSpec, **changes: Any) -> Spec:
    """A spec over the given backends, Vulkan alone if none."""
    return Spec(
        name="t",
        question="",
        model="/models/tiny.gguf",
        prompt="x",
        backends=backends or (BackendSpec("vulkan", Backend.VULKAN, binary="/opt/llama-server", env={"A": "1"}),),
        **{"gpu_layers": (0, 2, "all"), **changes},
    )


def test_product_and_reference() -> None:
    """Every layer count is a cell; the reference pair comes first, on the CPU alone, with the backend's binary."""
    plans = cells(spec())
    assert [p.id for p in plans] == [
        "reference=cpu",
        "reference=cpu,floor",
        "backend=vulkan,gpu_layers=0",
        "backend=vulkan,gpu_layers=2",
        "backend=vulkan,gpu_layers=all",
    ]
    reference, floor = plans[:2]
    assert reference.is_reference and not reference.is_floor and reference.stop.trials == 1
    asked = reference.condition
    assert (asked.backend, asked.device, asked.gpu_layers, asked.is_reference) == (Backend.CPU, "none", "none", True)
    assert (asked.binary, asked.env) == ("/opt/llama-server", {"A": "1"})
    assert floor.is_floor and floor.is_reference and floor.condition.flash_attention == "on"
    assert asked.flash_attention == "off"
    for plan in plans[2:]:
        assert reference_plan(plan, plans) is reference
        assert floor_plan(plan, plans) is floor
        assert not plan.is_reference and plan.stop.trials == 6
    assert reference_plan(reference, plans) is None
    assert floor_plan(reference, plans) is floor


def test_cpu_has_one_cell_and_stays_apart_from_the_reference() -> None:
    """A listed cpu backend is one cell whatever gpu_layers says, counted like the others, beside the reference."""
    plans = cells(spec(BackendSpec("cpu", Backend.CPU), BackendSpec("vulkan", Backend.VULKAN)))
    mine = [p for p in plans if p.condition.backend is Backend.CPU and not p.is_reference]
    assert [p.id for p in mine] == ["backend=cpu,gpu_layers=none"]
    assert mine[0].condition.device == "none"
    assert mine[0].reference == "reference=cpu"


def test_no_reference() -> None:
    """`reference = "none"` turns it off, and so does a spec without any llama.cpp to borrow the binary from."""
    assert not any(p.is_reference or p.reference for p in cells(spec(reference="none")))
    attached = BackendSpec("rocm", Backend.ROCM, Runtime.OPENAI, url="http://127.0.0.1:1")
    plans = cells(spec(attached))
    assert [(p.id, p.condition.gpu_layers, p.reference) for p in plans] == [
        ("backend=rocm,gpu_layers=server", "server", "")
    ]


def test_axes() -> None:
    """Axes set fields, variables and arguments; those that change the question have references of their own."""
    axes = {"context": (256, 512), "env.X": (True, "two"), "arg.--cache-type-k": ("q8_0",), "predict": (8, 16)}
    plans = cells(spec(gpu_layers=(2,), axes=axes))
    assert [p.id for p in plans if p.is_reference] == [
        "reference=cpu,predict=8",
        "reference=cpu,predict=8,floor",
        "reference=cpu,predict=16",
        "reference=cpu,predict=16,floor",
    ]
    measured = [p for p in plans if not p.is_reference]
    assert len(measured) == len({p.id for p in measured}) == 8
    last = measured[-1]
    assert last.id == "backend=vulkan,gpu_layers=2,context=512,env.X=two,arg.--cache-type-k=q8_0,predict=16"
    assert (last.condition.context, last.condition.predict, last.condition.env["X"]) == (512, 16, "two")
    assert last.condition.args == ("--cache-type-k", "q8_0")
    assert last.condition.axes == {"context": 512, "env.X": "two", "arg.--cache-type-k": "q8_0", "predict": 16}
    assert last.reference == "reference=cpu,predict=16"
    assert measured[0].condition.env["X"] == "1"


def test_switches_as_axes() -> None:
    """`true` adds an argument, `false` leaves it out; flash attention takes booleans too."""
    plans = cells(spec(gpu_layers=(2,), reference="none", axes={"arg.--no-repack": (True, False)}))
    assert [p.condition.args for p in plans] == [("--no-repack",), ()]
    plans = cells(spec(gpu_layers=(2,), reference="none", axes={"flash_attention": (True, "auto")}))
    assert [p.condition.flash_attention for p in plans] == ["on", "auto"]


def test_a_device_axis_does_not_multiply_the_cpu() -> None:
    """The cpu cell has no device to vary."""
    both = (BackendSpec("cpu", Backend.CPU), BackendSpec("vulkan", Backend.VULKAN))
    plans = cells(spec(*both, gpu_layers=(2,), axes={"device": ("Vulkan0", "Vulkan1")}))
    assert [p.condition.device for p in plans if not p.is_reference] == ["none", "Vulkan0", "Vulkan1"]


def test_unknown_axis_is_one_sentence() -> None:
    """An axis that nothing reads is an error, not a silent nothing."""
    with pytest.raises(SpecError, match=r"matrix\.temperature is not an axis"):
        cells(spec(axes={"temperature": (0,)}))


def test_long_values_keep_ids_apart() -> None:
    """A long or many-lined value is cut in the id, with a digest."""
    plans = cells(spec(gpu_layers=(1,), reference="none", axes={"env.X": ("a" * 90 + "1", "a" * 90 + "2", "b\nc")}))
    assert len({p.id for p in plans}) == 3
    assert all("\n" not in p.id and len(p.id) < 120 for p in plans)
