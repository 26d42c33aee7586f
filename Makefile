# Thin on purpose: what a target does is a `decodelab` command, which Windows and the clouds run without make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS ?= lab,grade,dev,torch

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-torch lab build

help:
	@echo "make demo       the whole course in one run: build, grade four submissions, schedule a trace (TRACE=path, ROWS=100), let a model write"
	@echo "make test       format, lint, types, stale notebooks, tests"
	@echo "make test-slow  the tests that take minutes or drive a browser"
	@echo "make test-torch the tests that compute with torch"
	@echo "make lab        open the notebooks in JupyterLab (ARGS goes to jupyter lab: make lab ARGS=--allow-root)"
	@echo "make build      write notebooks/ and the course data from solutions/"

demo: $(READY)
	$(BIN)/decodelab demo $(if $(TRACE),--trace "$(TRACE)") $(if $(ROWS),--rows $(ROWS))

test: $(READY)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/decodelab build --check
	$(BIN)/pytest -n 2 -m "not slow and not browser and not torch"

test-slow: $(READY)
	$(BIN)/pytest -rs -m "(slow or browser) and not torch"

test-torch: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[torch,oracle]"
	$(BIN)/pytest -rs tests/test_models.py tests/test_training.py
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile -rs -m torch

lab: $(READY)
	$(BIN)/decodelab lab $(ARGS)

build: $(READY)
	$(BIN)/decodelab build

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: say make PYTHON=python3.12 | 需要 Python 3.11 或更新的版本：请用 make PYTHON=python3.12")'
	@echo "Installing into $(VENV), once; this takes some minutes | 正在安装到 $(VENV)，只需一次，要几分钟"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $@
