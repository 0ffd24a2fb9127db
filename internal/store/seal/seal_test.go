package seal

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
)

func keys(t *testing.T, current, previous string) *Keys {
	t.Helper()
	k, err := New(current, previous)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealedTextIsOpenedAtItsPlaceOnly(t *testing.T) {
	k := keys(t, rand.Text()+rand.Text(), "")
	sealed := k.Seal("chat/a/apiKey", "sk-secret")
	if strings.Contains(sealed, "secret") || sealed == k.Seal("chat/a/apiKey", "sk-secret") {
		t.Errorf("%s", sealed)
	}
	if text, err := k.Open("chat/a/apiKey", sealed); text != "sk-secret" || err != nil {
		t.Errorf("%q %v", text, err)
	}
	if _, err := k.Open("chat/b/apiKey", sealed); !errors.Is(err, ErrDamaged) {
		t.Errorf("at another place: %v", err)
	}
	for n := range sealed {
		damaged := sealed[:n] + "x" + sealed[n+1:]
		if text, err := k.Open("chat/a/apiKey", damaged); err == nil && damaged != sealed && text != "sk-secret" {
			t.Errorf("damaged at %d: %q", n, text)
		}
	}
}

func TestKeysAreRotated(t *testing.T) {
	first, second := rand.Text()+rand.Text(), rand.Text()+rand.Text()
	old, both, next := keys(t, first, ""), keys(t, second, first), keys(t, second, "")
	sealed := old.Seal("p", "text")
	if text, err := both.Open("p", sealed); text != "text" || err != nil || both.IsCurrent(sealed) || !old.IsCurrent(sealed) {
		t.Errorf("%q %v", text, err)
	}
	if _, err := next.Open("p", sealed); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), old.ID()) || strings.Contains(err.Error(), first) {
		t.Errorf("%v", err)
	}
	if text, err := next.Open("p", both.Seal("p", "again")); text != "again" || err != nil {
		t.Errorf("%q %v", text, err)
	}
	var none *Keys
	if _, err := none.Open("p", sealed); !errors.Is(err, ErrKey) {
		t.Errorf("without a key: %v", err)
	}
}

func TestShortKeysAreRefused(t *testing.T) {
	if Check("short") == "" || Check(rand.Text()+rand.Text()) != "" {
		t.Error("a short key is accepted, or a random one is not")
	}
}

func TestSignatures(t *testing.T) {
	first, second := rand.Text()+rand.Text(), rand.Text()+rand.Text()
	old, both, next := keys(t, first, ""), keys(t, second, first), keys(t, second, "")
	signature := old.Sign("version", "1", "content")
	if err := both.Verify(signature, "version", "1", "content"); err != nil || both.IsCurrent(signature) {
		t.Error(err)
	}
	for _, parts := range [][]string{nil, {"version", "2", "content"}, {"version", "1content"}, {"version", "1", "content", ""}, {"version1", "", "content"}} {
		if err := both.Verify(signature, parts...); !errors.Is(err, ErrForged) {
			t.Errorf("%q: %v", parts, err)
		}
	}
	for n := range signature {
		if changed := signature[:n] + "x" + signature[n+1:]; changed != signature && old.Verify(changed, "version", "1", "content") == nil && n < len(signature)-1 {
			t.Errorf("changed at %d", n)
		}
	}
	for _, nothing := range []string{"", "v1", "v1..", "v2." + signature[3:]} {
		if err := old.Verify(nothing, "version", "1", "content"); err == nil {
			t.Errorf("%q is taken for a signature", nothing)
		}
	}
	if err := next.Verify(signature, "version", "1", "content"); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), old.ID()) {
		t.Error(err)
	}
	var none *Keys
	if err := none.Verify(signature, "version", "1", "content"); !errors.Is(err, ErrKey) {
		t.Error(err)
	}
}

// TestDerivedKeysAreThoseOfTheCurrentKeyAndThePurpose: gateways with the same master key
// derive the same keys, whatever their previous one is.
func TestDerivedKeysAreThoseOfTheCurrentKeyAndThePurpose(t *testing.T) {
	first, second := rand.Text()+rand.Text(), rand.Text()+rand.Text()
	derived := func(k *Keys, purpose string) (key [32]byte) {
		k.Derive(purpose, key[:])
		return key
	}
	want := derived(keys(t, first, ""), "a")
	if want == [32]byte{} || want != derived(keys(t, first, second), "a") {
		t.Error("the same key and purpose give different keys, or none")
	}
	for _, other := range [][32]byte{derived(keys(t, first, ""), "b"), derived(keys(t, second, first), "a")} {
		if other == want {
			t.Error("another key or purpose gives the same key")
		}
	}
}
