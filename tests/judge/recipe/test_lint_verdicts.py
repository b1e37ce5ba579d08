"""The promise: each name gets the verdict that its readers give it, each value its own, and none without a place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lint_help import engine, judged, only, pair

from stillruns.model.installed import Installed

CASES = [
    # recipe, name, verdict, value's verdict, part of use
    ("export GGML_CUDA_P2P=0\n./llama-server", "GGML_CUDA_P2P", "presence only", "other meaning", ""),
    ("export GGML_CUDA_P2P=1\n./llama-server", "GGML_CUDA_P2P", "presence only", "ok", ""),
    ("HSA_OVERRIDE_GFX_VERSION_0=9.0.0 ollama serve", "HSA_OVERRIDE_GFX_VERSION_0", "wrong index", "no effect", "_1"),
    ("HSA_OVERRIDE_GFX_VERSION_1=9.0.0 ollama serve", "HSA_OVERRIDE_GFX_VERSION_1", "read", "ok", ""),
    ("HSA_OVERRIDE_GFX_VERSION=gfx906 ollama serve", "HSA_OVERRIDE_GFX_VERSION", "read", "not accepted", "=9.0.6"),
    ("HSA_OVERRIDE_GFX_VERSION=gfx90c ollama serve", "HSA_OVERRIDE_GFX_VERSION", "read", "not accepted", "=9.0.12"),
    ("export LLAMA_HIPBLAS=1\nllama-server", "LLAMA_HIPBLAS", "build-time only", "no effect", "-DGGML_HIP=1"),
    ("export GGML_CUDA_NO_PEER_COPY=1\nllama-server", "GGML_CUDA_NO_PEER_COPY", "build-time only", "no effect", "-D"),
    ("export AMDGPU_TARGETS=gfx906\nllama-server", "AMDGPU_TARGETS", "build-time only", "no effect", "-D"),
    ("cmake -B b -DLLAMA_HIPBLAS=ON", "LLAMA_HIPBLAS", "renamed", "no effect", "GGML_HIP"),
    ("cmake -B b -DGGML_HIPBLAS=ON", "GGML_HIPBLAS", "renamed", "no effect", "GGML_HIP"),
    ("cmake -B b -DLLAMA_VULKAN=1", "LLAMA_VULKAN", "renamed", "no effect", "GGML_VULKAN"),
    ("cmake -B b -DLLAMA_CUDA=1", "LLAMA_CUDA", "renamed", "ok", "GGML_CUDA"),
    ("cmake -B b -DGGML_HIP=ON", "GGML_HIP", "read", "ok", ""),
    ("cmake -B b -DGGML_HIP=maybe", "GGML_HIP", "read", "not accepted", ""),
    ("cmake -B b -DGGML_VULCAN=ON", "GGML_VULCAN", "not found", "no effect", "GGML_VULKAN"),
    ("make LLAMA_HIPBLAS=1", "LLAMA_HIPBLAS", "removed", "no effect", "cmake -B build -DGGML_HIP=ON"),
    ("CMAKE_ARGS='-DLLAMA_HIPBLAS=on' pip install llama-cpp-python", "LLAMA_HIPBLAS", "renamed", "no effect", ""),
    ("PYTORCH_HIP_ALLOC_CONF=a:b llama-server", "PYTORCH_HIP_ALLOC_CONF", "other program", "no effect", ""),
    ("PYTORCH_CUDA_ALLOC_CONF=a:b python train.py", "PYTORCH_CUDA_ALLOC_CONF", "read", None, ""),
    ("NCCL_P2P_DISABLE=1 llama-server", "NCCL_P2P_DISABLE", "other program", "no effect", ""),
    ("OLLAMA_NUM_GPU=2 ollama serve", "OLLAMA_NUM_GPU", "never existed", "no effect", "num_gpu"),
    ("OLLAMA_NOT_THERE=2 ollama serve", "OLLAMA_NOT_THERE", "never existed", "no effect", ""),
    ("OLLAMA_RUNNERS_DIR=/x ollama serve", "OLLAMA_RUNNERS_DIR", "removed", "no effect", ""),
    ("OLLAMA_VULKAN=1 ollama serve", "OLLAMA_VULKAN", "read", "ok", ""),
    ("OLLAMA_FLASH_ATTENTION=maybe ollama serve", "OLLAMA_FLASH_ATTENTION", "read", "other meaning", ""),
    ("OLLAMA_FLASH_ATTENTION=off ollama serve", "OLLAMA_FLASH_ATTENTION", "read", "other meaning", ""),
    ("OLLAMA_VULKAN=no ollama serve", "OLLAMA_VULKAN", "read", "other meaning", ""),
    ("OLLAMA_VULKAN=yes ollama serve", "OLLAMA_VULKAN", "read", "ok", ""),
    ("HSA_ENABLE_SDMA=false llama-cli", "HSA_ENABLE_SDMA", "read", "no effect", ""),
    ("HSA_ENABLE_SDMA=0 llama-cli", "HSA_ENABLE_SDMA", "read", "ok", ""),
    ("OLLAMA_VULKAN=T ollama serve", "OLLAMA_VULKAN", "read", "ok", ""),
    ("OLLAMA_VULKAN=1 llama-server", "OLLAMA_VULKAN", "other program", "no effect", ""),
    ("HIP_ENABLE_USERPTR_FOR_PAGED_MEM=1 main -ngl 1", "HIP_ENABLE_USERPTR_FOR_PAGED_MEM", "not found", "no effect",
     "HSA_USERPTR_FOR_PAGED_MEM"),
    ("GPU_SINGLE_ALLOC_PERCENT=100 llama-cli", "GPU_SINGLE_ALLOC_PERCENT", "read", "no effect", ""),
    ("GGML_VK_VISIBLE_DEVICES=-1 llama-cli", "GGML_VK_VISIBLE_DEVICES", "read", "other meaning", ""),
    ("GGML_VK_VISIBLE_DEVICES=0,x llama-cli", "GGML_VK_VISIBLE_DEVICES", "read", "not accepted", ""),
    ("GGML_VK_VISIBLE_DEVICE=0 llama-cli", "GGML_VK_VISIBLE_DEVICE", "not found", "no effect",
     "GGML_VK_VISIBLE_DEVICES"),
    ("HSA_NOT_A_NAME=1 llama-cli", "HSA_NOT_A_NAME", "not found", "no effect", ""),
    ("LLAMA_ARG_NO_KV_OFFLOAD=0 llama-server", "LLAMA_ARG_NO_KV_OFFLOAD", "presence only", "other meaning", ""),
    ("LLAMA_ARG_NO_KV_OFFLOAD=1 llama-server", "LLAMA_ARG_NO_KV_OFFLOAD", "presence only", "ok", ""),
    ("LLAMA_ARG_NO_MMAP=1 llama-server", "LLAMA_ARG_NO_MMAP", "renamed", "no effect", "LLAMA_ARG_LOAD_MODE=none"),
    ("LLAMA_ARG_N_GPU_LAYERS=99 llama-server", "LLAMA_ARG_N_GPU_LAYERS", "read", "ok", ""),
    ("LLAMA_ARG_KV_OFFLOAD=maybe llama-server", "LLAMA_ARG_KV_OFFLOAD", "read", "not accepted", ""),
    ("./main -m x.gguf", "./main", "renamed", None, "llama-cli"),
    ("./server -m x.gguf", "./server", "renamed", None, "llama-server"),
    ("llama-cli --rocm-single-alloc", "--rocm-single-alloc", "never existed", None, ""),
    ("llama-cli --no-mmap", "--no-mmap", "removed", None, "--load-mode none"),
    ("llama-cli --low-vram", "--low-vram", "removed", None, "-nkvo"),
    ("llama-server --draft-max 8", "--draft-max", "removed", "no effect", "--spec-draft-n-max"),
    ("LLAMA_ARG_DRAFT_MAX=8 llama-server", "LLAMA_ARG_DRAFT_MAX", "renamed", "not accepted",
     "LLAMA_ARG_SPEC_DRAFT_N_MAX"),
    ("llama-cli -fa -ngl 9", "-fa", "read", "not accepted", ""),
    ("llama-cli -fa on", "-fa", "read", "ok", ""),
    ("llama-cli -fa", "-fa", "read", "not accepted", ""),
    ("llama-cli --gpu_layers 9", "--gpu_layers", "read", "ok", ""),
    ("llama-cli --gpu-layers=9", "--gpu-layers", "read", "not accepted", ""),
    ("llama-cli -ngl many", "-ngl", "read", "not accepted", ""),
    ("llama-cli -ngl $(nproc)", "-ngl", "read", None, ""),
    ("llama-bench -c 4096", "-c", "other program", "no effect", ""),
    ("llama-cli --port 8080", "--port", "other program", "no effect", ""),
    ("llama-cli --bogus-flag 1", "--bogus-flag", "not found", None, ""),
    ("llama-cli -ts 3,1", "-ts", "read", "ok", ""),
    ("llama-cli -ts 3GB", "-ts", "read", "other meaning", ""),
    ("llama-cli -ngl all", "-ngl", "read", "ok", ""),
    ("llama-cli -ngl auto", "-ngl", "read", "ok", ""),
    ("llama-cli -ngl alll", "-ngl", "read", "not accepted", ""),
    ("llama-bench -pg 4096,128", "-pg", "read", "ok", ""),
    ("llama-cli -ctk q8_0", "-ctk", "read", "ok", ""),
    ("llama-cli -ctk q9", "-ctk", "read", "not accepted", ""),
    ("llama-server --spec-type ngram-mod,draft-mtp", "--spec-type", "read", "ok", ""),
    ("llama-server --spec-type ngram-mod,guess", "--spec-type", "read", "not accepted", ""),
    ("llama-server --parallel 2", "--parallel", "read", "ok", ""),
    ("llama-server --parallel two", "--parallel", "read", "not accepted", ""),
    ("llama-server --temp 0.6", "--temp", "read", "ok", ""),
    ("llama-server -sm tensor", "-sm", "read", "ok", ""),
    ("llama-server -sm rows", "-sm", "read", "not accepted", ""),
    ("llama-bench -p 512,1024-4096*2", "-p", "read", "ok", ""),
    ("llama-bench -p 512,many", "-p", "read", "not accepted", ""),
    ("cmake -B b -DGGML_HIP_ROCWMMA_FATTN=ON", "GGML_HIP_ROCWMMA_FATTN", "removed", "no effect", ""),
    ("cmake -B b -DLLAMA_BUILD_SERVER=ON", "LLAMA_BUILD_SERVER", "read", "ok", ""),
    ("cmake -B b -DLLAMA_BUILD_SERVER=maybe", "LLAMA_BUILD_SERVER", "read", "not accepted", ""),
    ("cmake -B b -DGGML_CUDA=OFF", "GGML_CUDA", "read", "ok", ""),
    ("cmake -B b -DLLAMA_STATIC=ON", "LLAMA_STATIC", "renamed", "no effect", "GGML_STATIC"),
    ("HSA_OVERRIDE_GFX_VERSION=10.1.10 ollama serve", "HSA_OVERRIDE_GFX_VERSION", "read", "other meaning", ""),
    ("HSA_OVERRIDE_GFX_VERSION=9.0.10 ollama serve", "HSA_OVERRIDE_GFX_VERSION", "read", "ok", ""),
    ("RADV_DEBUG=novm,zerovram llama-server", "RADV_DEBUG", "read", "other meaning", ""),
    ("RADV_DEBUG=nocache,zerovram llama-server", "RADV_DEBUG", "read", "ok", ""),
    ("OLLAMA_LLM_LIBRARY=cuda ollama serve", "OLLAMA_LLM_LIBRARY", "read", "not accepted", ""),
    ("OLLAMA_LLM_LIBRARY= ollama serve", "OLLAMA_LLM_LIBRARY", "read", None, ""),
    ("docker run -e OLLAMA_LLM_LIBRARY=rocm ollama/ollama:rocm", "OLLAMA_LLM_LIBRARY", "read", None, ""),
    ("docker run -e OLLAMA_LLM_LIBRARY=rocm ollama/ollama:0.20.1-rocm", "OLLAMA_LLM_LIBRARY", "read", "ok", ""),
    ("docker run -e OLLAMA_LLM_LIBRARY=rocm ollama/ollama:0.32.1-rocm", "OLLAMA_LLM_LIBRARY", "read", "not accepted",
     ""),
    ("docker run -e OLLAMA_LLM_LIBRARY=rocm ollama/ollama:0.30.0-rc17", "OLLAMA_LLM_LIBRARY", "read", None, ""),
    ("docker run -e OLLAMA_VULKAN=1 ollama/ollama:0.5.7", "OLLAMA_VULKAN", "not found", "no effect", ""),
    ("docker run -e OLLAMA_INTEL_GPU=1 ollama/ollama:0.5.7", "OLLAMA_INTEL_GPU", "read", "ok", ""),
    ("docker run -e OLLAMA_INTEL_GPU=1 ollama/ollama:0.13.0", "OLLAMA_INTEL_GPU", "removed", "no effect", ""),
    ("docker run -e OLLAMA_MULTIUSER_CACHE=1 ollama/ollama:0.5.7", "OLLAMA_MULTIUSER_CACHE", "read", None, ""),
    ("docker run -e OLLAMA_MULTIUSER_CACHE=1 ollama/ollama", "OLLAMA_MULTIUSER_CACHE", "removed", "no effect", ""),
    ("docker run -e OLLAMA_LLM_LIBRARY=rocm me/mine", "OLLAMA_LLM_LIBRARY", "read", None, ""),
    ("docker run -e OLLAMA_VULKAN=1 me/mine", "OLLAMA_VULKAN", "read", "ok", ""),
    ("OLLAMA_KEEP_ALIVE=-1 ollama serve", "OLLAMA_KEEP_ALIVE", "read", "ok", ""),
    ("OLLAMA_KEEP_ALIVE=1h30m ollama serve", "OLLAMA_KEEP_ALIVE", "read", "ok", ""),
    ("OLLAMA_KEEP_ALIVE=forever ollama serve", "OLLAMA_KEEP_ALIVE", "read", "no effect", ""),
    ("FORCE_CMAKE=1 pip install llama-cpp-python", "FORCE_CMAKE", "removed", "no effect", ""),
    ("PYTORCH_ROCM_ARCH=gfx906 pip wheel .", "PYTORCH_ROCM_ARCH", "read", None, ""),
    ("export PYTORCH_ROCM_ARCH=gfx906\npip wheel .", "PYTORCH_ROCM_ARCH", "read", None, ""),
    ("export PYTORCH_ROCM_ARCH=gfx906\nllama-server", "PYTORCH_ROCM_ARCH", "build-time only", "no effect", ""),
    ("export ROCM_PATH=/r\ncmake -B b", "ROCM_PATH", "read", None, ""),
    ("export HCC_AMDGPU_TARGET=gfx906\ncmake -B b", "HCC_AMDGPU_TARGET", "build-time only", "no effect", ""),
    ("HF_TOKEN=x llama-server", "HF_TOKEN", "read", None, ""),
    ("HF_TOKEN=x vllm serve m", "HF_TOKEN", "read", None, ""),
    ("LLAMA_API_KEY=x llama-server", "LLAMA_API_KEY", "read", None, ""),
    ("HSA_TOOLS_LIB=x llama-server", "HSA_TOOLS_LIB", "read", None, ""),
    ("ROC_SIGNAL_POOL_SIZE=64 ollama serve", "ROC_SIGNAL_POOL_SIZE", "read", None, ""),
    ("RADV_PERF_TEST=nosam llama-server", "RADV_PERF_TEST", "not found", "no effect", "RADV_PERFTEST"),
    ("HF_HOME=/h llama-server", "HF_HOME", "read", None, ""),
    ("HF_HOME=/h vllm serve m", "HF_HOME", "read", None, ""),
    ("VLLM_USE_TRITON_FLASH_ATTN=0 vllm serve m", "VLLM_USE_TRITON_FLASH_ATTN", "read", "ok", ""),
    ("VLLM_USE_TRITON_FLASH_ATTN=0 llama-server", "VLLM_USE_TRITON_FLASH_ATTN", "other program", "no effect", ""),
]  # fmt: skip


@pytest.mark.parametrize(("recipe", "name", "verdict", "value", "use"), CASES, ids=[c[0][:60] for c in CASES])
def test_by_the_catalogue(recipe: str, name: str, verdict: str, value: str | None, use: str) -> None:
    """Without an installed build the newest release that the catalogue knows decides."""
    item = only(recipe, name)
    assert (item.verdict.value, item.value_verdict.value if item.value_verdict else None) == (verdict, value), (
        item.why
    )
    assert use in (item.use or "")
    assert item.evidence
    assert all(cited.place and cited.kind for cited in item.evidence)


OLD_IMAGE = "docker run ghcr.io/ggml-org/llama.cpp:server-cuda12-b5000 -m x.gguf "


@pytest.mark.parametrize(
    ("recipe", "name", "verdict", "value"),
    [
        (OLD_IMAGE + "--no-mmap", "--no-mmap", "read", None),
        (OLD_IMAGE + "-fa -ngl 99", "-fa", "read", None),
        (OLD_IMAGE + "-ngl 99", "-ngl", "read", "ok"),
        (OLD_IMAGE + "--load-mode none", "--load-mode", "not found", "no effect"),
        (OLD_IMAGE.replace("b5000", "b10900") + "--no-mmap", "--no-mmap", "removed", None),
        (OLD_IMAGE.replace("b5000", "b11434") + "-fa -ngl 99", "-fa", "read", "not accepted"),
    ],
)
def test_the_build_that_an_image_names(recipe: str, name: str, verdict: str, value: str | None) -> None:
    """The newest options are no verdict on the older build in an image's tag; what is known of its range is."""
    item = only(recipe, name)
    assert pair(item) == (verdict, value), item.why
    if item.good:
        assert judged(recipe).corrected is None


