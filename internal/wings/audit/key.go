package audit

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// PublicKey verifies the heads of a gateway.
type PublicKey struct {
	ID        string `json:"id" doc:"The first 16 hex digits of the SHA-256 of the key."`
	Gateway   string `json:"gateway"`
	Algorithm string `json:"algorithm" enum:"Ed25519"`
	PublicKey string `json:"publicKey" doc:"The 32 bytes of the key, in base64."`
	Since     string `json:"since" doc:"When it was made."`
	Until     string `json:"until,omitzero" doc:"When another key took its place."`
}

const algorithm = "Ed25519"

// bytes returns the key, nil if it is none.
func (k *PublicKey) bytes() ed25519.PublicKey {
	key, err := base64.StdEncoding.DecodeString(k.PublicKey)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil
	}
	return key
}

// Verifies reports whether the key made the signature of a head.
func (k *PublicKey) Verifies(h Head) bool { return k.verifies(h.signed(), h.Signature) }

func (k *PublicKey) verifies(text []byte, signature string) bool {
	key := k.bytes()
	decoded, err := base64.StdEncoding.DecodeString(signature)
	return err == nil && key != nil && ed25519.Verify(key, text, decoded)
}

// verifies reports whether one of the keys of a chain made a signature. A key without a gateway is
// one of every chain.
func verifies(keys []PublicKey, chain string, text []byte, signature string) bool {
	return slices.ContainsFunc(keys, func(k PublicKey) bool {
		return (k.Gateway == "" || k.Gateway == ownerOf(chain)) && k.verifies(text, signature)
	})
}

// ReadKeys reads public keys: the reply of GET /api/audit/keys, the file keys.json of a data
// directory, PEM, or a key in base64 on each line.
func ReadKeys(text []byte) (keys []PublicKey, err error) {
	var reply struct {
		Data []PublicKey `json:"data"`
	}
	if json.Unmarshal(text, &reply) == nil {
		keys = reply.Data
	} else if json.Unmarshal(text, &keys) != nil {
		keys = plainKeys(text)
	}
	for i := range keys {
		if keys[i].bytes() == nil {
			return nil, errors.New("it has a line that is no public key of Ed25519")
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no public key of Ed25519")
	}
	return keys, nil
}

// plainKeys reads keys of no gateway.
func plainKeys(text []byte) (keys []PublicKey) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if key, ok := parsed.(ed25519.PublicKey); ok && err == nil {
			keys = append(keys, PublicKey{PublicKey: base64.StdEncoding.EncodeToString(key)})
		}
	}
	if len(keys) > 0 {
		return keys
	}
	for line := range strings.FieldsSeq(string(text)) {
		keys = append(keys, PublicKey{PublicKey: line})
	}
	return keys
}

// signer signs the heads of a gateway, and authenticates its marks.
type signer struct {
	private ed25519.PrivateKey
	public  PublicKey
	// secret authenticates marks. It stays if another key signs.
	secret []byte
	// isNew is true if the key was not there when the gateway started.
	isNew bool
}

func (s *signer) signature(text []byte) string {
	return base64.StdEncoding.EncodeToString(ed25519.Sign(s.private, text))
}

func (s *signer) sign(h Head) Head {
	h.Signature = s.signature(h.signed())
	return h
}

// mac authenticates a text for this gateway alone.
func (s *signer) mac(text []byte) string {
	m := hmac.New(sha256.New, s.secret)
	m.Write([]byte(s.public.Gateway + "\n"))
	m.Write(text)
	return hex.EncodeToString(m.Sum(nil))
}

// idOf returns the id of an operation in progress, which proves that this gateway began it.
func (s *signer) idOf(nonce string, r *Record) string {
	return nonce + "." + s.mac(append([]byte("intent\n"+nonce+"\n"), canonical(r)...))
}

// signingFile has the key that signs, and place names it for the master key.
const (
	signingFile = "signing.key"
	place       = "audit/signing"
)

// storedKey is the seed of the signing key and the secret behind it, in its file: sealed by the
// master key, or as plain text.
type storedKey struct {
	Sealed string `json:"sealed,omitzero"`
	Seed   []byte `json:"seed,omitzero"`
	Since  string `json:"since"`
}

const secretSize = 32

func newSigner(gateway string, seed, secret []byte, since string) *signer {
	private := ed25519.NewKeyFromSeed(seed)
	public, _ := private.Public().(ed25519.PublicKey)
	return &signer{private: private, secret: secret, public: PublicKey{
		ID: digest(public)[:16], Gateway: gateway, Algorithm: algorithm, Since: since,
		PublicKey: base64.StdEncoding.EncodeToString(public),
	}}
}

// errUnreadableKey means that the signing key was sealed by a master key that is not known.
var errUnreadableKey = errors.New("the signing key of the audit cannot be read")

// Rekey seals the signing key in a folder with the current master key.
func Rekey(r *store.Rekeying, folder string) error {
	dir := durable.At(r.Path(folder))
	s, err := readSigner(dir, "", r.Keys, r.IsFirst)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = s.save(dir, r.Keys)
	}
	r.Done("the signing key of the audit", err)
	return nil
}

// openSigner reads the signing key of a directory.
func openSigner(dir *durable.Dir, gateway string, master *seal.Keys) (*signer, error) {
	return readSigner(dir, gateway, master, master == nil)
}

// readSigner is openSigner for a key that may be stored as plain text.
func readSigner(dir *durable.Dir, gateway string, master *seal.Keys, mayBePlain bool) (*signer, error) {
	text, err := dir.Read(signingFile)
	if err != nil {
		return nil, err
	}
	var stored storedKey
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("%w: %s is damaged", errUnreadableKey, signingFile)
	}
	seed := stored.Seed
	if stored.Sealed != "" || !mayBePlain {
		opened, err := master.Open(place, stored.Sealed)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUnreadableKey, err)
		}
		seed = []byte(opened)
	}
	if len(seed) != ed25519.SeedSize+secretSize {
		return nil, fmt.Errorf("%w: it has %d bytes", errUnreadableKey, len(seed))
	}
	return newSigner(gateway, seed[:ed25519.SeedSize], seed[ed25519.SeedSize:], stored.Since), nil
}

// makeSigner makes a new signing key. Without a secret it makes one as well.
func makeSigner(gateway string, secret []byte, now time.Time) *signer {
	if secret == nil {
		secret = make([]byte, secretSize)
		_, _ = rand.Read(secret) // never fails
	}
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed)
	return newSigner(gateway, seed, secret, Stamp(now))
}

func (s *signer) save(dir *durable.Dir, master *seal.Keys) error {
	stored, text := storedKey{Since: s.public.Since}, append(s.private.Seed(), s.secret...)
	if master != nil {
		stored.Sealed = master.Seal(place, string(text))
	} else {
		stored.Seed = text
	}
	content, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	return dir.Write(signingFile, content)
}
