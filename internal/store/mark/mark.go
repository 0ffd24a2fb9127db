// Package mark describes the data of a place: its format, and the master key that signs it. The mark is no
// authority: each record is verified by itself. It keeps a gateway from data that it cannot read, or that
// patchbay rekey has yet to sign.
package mark

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Why data is refused.
var (
	// ErrFormat means that the data has another format.
	ErrFormat = errors.New("the stored data is of another format")
	// ErrMasterKey means that security.master-key does not fit the data.
	ErrMasterKey = errors.New("security.master-key is missing or does not fit what is stored")
)

// Refuses reports whether data is refused with an error, and was not changed.
func Refuses(err error) bool { return errors.Is(err, ErrFormat) || errors.Is(err, ErrMasterKey) }

// Format is the number of the present format.
const Format = 1

// Mark describes the data of a place.
type Mark struct {
	Format int `json:"format"`
	// Key is the id of the master key, empty if nothing is signed. Next is the id of the key with which
	// patchbay rekey is replacing it, empty if it is not.
	Key  string `json:"key,omitzero"`
	Next string `json:"next,omitzero"`
	// Proof is the signature of Key and Next with the next key: nobody else makes rekey go on from there.
	Proof string `json:"proof,omitzero"`
}

// Of returns the mark of data that is signed with keys, which may be nil.
func Of(keys *seal.Keys) Mark { return Mark{Format: Format, Key: keys.ID()} }

// Begin returns the mark of data that keys begin to replace the key with an id on.
func Begin(from string, keys *seal.Keys) Mark {
	m := Mark{Format: Format, Key: from, Next: keys.ID()}
	m.Proof = keys.Sign(m.parts()...)
	return m
}

func (m Mark) parts() []string { return []string{"rekey", m.Key, m.Next} }

// IsBegunWith reports whether one of the keys began to replace the key of the data.
func (m Mark) IsBegunWith(keys *seal.Keys) bool {
	return m.Next != "" && keys != nil && keys.Verify(m.Proof, m.parts()...) == nil
}

// Read reads a mark.
func Read(text []byte) (m Mark, err error) {
	if err = json.Unmarshal(text, &m); err == nil && m.Format != Format {
		err = fmt.Errorf("it has the number %d", m.Format)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w; use the release that wrote it", ErrFormat, err)
	}
	return m, err
}

// Text returns the mark as it is stored.
func (m Mark) Text() []byte {
	text, _ := json.Marshal(m, json.Deterministic(true)) // it has a number and texts
	return append(text, '\n')
}

// Missing returns the error about data without a mark, of which something was found at a place.
func Missing(place, found string) error {
	return fmt.Errorf("%w: %s has %s and no mark of its format, as unreleased programs before v0.1.0 left it. "+
		"Nothing was changed. Take the configuration file to an empty place, or go on with the program that wrote it",
		ErrFormat, place, found)
}

// Check returns an error unless the data of a place is whole and signed with keys, which may be nil.
func (m Mark) Check(place string, keys *seal.Keys) error {
	const rekey = "stop all gateways and run patchbay rekey"
	is, id := keyNamed(m.Key), keys.ID()
	switch {
	case m.Next != "":
		return fmt.Errorf("%w: patchbay rekey has not finished replacing %s in %s by %s; run it again with the same "+
			"keys", ErrMasterKey, is, place, keyNamed(m.Next))
	case m.Key == id:
		return nil
	case m.Key == "":
		return fmt.Errorf("%w: %s is not signed, and the master key is %s. Nothing was changed. If it was signed "+
			"before, somebody changed it: restore a backup. To sign what is there, %s", ErrMasterKey, place, id, rekey)
	case id == "":
		return fmt.Errorf("%w: %s is signed with %s, and there is none; set security.master-key to it", ErrMasterKey,
			place, is)
	}
	return fmt.Errorf("%w: %s is signed with %s, not with %s. Nothing was changed. Set security.master-key to the "+
		"key of the data or, to replace that, set security.previous-master-key to it, %s", ErrMasterKey, place, is, id,
		rekey)
}

func keyNamed(id string) string {
	if id == "" {
		return "no master key"
	}
	return "the master key " + id
}
