#!/bin/sh
# Builds the container image from the binary of this checkout with buildah, without a
# network, and checks its size. Usage: deploy/container/build.sh [VERSION [ARCH]]
set -eu
cd "$(dirname "$0")/../.."
version=${1:-dev}
arch=${2:-$(go env GOARCH)}
image=patchbay:${version#v}
context=bin/image
rm -rf "$context"
mkdir -p "$context/root/data" "$context/root/tmp" "$context/root/etc/ssl/certs"
CGO_ENABLED=0 GOOS=linux GOARCH=$arch nice go build -trimpath -buildvcs=false -tags grpcnotrace \
	-ldflags "-s -w -X main.version=$version" -o "$context/root/patchbay" ./cmd/patchbay
authorities=/etc/ssl/certs/ca-certificates.crt
if [ ! -s "$authorities" ]; then
	echo "no certificates of authorities at $authorities: install the package ca-certificates" >&2
	exit 1
fi
cp "$authorities" "$context/root/etc/ssl/certs/"
chmod 0700 "$context/root/data"
chmod 1777 "$context/root/tmp"
chmod 0755 "$context/root/patchbay"
# chroot isolation and the vfs driver need no privileges of a container engine. No step
# of the build runs anything, so that none needs a network.
buildah --storage-driver vfs build --isolation chroot --pull-never --format docker \
	--arch "$arch" --timestamp "${SOURCE_DATE_EPOCH:-0}" --tag "$image" --file deploy/container/Containerfile "$context"
buildah --storage-driver vfs push --quiet "$image" "docker-archive:bin/patchbay-image-$arch.tar:$image"
size=$(stat -c %s "bin/patchbay-image-$arch.tar")
echo "$image: bin/patchbay-image-$arch.tar, $((size / 1000000)) MB"
if [ "$size" -ge 40000000 ]; then
	echo "the image is larger than 40 MB" >&2
	exit 1
fi
