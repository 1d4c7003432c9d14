# The same commands that CI runs. `make up` and `make test` do all their own set-up.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help

.PHONY: help up down status test check proto lock bench format setup setup-dev

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

proto: setup-dev ## rebuild gen/ from proto/
	@rm -rf gen/metacog
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -I proto -I third_party \
		--python_out=gen --grpc_python_out=gen --mypy_out=quiet:gen --mypy_grpc_out=quiet:gen \
		$$(find proto -name '*.proto' | sort)
