package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/durable"
)

// Keyring is the keys of the unified API: those of the configuration, and those
// that were issued while the gateway ran, which it keeps in a file. A change
// takes effect at once. A nil Keyring has no guard.
type Keyring struct {
	dir      *durable.Dir
	settings Settings
	guard    atomic.Pointer[Guard]

	mu     sync.Mutex // one change at a time
	issued []Issued
}

// Issued is a key that was issued at run time. One that was revoked stays on
// record, so that the last one to go does not open the door to everybody.
type Issued struct {
	Key
	CreatedAt time.Time `json:"createdAt"`
	CreatedBy string    `json:"createdBy"`
	// RevokedAt is when the key was revoked; zero means that it was not.
	RevokedAt time.Time `json:"revokedAt,omitzero"`
}

// Status is ACTIVE, EXPIRED or REVOKED.
func (i Issued) Status(now time.Time) string {
	expires, err := time.Parse(time.RFC3339, i.ExpiresAt)
	switch {
	case !i.RevokedAt.IsZero():
		return "REVOKED"
	case err == nil && now.After(expires):
		return "EXPIRED"
	}
	return "ACTIVE"
}

// Why a key cannot be issued or revoked.
var (
	ErrKeyExists  = errors.New("a key with this id exists already")
	ErrKeyStatic  = errors.New("the key belongs to the configuration file and is changed there")
	ErrNoKey      = errors.New("there is no such key")
	ErrKeyRevoked = errors.New("the key is revoked already")
	ErrKeySave    = errors.New("saving the keys")
)

const (
	keysFile  = "keys.json"
	keyPrefix = "pb-"
	keyBytes  = 32
)

// OpenKeyring reads the keys that were issued. A file that cannot be read is an
// error: nobody may be let in, or kept out, by mistake.
func OpenKeyring(dir *durable.Dir, s Settings) (*Keyring, error) {
	k := &Keyring{dir: dir, settings: s}
	data, err := dir.Read(keysFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if err == nil {
		var stored struct {
			Keys []Issued `json:"keys"`
		}
		if err := json.Unmarshal(data, &stored, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("keys: %s: %w", keysFile, err)
		}
		k.issued = stored.Keys
		if err := k.check(); err != nil {
			return nil, fmt.Errorf("keys: %s: %w", keysFile, err)
		}
	}
	k.guard.Store(k.newGuard(k.issued))
	return k, nil
}

// check looks for what is wrong with the keys that were read.
func (k *Keyring) check() error {
	var errs []error
	var s Settings
	for _, key := range k.issued {
		s.Keys = append(s.Keys, key.Key)
	}
	s.Check(func(path, message string) { errs = append(errs, errors.New(path+" "+message)) })
	return errors.Join(errs...)
}

// Guard returns the guard in force, nil when the unified API is open.
func (k *Keyring) Guard() *Guard {
	if k == nil {
		return nil
	}
	return k.guard.Load()
}

// newGuard makes the guard for the keys of the configuration and those issued.
func (k *Keyring) newGuard(issued []Issued) *Guard {
	if !k.settings.Enabled || len(k.settings.Keys)+len(issued) == 0 {
		return nil
	}
	g := &Guard{keys: make(map[[sha256.Size]byte]*holder)}
	for _, key := range k.settings.Keys {
		g.add(key)
	}
	for _, key := range issued {
		if key.RevokedAt.IsZero() {
			g.add(key.Key)
		}
	}
	return g
}

// Enforced tells whether the unified API asks for keys.
func (k *Keyring) Enforced() bool { return k.settings.Enabled }

// Static returns the keys of the configuration.
func (k *Keyring) Static() []Key { return k.settings.Clone().Keys }

// Issued returns the keys that were issued, in that order.
func (k *Keyring) Issued() []Issued {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.issued)
}

// Check reports what is wrong with a key that is to be issued, by the names of
// its fields.
func (k Key) Check(report func(path, message string)) {
	const longest = 128
	name := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("-_.:", r)
	}
	if strings.ContainsFunc(k.ID, name) || len(k.ID) > longest {
		report("id", "may hold letters, digits and - _ . : only, at most 128")
	}
	if len(k.Tenant) > longest {
		report("tenant", "must not be longer than 128 bytes")
	}
	k.checkScope("", report)
}

// Issue makes a key with the id, tenant, scope and expiry that are asked for,
// and returns its text, which is kept nowhere. A key without an id gets one. The
// id of a revoked key may be used again. A dry run changes nothing and returns
// no text.
func (k *Keyring) Issue(wanted Key, by string, now time.Time, dryRun bool) (text string, issued Issued, err error) {
	if wanted.ID == "" {
		wanted.ID = "key-" + strings.ToLower(rand.Text()[:10])
	}
	secret := make([]byte, keyBytes)
	_, _ = rand.Read(secret) // never fails
	text = keyPrefix + base64.RawURLEncoding.EncodeToString(secret)
	sum := sha256.Sum256([]byte(text))
	wanted.KeySHA256 = hex.EncodeToString(sum[:])
	issued = Issued{Key: wanted, CreatedAt: now.UTC().Truncate(time.Second), CreatedBy: by}

	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.ContainsFunc(k.settings.Keys, func(key Key) bool { return key.ID == wanted.ID }) {
		return "", Issued{}, fmt.Errorf("%w: %s", ErrKeyExists, wanted.ID)
	}
	next := slices.Clone(k.issued)
	if n := k.find(wanted.ID); n >= 0 {
		if next[n].RevokedAt.IsZero() {
			return "", Issued{}, fmt.Errorf("%w: %s", ErrKeyExists, wanted.ID)
		}
		next = slices.Delete(next, n, n+1)
	}
	if dryRun {
		return "", issued, nil
	}
	if err := k.save(append(next, issued)); err != nil {
		return "", Issued{}, err
	}
	return text, issued, nil
}

// Revoke makes a key useless.
func (k *Keyring) Revoke(id string, now time.Time, dryRun bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.ContainsFunc(k.settings.Keys, func(key Key) bool { return key.ID == id }) {
		return fmt.Errorf("%w: %s", ErrKeyStatic, id)
	}
	n := k.find(id)
	if n < 0 {
		return fmt.Errorf("%w: %s", ErrNoKey, id)
	}
	if !k.issued[n].RevokedAt.IsZero() {
		return fmt.Errorf("%w: %s", ErrKeyRevoked, id)
	}
	if dryRun {
		return nil
	}
	next := slices.Clone(k.issued)
	next[n].RevokedAt = now.UTC().Truncate(time.Second)
	return k.save(next)
}

func (k *Keyring) find(id string) int {
	return slices.IndexFunc(k.issued, func(key Issued) bool { return key.ID == id })
}

// save puts the keys on disk, and then into force.
func (k *Keyring) save(next []Issued) error {
	data, err := json.Marshal(struct {
		Keys []Issued `json:"keys"`
	}{next}, json.Deterministic(true), jsontext.WithIndent("  "))
	if err == nil {
		err = k.dir.Write(keysFile, append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKeySave, err)
	}
	k.issued = next
	k.guard.Store(k.newGuard(next))
	return nil
}
