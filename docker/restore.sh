#!/bin/sh
# Puts the database back as a file of docker/backup.sh has it, and starts the suite: docker/restore.sh FILE
#
# What was recorded since the backup is lost. The file is read in one transaction, into a database made anew: if that
# fails, the old one is still there under the name `metacog`.
# Environment: COMPOSE, the command with its options (default `docker compose`).
set -eu
file=${1:?usage: docker/restore.sh FILE}
compose=${COMPOSE:-docker compose}
sql() { $compose exec -T postgres psql -U metacog -d "$1" -v ON_ERROR_STOP=1 -qc "$2"; }

$compose exec -T postgres pg_restore --list > /dev/null < "$file"
$compose stop router delegation
sql postgres 'DROP DATABASE IF EXISTS metacog_new'
sql postgres 'CREATE DATABASE metacog_new'
$compose exec -T postgres pg_restore -U metacog -d metacog_new --exit-on-error --single-transaction --no-owner < "$file"
sql postgres 'DROP DATABASE IF EXISTS metacog_before WITH (FORCE)'
sql postgres 'ALTER DATABASE metacog RENAME TO metacog_before'
sql postgres 'ALTER DATABASE metacog_new RENAME TO metacog'
$compose run --rm -T migrate
$compose start router delegation
sql postgres 'DROP DATABASE metacog_before WITH (FORCE)'
echo "$file: restored"
