# `make quickstart` and `make test` work on a fresh machine that has Python, make and a package index.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
INSTALL := -m pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt

# Modules are compiled when they are first imported, and kept: compiling all of transformers takes longer than
# installing it. 0 is how pip's variable says `--no-compile`.
unexport PYTHONDONTWRITEBYTECODE
export PIP_NO_COMPILE := 0

# Each backend has an environment of its own, $(VENV)/backends/NAME, where `jprep backends install` makes it. Backends'
# tests run inside them. torch_xla exists for one system only, and has its own constraints.
PACKAGES := torch deepspeed flax fairseq_xla keras
XLA      := $(if $(findstring Linux x86_64,$(shell uname -sm)),fairseq-xla)
TRAINERS := torch $(XLA) deepspeed flax keras fairseq-cpu
BACKENDS := $(abspath $(VENV))/backends
TORCH    := $(BACKENDS)/torch/bin/python
WITH_BACKENDS := JPREP_BACKENDS=$(BACKENDS) JPREP_TORCH=$(TORCH) JPREP_DEEPSPEED=$(BACKENDS)/deepspeed/bin/python \
  JPREP_FAIRSEQ=$(BACKENDS)/fairseq-cpu/bin/python JPREP_KERAS=$(BACKENDS)/keras/bin/python
WITHOUT_BACKENDS := JPREP_BACKENDS=$(abspath $(VENV))/no-backends
READY    := $(TRAINERS:%=$(VENV)/.%-test)
SUITES   := $(TRAINERS:%=suite-%)
QUICK    := $(filter-out $(VENV)/.fairseq-xla-test,$(READY))

# Environments in which a tokenizer is loaded as users of transformers do: the last transformers 4, and a transformers 5.
LOADERS := $(foreach n,4 5,JPREP_TRANSFORMERS$(n)=$(abspath $(VENV))/transformers$(n)/bin/python)

# Servers of S3 and Google Cloud Storage that tests start on this machine.
SERVERS := JPREP_SERVERS=$(abspath $(VENV))/servers/bin/python

# Programs that read what jprep writes.
CLIENTS := $(abspath $(VENV))/clients

# Tests wait for processes and for the disk half of the time: two for each core keep the cores busy.
CORES   := $(or $(shell getconf _NPROCESSORS_ONLN),2)
# Their files are in memory where there is room for them.
MEMORY  := $(shell [ "$$(df --output=avail -k /dev/shm 2>/dev/null | tail -1)" -gt 4000000 ] 2>/dev/null && echo /dev/shm)
export PYTEST_DEBUG_TEMPROOT := $(or $(MEMORY),$(TMPDIR),/tmp)
PYTEST  := -m pytest -n $(shell echo $$((2 * $(CORES))))
# A backend's suite is mostly one long file, whose tests share what they trained: two suites at a time keep them busy.
TWO     := --jobs 2 --output-sync=target
TIMED   := --durations 25 --durations-min 1
SUITE    = $(WITH_BACKENDS) $(BACKENDS)/$(1)/bin/python -m pytest -n $(CORES) --dist loadfile $(TIMED) \
  -m "$(2)not soak and not bench" backends/$(if $(findstring fairseq,$(1)),fairseq_xla,$(1))/tests

.PHONY: $(SUITES) help test-ray quickstart test lint environments core smoke test-backends core-with-backends slow-torch test-notebook notebook release try-release soak bench docs clean

help:            ## List the targets
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

quickstart: $(VENV)/.torch  ## Install, go from the embedded sample to a tiny model, show what came out
	$(BIN)/jprep quickstart -o work/quickstart

test:            ## Lint, types, the core, the backend torch, and three steps of every other backend
	$(MAKE) $(VENV)/.test
	$(MAKE) $(TWO) lint environments
	$(MAKE) core
	$(MAKE) $(TWO) suite-torch smoke

test-backends:   ## The whole suites of the other backends, tests with installed programs, the release, the site
	$(MAKE) $(TWO) $(VENV)/.extras $(READY) $(VENV)/.transformers $(VENV)/.servers $(VENV)/.release $(VENV)/.docs $(VENV)/.notebook
	$(MAKE) core-with-backends
	$(MAKE) $(TWO) $(filter-out suite-torch,$(SUITES)) slow-torch test-notebook
	$(MAKE) try-release docs

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy
	PATH="$(BIN):$$PATH" $(BIN)/lint-imports

environments: $(QUICK)

core: $(VENV)/.test
	$(WITHOUT_BACKENDS) $(BIN)/python $(PYTEST) $(TIMED) -m "not backends and not soak and not bench" --ignore tests/smoke

smoke: $(VENV)/.test $(QUICK)
	$(WITH_BACKENDS) $(BIN)/python $(PYTEST) tests/smoke

$(SUITES): suite-%: $(VENV)/.%-test
	$(call SUITE,$*,$(if $(filter torch,$*),not backends and ))

slow-torch: $(VENV)/.torch-test $(VENV)/.transformers
	$(LOADERS) $(call SUITE,torch,backends and )

core-with-backends: $(VENV)/.extras $(VENV)/.servers $(VENV)/.transformers $(QUICK)
	$(LOADERS) $(SERVERS) $(WITH_BACKENDS) $(BIN)/python $(PYTEST) --dist loadgroup $(TIMED) -m "backends and not soak" \
	  $$(grep -rl --include='*.py' pytest.mark.backends tests)  # collecting all of the tests takes a minute

test-notebook: $(VENV)/.notebook $(VENV)/.torch
	$(WITH_BACKENDS) $(VENV)/notebook/bin/python -m pytest $(TIMED) tests/notebook tests/unit/corpus/test_conversions.py

