# Two commands matter: `make demo` and `make test`. Each sets up what it needs, on a machine with
# Python 3.11, 3.12 or 3.13 and nothing else; the second time there is nothing left to set up.

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
DEMO_ARGS ?=
BENCH_ARGS ?=
MUTANTS_ARGS ?=
SOAK_ARGS ?=
N ?= 150
SEED ?=
ROOMS ?= all
PYTEST_ARGS ?=
ROOM ?=
# One more than there are cores: some tests wait for browsers and servers.
WORKERS = $(shell $(BIN)/python -c "import os; print(os.cpu_count() + 1)")
# Hundreds of processes start in the tests: each would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test quick test-all lint checks types imports docs pytest sweeps tables pictures wheel coverage lowest mutants mutants-sample bench soak peers format clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## ask a million people three questions under three kinds of trust
	@$(BIN)/shuffledp demo $(DEMO_ARGS)
	@echo
	@echo "The command is $(BIN)/shuffledp. To call it shuffledp: source $(BIN)/activate"
	@echo "A live survey with its page in the browser: $(BIN)/shuffledp serve"

test: lint ## everything that must pass; the slow sweeps are in test-all
	@$(call beside_checks,pytest)

test-all: lint ## the same, with the slow statistical sweeps
	@$(call beside_checks,sweeps)

# The tests leave a core idle now and then; what the checks say is shown after them.
beside_checks = echo "== mypy, import-linter and mkdocs run beside the tests"; \
	$(MAKE) --no-print-directory checks > $(VENV)/checks.log 2>&1 & checks=$$!; \
	$(MAKE) --no-print-directory $(1); code=$$?; \
	wait $$checks || code=1; cat $(VENV)/checks.log; exit $$code

checks: types imports docs

lint: $(VENV)/.dev ## ruff: style and formatting
	@echo "== ruff"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "run: make format"; exit 1; }

types: $(VENV)/.dev ## mypy --strict
	@echo "== mypy --strict"
	@$(BIN)/mypy --strict

imports: $(VENV)/.dev ## import-linter: which layer may import which
	@echo "== import-linter"
	@$(BIN)/lint-imports --no-logo > $(VENV)/imports.log 2>&1 || { cat $(VENV)/imports.log; exit 1; }
	@tail -n 1 $(VENV)/imports.log

docs: $(VENV)/.dev ## build the documentation into site/, warnings are errors
	@echo "== mkdocs build --strict"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

pytest: $(VENV)/.dev ## unit, contract and statistical tests, doctests, documentation examples
	@echo "== pytest"
	@$(BIN)/python -m pytest -q -rs -n $(WORKERS) --dist loadgroup -m "not slow" $(PYTEST_ARGS)

quick: $(VENV)/.dev ## one case of each test that starts quickly, of one room or of those that changed (make quick ROOM=ledger)
	@.ci/quick $(ROOM)

sweeps: $(VENV)/.dev
	@echo "== pytest, slow tests included"
	@SHUFFLEDP_HYPOTHESIS=searching $(BIN)/python -m pytest -q -n auto --dist loadgroup $(PYTEST_ARGS)

tables: $(VENV)/.dev ## write the generated tables of the README and the documentation anew
	@$(BIN)/python docs/figures/tables.py

pictures: $(VENV)/.dev ## draw the pictures of the documentation anew
	@$(BIN)/python docs/figures/pictures.py

wheel: $(BIN)/pip ## build the wheel, install it into a clean environment elsewhere, and try it there
	@.ci/wheel $(BIN)/python

coverage: $(VENV)/.dev ## the tests with branch coverage; fails below the floor in pyproject.toml
	@$(BIN)/python -m pytest -q -n auto --dist loadgroup -m "not slow" --cov --cov-report=term $(PYTEST_ARGS)

lowest: $(BIN)/pip ## the tests with the lowest versions of the dependencies that pyproject.toml allows
	@.ci/lowest $(BIN)/python

mutants: $(VENV)/.dev ## plant known faults one at a time: do the tests notice? (MUTANTS_ARGS="--only ledger")
	@PYTHONPATH=tests $(BIN)/python -m mutants.run $(MUTANTS_ARGS)

mutants-sample: $(VENV)/.dev ## plant random faults and print the share that the tests notice (SEED=one N=150 ROOMS=foundation)
	@PYTHONPATH=tests $(BIN)/python -m mutants.sampled.run --seed "$(SEED)" --n $(N) --rooms $(ROOMS) $(MUTANTS_ARGS)

bench: $(VENV)/.dev ## measure speed against baselines (see benchmarks/); never part of the tests
	@$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

soak: $(VENV)/.dev ## real servers that are killed at every step, on loopback (SOAK_ARGS="--store sqlite --reports 20000 --kills 5")
	@$(BIN)/python benchmarks/soak.py $(SOAK_ARGS)

peers: $(VENV)/.dev .venv-peers/.done ## run the code of other libraries that the guides show, in an environment of their own
	@$(BIN)/python -m pytest -q -rs -n 0 tests/docs/test_peers.py

format: $(VENV)/.dev ## let ruff rewrite what it can
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format .

clean: ## remove everything that was built, the virtual environment included
	rm -rf $(VENV) site demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .mutants
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is younger than what it was installed from, or the installation is repeated.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "== installing shuffledp[data,plot,serve] into $(VENV)"
	@$(INSTALL) --editable '.[data,plot,serve]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "== installing shuffledp[dev] into $(VENV)"
	@$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.demo

.venv-peers/.done: benchmarks/requirements.txt | $(BIN)/pip
	@echo "== installing other libraries into .venv-peers"
	@$(BIN)/python -m venv .venv-peers
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	@touch $@

# `command -v` is not enough: version managers leave stubs for interpreters that are not there.
$(BIN)/pip:
	@for python in $(PYTHON) python3.11 python3.12 python3.13 python3 python; do \
	    $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2> /dev/null || continue; \
	    echo "== creating $(VENV) with $$($$python --version)"; \
	    $$python -m venv --clear $(VENV) && exit 0; \
	    rm -rf $(VENV); \
	    echo "$$python cannot create virtual environments; on Debian and Ubuntu: apt-get install python3-venv"; \
	    exit 1; \
	done; \
	echo "shuffledp needs Python 3.11, 3.12 or 3.13, and none was found."; \
	echo "Install one, or name it: make PYTHON=/path/to/python3.11 ..."; \
	exit 1
