# Every target sets up what it needs, into .venv; a second call installs nothing unless the pins changed.
PYTHON ?= python3
BIN := .venv/bin
# a file stays on one of the two workers, so that what its tests share is made once
PYTEST := -n 2 --dist loadfile --durations=10

# the tests start hundreds of processes: each would compile the whole package anew
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all bench look lint types clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      see the laboratory at work on real text"
	@echo "make test      lint, types and tests, as CI runs them"
	@echo "make test-all  the same with every combination in every contract"
	@echo "make look      pictures of pages, terminal and notebooks, in look/ (REPORT=a report.html for that alone)"
	@echo "make bench     speed side by side with peers, written to benchmarks/results.json"

.venv/ready: pyproject.toml constraints.txt
	@echo "Setting up .venv (once; again only when the pins change) …"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "attnlab needs Python 3.11 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch .venv/ready

demo: .venv/ready
	@$(BIN)/python -m attnlab.demo

lint: .venv/ready
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: .venv/ready
	@$(BIN)/mypy

test: lint types
	@$(BIN)/pytest $(PYTEST) -m "not slow"

test-all: lint types
	@$(BIN)/pytest $(PYTEST)

bench: .venv/ready
	@$(BIN)/python -m benchmarks

look: .venv/ready
	@$(BIN)/python -m tests.look "$(REPORT)"

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
