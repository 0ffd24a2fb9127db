// Package seal encrypts the secrets that are stored with the configuration, with a
// master key that is not stored with them.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
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

// ErrKey means that a secret was encrypted with a key that is not among the Keys.
var ErrKey = errors.New("the secret was encrypted with another master key")

// ErrDamaged means that a sealed secret was changed, or belongs somewhere else.
var ErrDamaged = errors.New("the encrypted secret is damaged or was moved from another place")

// Keys are the master keys: the one with which secrets are encrypted, and perhaps one
// that was used before. Nil Keys encrypt nothing.
type Keys struct {
	current *key
	byID    map[string]*key
}

type key struct {
	id   string
	aead cipher.AEAD
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
	secret, err := hkdf.Key(sha256.New, []byte(text), nil, "patchbay secrets "+version, keyBytes)
	if err != nil {
		return nil, err
	}
	id, err := hkdf.Key(sha256.New, []byte(text), nil, "patchbay key id", idBytes)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &key{id: hex.EncodeToString(id), aead: aead}, nil
}

// ID names the current key without telling it.
func (k *Keys) ID() string {
	if k == nil {
		return ""
	}
	return k.current.id
}

// Seal encrypts a text for a place. It can be opened for the same place only.
func (k *Keys) Seal(place, text string) string {
	sealed := k.current.aead.Seal(nil, nil, []byte(text), []byte(place))
	return strings.Join([]string{version, k.current.id, base64.RawURLEncoding.EncodeToString(sealed)}, ".")
}

// Open returns the text that was sealed for a place.
func (k *Keys) Open(place, sealed string) (string, error) {
	form, id, data := split(sealed)
	if form != version {
		return "", ErrDamaged
	}
	if k == nil || k.byID[id] == nil {
		return "", fmt.Errorf("%w (its id is %s)", ErrKey, id)
	}
	bytes, err := base64.RawURLEncoding.DecodeString(data)
	if err != nil {
		return "", ErrDamaged
	}
	text, err := k.byID[id].aead.Open(nil, nil, bytes, []byte(place))
	if err != nil {
		return "", ErrDamaged
	}
	return string(text), nil
}

// IsCurrent tells whether a text was sealed with the current key.
func (k *Keys) IsCurrent(sealed string) bool {
	_, id, _ := split(sealed)
	return k != nil && id == k.current.id
}

func split(sealed string) (form, id, data string) {
	form, rest, _ := strings.Cut(sealed, ".")
	id, data, _ = strings.Cut(rest, ".")
	return form, id, data
}

// Check says what is wrong with a text as a master key; empty means nothing.
func Check(text string) string {
	if len(text) < MinKeyLength {
		return fmt.Sprintf("must have at least %d characters; `openssl rand -base64 32` makes one", MinKeyLength)
	}
	return ""
}
