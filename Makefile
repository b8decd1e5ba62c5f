# Two commands do everything on a fresh machine: `make quickstart` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt

# Environments in which a tokenizer is loaded as its users do: the last transformers 4, and a transformers 5.
LOADERS := $(foreach n,4 5,JPREP_TRANSFORMERS$(n)=$(abspath $(VENV))/transformers$(n)/bin/python)

.PHONY: help quickstart test lint unit soak bench clean

help:            ## What there is
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

quickstart: $(VENV)/.installed  ## Install, run the corpus job on the embedded sample, show what came out
	$(BIN)/jprep quickstart -o work/quickstart

test: lint unit  ## Everything that CI runs

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy
	PATH="$(BIN):$$PATH" $(BIN)/lint-imports

unit: $(VENV)/.test $(VENV)/.transformers
	$(LOADERS) $(BIN)/python -m pytest -n auto -m "not soak and not bench"

soak: $(VENV)/.test  ## The long crash tests
	$(BIN)/python -m pytest -n auto -m soak

bench: $(VENV)/.test $(VENV)/.peers  ## Figures, each beside a peer in the same run
	JPREP_PEER_PYTHON=$(VENV)/peers/bin/python $(BIN)/python -m tests.benchmarks

clean:           ## Remove the environment and what was built
	rm -rf $(VENV) work build dist

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml .ci/constraints.txt
	$(PIP) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	$(PIP) --editable '.[test,sudachi,pyknp]'
	@touch $@

$(VENV)/.transformers: .ci/transformers4.txt .ci/transformers5.txt
	for n in 4 5; do \
	  $(PYTHON) -m venv $(VENV)/transformers$$n && \
	  $(VENV)/transformers$$n/bin/python -m pip install --quiet --disable-pip-version-check -r .ci/transformers$$n.txt || exit 1; \
	done
	@touch $@

# Programs to compare with: in an environment of their own, and never imported by jprep (wikiextractor is AGPL).
$(VENV)/.peers:
	$(PYTHON) -m venv $(VENV)/peers
	$(VENV)/peers/bin/python -m pip install --quiet wikiextractor==3.1.0 konoha==5.7.2 ja_sentence_segmenter==0.3.0 neologdn==0.5.6
	@touch $@
