#!/bin/sh
# Makes the suite's secrets as files, and API keys; needs nothing but a shell.
#
#   docker/keys.sh                       what is missing: every secret of docker-compose.yml, and a first key for you
#   docker/keys.sh new NAME [no-teach]   one more API key, shown once; with `no-teach` its feedback teaches nothing
#   docker/keys.sh rotate NAME           a new key for NAME; the old one is accepted as NAME-old until it is revoked
#   docker/keys.sh revoke NAME           its key is accepted no more
#   docker/keys.sh list                  names
#
# Folder: METACOG_SECRETS (default `secrets`). The services read keys at start: restart them after a change.
set -eu
umask 077
folder=${METACOG_SECRETS:-secrets}
keys=$folder/keys.yaml

fail() { echo "keys.sh: $*" >&2; exit 1; }
random() { head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }
digest() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1; }
has() { [ -f "$keys" ] && grep -qx -- "- name: $1" "$keys"; }

# The folder is closed to others; the files in it are mounted into containers whose users have other numbers.
put() { cat > "$folder/.$1" && chmod 0444 "$folder/.$1" && mv -f "$folder/.$1" "$folder/$1"; }
missing() { [ ! -s "$folder/$1" ]; }

named() {
    case $1 in
        '' | *[!A-Za-z0-9._-]*) fail "a name is made of letters, digits, dots, hyphens and underscores" ;;
    esac
}

# A key for $1 into the keys file as a hash, and in clear to standard output.
add() {
    named "$1"
    ! has "$1" || fail "$keys has a key named $1 already"
    key=mc-$(random)
    {
        if [ -f "$keys" ]; then cat "$keys"; else echo "keys:"; fi
        printf -- '- name: %s\n  sha256: %s\n  may_teach: %s\n' "$1" "$(printf %s "$key" | digest)" "${2:-true}"
        # What the services do for a caller belongs to that caller: their key says for whom a call is made.
        [ "$1" != suite ] || echo '  acts_for_others: true'
    } | put keys.yaml
    printf '%s\n' "$key"
}

rewrite() { awk "$@" "$keys" > "$folder/.changed" && put keys.yaml < "$folder/.changed"; rm -f "$folder/.changed"; }

revoke() {
    has "$1" || fail "$keys has no key named $1"
    [ "$(grep -c '^- name: ' "$keys")" -gt 1 ] || fail "$1 is the only key; the services need one"
    # shellcheck disable=SC2016
    rewrite -v name="$1" '/^- name: / { skip = ($3 == name) } !skip'
}

rotate() {
    has "$1" || fail "$keys has no key named $1"
    ! has "$1-old" || fail "$1-old is still accepted: revoke it first"
    teach=$(awk -v name="$1" '/^- name: / { at = ($3 == name) } at && /may_teach:/ { print $2 }' "$keys")
    # shellcheck disable=SC2016
    rewrite -v name="$1" '/^- name: / && $3 == name { $0 = "- name: " name "-old" } { print }'
    case $1 in
        suite) add "$1" "$teach" | put peer_key ;;
        metrics) add "$1" "$teach" | put metrics_key ;;
        *) add "$1" "$teach" ;;
    esac
}

init() {
    mkdir -p "$folder"
    chmod 0700 "$folder"
    if missing peer_key; then ! has suite || revoke suite; add suite | put peer_key; fi
    if missing metrics_key; then ! has metrics || revoke metrics; add metrics false | put metrics_key; fi
    for name in inference_api_key encoder_api_key database_password grafana_password; do
        if missing $name; then random | put $name; fi
    done
    # Yours to fill in, for models that the hub gives to known users only.
    if [ ! -e "$folder/huggingface_token" ]; then put huggingface_token < /dev/null; fi
    if missing database_url; then
        echo "postgresql+psycopg://metacog:$(cat "$folder/database_password")@postgres:5432/metacog" | put database_url
    fi
    if ! has me; then
        key=$(add me)
        echo "Your API key, shown this once: $key"
    fi
}

case ${1:-init} in
    init) init ;;
    new) add "${2:-}" "$([ "${3:-}" = no-teach ] && echo false || echo true)" ;;
    rotate) rotate "${2:-}" ;;
    revoke) revoke "${2:-}" ;;
    list) sed -n 's/^- name: //p' "$keys" ;;
    *) fail "unknown: $1" ;;
esac
