PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
SHOW := $(VENV)/show
SITE := $(VENV)/site
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --editable
SEED ?= 1

.PHONY: help test docs pages fuzz faults test-slow test-browser test-engines test-newest lint demo bench bench-full peers bench-peers dist clean
.DEFAULT_GOAL := help

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[dev]'
	@touch $@ $(SHOW)

$(SHOW): pyproject.toml  # what the demo needs, in seconds
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[plot]'
	@touch $@

test: $(READY) lint ## Check style and types, then run all tests and documented examples
	$(BIN)/python -m pytest -q -n 2

fuzz: $(READY) ## Random hostile input: frames, constructors, releases, ledgers; more with CASES=100000 SEED=1
	$(BIN)/python -m tests.fuzz --cases $(or $(CASES),2000) --seed $(SEED)

faults: $(READY) ## Kill and interrupt releases at all stages, fill disks, close pipes; CASES=1000 for a long run
	$(BIN)/python -m tests.faults --cases $(or $(CASES),200) --seed $(SEED)

test-slow: $(READY) ## Run the large statistical and scale tests
	$(BIN)/python -m pytest -q -n 2 -m "slow or hypothesis" --hypothesis-profile=whole tests

test-browser: docs ## Look at pictures and at the site in a real browser; installs Chromium if there is none
	$(INSTALL) '.[browser]'
	CHROMIUM="$$(.ci/chromium)" && export CHROMIUM && $(BIN)/python -m pytest -q -m browser tests/browser

test-engines: $(READY) ## Other engines: DuckDB, a PostgreSQL server of the tests' own, Spark; installs them if it may
	$(INSTALL) '.[duckdb,postgres,spark]'
	.ci/java
	POSTGRES_BINARIES="$$(.ci/postgres)" && export POSTGRES_BINARIES && \
		$(BIN)/python -m pytest -q -rs -m 'engines or not engines' tests/engines

$(SITE): $(READY)
	$(INSTALL) '.[docs]'
	@touch $@

docs: $(SITE) ## Build the site, strictly: broken links and undocumented names fail; build/docs/index.html
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs build/docs
	@echo "The site is in $(CURDIR)/build/docs: open index.html in a browser."

pages: $(READY) ## Write the pages of docs anew that are made from the package: messages, examples, tables of theorems
	for page in mistakes example_page theorem_tables proof_map readme_table; do $(BIN)/python -m docs.$$page; done

lint: $(READY) ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

demo: $(SHOW) ## Plan and release public data: the tree, its error next to the truth, a picture
	$(BIN)/python examples/demo.py

bench: $(READY) ## Measure errors and speed, and write docs/benchmarks: some minutes
	$(INSTALL) '.[bench]'
	$(BIN)/python -m benchmarks

bench-full: bench bench-peers ## The same, and the same job by other libraries

peers: $(READY) ## Install what people would use instead, each in an environment of its own under .peers
	$(BIN)/python -m benchmarks.peers.environments

bench-peers: $(READY) ## Do the same job with all of them, and write docs/benchmarks/peers.md
	-$(MAKE) peers
	$(BIN)/python -m benchmarks.peers

test-newest: ## Try the newest OpenDP, whatever is pinned; what fails is told and fails nothing
	PYTHON=$(PYTHON) .ci/newest

dist: ## Build sdist and wheel, install the wheel in a fresh environment, and test it there
	PYTHON=$(PYTHON) .ci/dist

clean: ## Remove the virtual environments and caches
	rm -rf $(VENV) .peers .newest build .mypy_cache .pytest_cache .ruff_cache .hypothesis dist
