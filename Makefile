# Everything a person or a machine runs here. Needs python3 (3.11 or newer) and make only;
# .venv is made and filled at need, and left alone while it is current.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
NEED := @$(PYTHON) .ci/environment.py $(VENV)

# Threads of OpenBLAS wait for each other in every small product. On a busy machine of two cores one
# run of the demonstration took 92 s with two threads and 1.7 s with one.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.DEFAULT_GOAL := help
.PHONY: help demo test slow check bench golden

help:  ## what can be made
	@sed -n 's/^\([a-z]*\):.*## /  make \1 - /p' Makefile

demo:  ## a contraction that would not fit, run inside a byte limit and measured
	$(NEED) progress
	@$(ONE_THREAD) $(RUN) -m einbound demo

test:  ## all tests
	$(NEED) dev
	@$(RUN) -m pytest -q

slow:  ## the tests of large sets, which `make test` leaves out
	$(NEED) dev
	@$(RUN) -m pytest -q -m slow

check:  ## lint, format, types, layers, style and every example of the docs
	$(NEED) dev
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@$(RUN) -m pytest -q tests/test_layers.py tests/test_imports.py tests/test_style.py tests/test_docs.py

bench:  ## the figures in benchmarks/results, measured anew
	$(NEED) bench
	@$(RUN) benchmarks/run_all.py

golden:  ## rewrite the golden files; read the diff before you commit it
	$(NEED) dev
	@$(RUN) -m pytest -q --update-golden
