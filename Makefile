SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := test

PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
GPU_PYTHON ?= python3
# Must link libstdc++ dynamically: a package that holds its own takes down the process that loads it.
GPU_CXX ?= g++

BIN := .venv/bin
READY := .venv/.ready
ROOTS := contract compiler gate cost_model bisect farm
empty :=
space := $(empty) $(empty)

.PHONY: python venv sweep demo check isolated-gate test test-slow gpu-test bench clean

# Prints the interpreter that the environment is built from; .ci/run asks for it.
python:
	@echo $(PYTHON)

venv: $(READY)

# torch goes first and alone: with no torch installed, an open range takes a build of several gigabytes.
$(READY): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] || { echo 'no Python 3.11 or newer found; run "apt-get install python3 python3-venv python3-dev"' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo '$(PYTHON) cannot make an environment; run "apt-get install $(notdir $(PYTHON))-venv"' >&2; exit 1; }
	@$(PYTHON) -c 'import os, sysconfig; open(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2>/dev/null || { echo 'Python.h of $(PYTHON) is missing, and Inductor and Triton compile against it; run "apt-get install $(notdir $(PYTHON))-dev"' >&2; exit 1; }
	@command -v g++ >/dev/null || { echo 'g++ is missing, and Inductor compiles with it; run "apt-get install g++"' >&2; exit 1; }
	@echo 'setting up .venv: one or two minutes'
	[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt "$$(grep -E '^torch==' constraints.txt)"
	$(BIN)/pip install -q -c constraints.txt triton
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	@touch $@

sweep: $(READY)
	$(BIN)/farm sweep configs/quickstart.yaml

# Needs Debian's prometheus and prometheus-alertmanager; says so where they are absent.
demo: $(READY)
	$(BIN)/python examples/demo/play.py

check: $(READY) isolated-gate
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports importlinter.ini

# The judge's tests with no .pth file read: an editable install would hand them the compiler.
isolated-gate: $(READY)
	$(BIN)/python -I -S tests/isolated/run_gate_isolated.py tests/gate

# Two at a time, a file each: much of it waits for clusters to start and end. The judge's tests ran in isolation above;
# here only what needs the whole farm is left of them.
test: check
	$(BIN)/python -m pytest -n 2 --dist loadfile --ignore-glob='tests/gate/test_*' tests
	$(BIN)/python -m pytest tests/gate/test_zoo_is_admitted.py

test-slow: $(READY)
	$(BIN)/python -m pytest -m 'slow and not gpu'

# Runs in the GPU machine's own environment, whose torch sees the device: nothing is installed.
gpu-test:
	CXX=$(GPU_CXX) PYTHONPATH=$(subst $(space),:,$(ROOTS)) $(GPU_PYTHON) -m pytest -m gpu tests/gate

bench: $(READY)
	@missed=0; for script in $(filter-out benchmarks/report.py benchmarks/gate_%,$(wildcard benchmarks/*.py)); do \
		echo "== $$script"; $(BIN)/python "$$script" || missed=1; done; exit $$missed

# Leaves .tensorfarm alone: a store holds results that nothing here can make again.
clean:
	rm -rf .venv dist build .ruff_cache .hypothesis .import_linter_cache .tensorfarm-demo
	find . -name __pycache__ -prune -exec rm -rf {} +