def test_a_flag_of_which_an_older_image_may_know_is_not_judged() -> None:
    """The newest release has no such flag, and what the older one had was not read."""
    result = judged(OLD_IMAGE + "--draft-max 8\n")
    assert "--draft-max" not in [item.name for item in result.items]
    assert any("--draft-max" in note for note in result.notes)


HIP = engine(strings=("GGML_CUDA_P2P",), libraries=("libggml-hip.so", "libamdhip64.so.6", "libhsa-runtime64.so.1"))
VULKAN = engine(strings=("GGML_VK_VISIBLE_DEVICES",), libraries=("libggml-vulkan.so", "libllama-common.so.0"))


@pytest.mark.parametrize(
    ("build", "recipe", "name", "verdict", "value"),
    [
        (HIP, "GGML_CUDA_P2P=0 llama-server", "GGML_CUDA_P2P", "presence only", "other meaning"),
        (VULKAN, "GGML_CUDA_P2P=0 llama-server", "GGML_CUDA_P2P", "other program", "no effect"),
        (VULKAN, "HSA_OVERRIDE_GFX_VERSION=9.0.0 ./server", "HSA_OVERRIDE_GFX_VERSION", "other program", "no effect"),
        (VULKAN, "GGML_VK_VISIBLE_DEVICES=0 llama-server", "GGML_VK_VISIBLE_DEVICES", "read", "ok"),
        (VULKAN, "GGML_VK_DISABLE_F16=1 llama-server", "GGML_VK_DISABLE_F16", "not found", "no effect"),
        (VULKAN, "llama-server --no-mmap", "--no-mmap", "read", None),
        (VULKAN, "llama-server --load-mode none", "--load-mode", "not found", None),
        (VULKAN, "LLAMA_ARG_NO_MMAP=1 llama-server", "LLAMA_ARG_NO_MMAP", "presence only", "ok"),
        (VULKAN, "LLAMA_ARG_NO_MLOCK=1 llama-server", "LLAMA_ARG_NO_MLOCK", "not found", "no effect"),
        (VULKAN, "llama-server -ngl all", "-ngl", "read", "ok"),
        (VULKAN, "./server -ngl 9", "-ngl", "read", "ok"),
    ],
)  # fmt: skip
def test_by_the_installed_build(build: Installed, recipe: str, name: str, verdict: str, value: str | None) -> None:
    """What is installed decides before the catalogue: its help, its files, the strings in them."""
    item = only(recipe, name, build)
    assert (item.verdict.value, item.value_verdict.value if item.value_verdict else None) == (verdict, value), (
        item.why
    )


