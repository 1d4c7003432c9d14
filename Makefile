# The same commands that CI runs. `make up` and `make test` do all their own set-up.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
BIN := .venv/bin
PROTOS = $(shell find proto -name '*.proto' | sort)
# Services start often, above all in tests: each start without compiled code compiles it again.
export PYTHONDONTWRITEBYTECODE :=
CODE := checks kernel chassis inference configuration sandbox services encoder console cli evals embedded bench docker docs/generating tests
.DEFAULT_GOAL := help
.PHONY: baseline clients evaluation-pages keys images sbom test-compose lint-containers help up down status test test-fast test-hard soak test-nrc check docs proto format lock bench setup setup-dev setup-test

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

setup-test:
	@$(PYTHON) embedded/bootstrap.py --dev --browser

# Processes that run tests; 0 runs them in one, as a debugger needs it.
WORKERS ?= 2

test: setup-test ## run every test, with the real parts; ARGS="tests/unit -k wire"
	@$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

FAST := kernel chassis inference configuration sandbox services embedded encoder evals cli docs/generating tests/unit tests/contract
test-fast: setup-dev ## run the unit and contract tests, without a real model, in about three minutes
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not real_model" $(FAST) $(ARGS)

# What each fault did; `make docs` makes the table of docs/evaluation/faults.md from it. Empty: it is only printed.
METACOG_TEST_FAULTS ?= docs/evaluation/faults.json
test-hard: setup-test ## break the real parts: frozen, killed, full, locked; hostile callers; `make test` runs the quick ones
	@$(PYTHON) embedded/bootstrap.py --dev --proxy
	@METACOG_TEST_FAULTS=$(METACOG_TEST_FAULTS) $(BIN)/python -m pytest -n $(WORKERS) -m "hard or not hard" tests/faults $(ARGS)

soak: setup-dev ## run the suite under mixed load for an hour, and report what is lost and what grows; ARGS="--minutes 5"
	@$(BIN)/python -m bench.soak $(ARGS)

clients: ## ask the running suite by real clients, each in an environment of its own; ARGS="openai anthropic"
	@$(PYTHON) docs/examples/clients/run.py .metacog/clients $(ARGS)

test-nrc: setup-dev ## test METACOG_AFFECT=nrc with the real lexicon (its licence: research only), installed for this alone
	@lexicon=$$(mktemp -d); trap 'rm -rf "$$lexicon"' EXIT; \
		$(BIN)/python -m pip install -q --target "$$lexicon" 'NRCLex>=4.1'; \
		PYTHONPATH="$$lexicon" $(BIN)/python -m pytest tests/extras

check: setup-dev ## lint, types, import rules, contracts, freshness of what is generated
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/mypy
	@PYTHONPATH=.:gen $(BIN)/lint-imports --no-cache
	@$(BIN)/python -m checks
	@$(MAKE) -s lint-containers
	@$(BIN)/buf lint
	@$(BIN)/buf format -d --exit-code
	@$(BIN)/buf breaking proto --against proto/baseline.binpb
	@PYTHONPATH=.:gen $(BIN)/python -m docs.generating --check
	@fresh=$$(mktemp -d); $(MAKE) -s proto GEN=$$fresh && diff -r $$fresh gen --exclude __pycache__ && rm -r $$fresh

GEN ?= gen
proto: setup-dev ## rebuild gen/ from proto/
	@rm -rf $(GEN)/metacog
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -I proto -I third_party \
		--python_out=$(GEN) --grpc_python_out=$(GEN) --mypy_out=quiet:$(GEN) --mypy_grpc_out=quiet:$(GEN) $(PROTOS)

baseline: setup-dev ## make proto/baseline.binpb again: the contract of a release, which `make check` compares later ones with
	@$(BIN)/buf build proto --exclude-source-info -o proto/baseline.binpb

# Long: half an hour of one core. `make check` compares digests of records and tables only. ARGS="--check", ARGS="replay" for one.
evaluation-pages: setup-dev ## make the tables of docs/evaluation from records again; ARGS="--check" compares them
	@PYTHONPATH=.:gen $(BIN)/python -m docs.generating.evaluation $(ARGS)
	@PYTHONPATH=.:gen $(BIN)/python -m docs.generating $(filter --check,$(ARGS))

docs: setup-dev ## make the parts of docs/ that follow from the code again
	@PYTHONPATH=.:gen $(BIN)/python -m docs.generating

format: setup-dev ## format code and contracts
	@$(BIN)/ruff check --fix-only -q $(CODE)
	@$(BIN)/ruff format -q $(CODE)
	@$(BIN)/buf format -w

lock: setup-dev ## resolve the dependencies again; ARGS=--upgrade for newer ones
	@$(BIN)/python -m pip install -q uv
	@embedded/lock.sh $(ARGS)

bench: setup-dev ## time what has to be fast; ARGS=retrieval for one of them
	@$(BIN)/python -m bench $(ARGS)

# The program itself: the launcher that its package installs forgets the exit status.
COMPOSE_2 = $(wildcard $(BIN)/../lib/python3*/site-packages/compose/docker-compose)

keys: ## make the secrets of docker-compose.yml as files; ARGS="new NAME", "rotate NAME", "revoke NAME" for one API key
	@docker/keys.sh $(ARGS)

images: setup-dev ## build the images, and where no registry answers also what they stand on; ARGS="services encoder"
	@COMPOSE=$(COMPOSE_2) PYTHON=$(PYTHON) docker/local/images.sh $(ARGS)

sbom: ## list what is in the images, as CycloneDX, into sbom/; ARGS="metacog-services" for one of them
	@docker/sbom.sh $(ARGS)

lint-containers: setup-dev ## look at Dockerfiles and compose files
	@$(BIN)/hadolint Dockerfile docker/vllm-cpu.Dockerfile docker/local/*/Dockerfile
	@$(COMPOSE_2) --env-file .env.example -f docker-compose.yml -f tests/compose/docker-compose.test.yml config -q

# Long: vLLM builds for minutes, and starts for two. Both versions of docker-compose: set METACOG_TEST_COMPOSES to change that.
METACOG_TEST_COMPOSES ?= $(COMPOSE_2) docker-compose
test-compose: setup-dev images ## the suite in containers, with every docker-compose there is; ARGS="-k journeys"
	@for compose in $(METACOG_TEST_COMPOSES); do \
		METACOG_TEST_COMPOSE=$$compose $(BIN)/python -m pytest -o python_files='check_*.py' -o timeout=1500 \
			--confcutdir=tests/compose/live tests/compose/live $(ARGS) || exit 1; \
	done
