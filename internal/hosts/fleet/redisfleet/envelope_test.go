package redisfleet

import (
	"bytes"
	"errors"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
)

// TestEnvelopesAreReadWithTheirSecretOnly, whole and unchanged.
func TestEnvelopesAreReadWithTheirSecretOnly(t *testing.T) {
	ours, theirs := newCodec(&fleet.Secret{1}), newCodec(&fleet.Secret{2})
	envelope := ours.wrap("gateway", []byte("message"))
	if gateway, message, err := ours.open(string(envelope)); gateway != "gateway" || string(message) != "message" || err != nil {
		t.Errorf("%q %q %v", gateway, message, err)
	}
	if _, _, err := theirs.open(string(envelope)); !errors.Is(err, errSecret) {
		t.Errorf("%v", err)
	}
	for n := range envelope {
		changed := bytes.Clone(envelope)
		changed[n] ^= 1
		if _, _, err := ours.open(string(changed)); err == nil {
			t.Errorf("changed at %d", n)
		}
		if _, _, err := ours.open(string(envelope[:n])); err == nil {
			t.Errorf("cut at %d", n)
		}
	}
	if _, _, err := ours.open(string(ours.wrap("gateway", make([]byte, maxEnvelope)))); !errors.Is(err, errForm) {
		t.Errorf("%v", err)
	}
}

// FuzzOpen looks for texts that cannot be refused.
func FuzzOpen(f *testing.F) {
	c := newCodec(&fleet.Secret{1})
	f.Add(string(c.wrap("gateway", []byte("message"))))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		gateway, message, err := c.open(text)
		if err == nil && string(c.wrap(gateway, message)) != text {
			t.Errorf("%q is read as %q of %q", text, message, gateway)
		}
	})
}
