# Everything starts from Python 3.10 or newer and nothing else:
#
#     make demo    trace a small application and question its traces
#     make test    run the tests
#     make check   what CI runs: format, lint, types, layers, generated docs, tests
#     make bench   measure the handler and the collector
#
# Another interpreter: make test PYTHON=python3.13 (make clean first, when .venv exists).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# pytest's own options: make test ARGS="-k retriever"
ARGS ?=
# Tests wait for processes more than they compute: three workers on two cores, a file each at a time.
TEST_WORKERS ?= 3

# Versions come from constraints.txt, those of the build backend too. pip is upgraded first:
# the one in a new environment may be older than --group and --build-constraint (25.3).
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	--constraint constraints.txt
INSTALL := $(PIP_INSTALL) --build-constraint constraints.txt

GENERATED_DOCS = $(shell grep --files-with-matches --fixed-strings '[[[cog' *.md */*.md */*/*.md)

.PHONY: demo test check bench format docs constraints clean

demo: $(VENV)/demo.stamp
	@$(BIN)/otelchain demo

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile $(ARGS)

check: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/cog --check $(GENERATED_DOCS)
	@$(MAKE) --no-print-directory test

# Each prints its own command line.
bench: $(VENV)/dev.stamp
	@for each in tests/benchmarks/bench_*.py; do $(BIN)/python $$each || exit 1; done

# Rewrites what check only looks at.
format: $(VENV)/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/dev.stamp
	$(BIN)/cog -r $(GENERATED_DOCS)

# For maintainers, after a change of dependencies in pyproject.toml: choose the versions anew for
# every supported Python and system. Names and versions only, no addresses.
constraints: $(VENV)/dev.stamp
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --universal --python-version 3.10 --all-extras --group dev --upgrade \
		--no-header --no-annotate --no-emit-index-url --quiet \
		pyproject.toml --output-file constraints.txt

clean:
	rm -rf $(VENV)

$(VENV)/python.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
		echo "otelchain needs Python 3.10 or newer; try: make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make environments; on Debian and Ubuntu: apt install python3-venv" >&2; \
		exit 2; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) pip
	@touch $@

$(VENV)/demo.stamp: $(VENV)/python.stamp pyproject.toml constraints.txt
	@echo "installing otelchain[demo] into $(VENV) (a minute or two the first time)"
	@$(INSTALL) --editable '.[demo]'
	@touch $@

$(VENV)/dev.stamp: $(VENV)/demo.stamp
	@echo "installing the development tools into $(VENV)"
	@$(INSTALL) --group dev
	@touch $@