def test_string_is_cited_with_offset_and_symbol() -> None:
    """A string citation says where it is and how the file can read the environment."""
    places = {cited.kind: cited for cited in only("GGML_CUDA_P2P=1 llama-server", "GGML_CUDA_P2P", HIP).evidence}
    assert places["string"].place == "/opt/libggml-hip.so@0x1000"
    assert "getenv (@0x40)" in places["string"].text


def test_deprecated_in_the_installed_build() -> None:
    """Still read, but the build says what to use, and the catalogue until when it is."""
    item = only("llama-server --no-mmap", "--no-mmap", VULKAN)
    assert item.good
    assert item.use == "--load-mode none"
    assert "removed in (b10867, b10878]" in (item.until or "")
    assert item.evidence[0].place == "llama-server --help:8"


def test_config_file() -> None:
    """Keys of config.ini are options; a build without the string reads no such file."""
    text = "[*]\nn-gpu-layers = 99\nngl = many\nbogus = 1\nno-kv-offload = 2\nno-mmap = true\nctk = q9\n"
    found = {i.name: pair(i) for i in judged(text, path="c.ini").items}
    assert found == {
        "n-gpu-layers": ("read", "ok"),
        "ngl": ("read", "not accepted"),
        "bogus": ("not found", None),
        "no-kv-offload": ("read", "other meaning"),
        "no-mmap": ("removed", "no effect"),
        "ctk": ("read", "not accepted"),
    }
    item = only("[*]\nngl = 9\n", "ngl", VULKAN, path="c.ini")
    assert pair(item) == ("not found", "no effect")


