# Two commands do everything on a fresh Debian or Ubuntu machine:
#   make demo    the main job on what this machine has
#   make test    lint, types, and all tests (what CI runs)
# Others: test-fast (without the slow ones), test-real (big downloads), test-jitter (random delays), lint, format,
# bench, fault-matrix (rewrites docs/fault-matrix.md), fuzz, clean. PYTHON=/path/to/python3 picks another interpreter
# (3.10 or newer), PYTEST_ARGS="-k redact" narrows the tests.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
READY_DEMO := $(VENV)/.ready-demo
READY_TEST := $(VENV)/.ready-test
READY_REAL := $(VENV)/.ready-real

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-real test-jitter lint format bench fault-matrix clean

help:
	@sed -n '2,6s/^# \{0,1\}//p' Makefile

# Installed again only when the list of dependencies changed.
$(READY_DEMO): pyproject.toml scripts/setup
	@PYTHON='$(PYTHON)' scripts/setup demo

$(READY_TEST): pyproject.toml scripts/setup
	@PYTHON='$(PYTHON)' scripts/setup test

$(READY_REAL): pyproject.toml scripts/setup
	@PYTHON='$(PYTHON)' scripts/setup real

demo: $(READY_DEMO)
	@$(BIN)/stillruns demo

test: lint
	@$(BIN)/python -m pytest -m "not real" $(PYTEST_ARGS)

test-fast: $(READY_TEST)
	@$(BIN)/python -m pytest -m "not slow and not real" $(PYTEST_ARGS)

test-real: $(READY_REAL)
	@$(BIN)/python -m pytest -m real $(PYTEST_ARGS)

# Random delays in every process of a test run: what holds only on a fast machine fails.
test-jitter: $(READY_TEST)
	@scripts/test_jitter.sh $(PYTEST_ARGS)

lint: $(READY_TEST)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(READY_TEST)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(READY_TEST)
	@$(BIN)/python scripts/bench.py
	@if [ -n "$(ROCM)" ]; then scripts/fetch_rocm.sh $(ROCM) && $(BIN)/python scripts/measure_code_objects.py bench \
	    --tools $(ROCM)/bin $(ROCM)/sid/usr/lib/*/ggml/backends*/libggml-hip.so; \
	    else echo "code objects: make bench ROCM=DIR compares with llvm-objdump (1 GB to fetch into DIR)"; fi

# Every fault into a real llama-server, on the CPU and on Vulkan: ten minutes; rewrites the tables in the page.
fault-matrix: $(READY_TEST)
	@$(BIN)/python scripts/fault_matrix.py

# How right the readers are: of logs, of recipes, of machines, and (with SOURCES=DIR, see scripts/accuracy_trace.py) of
# `trace` on real trees.
.PHONY: accuracy
accuracy: $(READY_TEST)
	@if [ -f scripts/accuracy.py ]; then $(BIN)/python scripts/accuracy.py; fi
	@for set in 1 2 3; do $(BIN)/python scripts/accuracy_lint.py --set $$set || exit 1; done
	@PYTHONPATH=tests $(BIN)/python scripts/accuracy_gates.py
	@if [ -n "$(SOURCES)" ]; then $(BIN)/python scripts/accuracy_trace.py $(SOURCES); fi

# Damaged bytes into everything that reads bytes from outside: FUZZ_ARGS="--seconds 60 --seed 7 log" (see scripts/fuzz.py).
FUZZ_ARGS ?=
.PHONY: fuzz
fuzz: $(READY_TEST)
	@$(BIN)/python scripts/fuzz.py $(FUZZ_ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
