# The same commands that CI runs. `make up` and `make test` do all their own set-up.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
BIN := .venv/bin
PROTOS = $(shell find proto -name '*.proto' | sort)
CODE := kernel chassis services encoder console cli evals embedded bench tests
.DEFAULT_GOAL := help
.PHONY: help up down status test test-nrc check proto format lock bench setup setup-dev

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup:
	@$(PYTHON) embedded/bootstrap.py

setup-dev:
	@$(PYTHON) embedded/bootstrap.py --dev

up: setup ## start the suite on this machine; ARGS="--inference-url http://.../v1" or "--model file.gguf"
	@$(BIN)/python -m embedded up $(ARGS)

down: ## stop the suite
	@test ! -x $(BIN)/python || $(BIN)/python -m embedded down

status: ## show the parts of the suite
	@$(BIN)/python -m embedded status $(ARGS)

test: setup-dev ## run every test, with the real parts; ARGS="tests/unit -k wire"
	@$(BIN)/python -m pytest $(ARGS)

test-nrc: setup-dev ## test METACOG_AFFECT=nrc with the real lexicon (its licence: research only), installed for this alone
	@lexicon=$$(mktemp -d); trap 'rm -rf "$$lexicon"' EXIT; \
		$(BIN)/python -m pip install -q --target "$$lexicon" 'NRCLex>=4.1'; \
		PYTHONPATH="$$lexicon" $(BIN)/python -m pytest tests/extras

check: setup-dev ## lint, types, import rules, contracts, freshness of what is generated
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/mypy
	@PYTHONPATH=.:gen $(BIN)/lint-imports --no-cache
	@$(BIN)/buf lint
	@$(BIN)/buf format -d --exit-code
	@if git rev-parse -q --verify refs/tags/v1 >/dev/null; then $(BIN)/buf breaking --against '.git#tag=v1'; fi
	@fresh=$$(mktemp -d); $(MAKE) -s proto GEN=$$fresh && diff -r $$fresh gen --exclude __pycache__ && rm -r $$fresh

GEN ?= gen
proto: setup-dev ## rebuild gen/ from proto/
	@rm -rf $(GEN)/metacog
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -I proto -I third_party \
		--python_out=$(GEN) --grpc_python_out=$(GEN) --mypy_out=quiet:$(GEN) --mypy_grpc_out=quiet:$(GEN) $(PROTOS)

format: setup-dev ## format code and contracts
	@$(BIN)/ruff check --fix-only -q $(CODE)
	@$(BIN)/ruff format -q $(CODE)
	@$(BIN)/buf format -w

lock: setup-dev ## resolve the dependencies again; ARGS=--upgrade for newer ones
	@$(BIN)/python -m pip install -q uv
	@embedded/lock.sh $(ARGS)

bench: setup-dev ## time what has to be fast; ARGS=retrieval for one of them
	@$(BIN)/python -m bench $(ARGS)
