#!/bin/bash
# Composed from the claims of a guide for MI50 cards and of a worklog for Vega cards; not a recipe to follow.

# build
make LLAMA_HIPBLAS=1
cmake -B build -DLLAMA_HIPBLAS=ON -DAMDGPU_TARGETS=gfx906
cmake --build build

# environment
export HSA_OVERRIDE_GFX_VERSION=9.0.0
export HSA_OVERRIDE_GFX_VERSION_0=9.0.6
export HIP_ENABLE_USERPTR_FOR_PAGED_MEM=1
export PYTORCH_HIP_ALLOC_CONF=expandable_segments:True
export NCCL_P2P_DISABLE=1
export GGML_CUDA_P2P=0
export HSA_ENABLE_SDMA=0
export GPU_MAX_ALLOC_PERCENT=100
export GPU_SINGLE_ALLOC_PERCENT=100
export GGML_CUDA_INIT=1
export GGML_VK_VISIBLE_DEVICES=-1
export OLLAMA_NUM_GPU=99

# -ngl 64 on an 80+ layer model leaves 35 layers on the CPU
./main -m model.gguf -ngl 64 --rocm-single-alloc --no-mmap -fa

# all cards
./server -m model.gguf -ngl 99 --no-mmap -fa -ngl 99 --split-mode layer
