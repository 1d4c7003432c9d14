#!/bin/sh
# Writes what is in each image as CycloneDX: docker/sbom.sh [IMAGE...] -> sbom/IMAGE.cdx.json
set -eu
# shellcheck disable=SC2046 # names of images have no spaces
[ $# -gt 0 ] || set -- $(docker images --format '{{.Repository}}' 'metacog-*' | sort -u)
[ $# -gt 0 ] || { echo "sbom.sh: there is no image of ours: make images, or docker compose build" >&2; exit 1; }
mkdir -p sbom
for image in "$@"; do
    file=sbom/$(echo "$image" | tr '/:' '__').cdx.json
    docker run --rm --network none --read-only --entrypoint python3 -v "$PWD/docker/sbom.py:/sbom.py:ro" "$image" \
        /sbom.py "$image" "$(docker image inspect -f '{{.Id}}' "$image")" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" > "$file"
    echo "$file: $(grep -c '"purl"' "$file") packages"
done