def test_variables_of_the_shell_are_not_judged() -> None:
    """PATH and its kind are none of lint's business, and that is said."""
    result = judged("export PATH=/x LD_LIBRARY_PATH=/y FOO=1\nllama-server\n")
    assert [item.name for item in result.items] == ["llama-server"]
    assert "FOO, LD_LIBRARY_PATH, PATH" in result.notes[-1]


RELEASES = [
    ("0.20.1", "rocm", "ok"),
    ("0.30.0", "rocm", "not accepted"),
    ("0.33.0", "rocm_v7_2", "ok"),
    ("0.24.0", "rocm_v7_2", "not accepted"),
    ("0.5.7", "rocm", "not accepted"),
    ("0.5.7", "rocm_avx", "ok"),
    ("0.1.32", "rocm_v60102", "ok"),
    ("0.9.6", "cuda_v11", "not accepted"),
    ("0.12.11", "vulkan", "ok"),
    ("0.20.1", "cuda_v11", "not accepted"),
    ("0.12.3", "vulkan", "not accepted"),
    ("0.12.3", "cpu", "not accepted"),
    ("0.31.0", "cpu", "ok"),
    ("0.31.0", "cuda", "not accepted"),
    ("0.0.0", "rocm", None),
]


def test_words_of_an_installed_ollama_are_not_those_of_the_newest() -> None:
    """Which libraries a build of Ollama has is not known from the newest release's list."""
    for version, name, verdict in RELEASES:
        mine = Installed("ollama", "/opt/ollama", "on PATH", f"ollama version is {version}", (), (), (), {})
        item = only(f"OLLAMA_LLM_LIBRARY={name} ollama serve", "OLLAMA_LLM_LIBRARY", mine)
        assert pair(item) == ("read", verdict), (version, name, item.why)


