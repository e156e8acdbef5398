# Everything runs in .venv, which the first command makes. On a fresh machine only Python and make are needed.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
APP := $(VENV)/.app
READY := $(VENV)/.ready
INSTALL := PIP_CONSTRAINT=constraints.txt $(RUN) -m pip install --quiet --disable-pip-version-check --editable
# Several processes with one thread each are faster here than one process with several threads.
export OMP_NUM_THREADS = 1

.PHONY: demo test lowest lint format bench fuzz docs wheel clean

demo: $(APP)
	$(VENV)/bin/gar demo --out gar-demo

test: $(READY)
	$(RUN) -m pytest -n auto --dist loadgroup -q

# The tests once more with the oldest releases that are allowed. On Linux their torch brings gigabytes of CUDA packages along.
lowest:
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m tests.lowest > $(VENV)-lowest/constraints.txt
	PIP_CONSTRAINT=$(VENV)-lowest/constraints.txt $(VENV)-lowest/bin/python -m pip install --quiet --editable ".[test]" --editable ./reproduction
	$(VENV)-lowest/bin/python -m pytest -n auto --dist loadgroup -q

lint: $(READY)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: $(READY)
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

bench: $(READY)
	$(RUN) -m benchmarks.losses
	$(RUN) -m benchmarks.stack
	$(RUN) -m benchmarks.estimators

# Faults on purpose, counted: the table of docs/what-was-tried.md. Ten to thirty minutes, as busy as the machine is.
fuzz: $(READY)
	$(RUN) -m benchmarks.fuzz

# Pages in docs/, the reference from docstrings; any warning is an error.
docs: $(READY)
	$(RUN) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "Begin with docs/_build/html/index.html"

# The wheel, and the tests of the base install with it in an environment that has nothing else.
WHEEL := $(VENV)-wheel
BASE_TESTS := tests/functional tests/stack tests/estimators tests/test_accumulation.py tests/test_base_install.py tests/test_losses.py \
	tests/test_metrics.py tests/test_registry.py tests/test_statistics.py tests/test_validation.py
wheel:
	rm -rf $(WHEEL) dist
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	PIP_CONSTRAINT=constraints.txt $(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check dist/gar-*.whl hypothesis pytest pytest-xdist
	$(WHEEL)/bin/python -m pytest -n auto -q $(BASE_TESTS)
	@ls dist

# The demo needs the library and its command line; tests and docs install the rest.
$(APP): pyproject.toml constraints.txt
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(INSTALL) ".[app]"
	touch $(APP)

$(READY): pyproject.toml reproduction/pyproject.toml constraints.txt
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(INSTALL) ".[dev]" --editable ./reproduction
	touch $(READY) $(APP)

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-wheel dist gar-demo docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis
