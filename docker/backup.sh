#!/bin/sh
# Writes the suite's database into a file, while everything runs: docker/backup.sh FILE
#
# Beside it keep `secrets/`, `.env` and `config/`; the volume `router` holds only runs that wait for the database.
# Environment: COMPOSE, the command with its options (default `docker compose`).
set -eu
file=${1:?usage: docker/backup.sh FILE}
compose=${COMPOSE:-docker compose}
umask 077
trap 'rm -f "$file.part"' EXIT
$compose exec -T postgres pg_dump -U metacog -d metacog --format=custom > "$file.part"
$compose exec -T postgres pg_restore --list > /dev/null < "$file.part" # fails for an incomplete file
mv "$file.part" "$file"
echo "$file: $(wc -c < "$file") bytes"