@pytest.mark.parametrize(
    "name", ["rocm", "rocm_v6", "rocm_v7_2", "rocm_v60102", "cuda_v11", "cuda_v12", "vulkan", "cpu"]
)
def test_without_a_release_a_value_that_changed_is_unknown(name: str) -> None:
    """It is neither right nor wrong where no release is known, and it is said for which it holds."""
    item = only(f"OLLAMA_LLM_LIBRARY={name} ollama serve", "OLLAMA_LLM_LIBRARY")
    assert pair(item) == ("read", None)
    assert "which release of Ollama runs is not known" in item.why and f"`{name}` is taken " in item.why
    assert "up to v0.12.3 what is not taken is passed over" in item.why


@pytest.mark.parametrize(
    ("before", "judged_as"),
    [
        ("cd koboldcpp && ", []),
        ("cd /src/ollama\n", []),
        ("cd llama.cpp && ", ["removed"]),
        ("cd ~/src && ", []),
        ("cd .. && ", ["removed"]),
        ("cd $FOLDER && ", ["removed"]),
        ("", ["removed"]),
        ("go build . && ", []),
    ],
)
def test_make_belongs_to_the_folder(before: str, judged_as: list[str]) -> None:
    """`make NAME=1` is llama.cpp's Makefile's only where the last `cd` does not lead to another project; one that is
    built with Go is not llama.cpp."""
    found = [i.verdict.value for i in judged(f"{before}make LLAMA_HIPBLAS=1\n").items if i.kind.value == "cmake"]
    assert found == judged_as


