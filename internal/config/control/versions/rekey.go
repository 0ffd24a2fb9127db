package versions

import (
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/config/control/vouch"
	"github.com/patchbay-ai/patchbay/internal/store"
)

// Rewriter is a store that can change its versions in place.
type Rewriter interface {
	Store
	// Rewrite calls change with every version and its signature, and stores the version
	// and the signature that it returns; a nil version stays as it is. An error of change
	// ends it.
	Rewrite(change func(v *Version, signature string) (*Version, string, error)) error
}

// Rekey signs and seals the versions and the head of a store with the current key.
func Rekey(of Rewriter, r *store.Rekeying) error {
	s := NewSealedStore(of, r.Keys)
	err := of.Rewrite(func(v *Version, signature string) (*Version, string, error) {
		next, nextSignature, err := s.rekey(v, signature, r.IsFirst)
		r.Done(fmt.Sprintf("version %d", v.Number), err)
		return next, nextSignature, nil
	})
	if err != nil {
		return err
	}
	head, err := s.Head()
	if err == nil && head.Version > 0 {
		err = s.SetHead(head)
	}
	r.Done("the record of the current version", err)
	return nil
}

// rekey returns a stored version and its signature with the current key; nil means that the version needs no
// change.
func (s sealing) rekey(v *Version, signature string, isFirst bool) (*Version, string, error) {
	var opened *Version
	var err error
	if isFirst && signature == "" {
		opened, err = v.opened(s.keys)
	} else {
		opened, err = s.read(v, signature)
	}
	if err != nil {
		return nil, signature, err
	}
	var next *Version
	if vouch.NeedsSealing(s.keys, v.Services, v.Settings) {
		next = opened.sealed(s.keys)
	}
	if vouch.IsCurrent(s.keys, signature) {
		return next, signature, nil
	}
	v.restore = opened.restore
	signature, err = v.sign(s.keys, opened.Services, opened.Settings)
	return next, signature, err
}
