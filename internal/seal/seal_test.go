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
