# Everything a clone needs: `make up` runs sparkgate, `make test` checks it. Wanted: Python >= 3.11 and make.

PYTHON ?= python3
WORKERS ?= 2
ARGS ?=
UPGRADE ?=
BENCH ?= restore
JSON ?=

BIN := .venv/bin
BASE := .venv/base-installed
DEV := .venv/dev-installed
# The locks name every package with its hashes, so nothing is left to resolve.
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --no-compile --no-deps
COMPILE := $(CURDIR)/$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --quiet $(UPGRADE)

.DEFAULT_GOAL := help
.PHONY: help install up test lint lock bench gpu-check soak clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST)

install: $(DEV) ## Prepare .venv with everything, checks included

up: $(BASE) ## Run sparkgate until Ctrl-C (ARGS=--no-demo, ARGS="--port 9000")
	@$(BIN)/sparkgate up $(ARGS)

test: lint ## Run every check
	@$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

lint: $(DEV) ## Run the checks that run nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lock: $(DEV) ## Write the locks anew (UPGRADE=--upgrade for newer versions)
	cd requirements && for name in base gpu dev no-deps; do \
		$(COMPILE) $$([ $$name = no-deps ] && echo --no-deps) $$name.in --output-file $$name.txt || exit; done

bench: $(DEV) ## Measure (BENCH=restore JSON=FILE); docs/PERFORMANCE.md says what
	@$(BIN)/python -m tests.bench.$(BENCH) $(if $(JSON),--json $(JSON)) $(ARGS)

# On a GPU box nothing of this project is installed: numpy, cupy, pytest and hypothesis of any Python do.
gpu-check: ## Prove and measure the CUDA device (JSON=FILE, ARGS=--quick); without a GPU it says so and leaves with 3
	@$(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) -m tests.gpu.check $(if $(JSON),--json $(JSON)) $(ARGS)

soak: $(DEV) ## 100 restores in one process; ARGS=kill-points: every process killed at every message; ARGS=contract: the API searched; ARGS=bundle: every bit of a bundle flipped, evidence in hundreds of orders
	@$(if $(filter contract,$(ARGS)),SPARKGATE_CONTRACT_EXAMPLES=50) $(BIN)/python -m $(if $(filter contract,$(ARGS)),\
		pytest --timeout 3600 tests/app/test_api_contract.py,$(if $(filter kill-points,$(ARGS)),\
		pytest -m soak tests/e2e/test_kill_points.py,$(if $(filter bundle,$(ARGS)),\
		pytest -m soak tests/core/bundle tests/app/test_evidence_orders.py,tests.bench.soak $(ARGS))))

clean: ## Remove caches and build output; never data, never .venv
	rm -rf build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find app workers migrations tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else \
		"$(PYTHON): expected Python 3.11 or newer, found %d.%d; try: make PYTHON=python3.12" % v[:2])'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
		echo "$(PYTHON): expected the modules venv and ensurepip, found none; on Debian: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv

$(BASE): requirements/base.txt requirements/no-deps.txt pyproject.toml | $(BIN)/python
	$(PIP_INSTALL) --require-hashes -r requirements/base.txt -r requirements/no-deps.txt
	$(PIP_INSTALL) --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q -j 0 .venv/lib || true
	@touch $@

$(DEV): requirements/dev.txt $(BASE)
	$(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@
