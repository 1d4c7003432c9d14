# What a command of the documentation means in a test: everything is run, but for what would build, stop or test the world.
set -euo pipefail

# The arguments of the outer `make test` (ARGS="-k words") do not apply to those that the documents run.
unset ARGS MAKEFLAGS MAKEOVERRIDES MFLAGS MAKELEVEL

# The environment is there: `make test` has made it. The suite runs: a plain `make up` says so.
make() {
    case "$*" in
        up) command make -s -o setup -C "$ROOT" up ;;
        "up ARGS="*) command make -s -o setup -C "$ROOT" up "$2 --plan" ;;
        down) METACOG_HOME=$PWD/nobody command make -s -C "$ROOT" down ;;
        test) command make -n -o setup-dev -C "$ROOT" test ;;
        keys) METACOG_SECRETS=$PWD/secrets command make -s -C "$ROOT" keys ;;
        *) echo "no test knows: make $*" >&2; return 97 ;;
    esac
}

# Containers are started by tests of their own; here profile, settings and compose file must fit together.
docker() {
    local options=()
    [ "$1" = compose ] || return 98
    shift
    while [ "${1#--}" != "$1" ]; do options+=("$1" "$2"); shift 2; done
    case $1 in build | up | down) ;; *) echo "no test knows: docker compose $*" >&2; return 97 ;; esac
    docker-compose -f "$ROOT/docker-compose.yml" --env-file .env "${options[@]}" config --services
}

# An error fails the test, unless the document shows it.
curl() {
    if [ -n "${SHOWS_REFUSAL:-}" ]; then command curl "$@"; else command curl --fail-with-body "$@"; fi
    echo
}
