# Every target sets up what it needs: Python 3.11, make and git are enough.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
DEMO ?= sample_traces/slow_loader
WORKERS ?= auto
# What an installation is made of: it is made again where one of these changes.
INSTALLED := pyproject.toml hatch_build.py $(wildcard traceanalyzer/ingest/native/*.[ch] traceanalyzer/attribution/replay/*.c)
S ?= 600
SHARD ?= 1/1

# Tests start the command hundreds of times: without bytecode each time compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

define STYLE
$(BIN)/ruff format --check .
$(BIN)/ruff check .
endef
define STATIC
$(STYLE)
$(BIN)/mypy
endef

.PHONY: help
help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | while IFS=$$'\t' read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

.PHONY: demo
demo: $(VENV)/.core  ## Diagnose a sample trace: what a user sees first
	@$(BIN)/traceanalyzer diagnose $(DEMO)
	@echo
	@echo "Another run: make demo DEMO=sample_traces/healthy   Your own: $(BIN)/traceanalyzer diagnose FOLDER"

.PHONY: test
test: $(VENV)/.test  ## Format check, lint, strict types and the quick tests; RULE=id for the tests of one rule
ifdef RULE
	$(BIN)/pytest tests/rules/test_rules_builtin.py -k '[$(RULE): or [$(RULE)]'
else
	$(STYLE)
	@$(MAKE) --no-print-directory --jobs=2 types quick
endif

# `make test` runs these two at once: mypy keeps one core busy, and the tests have the other one meanwhile.
.PHONY: types
types: $(VENV)/.test  ## Strict types
	$(BIN)/mypy

.PHONY: quick
quick: $(VENV)/.test  ## The quick tests
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --tier quick

.PHONY: check
check: test more  ## What a change must pass: the quick tests, the gate and a thirtieth of the other tests, by content

.PHONY: more
more: $(VENV)/.check  ## What `make check` adds to `make test`
	TRACEANALYZER_TIER=check $(BIN)/pytest -n $(WORKERS) --dist worksteal --tier check --durations=10

.PHONY: nightly
nightly: $(VENV)/.check  ## All tests: fault bench, counterfactuals, corpus, peers, installed packages; SHARD=1/4 for a quarter
	$(STATIC)
	TRACEANALYZER_TIER=nightly $(BIN)/pytest -n $(WORKERS) --dist worksteal --shard $(SHARD) --durations=20

.PHONY: lint
lint: $(VENV)/.test  ## Format check, lint, strict types, rules and generated documents
	$(STATIC)
	$(BIN)/traceanalyzer rules lint
	$(BIN)/python docs/generate.py --check

.PHONY: format
format: $(VENV)/.test  ## Rewrite the code in its canonical form
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: docs
docs: $(VENV)/.core  ## Rewrite the generated parts of README.md and docs/
	$(BIN)/python docs/generate.py

.PHONY: site
site: $(VENV)/.docs  ## Build the documents as a site that can be searched, with pages of rules and metrics: build/site
	$(BIN)/python docs/build_site.py

.PHONY: ledgers
ledgers: $(VENV)/.core  ## Rewrite the table of real traces in docs/attribution.md; needs the corpus
	$(BIN)/python docs/corpus_ledgers.py

.PHONY: golden
golden: $(VENV)/.check docs  ## Rewrite the notebook and the expected outputs of the tests; read the difference as prose
	$(BIN)/python docs/make_notebook.py
	$(BIN)/pytest -n $(WORKERS) --golden

.PHONY: bench
bench: $(VENV)/.check  ## Time ingest and diagnosis against the peers
	$(BIN)/python tests/benchmarks | tee tests/benchmarks/RESULTS.md

.PHONY: bench-speed
bench-speed: $(VENV)/.check  ## Time this commit against an earlier build and the peers, as ratios
	$(BIN)/python tests/benchmarks/bench_speed.py

.PHONY: faultbench
faultbench: $(VENV)/.check  ## Plant faults, diagnose them, and hold what is found and promised against the truth
	PYTHONPATH=tests:tests/support $(BIN)/python -m faultbench | tee tests/faultbench/RESULTS.md

.PHONY: verdicts
verdicts: $(VENV)/.check  ## Hold the diagnoses of real traces against their labels; needs the corpus
	PYTHONPATH=tests:tests/support $(BIN)/python -m verdicts.verdict_table | tee tests/verdicts/RESULTS.md

.PHONY: lowest
lowest:  ## The quick tests with the lowest versions that pyproject.toml allows, in an environment of its own
	"$(PYTHON)" -m venv --clear $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install -qq --disable-pip-version-check --constraint tests/lowest.txt --editable '.[quick]'
	$(VENV)-lowest/bin/pytest -n $(WORKERS) --dist worksteal --tier quick

.PHONY: fuzz
fuzz: $(VENV)/.test  ## Mutate traces for S seconds (600) and keep what fails in tests/crashers
	PYTHONPATH=tests:tests/support $(BIN)/python -m fuzz $(S)

.PHONY: clean
clean:  ## Remove caches and build outputs, the environment left in place
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf

# A stamp a level of need; each is renewed when one of INSTALLED changes.
$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "error: no python3.11 on PATH; name one with PYTHON=" >&2; exit 2; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than Python 3.11; name another with PYTHON=" >&2; exit 2; }
	"$(PYTHON)" -m venv $(VENV)

$(VENV)/.core: $(INSTALLED) | $(VENV)/bin/python
	@echo "setting up $(VENV) (once; again when what is built changes)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: $(INSTALLED) | $(VENV)/bin/python
	@echo "setting up $(VENV) (once; again when what is built changes)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[test]'
	@touch $@ $(VENV)/.core

$(VENV)/.docs: $(INSTALLED) | $(VENV)/bin/python
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[docs]'
	@touch $@ $(VENV)/.core

$(VENV)/.check: $(INSTALLED) | $(VENV)/bin/python
	@echo "setting up $(VENV) (once; again when what is built changes)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[check]'
	@touch $@ $(VENV)/.core $(VENV)/.docs $(VENV)/.test
