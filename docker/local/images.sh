#!/usr/bin/env bash
# Every image that `make test-compose` needs. Where a registry answers, the published ones are pulled; where none does, they
# are made from Debian's packages under the same names. Ours are built, with docker-compose 2.x, that is BuildKit.
#
#   docker/local/images.sh [IMAGE...]      of ours: services llm-cpu encoder vllm-cpu; all of them by default
#
# Environment: COMPOSE (the command of docker-compose 2.x, default `docker compose`), PYTHON (with a pip that finds torch's CPU build).
set -euo pipefail
cd "$(dirname "$0")/../.."
compose=${COMPOSE:-docker compose}
python=${PYTHON:-python3}
here=docker/local

began() { SECONDS=0; echo "-- $1"; }
have() { docker image inspect "$1" >/dev/null 2>&1; }
or_made() { # TAG, then the command that makes it
    local tag=$1
    shift
    have "$tag" || timeout 60 docker pull -q "$tag" 2>/dev/null || "$@"
}

began "base images"
or_made debian:bookworm-slim "$here/base-image.sh" bookworm
or_made debian:trixie-slim "$here/base-image.sh" trixie
export DOCKER_BUILDKIT=0
or_made pgvector/pgvector:pg17 docker build -q -t pgvector/pgvector:pg17 "$here/postgres"
or_made prom/prometheus:v3.2.1 docker build -q -t prom/prometheus:v3.2.1 "$here/prometheus"
or_made nginxinc/nginx-unprivileged:1.27 docker build -q -t nginxinc/nginx-unprivileged:1.27 "$here/nginx"
unset DOCKER_BUILDKIT
echo "   $SECONDS s"

# The encoder and vLLM stand on torch's CPU build, which no package index of Python has under its plain name.
if [ -z "${METACOG_TORCH_INDEX_URL:-}" ]; then
    version=$(sed -n 's/^TORCH_VERSION = "\(.*\)"/\1/p' embedded/bootstrap.py)+cpu
    "$python" -m pip download -q --no-deps --only-binary :all: --dest wheels "torch==$version"
fi

# Secrets must exist for docker-compose to read the file; none of them is built into an image.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
METACOG_REVISION=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
export METACOG_REVISION METACOG_SECRETS=$scratch
docker/keys.sh > /dev/null
for image in "${@:-services llm-cpu encoder vllm-cpu}"; do
    for one in $image; do
        began "$one"
        name=$one
        [ "$one" = services ] && name=router
        $compose --profile cpu --profile vllm-cpu --profile encoder build "$name"
        echo "   $SECONDS s, $(docker image inspect -f '{{.Size}}' "metacog-$one" | awk '{ printf "%.0f MB", $1 / 1e6 }')"
    done
done
