# Everything runs in .venv, which the first command makes. On a fresh machine only Python and make are needed.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
APP := $(VENV)/.app
READY := $(VENV)/.ready
INSTALL := PIP_CONSTRAINT=constraints.txt $(RUN) -m pip install --quiet --disable-pip-version-check --editable
# Several processes with one thread each are faster here than one process with several threads.
export OMP_NUM_THREADS = 1

.PHONY: demo test lowest lint format bench docs clean

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

# Pages in docs/, the reference from docstrings; any warning is an error.
docs: $(READY)
	$(RUN) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "Begin with docs/_build/html/index.html"

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
	rm -rf $(VENV) $(VENV)-lowest gar-demo docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis
