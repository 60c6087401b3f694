# make demo   install, convert the sample data to every format, inspect and read it back
# make test   install, then lint, types, architecture and tests: what CI runs
# make check  the same without installing: the daily loop
# make timed  the tests that look at a clock, by hand
# make crashtest  conversions ended at random moments, continued, compared; CRASH="--kills 20"
# make fuzz   damaged files into every reader, by coverage; FUZZ_SECONDS=600 for each, not 20
# make bench  fastdata against the machine and other libraries; PHOTOS=DIR takes your own images

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORK ?= build/bench
FUZZ_SECONDS ?= 20

.PHONY: demo test check timed crashtest fuzz bench install clean

demo: $(STAMP)
	@bash sample_data/demo.sh $(BIN)/fastdata

test: $(STAMP) check

check:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n auto

# Some 20 minutes on two cores; as root disks are filled, else files meet a limit of their size.
crashtest: $(STAMP)
	$(BIN)/python -m tests.crash $(CRASH)

# Measurements against known truth: by hand, on a quiet machine.
timed: $(STAMP)
	$(BIN)/pytest -m timed

# Findings stay in build/fuzz, and so does the corpus. FUZZ="zarr lmdb" chooses among the targets.
fuzz: $(STAMP)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 12))' || \
		{ echo "make fuzz needs Python 3.11, which atheris has wheels for"; exit 1; }
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[fuzz]'
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(FUZZ)

# Prints its tables; the record is what benchmarks.document makes docs/performance.md from.
# BENCH="--samples 5000 --seconds 2" measures longer.
bench: $(STAMP)
	$(BIN)/python -m benchmarks.run --work $(WORK) --save $(WORK)/record.json $(BENCH)

install: $(STAMP)

# Installed anew when the requirements change, and only then.
$(STAMP): pyproject.toml constraints.txt
	@echo "installing into $(VENV): a minute or two"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

clean:
	rm -rf $(VENV) demo build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
