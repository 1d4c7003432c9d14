#!/usr/bin/env bash
# Makes a local replacement for the official debian:SUITE-slim image, where no container registry can be reached but Debian's
# packages can. Needs root, a Docker daemon and debootstrap. Does nothing where the tag exists (FORCE=1: makes it anew).
#
#   docker/local/base-image.sh [SUITE=bookworm]
#
# The mirrors are those of this machine's apt. Its certificates go into the image, and package clients are pointed at them.
set -euo pipefail
suite=${1:-bookworm}
tag=debian:$suite-slim
bundle=/etc/ssl/certs/ca-certificates.crt
if [ "${FORCE:-0}" != 1 ] && docker image inspect "$tag" >/dev/null 2>&1; then exit 0; fi

# shellcheck disable=SC2016
targets() { apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' | sort -u; }
mirror=$(targets | grep -vi security | head -n 1)
security=$(targets | grep -i security | head -n 1 || true)
[ -n "$mirror" ] || { echo "base-image.sh: apt knows no mirror" >&2; exit 1; }
root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root" "$root.log"' EXIT
debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$mirror" > "$root.log" 2>&1 \
    || { tail -n 20 "$root.log" >&2; exit 1; }
{
    printf 'deb %s %s main\ndeb %s %s-updates main\n' "$mirror" "$suite" "$mirror" "$suite"
    [ -z "$security" ] || echo "deb $security $suite-security main"
} > "$root/etc/apt/sources.list"
# What the official slim images leave out.
printf 'path-exclude /usr/share/%s/*\n' doc man locale info > "$root/etc/dpkg/dpkg.cfg.d/slim"
echo 'path-include /usr/share/doc/*/copyright' >> "$root/etc/dpkg/dpkg.cfg.d/slim"
printf 'APT::Install-Recommends "0";\nAcquire::Languages "none";\n' > "$root/etc/apt/apt.conf.d/01slim"
find "$root/usr/share/doc" -type f ! -name copyright -delete
rm -rf "$root"/usr/share/{man,locale,info}/* "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/tmp/* \
    "$root"/etc/resolv.conf "$root"/etc/hostname
install -m 0644 "$bundle" "$root$bundle"
install -D -m 0644 "$bundle" "$root/usr/local/share/ca-certificates/machine.crt"
tar -C "$root" --numeric-owner -c . | docker import \
    --change "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    --change "ENV SSL_CERT_FILE=$bundle PIP_CERT=$bundle REQUESTS_CA_BUNDLE=$bundle" \
    --change 'CMD ["bash"]' - "$tag" > /dev/null
echo "made $tag"
