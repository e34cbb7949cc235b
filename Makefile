# Boundary Bench. `make help` explains the targets.

MODEL ?= gpt2
DEVICE ?=
ARGS ?=
STUDY ?=
STUDIES ?=
PLACEMENT ?=
TARGET ?=
BUDGET ?=
LIMIT ?=
PORT ?= 5000
JOBS ?= 2

TARGETS := help setup sweep plan capacity forecast explain ui plots compare test check lint device-check clean
.DEFAULT_GOAL := help
.PHONY: $(TARGETS)

INSTALLED := .venv/.installed
BENCH := .venv/bin/python -m bench
# `make sweep gpt2-tiny` would measure the default model, and only then say that there is no gpt2-tiny to make.
STRAY := $(filter-out $(TARGETS) $(INSTALLED),$(MAKECMDGOALS))
ifneq ($(STRAY),)
$(error no target '$(STRAY)'; a model is named by MODEL=$(firstword $(STRAY)), and `make help` lists the targets)
endif
# The first Python on the PATH that is new enough to make .venv with.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$python"; break; }; done)
# The Python of `device-check`: on a compute node that has torch and transformers, and nothing else of ours.
DEVICE_PYTHON ?= python3

help: ## Explain every target
	@echo 'make TARGET [MODEL=gpt2] [DEVICE=auto|cpu|cuda] [ARGS="any hydra overrides"]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(INSTALLED) ## Make .venv and install; the other targets do it by themselves

sweep: $(INSTALLED) ## Measure the frontier of MODEL on DEVICE: make sweep MODEL=gpt2-tiny ARGS='protocol=full'
	@set -f; $(BENCH) sweep model='$(MODEL)' $(if $(DEVICE),device='$(DEVICE)') $(ARGS)

plan: $(INSTALLED) ## Plan MODEL's placement within BUDGET (8GiB, 60%; by default a frontier): make plan MODEL=gpt2 BUDGET=8GiB
	@set -f; $(BENCH) plan model='$(MODEL)' $(if $(DEVICE),device='$(DEVICE)') $(if $(TARGET),target='$(TARGET)') $(if $(BUDGET),budget='$(BUDGET)') $(ARGS)

capacity: $(INSTALLED) ## Largest batch of MODEL that trains within LIMIT (4GiB; by default the device): make capacity MODEL=gpt2 LIMIT=4GiB
	@set -f; $(BENCH) capacity model='$(MODEL)' $(if $(DEVICE),device='$(DEVICE)') $(if $(LIMIT),limit='$(LIMIT)') $(ARGS)

forecast: $(INSTALLED) ## Forecast MODEL's peaks without training: make forecast MODEL=gpt2 TARGET=h200 ARGS='precision=bf16-autocast'
	@set -f; $(BENCH) forecast model='$(MODEL)' $(if $(DEVICE),device='$(DEVICE)') $(if $(TARGET),target='$(TARGET)') $(ARGS)

explain: $(INSTALLED) ## Explain the peak of MODEL under PLACEMENT (by default none)
	@set -f; $(BENCH) explain model='$(MODEL)' $(if $(DEVICE),device='$(DEVICE)') $(if $(PLACEMENT),placement='$(PLACEMENT)') $(ARGS)

ui: $(INSTALLED) ## Open MLflow on 127.0.0.1:PORT over the default store
	@set -f; $(BENCH) ui port='$(PORT)' $(ARGS)

plots: $(INSTALLED) ## Redraw the plots of STUDY (a folder or a name; by default the newest)
	@set -f; $(BENCH) plots $(if $(STUDY),study='$(STUDY)') $(ARGS)

compare: $(INSTALLED) ## Compare STUDIES, the baseline first: make compare STUDIES=gpt2-1a2b,gpt2-5e6f ARGS='fail_if=slower:2%'
	@set -f; $(BENCH) compare studies='[$(STUDIES)]' $(ARGS)

test: $(INSTALLED) ## Run the tests: make test ARGS='-m slow'
	.venv/bin/python -m pytest -n $(JOBS) $(ARGS)

check: $(INSTALLED) ## Check style, types and the walls between rooms; changes nothing
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports

lint: $(INSTALLED) ## Mend style where it can be mended
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

device-check: ## Run the prepared GPU study where torch and transformers are all there is: make device-check DEVICE_PYTHON=python3 OUT=results
	$(DEVICE_PYTHON) -m bench.study.prepared results/prepared/gpt2-bf16-8x1024-cuda.json $(or $(OUT),results)
	$(DEVICE_PYTHON) -m bench.study.prepared results/prepared/gpt2-memory-8x1024-cuda.json $(or $(OUT),results)

clean: ## Remove .venv, caches and build files; results stay
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find bench models tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	@test -n '$(PYTHON)' || { echo 'Python 3.11 or newer is needed: install it, or name it: make PYTHON=/path/to/python3.12' >&2; exit 2; }
	@echo 'making .venv with $(PYTHON): a minute or two'
	@$(PYTHON) -m venv .venv
	@.venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
