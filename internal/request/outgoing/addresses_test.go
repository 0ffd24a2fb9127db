package outgoing

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
		"::ffff:0:169.254.169.254": true, "::ffff:0:a9fe:a9fe": true, "::ffff:0:168.63.129.16": true, "::ffff:0:127.0.0.1": false, "::fffe:0:a9fe:a9fe": false,
		"64:ff9b:1::a9fe:a9fe": true, "64:ff9b:1:2:3:4:a9fe:a9fe": true, "64:ff9b:1:a9fe:00a9:fe00::": true, "64:ff9b:1:00a9:00fe:a9fe::": true, "64:ff9b:1::a9:fea9:fe00:0": true, "64:ff9b:1::7f00:1": false, "64:ff9b:2::a9fe:a9fe": false,
		"64:ff9b:1:a9fe:ffa9:fe00::": true, "64:ff9b::7f00:1": false, "64:ff9b::100.100.100.200": true,
		"2001:0:a9fe:a9fe::1": true, "2001:0:808:808:0:0:5601:5601": true, "2001::5601:5601": true, "2001:0:808:808:0:0:a9fe:a9fe": false, "2001:db8::a9fe:a9fe": false,
		"2001:db8::5efe:169.254.169.254": true, "2001:db8::200:5efe:a9fe:a9fe": true, "2001:db8::5efe:10.0.0.1": false, "2001:db8::100:5efe:a9fe:a9fe": false,
		"2002:0a00:0001::1": false, "fd00:42::42": true, "fd00:42::43": false,
		"127.0.0.1": false, "localhost": false, "10.0.0.1": false, "192.168.1.1": false, "172.16.0.1": false, "100.64.0.1": false, "::1": false, "fd12::1": false,
		"8.8.8.8": false, "example.com": false, "host.docker.internal": false, "1234": false, "0x7f.1": false, "": false, "a.b": false, "1.2.3.4.5": false,
	} {
		if got := ForbiddenHost(host); got != want {
			t.Errorf("%q is forbidden: %t", host, got)
		}
	}
	for address, want := range map[string]error{"169.254.169.254:80": ErrForbidden, "[64:ff9b:1::a9fe:a9fe]:80": ErrForbidden, "[::ffff:0:a9fe:a9fe]:80": ErrForbidden, "[2001:0:a9fe:a9fe::1]:80": ErrForbidden, "[fe80::1%eth0]:80": ErrForbidden, "[fd20:ce::254]:80": ErrForbidden, "[fd00:ec2::23]:80": ErrForbidden, "127.0.0.1:80": nil, "[::1]:80": nil, "x:80": ErrForbidden} {
		if err := RefuseMetadata("tcp", address, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
