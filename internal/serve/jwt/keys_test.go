package jwt

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/testing/jwttest"
)

var wanted = Expected{Issuer: "https://login.example", Audience: []string{"patchbay"}}

func good(i *jwttest.Issuer) string {
	return i.Sign(jwttest.Claims("https://login.example", "patchbay", "ada", nil))
}

// verify verifies a token at the time of its issue.
func verify(ctx context.Context, k *Keys, text string) error {
	_, err := k.Verify(ctx, text, wanted, time.Now())
	return err
}

func TestAFloodOfUnknownKeysReadsOnceAMinute(t *testing.T) {
	known, flood := jwttest.New(t), jwttest.New(t)
	flood.Rotate(jose.ES256)
	synctest.Test(t, func(t *testing.T) {
		text, unknown := good(known), good(flood)
		var reads atomic.Int64
		k := NewKeys(Source{})
		k.get = func(context.Context) ([]byte, error) {
			reads.Add(1)
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the time of a synctest bubble
			return known.JWKS(), nil
		}
		if err := verify(t.Context(), k, text); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var waiting sync.WaitGroup
		for range 20 { // of them, some while the read for another runs
			waiting.Go(func() {
				for time.Since(begin) < 5*time.Minute {
					if err := verify(t.Context(), k, unknown); !errors.Is(err, ErrUnknownKey) {
						t.Error(err)
					}
					time.Sleep(50 * time.Millisecond) //nolint:forbidigo // the time of a synctest bubble
				}
			})
		}
		waiting.Wait()
		if n := reads.Load(); n < 5 || n > 6 {
			t.Errorf("%d reads in five minutes", n)
		}
		if err := verify(t.Context(), k, good(known)); err != nil {
			t.Error(err)
		}
		k.Close()
	})
}

func TestANewKeyIsReadForTheFirstTokenThatItSigned(t *testing.T) {
	i := jwttest.New(t)
	k := NewKeys(Source{URL: i.URL})
	defer k.Close()
	for range 2 {
		if err := verify(t.Context(), k, good(i)); err != nil {
			t.Fatal(err)
		}
		if i.Reads.Load() == 1 {
			k.last = k.last.Add(-unknownEvery)
			i.Rotate(jose.EdDSA)
		}
	}
	if n := i.Reads.Load(); n != 2 {
		t.Errorf("%d reads", n)
	}
}

func TestWhileTheIssuerHangsNobodyWaitsLongerThanAsked(t *testing.T) {
	i := jwttest.New(t)
	synctest.Test(t, func(t *testing.T) {
		k := NewKeys(Source{})
		k.get = func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		begin := time.Now()
		if err := verify(ctx, k, good(i)); !errors.Is(err, ErrNoKeys) {
			t.Error(err)
		}
		if waited := time.Since(begin); waited != 2*time.Second {
			t.Errorf("waited for %s", waited)
		}
		k.Close()
	})
}

func TestTheKeysThatWereReadHoldWhileTheIssuerIsAway(t *testing.T) {
	i := jwttest.New(t)
	synctest.Test(t, func(t *testing.T) {
		k := NewKeys(Source{})
		var isAway atomic.Bool
		k.get = func(context.Context) ([]byte, error) {
			if isAway.Load() {
				return nil, errors.New("away")
			}
			return i.JWKS(), nil
		}
		var running sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		running.Go(func() { k.Run(ctx) })
		synctest.Wait()
		set := k.Set()
		isAway.Store(true)
		time.Sleep(refreshEvery + time.Second) //nolint:forbidigo // the time of a synctest bubble
		if k.Failure() == nil || k.Set() != set {
			t.Error("the failure is not seen, or the keys changed")
		}
		isAway.Store(false)
		time.Sleep(2 * time.Minute) //nolint:forbidigo // the time of a synctest bubble
		if k.Failure() != nil || k.Set() != set {
			t.Error("the end of the failure is not seen, or the same keys count as others")
		}
		i.Rotate(jose.ES256)
		time.Sleep(refreshEvery) //nolint:forbidigo // the time of a synctest bubble
		if k.Set() == set {
			t.Error("the new keys are not seen")
		}
		cancel()
		running.Wait()
	})
}

func TestAFileOfKeysIsReadAgainWhenItChanges(t *testing.T) {
	i := jwttest.New(t)
	file := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(file, i.JWKS(), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		k := NewKeys(Source{File: file})
		var running sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		running.Go(func() { k.Run(ctx) })
		time.Sleep(time.Second) //nolint:forbidigo // the time of a synctest bubble
		if err := verify(ctx, k, good(i)); err != nil {
			t.Error(err)
		}
		before := good(i)
		i.Rotate(jose.ES256)
		if err := os.WriteFile(file, i.JWKS(), 0o600); err != nil {
			t.Error(err)
		}
		time.Sleep(lookEvery) //nolint:forbidigo // the time of a synctest bubble
		if err := verify(ctx, k, good(i)); err != nil {
			t.Error(err)
		}
		if err := verify(ctx, k, before); !errors.Is(err, ErrUnknownKey) {
			t.Errorf("a key that left the file: %v", err)
		}
		cancel()
		running.Wait()
		k.Close()
	})
}

func TestIssuersArePrivateOrPublicButNeverTheMetadataService(t *testing.T) {
	i := jwttest.New(t)
	private := httptest.NewTLSServer(i.Handler())
	defer private.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, jwttest.PEM(private.Certificate()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Get(t.Context(), private.URL, ""); err == nil {
		t.Error("an unknown authority is trusted")
	}
	if _, err := Get(t.Context(), private.URL, ca); err != nil {
		t.Errorf("with its own authority: %v", err)
	}
	if _, err := Get(t.Context(), "http://169.254.169.254/keys", ""); !errors.Is(err, outgoing.ErrForbidden) {
		t.Errorf("the metadata service: %v", err)
	}
	for address, isGood := range map[string]bool{
		"https://login.example/keys?p=a": true, "http://10.0.0.1:8080/keys": true, "http://169.254.169.254/": false,
		"ftp://login.example": false, "https://a:b@login.example": false, "https://": false, "": false,
	} {
		if fault := outgoing.AddressFault(address); fault.Is() == isGood {
			t.Errorf("%q: %v", address, fault)
		}
	}
}