def test_name_that_the_recipe_fills_in_itself() -> None:
    """A variable of the recipe's own looks like Ollama's and is not judged, let alone called one that never was."""
    text = "FROM x\nENV OLLAMA_MY_VERSION=v1\nRUN git clone -b ${OLLAMA_MY_VERSION} x\nENTRYPOINT ollama serve\n"
    result = judged(text, path="Dockerfile")
    assert "OLLAMA_MY_VERSION" not in [item.name for item in result.items]
    assert "OLLAMA_MY_VERSION" in result.notes[-1]
    elsewhere = text.replace("${OLLAMA_MY_VERSION}", "v1")
    assert only(elsewhere, "OLLAMA_MY_VERSION", path="Dockerfile").verdict.value == "never existed"


@pytest.mark.parametrize(
    "recipe",
    [
        "CUDA_DEVICE_ORDER=PCI_BUS_ID llama-server",  # the CUDA driver
        "VK_INSTANCE_LAYERS=x llama-server",  # the Vulkan loader
        "NCCL_DEBUG=INFO vllm serve m",
        "PYTORCH_TUNABLEOP_ENABLED=1 python train.py",
        "LD_DEBUG=libs llama-server",
        "MESA_SHADER_CACHE_MAX_SIZE=1G llama-server",
        "GPU_ARCHS=gfx906 pip wheel .",  # a family that was searched, and a program that was not
        "GPU_ARCHS=gfx906 vllm serve m",
        "HF_HUB_ENABLE_HF_TRANSFER=1 vllm serve m",
    ],
)
def test_family_that_nobody_searched_is_not_judged(recipe: str) -> None:
    """No list of the names that CUDA, the Vulkan loader or PyTorch read is here: lint says nothing of the others."""
    for build in ((), (HIP,)):
        result = judged(recipe, *build)
        assert [item.name for item in result.items if item.kind.value == "env"] == []
        assert recipe.partition("=")[0] in result.notes[-1]
        assert result.corrected is None


