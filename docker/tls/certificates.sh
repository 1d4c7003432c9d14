#!/bin/sh
# Makes certificates: a CA of your own (once), one for the server's NAMES, and one for each client.
#
#   docker/tls/certificates.sh server NAME [NAME...]    ca.crt, ca.key, server.crt, server.key
#   docker/tls/certificates.sh client WHO               client-WHO.crt, client-WHO.key
#
# Folder: tls/ in METACOG_SECRETS (default `secrets`). Valid for a year; run it again to renew, then restart `tls`. Keep
# ca.key elsewhere once the certificates are made: who has it can make clients. With certificates of a public authority
# only the clients' come from here.
set -eu
umask 077
secrets=${METACOG_SECRETS:-secrets}
folder=$secrets/tls
days=365
mkdir -p "$folder"
chmod 0700 "$secrets" "$folder"
cd "$folder"

new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

ca() {
    [ ! -s ca.crt ] || return 0
    new_key ca.key
    openssl req -x509 -new -key ca.key -days 3650 -subj "/CN=metacog CA" -out ca.crt \
        -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign"
}

signed() { # FILE, SUBJECT, USAGE, NAMES
    new_key "$1.key"
    openssl req -new -key "$1.key" -subj "/CN=$2" -out "$1.csr"
    printf 'basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=%s\n%s' "$3" "$4" > "$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days "$days" -extfile "$1.ext" -out "$1.crt" \
        2> "$1.log" || { cat "$1.log" >&2; exit 1; }
    rm -f "$1.csr" "$1.ext" "$1.log"
    chmod 0444 "$1.crt" "$1.key" ca.crt # mounted into containers whose users have other numbers; the folder is closed
    echo "$folder/$1.crt"
}

case ${1:-} in
    server)
        shift
        [ $# -gt 0 ] || { echo "usage: certificates.sh server NAME..." >&2; exit 2; }
        ca
        names=
        for name in "$@"; do
            case $name in
                *[!0-9.]*) names="$names,DNS:$name" ;;
                *) names="$names,IP:$name" ;;
            esac
        done
        rm -f server.key
        signed server "$1" serverAuth "subjectAltName=${names#,}"
        ;;
    client)
        ca
        rm -f "client-${2:?usage: certificates.sh client WHO}.key"
        signed "client-$2" "$2" clientAuth ""
        ;;
    *) echo "usage: certificates.sh server NAME... | client WHO" >&2; exit 2 ;;
esac
