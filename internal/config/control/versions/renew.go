package versions

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/config/control/vouch"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
)

// At the start, records that are stored as plain text or with the previous master key are
// encrypted with the current one, and signed with it if they were signed before. The
// first start of a release that signs also signs unsigned records. It does so once: if
// there is a signature, or a secret that such a release has encrypted, somebody has
// removed the other signatures.

// rewriter is a store that can change its versions in place.
type rewriter interface {
	// Rewrite calls change with every version and its signature, and stores the version
	// and the signature that it returns; a nil version stays as it is. An error of change
	// ends it.
	Rewrite(change func(v *Version, signature string) (*Version, string, error)) error
}

// Renewal brings a log up to date with the keys.
type Renewal struct {
	Log *slog.Logger
	// Where names the log of versions in log messages.
	Where string
	// SignsExisting says that records without a signature are signed, if nothing speaks
	// against it.
	SignsExisting bool
	// File are the services of the configuration file.
	File Services

	sealing
	file vouch.Trust // knows the instances of File
	// Findings of the first look.
	isSigned, isMarked bool
	// Counts of renewed records.
	sealed, signed int
	found          map[string]bool
}

func (r *Renewal) begin(with sealing) {
	r.sealing, r.found = with, map[string]bool{}
	r.file.Add(r.File)
}

// IsSigned reports whether the log is signed, perhaps for the first time.
func (r *Renewal) IsSigned() bool { return r.isSigned || r.signed > 0 }

// Found returns the instances, with their service types, that may not send their
// referenced secrets, because the services of the configuration file do not refer to them
// in the same way.
func (r *Renewal) Found() []string { return slices.Sorted(maps.Keys(r.found)) }

// isFirst reports whether records without a signature are signed.
func (r *Renewal) isFirst() bool { return r.SignsExisting && !r.isSigned && !r.isMarked }

// look checks that a stored version can be read, and notes signs of an earlier signing
// release. It logs a wrong signature, which is an error when the version is to be used.
func (r *Renewal) look(v *Version, signature string) error {
	r.isSigned = r.isSigned || signature != ""
	r.isMarked = r.isMarked || vouch.HasMarks(r.keys, v.Services, v.Settings)
	_, err := r.read(v, signature)
	if errors.Is(err, ErrForged) {
		r.Log.Error("a stored version is not used any more", "of", r.Where, "error", err)
		return nil
	}
	return err
}

// renew returns a stored version and its signature as they should be; nil means that the
// version needs no change.
func (r *Renewal) renew(v *Version, signature string) (next *Version, nextSignature string, err error) {
	opened, err := r.read(v, signature)
	if errors.Is(err, ErrForged) {
		return nil, signature, nil
	}
	if err != nil {
		return nil, signature, err
	}
	nextSignature = signature
	switch {
	case signature == "" && r.isFirst():
		opened.Services = r.file.Find(opened.Services)
		r.noteFound(opened.Services)
		fallthrough
	case signature != "" && !vouch.IsCurrent(r.keys, signature):
		v.restore = opened.restore
		if nextSignature, err = v.sign(r.keys, opened.Services, opened.Settings); err != nil {
			return nil, signature, err
		}
		r.signed++
	}
	if vouch.NeedsSealing(r.keys, v.Services, v.Settings) {
		next = opened.sealed(r.keys)
		r.sealed++
	}
	return next, nextSignature, nil
}

func (r *Renewal) noteFound(services Services) {
	for serviceType, service := range services {
		for i := range service.Instances {
			if service.Instances[i].Doubt == backend.DoubtFound {
				r.found[serviceType.String()+"/"+service.Instances[i].ID()] = true
			}
		}
	}
}

// report logs the number of renewed records.
func (r *Renewal) report() {
	if r.sealed > 0 {
		r.Log.Info("the secrets of stored versions are encrypted now", "of", r.Where, "versions", r.sealed,
			"key", r.keys.ID())
	}
	if r.signed > 0 {
		r.Log.Info("stored versions are signed now; from now on nobody changes them without the master key",
			"of", r.Where, "versions", r.signed, "key", r.keys.ID())
	}
	if r.isMarked && !r.isSigned {
		r.Log.Error("the signatures of the stored versions were removed; their secrets are sent only to the "+
			"addresses that the configuration file has", "of", r.Where)
	}
}

// Renew brings the store in the data directory up to date. Before it signs records for
// the first time it calls a function, which may be nil.
func (s SealedStore) Renew(r *Renewal, beforeFirst func() error) error {
	r.begin(s.sealing)
	files, canRewrite := s.Store.(rewriter)
	if s.keys == nil || !canRewrite {
		return nil
	}
	isSigned, err := s.IsSigned()
	if err != nil {
		return err
	}
	r.isSigned = isSigned
	if err := files.Rewrite(func(v *Version, signature string) (*Version, string, error) {
		return nil, signature, r.look(v, signature)
	}); err != nil {
		return err
	}
	if r.isFirst() && beforeFirst != nil {
		if err := beforeFirst(); err != nil {
			return err
		}
	}
	if err := files.Rewrite(r.renew); err != nil {
		return err
	}
	r.report()
	head, err := s.Head()
	if err != nil || head.Version == 0 {
		return ignoreUnreadable(err)
	}
	return s.SetHead(head)
}