def test_variables_belong_to_their_service() -> None:
    """A service of an unknown image sees its own variables: nobody else's program reads them, and `OLLAMA_` in an
    image that is not Ollama's may be anybody's."""
    text = (
        "services:\n  ollama:\n    image: ollama/ollama\n    environment:\n      - OLLAMA_VULKAN=1\n"
        "  ui:\n    image: me/webui\n    environment:\n      - OLLAMA_BASE_URL=x\n      - GGML_CUDA_P2P=1\n"
        "  own:\n    build: .\n    environment:\n      - HSA_OVERRIDE_GFX_VERSION=9.0.6\n"
    )
    result = judged(text, path="c.yml")
    assert [(i.name, i.verdict.value, i.program) for i in result.items] == [
        ("OLLAMA_VULKAN", "read", "ollama"),
        ("GGML_CUDA_P2P", "presence only", "me/webui"),
        ("HSA_OVERRIDE_GFX_VERSION", "read", "an image that is built here"),
    ]
    assert any("OLLAMA_BASE_URL" in note for note in result.notes)
    mine = text.replace("me/webui", "me/ollama-mi50")
    assert only(mine, "OLLAMA_BASE_URL", path="c.yml").verdict.value == "never existed"


def test_container_is_not_judged_by_the_hosts_build() -> None:
    """What is on the host's PATH says nothing about an image; a build that the user named is meant for it."""
    text = "docker run -e HSA_OVERRIDE_GFX_VERSION=9.0.6 ghcr.io/ggml-org/llama.cpp:server --load-mode none -fa on"
    on_path = replace(VULKAN, found_by="on PATH")
    found = {i.name: i.verdict.value for i in judged(text, on_path).items}
    assert (found["HSA_OVERRIDE_GFX_VERSION"], found["--load-mode"]) == ("read", "read")
    found = {i.name: i.verdict.value for i in judged(text, VULKAN).items}
    assert (found["HSA_OVERRIDE_GFX_VERSION"], found["--load-mode"]) == ("other program", "not found")
    outside = "HSA_OVERRIDE_GFX_VERSION=9.0.6 llama-server --load-mode none"
    found = {i.name: i.verdict.value for i in judged(outside, on_path).items}
    assert (found["HSA_OVERRIDE_GFX_VERSION"], found["--load-mode"]) == ("other program", "not found")
