# make app      serve Draftscope on http://127.0.0.1:7860
# make test     ruff, mypy, import contracts, and the tests that take seconds each
# make ci       every check CI runs: the same, and the tests that take longer
# make format   rewrite the code the way `make test` wants it
# make bench    measure speed and quality anew and write docs/measured.md; wants a quiet machine
# make traces   record anew the runs that ship in assets/traces
# make figures  draw the recorded runs into build/figures
#
# GRADIO_SERVER_NAME and GRADIO_SERVER_PORT say where to serve.
# PYTHON is the Python 3.11 that makes the virtual environment VENV. BROWSER=no leaves out the tests that need Chromium,
# SLOW=yes takes in those that take longer than a few seconds.
# PYTEST passes options on: make test PYTEST="-k replay -x". WORKERS run the tests side by side.

PYTHON ?= $(shell command -v python3.11 || echo python3)
VENV ?= .venv
BROWSER ?= yes
SLOW ?= no
WORKERS ?= 2
PYTEST ?=
export GRADIO_SERVER_NAME ?= 127.0.0.1
export GRADIO_SERVER_PORT ?= 7860

BIN := $(VENV)/bin
APP := $(VENV)/.app
DEV := $(VENV)/.dev
QUICK := $(if $(filter yes,$(SLOW)),, and not slow)
NO_BROWSER := $(if $(filter yes,$(BROWSER)),, and not browser)
BENCHMARKS := $(filter-out __init__ __main__ report sweep,$(basename $(notdir $(wildcard benchmarks/[a-z]*.py))))
TRACES := $(wildcard assets/traces/*.json.gz)

.PHONY: app test ci check pytest chromium format bench traces figures clean
.DELETE_ON_ERROR:

app: $(APP)
	$(BIN)/python app.py

test: check pytest

ci:
	$(MAKE) test SLOW=yes

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# What measures how fast a page draws, or has to catch a run in time, has the machine to itself. 5 is pytest's exit code for no tests, as where PYTEST
# picks some of one kind.
pytest: $(DEV) $(if $(filter yes,$(BROWSER)),chromium)
	$(BIN)/python -m pytest -m "not timed$(QUICK)$(NO_BROWSER)" -n $(WORKERS) $(PYTEST) || test $$? -eq 5
ifeq ($(BROWSER)$(SLOW),yesyes)
	$(BIN)/python -m pytest -m timed $(PYTEST) || test $$? -eq 5
endif

chromium:
	@.ci/chromium

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV)
	@mkdir -p benchmarks/results
	set -e; for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name --json benchmarks/results/$$name.json; done
	$(BIN)/python -m benchmarks.report

traces: $(APP)
	$(BIN)/python -m demo record

figures: $(APP)
	@test -n "$(TRACES)" || { echo "There is no recorded trace in assets/traces: run make traces first." >&2; exit 1; }
	@mkdir -p build/figures
	$(BIN)/python -m visualizers $(TRACES) -o build/figures/all.html

clean:
	rm -rf build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# The environment is made once; a stamp makes it follow the requirements.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo "Draftscope needs Python 3.11 and '$(PYTHON)' is not: name one with make PYTHON=/path/to/python3.11." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(APP): requirements.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

$(DEV): requirements-dev.txt $(APP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@
