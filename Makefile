# `make help` says what there is. Nothing but Python 3.11, git and make need be there before:
# each target fetches what it needs and says what and why.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

CACHE := .cache
PYTHON := .venv/bin/python
UV := $(shell uv --version >/dev/null 2>&1 && command -v uv || echo $(CACHE)/uv/bin/uv)
# Options for the program behind a target: make test ARGS="tests/stage -x", make kubectl ARGS="get pods -A"
ARGS ?=
# Two at a time, since most wait for other processes; but a cluster has the machine for itself.
# ARGS may choose tests of one kind alone: then pytest ends with 5 for the other, but not for both.
define run_tests
	code=0; $(PYTHON) -m pytest -n 2 --dist loadfile --no-loadscope-reorder \
		-m "$(1)not cluster and not e2e" $(ARGS) || code=$$?; \
	[[ $$code == 0 || $$code == 5 ]] || exit $$code; \
	$(PYTHON) -m pytest -m "$(1)(cluster or e2e)" $(ARGS) || [[ $$? == 5 && $$code == 0 ]]
endef

.PHONY: help demo test test-all check fix images bench cluster cluster-down kubectl clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.synced $(if $(filter current,$(CLUSTER)),,cluster-parts) ## a cluster, a stage, icons, a death and a recovery (KEEP=1, CLUSTER=current REGISTRY=host/path)
	$(PYTHON) -m demo $(if $(KEEP),--keep) $(if $(CLUSTER),--cluster $(CLUSTER)) \
		$(if $(REGISTRY),--registry $(REGISTRY)) $(ARGS)

test: cluster-parts test-images ## all tests but the slow ones (ARGS="tests/stage -x")
	$(call run_tests,not slow and )

test-all: cluster-parts test-images ## all tests
	$(call run_tests)

check: .venv/.synced ## format, lint, types, layers and size limits
	.venv/bin/ruff format --check
	.venv/bin/ruff check
	.venv/bin/mypy
	.venv/bin/lint-imports
	$(PYTHON) -m pytest -q tests/repo

fix: cluster-parts ## mend what ruff can mend; write the module lists of docs/structure.md, and config/
	.venv/bin/ruff check --fix
	.venv/bin/ruff format
	$(PYTHON) -m tools.structure
	$(PYTHON) -m tools.kustomize

images: .venv/.synced ## the stage and operator images, as archives in .cache/images
	$(PYTHON) -m images build stage $(ARGS)
	$(PYTHON) -m images build operator $(ARGS)

bench: .venv/.synced ## side-by-side benchmarks into bench-output/results.json
	OMP_NUM_THREADS=1 $(PYTHON) -m benchmarks $(ARGS)

cluster: cluster-parts ## a test cluster that stays up
	$(PYTHON) -m testcluster up $(ARGS)

cluster-down: .venv/.synced ## end it; nothing of it stays
	$(PYTHON) -m testcluster down $(ARGS)

kubectl: .venv/.synced ## kubectl on it: make kubectl ARGS="get pods -A"
	@$(PYTHON) -m testcluster kubectl $(ARGS)

clean: ## remove all that was built, fetched or written here
	@if [[ -x $(PYTHON) ]]; then \
		for name in default demo; do $(PYTHON) -m testcluster down --name $$name; done; fi
	rm -rf .venv $(CACHE) bench-output demo-output dist
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: cluster-parts test-images
cluster-parts: .venv/.synced
	@$(PYTHON) -m testcluster install
	@$(PYTHON) -m testcluster build

test-images: cluster-parts # here, and not within the time limit of the first test that needs them
	@$(PYTHON) -m images build demo
	@$(PYTHON) -m images build operator

.venv/.synced: pyproject.toml uv.lock | $(UV)
	@echo "make: Python packages into .venv, as uv.lock says (torch makes it 6 GB)"
	$(UV) sync --locked
	@touch $@

$(CACHE)/uv/bin/uv:
	@echo "make: no uv here, so it goes into $(CACHE)/uv; it makes .venv from uv.lock"
	python3 -m venv $(CACHE)/uv || { \
		echo "make: Debian packages venv apart, so python3-venv is installed"; \
		apt-get install -qy python3-venv && python3 -m venv $(CACHE)/uv; }
	$(CACHE)/uv/bin/pip install --quiet uv
