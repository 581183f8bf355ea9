# The one way to run everything. `make` alone lists the targets.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
ONLY   ?=
PEER   ?=
# Two processes share the files of tests, each with a stack of its own.
SHARED := --numprocesses 2 --dist loadfile

.PHONY: help install demo test test-fast check format bench lock schema site rights clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

install: $(STAMP) ## Create .venv with .venv/bin/nodemend

demo: $(STAMP) ## Play one incident on the embedded stack, from a kernel line to a verified replacement
	$(BIN)/nodemend demo

test: $(STAMP) ## Run every test (builds the local control plane on the first run)
	$(BIN)/nodemend local build
	$(BIN)/python -m tests.deploying.terraform
	$(BIN)/pytest $(SHARED)

test-fast: $(STAMP) ## Run the tests that need no server
	$(BIN)/pytest $(SHARED) -m "not stack and not temporal and not thorough"

check: $(STAMP) ## Formatting, lint, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## Measure (all, or ONLY=name); writes build/bench.json and docs/benchmarks.md
	$(BIN)/nodemend local build
	$(BIN)/python -m tests.benchmarks $(ONLY) $(if $(PEER),--peer '$(PEER)')

schema: $(STAMP) ## Write the JSON schemas of the contract: docs/schema/, and the policy in the chart
	$(BIN)/python -m contract.schema docs/schema
	$(BIN)/python -m deploy.values_schema

site: $(STAMP) ## Write the documents as a site to build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

rights: $(STAMP) ## Derive deploy/rbac from the calls that the tests make (an hour or less)
	NODEMEND_RECORD_CALLS=build/calls $(BIN)/pytest -m stack --ignore tests/local --ignore tests/rights \
	  --ignore tests/operating/test_demo.py
	$(BIN)/python -m deploy.rights build/calls

lock: ## Resolve the dependencies again, the images' too (needs uv)
	uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" -o requirements.lock
	$(MAKE) install
	$(BIN)/python -m deploy.docker.locks

clean: ## Remove what was built here (the control plane in the user cache stays)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
