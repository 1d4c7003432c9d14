#!/bin/sh
# Puts the database back as a file of docker/backup.sh has it, and starts the suite: docker/restore.sh FILE
#
# What was recorded since the backup is lost. The file is read in one transaction, into a database made anew, and both
# databases change their names in one transaction. If any of that or the migration fails, the old one is still there, or
# is put back, under the name `metacog`, and the suite is started with it.
# Environment: COMPOSE, the command with its options (default `docker compose`).
set -eu
file=${1:?usage: docker/restore.sh FILE}
compose=${COMPOSE:-docker compose}
sql() { $compose exec -T postgres psql -U metacog -d "$1" -v ON_ERROR_STOP=1 -Atqc "$2" < /dev/null; }
there() { [ "$(sql postgres "SELECT count(*) FROM pg_database WHERE datname = '$1'")" = 1 ]; }
# `psql -c` runs both statements as one transaction.
swap() { sql postgres "ALTER DATABASE metacog RENAME TO $1; ALTER DATABASE $2 RENAME TO metacog"; }

stopped='' swapped=''
finish() {
    status=$?
    trap - EXIT
    [ "$status" -ne 0 ] && [ -n "$stopped" ] || exit "$status"
    if [ -z "$swapped" ] || swap metacog_new metacog_before; then
        echo "$file: not restored; the database is as it was" >&2
    else
        echo "$file: the migration failed; the old database is there as metacog_before, and this one as metacog" >&2
    fi
    $compose start router assigner arbiter delegation
    exit "$status"
}
trap finish EXIT

$compose exec -T postgres pg_restore --list > /dev/null < "$file"
stopped=yes
$compose stop router assigner arbiter delegation
# An earlier restore may have been cut off between its two renames: then the only data is under the other name.
if ! there metacog && there metacog_before; then sql postgres 'ALTER DATABASE metacog_before RENAME TO metacog'; fi
sql postgres 'DROP DATABASE IF EXISTS metacog_new WITH (FORCE)'
sql postgres 'CREATE DATABASE metacog_new'
$compose exec -T postgres pg_restore -U metacog -d metacog_new --exit-on-error --single-transaction --no-owner < "$file"
sql postgres 'DROP DATABASE IF EXISTS metacog_before WITH (FORCE)'
swap metacog_before metacog_new
swapped=yes
$compose run --rm -T migrate
$compose start router assigner arbiter delegation
trap - EXIT
sql postgres 'DROP DATABASE metacog_before WITH (FORCE)'
echo "$file: restored"
