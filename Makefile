# Two commands do everything on a fresh machine: `make quickstart` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
INSTALL := -m pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt

# Each backend's environment is $(VENV)/backends/NAME, where jprep makes it and finds it without any variable. Tests
# also run inside those environments, where they need variables. torch_xla is for one system, and has pins of its own.
HALVES   := torch deepspeed flax fairseq_xla
XLA      := $(if $(findstring Linux x86_64,$(shell uname -sm)),fairseq-xla)
TRAINERS := torch deepspeed flax fairseq-cpu $(XLA)
SUITES   := $(foreach name,$(TRAINERS),$(name):$(if $(findstring fairseq,$(name)),fairseq_xla,$(name)))
BACKENDS := $(abspath $(VENV))/backends
TORCH    := $(BACKENDS)/torch/bin/python
FOR_TESTS := JPREP_BACKENDS=$(BACKENDS) JPREP_TORCH=$(TORCH) JPREP_DEEPSPEED=$(BACKENDS)/deepspeed/bin/python \
  JPREP_FAIRSEQ=$(BACKENDS)/fairseq-cpu/bin/python
READY    := $(TRAINERS:%=$(VENV)/.%-test)

# Environments in which a tokenizer is loaded as its users do: the last transformers 4, and a transformers 5.
LOADERS := $(foreach n,4 5,JPREP_TRANSFORMERS$(n)=$(abspath $(VENV))/transformers$(n)/bin/python)

# Programs that read what jprep writes.
CLIENTS := $(abspath $(VENV))/clients

.PHONY: help quickstart test lint unit soak bench clean

help:            ## What there is
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

quickstart: $(VENV)/.torch  ## Install, go from the embedded sample to a tiny model, show what came out
	$(BIN)/jprep quickstart -o work/quickstart

test: lint unit  ## Everything that CI runs

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy
	PATH="$(BIN):$$PATH" $(BIN)/lint-imports

unit: $(VENV)/.test $(VENV)/.transformers $(READY)
	$(LOADERS) $(FOR_TESTS) $(BIN)/python -m pytest -n auto -m "not soak and not bench"
	for suite in $(SUITES); do $(FOR_TESTS) $(BACKENDS)/$${suite%:*}/bin/python -m pytest \
	  -n auto --dist loadfile -m "not soak and not bench" backends/$${suite#*:}/tests || exit 1; done

soak: $(VENV)/.test $(VENV)/.transformers $(VENV)/.clients $(READY)  ## The long crash tests, and other programs as clients
	$(LOADERS) $(FOR_TESTS) JPREP_CLIENTS=$(CLIENTS) JPREP_DATASETS=$(CLIENTS)/bin/python $(BIN)/python -m pytest -n auto -m soak
	for suite in $(SUITES); do $(FOR_TESTS) $(BACKENDS)/$${suite%:*}/bin/python -m pytest \
	  -m soak backends/$${suite#*:}/tests || [ $$? = 5 ] || exit 1; done  # 5: a backend has none

bench: $(VENV)/.test $(filter-out $(VENV)/.fairseq%,$(READY)) $(VENV)/.peers  ## Figures, each beside a peer in the same run
	$(FOR_TESTS) JPREP_PEER_PYTHON=$(VENV)/peers/bin/python $(BIN)/python -m tests.benchmarks

clean:           ## Remove the environment and what was built
	rm -rf $(VENV) work build dist

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml $(HALVES:%=backends/%/pyproject.toml) .ci/constraints.txt
	$(BIN)/python $(INSTALL) --editable . $(HALVES:%=--editable backends/%)
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	$(BIN)/python $(INSTALL) --editable '.[test,sudachi,pyknp]'
	@touch $@

$(VENV)/.torch $(VENV)/.deepspeed $(VENV)/.flax: $(VENV)/.%: $(VENV)/.installed
	$(BIN)/jprep backends install $* --constraint .ci/constraints.txt
	@touch $@

$(VENV)/.fairseq-cpu: $(VENV)/.installed
	$(BIN)/jprep backends install fairseq-xla --set device=cpu --constraint .ci/constraints.txt
	@touch $@

# The PyTorch of torch_xla wants 4.9 GB of CUDA's libraries, which nothing here uses: small wheels stand in for them.
$(VENV)/.fairseq-xla: $(VENV)/.installed backends/fairseq_xla/constraints.txt
	$(BIN)/python .ci/cuda_stand_ins.py $(VENV)/stand-ins $$(grep ^torch== backends/fairseq_xla/constraints.txt)
	$(BIN)/jprep backends install fairseq-xla --set device=xla \
	  --constraint backends/fairseq_xla/constraints.txt -- --find-links $(abspath $(VENV))/stand-ins
	rm -r $(VENV)/stand-ins
	@touch $@

$(READY): $(VENV)/.%-test: $(VENV)/.%
	$(BACKENDS)/$*/bin/python $(INSTALL) pytest pytest-xdist hypothesis safetensors --editable backends/torch
	@touch $@

$(VENV)/.transformers: .ci/transformers4.txt .ci/transformers5.txt
	for n in 4 5; do \
	  $(PYTHON) -m venv $(VENV)/transformers$$n && \
	  $(VENV)/transformers$$n/bin/python -m pip install --quiet --disable-pip-version-check -r .ci/transformers$$n.txt || exit 1; \
	done
	@touch $@

# Megatron runs on the torch backend's PyTorch, without what it wants for training.
$(VENV)/.clients: .ci/clients.txt
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check -r .ci/clients.txt
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
	  --target $(CLIENTS)/megatron megatron-core==0.16.1
	mkdir -p $(CLIENTS)/node
	! command -v npm || npm install --prefix $(CLIENTS)/node --no-audit --no-fund --ignore-scripts @huggingface/tokenizers@0.2.0
	@touch $@

# Programs to compare with: in an environment of their own, and never imported by jprep (wikiextractor is AGPL). HF's
# Trainer, which needs accelerate, runs beside the backends.
$(VENV)/.peers: $(VENV)/.torch $(VENV)/.deepspeed
	for name in torch deepspeed; do $(BACKENDS)/$$name/bin/python $(INSTALL) accelerate || exit 1; done
	$(PYTHON) -m venv $(VENV)/peers
	$(VENV)/peers/bin/python -m pip install --quiet wikiextractor==3.1.0 konoha==5.7.2 ja_sentence_segmenter==0.3.0 neologdn==0.5.6
	@touch $@