// ignoreUnreadable returns an error of the head that ends the start. A damaged head does
// not end it.
func ignoreUnreadable(err error) error {
	if errors.Is(err, ErrMasterKey) || errors.Is(err, ErrForged) {
		return err
	}
	return nil
}

// Renew brings the shared log up to date.
func (s SealedShared) Renew(ctx context.Context, r *Renewal) error {
	r.begin(s.sealing)
	if s.keys == nil {
		return nil
	}
	todo, err := s.look(ctx, r)
	if err == nil && len(todo) > 0 {
		err = s.renew(ctx, r, todo)
	}
	if err == nil {
		r.report()
	}
	return err
}

// look returns the versions of the shared log that renew changes.
func (s SealedShared) look(ctx context.Context, r *Renewal) ([]*Version, error) {
	tx, err := s.Shared.Begin(ctx, false)
	if err != nil {
		return nil, err
	}
	defer tx.End()
	if r.isSigned, err = tx.IsSigned(); err != nil {
		return nil, err
	}
	versions, signatures, err := storedVersions(tx)
	if err != nil {
		return nil, err
	}
	for i, v := range versions {
		if err := r.look(v, signatures[i]); err != nil {
			return nil, err
		}
	}
	dry := *r
	dry.found = map[string]bool{}
	var todo []*Version
	for i, v := range versions {
		next, nextSignature, err := dry.renew(v, signatures[i])
		if err != nil {
			return nil, err
		}
		if next != nil || nextSignature != signatures[i] {
			todo = append(todo, v)
		}
	}
	return todo, nil
}

// storedVersions returns the versions of a log as they are stored. It leaves out versions
// that cannot be decoded; they are reported when they are used.
func storedVersions(tx Transaction) (versions []*Version, signatures []string, err error) {
	numbers, err := tx.Versions()
	if err != nil {
		return nil, nil, err
	}
	for _, number := range numbers {
		v, err := tx.Load(number)
		if err != nil {
			continue
		}
		signature, err := tx.Signature(Record(number))
		if err != nil {
			return nil, nil, err
		}
		versions, signatures = append(versions, v), append(signatures, signature)
	}
	return versions, signatures, nil
}

// renew stores versions of the shared log again, and signs the head and the values as it
// signs the versions.
func (s SealedShared) renew(ctx context.Context, r *Renewal, todo []*Version) error {
	tx, err := s.Shared.Begin(ctx, true)
	if err != nil {
		return err
	}
	defer tx.End()
	if isSigned, err := tx.IsSigned(); err != nil {
		return err
	} else if isSigned {
		r.isSigned = true // another gateway was faster
	}
	for _, v := range todo {
		signature, err := tx.Signature(Record(v.Number))
		if err != nil {
			return err
		}
		next, nextSignature, err := r.renew(v, signature)
		if err == nil && nextSignature != signature {
			err = tx.SetSignature(Record(v.Number), nextSignature)
		}
		if err == nil && next != nil {
			err = tx.Replace(next)
		}
		if err != nil {
			return err
		}
	}
	if err := r.renewHead(tx); err != nil {
		return err
	}
	if err := r.renewValues(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// renewHead signs the head of a shared log anew, if it was signed or everything is signed
// for the first time.
func (r *Renewal) renewHead(tx Transaction) error {
	head, err := tx.Head()
	if err != nil {
		return err
	}
	signature, err := tx.Signature(RecordHead)
	if err != nil {
		return err
	}
	isSigned, _, err := head.signed().Verify(r.keys, signature)
	if err != nil {
		return signatureFault(err)
	}
	if isSigned && vouch.IsCurrent(r.keys, signature) || !isSigned && !r.isFirst() {
		return nil
	}
	return r.signHead(tx, head)
}

// renewValues is renewHead for the values.
func (r *Renewal) renewValues(tx Transaction) error {
	values, err := tx.Values(0)
	if err != nil {
		return err
	}
	signatures, err := tx.ValueSignatures()
	if err != nil {
		return err
	}
	for name, value := range values {
		isSigned := r.keys.Trust(name, value, signatures[name]).IsTrusted
		if isSigned && r.keys.IsCurrent(signatures[name]) || !isSigned && !r.isFirst() {
			continue
		}
		if err := tx.SetValueSignature(name, r.keys.SignValue(name, value)); err != nil {
			return err
		}
	}
	return nil
}
