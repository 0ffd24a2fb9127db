package store

import (
	"errors"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Rekeying is a change of the master key of a place where no gateway runs. It may follow one that was killed:
// what has the new key already stays.
type Rekeying struct {
	// Keys are the new key, which is the current one, and the old one, and Old is the old one alone. If there is
	// none, data without a signature is signed.
	Keys, Old *seal.Keys
	IsFirst   bool
	// Path returns the path of a declared file or folder.
	Path func(name string) string
	// Done counts a record that has the new key or, with an error, names one that stays as it is, because
	// neither key has signed it.
	Done func(what string, err error)
}

// ErrUnsigned means that a record has no signature.
var ErrUnsigned = errors.New("it is not signed")

// Verify returns an error unless a signature was made with one of the keys, or there is none and none is needed.
func (r *Rekeying) Verify(signature string, parts ...string) error {
	switch {
	case signature != "":
		return r.Keys.Verify(signature, parts...)
	case r.IsFirst:
		return nil
	}
	return ErrUnsigned
}

// Resigned returns a text that ends with a space and the signature of parts and the rest of it, signed with the
// current key; with an error it is the same text.
func (r *Rekeying) Resigned(text string, parts ...string) (string, error) {
	at := strings.LastIndexByte(text, ' ')
	plain, signature := text[:max(at, 0)], text[at+1:]
	if !strings.HasPrefix(signature, "v1.") {
		plain, signature = text, ""
	}
	parts = append(parts, plain)
	if err := r.Verify(signature, parts...); err != nil {
		return text, err
	}
	return plain + " " + r.Keys.Sign(parts...), nil
}
