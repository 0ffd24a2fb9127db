// Package seal encrypts the secrets that are stored with the configuration, and signs
// stored records, with a master key that is not stored there. Other keys that gateways
// have in common are derived from it.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	// MinKeyLength is how long a master key must be. It is meant to be random, such as
	// 32 bytes in base64, and not a password.
	MinKeyLength = 32

	version  = "v1"
	keyBytes = 32
	idBytes  = 4
)

// ErrKey means that a key was used that is not among the Keys.
var ErrKey = errors.New("another master key is needed")

// ErrDamaged means that a sealed secret was changed, or belongs somewhere else.
var ErrDamaged = errors.New("the encrypted secret is damaged or was moved from another place")

// ErrForged means that a signature does not belong to the record beside it.
var ErrForged = errors.New("the signature is wrong")

// Keys are the master keys: the current one, which encrypts secrets and signs records,
// and perhaps a previous one. Nil Keys do neither.
type Keys struct {
	current *key
	byID    map[string]*key
}

type key struct {
	id   string
	aead cipher.AEAD
	// signing makes signatures, and deriving the keys for other purposes.
	signing, deriving []byte
}

// New returns keys made of texts. Without a current one it returns nil; the previous one
// may be empty.
func New(current, previous string) (*Keys, error) {
	if current == "" {
		return nil, nil
	}
	k := &Keys{byID: map[string]*key{}}
	for _, text := range []string{current, previous} {
		if text == "" {
			continue
		}
		made, err := newKey(text)
		if err != nil {
			return nil, err
		}
		if k.current == nil {
			k.current = made
		}
		k.byID[made.id] = made
	}
	return k, nil
}

func newKey(text string) (*key, error) {
	derived := func(purpose string, length int) []byte {
		// It fails for lengths of several kilobytes only.
		made, _ := hkdf.Key(sha256.New, []byte(text), nil, purpose, length)
		return made
	}
	block, err := aes.NewCipher(derived("patchbay secrets "+version, keyBytes))
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &key{
		id: hex.EncodeToString(derived("patchbay key id", idBytes)), aead: aead,
		signing:  derived("patchbay signatures "+version, keyBytes),
		deriving: derived("patchbay derived keys "+version, keyBytes),
	}, nil
}

// ID names the current key without revealing it.
func (k *Keys) ID() string {
	if k == nil {
		return ""
	}
	return k.current.id
}

// Derive fills a key for a purpose. It is the same wherever the current key is, and
// reveals nothing about the current key.
func (k *Keys) Derive(purpose string, key []byte) {
	// It fails for lengths of several kilobytes only.
	made, _ := hkdf.Expand(sha256.New, k.current.deriving, purpose, len(key))
	copy(key, made)
}

// Seal encrypts a text for a place. It can be opened for the same place only.
func (k *Keys) Seal(place, text string) string {
	nonce := make([]byte, k.current.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	sealed := k.current.aead.Seal(nonce, nonce, []byte(text), []byte(place))
	return k.current.label(sealed)
}

// Open returns the text that was sealed for a place.
func (k *Keys) Open(place, sealed string) (string, error) {
	by, data, err := k.read(sealed)
	if err != nil {
		return "", err
	}
	size := by.aead.NonceSize()
	if len(data) < size {
		return "", ErrDamaged
	}
	plain, err := by.aead.Open(nil, data[:size], data[size:], []byte(place))
	if err != nil {
		return "", ErrDamaged
	}
	return string(plain), nil
}

// Sign returns the signature of a record that consists of parts.
func (k *Keys) Sign(parts ...string) string { return k.current.label(sum(k.current.signing, parts)) }

// Verify returns ErrForged unless a signature belongs to these parts. ErrKey means that
// it was made with a key that is not among the Keys.
func (k *Keys) Verify(signature string, parts ...string) error {
	by, data, err := k.read(signature)
	switch {
	case errors.Is(err, ErrKey):
		return err
	case err != nil || !hmac.Equal(data, sum(by.signing, parts)):
		return ErrForged
	}
	return nil
}

// sum returns the HMAC of parts. Their lengths are included: no part can be taken for the
// end of another.
func sum(key []byte, parts []string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}

// label writes bytes as a text with the id of the key that made them, and read returns
// both.
func (k *key) label(data []byte) string {
	return strings.Join([]string{version, k.id, base64.RawURLEncoding.EncodeToString(data)}, ".")
}

func (k *Keys) read(text string) (by *key, data []byte, err error) {
	form, id, encoded := split(text)
	if form != version {
		return nil, nil, ErrDamaged
	}
	if k == nil || k.byID[id] == nil {
		return nil, nil, fmt.Errorf("%w (its id is %s)", ErrKey, id)
	}
	data, err = base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, nil, ErrDamaged
	}
	return k.byID[id], data, nil
}

// Knows reports whether a text was sealed, or a signature made, with one of the keys.
func (k *Keys) Knows(text string) bool {
	_, id, _ := split(text)
	return k != nil && k.byID[id] != nil
}

// IsCurrent reports whether a text was sealed, or a signature made, with the current key.
func (k *Keys) IsCurrent(sealed string) bool {
	_, id, _ := split(sealed)
	return k != nil && id == k.current.id
}

func split(sealed string) (form, id, data string) {
	form, rest, _ := strings.Cut(sealed, ".")
	id, data, _ = strings.Cut(rest, ".")
	return form, id, data
}

// Check describes the fault of a text as a master key; empty means none.
func Check(text string) string {
	if len(text) < MinKeyLength {
		return fmt.Sprintf("must have at least %d characters; `openssl rand -base64 32` makes one", MinKeyLength)
	}
	return ""
}