notebook: $(VENV)/.notebook $(VENV)/.torch  ## Run docs/notebooks/tour.ipynb, and write its outputs and its page
	$(WITH_BACKENDS) $(VENV)/notebook/bin/python docs/make_notebook.py

release: $(VENV)/.release  ## Build the wheels and source distributions of jprep and its backends into dist/
	$(VENV)/release/bin/python .ci/build_release.py dist

try-release: release  ## Install them in fresh environments, and run the quickstart there
	$(VENV)/release/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/release/bin/zizmor --offline --quiet .github/workflows
	$(VENV)/release/bin/python .ci/try_release.py dist

soak: $(VENV)/.extras $(VENV)/.transformers $(VENV)/.clients $(READY)  ## The long crash tests, and other programs as clients
	$(LOADERS) $(WITH_BACKENDS) JPREP_CLIENTS=$(CLIENTS) JPREP_DATASETS=$(CLIENTS)/bin/python $(BIN)/python $(PYTEST) -m soak
	for name in $(TRAINERS); do $(WITH_BACKENDS) $(BACKENDS)/$$name/bin/python -m pytest -m soak \
	  backends/$$(case $$name in fairseq*) echo fairseq_xla;; *) echo $$name;; esac)/tests || [ $$? = 5 ] || exit 1; done  # 5: none

bench: $(VENV)/.extras $(filter-out $(VENV)/.fairseq%,$(READY)) $(VENV)/.peers  ## Figures, each beside a peer in the same run
	$(WITH_BACKENDS) JPREP_PEER_PYTHON=$(VENV)/peers/bin/python $(BIN)/python -m tests.benchmarks

docs: $(VENV)/.docs  ## Build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --strict --quiet

clean:           ## Remove the environment and what was built
	rm -rf $(VENV) work build dist site

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml models/words/pyproject.toml $(PACKAGES:%=backends/%/pyproject.toml) .ci/constraints.txt
	$(BIN)/python $(INSTALL) --editable models/words --editable . $(PACKAGES:%=--editable backends/%)
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	$(BIN)/python $(INSTALL) --editable '.[test,fasttext,hojichar,near,pdf,web,report,view,jumandic,sudachi,pyknp,numba]'
	@touch $@

# What the core is tested without: libraries of trackers, of object stores and the Hub, and Ray, all of which run in jprep's
# own process; Playwright and Chromium for the tests of pages; Slurm and Grid Engine for those of executors. Tests of
# programs that cannot be installed are skipped.
$(VENV)/.extras: $(VENV)/.test
	$(BIN)/python $(INSTALL) --editable '.[remote,hub,ray,trackers]' tensorboard playwright axe-playwright-python
	PATH="$(BIN):$$PATH" .ci/install_chromium
	.ci/install_schedulers
	@touch $@

test-ray: $(VENV)/.extras  ## The executor `ray` on a cluster of three nodes on this machine
	$(BIN)/python -m pytest $(TIMED) -m "not soak" tests/cluster/test_ray_*.py

$(VENV)/.servers: .ci/servers.txt
	$(PYTHON) -m venv $(VENV)/servers
	$(VENV)/servers/bin/python -m pip install --quiet --disable-pip-version-check -r .ci/servers.txt
	@touch $@

$(VENV)/.torch $(VENV)/.deepspeed $(VENV)/.flax $(VENV)/.keras: $(VENV)/.%: $(VENV)/.installed
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

# A tokenizer of transformers that is tested needs a dictionary of MeCab.
$(READY): $(VENV)/.%-test: $(VENV)/.%
	$(BACKENDS)/$*/bin/python $(INSTALL) pytest pytest-xdist hypothesis safetensors $(if $(findstring torch,$*),jumandic) \
	  --editable backends/torch
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

$(VENV)/.release: .ci/release.txt
	$(PYTHON) -m venv $(VENV)/release
	$(VENV)/release/bin/python -m pip install --quiet --disable-pip-version-check -r .ci/release.txt
	@touch $@

# Programs to compare with: in an environment of their own, and never imported by jprep (wikiextractor is AGPL). HF's
# Trainer, which needs accelerate, runs beside the backends.
$(VENV)/.peers: $(VENV)/.torch $(VENV)/.deepspeed
	$(BIN)/python $(INSTALL) pdfminer.six pypdf datasketch
	for name in torch deepspeed; do $(BACKENDS)/$$name/bin/python $(INSTALL) accelerate || exit 1; done
	$(PYTHON) -m venv $(VENV)/peers
	$(VENV)/peers/bin/python -m pip install --quiet wikiextractor==3.1.0 konoha==5.7.2 ja_sentence_segmenter==0.3.0 neologdn==0.5.6
	@touch $@

# A notebook runs in the environment of its user: jprep, Jupyter's kernel, and the libraries that a corpus is given to.
$(VENV)/.notebook: $(VENV)/.installed
	$(PYTHON) -m venv $(VENV)/notebook
	$(VENV)/notebook/bin/python $(INSTALL) --editable models/words --editable . --editable backends/torch pytest hypothesis \
	  nbclient ipykernel ipywidgets pandas polars datasets
	@touch $@

# The site reads sources without importing them: its environment holds neither jprep nor a framework.
$(VENV)/.docs: .ci/docs.txt
	$(PYTHON) -m venv $(VENV)/docs
	$(VENV)/docs/bin/python -m pip install --quiet --disable-pip-version-check -r .ci/docs.txt
	@touch $@
