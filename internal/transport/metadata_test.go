package transport

import (
	"errors"
	"testing"
)

func TestMetadataAddressesAreForbiddenInEveryDisguise(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"169.254.169.254": true, "169.254.170.2": true, "169.254.0.1": true, "fe80::1": true, "fe80::1%eth0": true, "[fe80::1]": true,
		"fd00:ec2::254": true, "fd00:ec2::23": true, "[fd00:ec2::23]": true, "fd20:ce::254": true, "FD20:00CE:0::0254": true, "fd00:ec2::24": false, "fd20:ce::253": false, "100.100.100.200": true, "168.63.129.16": true, "192.0.0.192": true,
		"metadata.google.internal": true, "METADATA.google.internal.": true, "metadata.goog": true,
		"2852039166": true, "0xa9fea9fe": true, "0251.0376.0251.0376": true, "0xa9.0xfe.0xa9.0xfe": true, "169.254.43518": true, "169.16689662": true,
		"::ffff:169.254.169.254": true, "::ffff:a9fe:a9fe": true, "2002:a9fe:a9fe::1": true, "64:ff9b::a9fe:a9fe": true, "::a9fe:a9fe": true,
		"127.0.0.1": false, "localhost": false, "10.0.0.1": false, "192.168.1.1": false, "172.16.0.1": false, "100.64.0.1": false, "::1": false, "fd12::1": false,
		"8.8.8.8": false, "example.com": false, "host.docker.internal": false, "1234": false, "0x7f.1": false, "": false, "a.b": false, "1.2.3.4.5": false,
	} {
		if got := ForbiddenHost(host); got != want {
			t.Errorf("%q is forbidden: %t", host, got)
		}
	}
	for address, want := range map[string]error{"169.254.169.254:80": ErrForbidden, "[fe80::1%eth0]:80": ErrForbidden, "[fd20:ce::254]:80": ErrForbidden, "[fd00:ec2::23]:80": ErrForbidden, "127.0.0.1:80": nil, "[::1]:80": nil, "x:80": ErrForbidden} {
		if err := RefuseMetadata("tcp", address, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
