#!/usr/bin/env bash
# What docker-compose.yml asks of the official image's start: POSTGRES_USER, POSTGRES_DB, POSTGRES_PASSWORD_FILE, PGDATA; it
# begins as root, gives the data to the user `postgres`, and becomes that user.
set -euo pipefail
if [ "$(id -u)" = 0 ]; then
    install -d -m 0700 "$PGDATA"
    find "$PGDATA" /var/run/postgresql ! -user postgres -exec chown postgres '{}' +
    exec gosu postgres "$0" "$@"
fi
user=${POSTGRES_USER:-postgres}
database=${POSTGRES_DB:-$user}
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    password=${POSTGRES_PASSWORD_FILE:?the file with the password is not named}
    initdb --username="$user" --pwfile="$password" --auth-local=trust --auth-host=scram-sha-256
    echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
    pg_ctl -D "$PGDATA" -o "-c listen_addresses=''" -w start
    createdb --username="$user" "$database"
    pg_ctl -D "$PGDATA" -m fast -w stop
fi
exec "$@" -c 'listen_addresses=*'
