package versions

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/stored"
	"github.com/patchbay-ai/patchbay/internal/config/control/vouch"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/store/mark"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// ErrForged means that the signature of a version, or of the head of a log, is wrong.
var ErrForged = say.Error("manage.forged")

// Advice for secrets that cannot be read, or signatures that cannot be checked.
const (
	helpWrongKey = "set security.master-key to the key with which they were encrypted"
	helpDamaged  = "the key is right, but the stored version was changed; restore it from a backup"
	helpUnknown  = "set security.master-key to the key with which it was signed"
	helpForged   = "restore it from a backup"
)

// sealing encrypts the secrets of backends in a log, and signs its records. Nil keys do
// neither.
type sealing struct{ keys *seal.Keys }

// save writes a version with its secrets encrypted, and then its signature. A crash
// between them leaves a version without a signature that is not the current one.
func (s sealing) save(to Log, v *Version, write func(*Version) error) error {
	if s.keys == nil {
		return write(v)
	}
	sealed := v.sealed(s.keys)
	signature, err := sealed.sign(s.keys, v.Services, v.Settings)
	if err != nil {
		return err
	}
	record := Record(v.Number)
	before, err := to.Signature(record)
	if err == nil && before != "" && before != signature {
		err = to.SetSignature(record, "") // the old signature would not fit the new record
	}
	if err == nil {
		err = write(sealed)
	}
	if err == nil {
		err = to.SetSignature(record, signature)
	}
	return err
}

// sign returns the signature of a stored version, which has these services and settings.
func (v *Version) sign(keys *seal.Keys, services Services, managed config.Managed) (string, error) {
	record, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return "", err
	}
	return vouch.Version{Number: v.Number, Record: record, Services: services, Settings: managed,
		Restore: v.restore}.Sign(keys)
}

// load reads a version, checks its signature and opens its secrets.
func (s sealing) load(from Log, number int) (*Version, error) {
	v, err := from.Load(number)
	if err != nil {
		return nil, err
	}
	signature, err := from.Signature(Record(number))
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", number, err)
	}
	return s.read(v, signature)
}

// read returns a stored version with its secrets readable, if its signature is right.
func (s sealing) read(sealed *Version, signature string) (*Version, error) {
	v, err := sealed.opened(s.keys)
	if err != nil {
		return nil, err
	}
	if s.keys == nil && signature == "" {
		return v, nil
	}
	doubts, err := vouch.Version{Number: v.Number, Record: sealed.record, Services: v.Services,
		Settings: v.Settings}.Verify(s.keys, signature)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", v.Number, signatureFault(err))
	}
	v.Services, v.restore = vouch.WithDoubts(v.Services, doubts), doubts.Restore()
	return v, nil
}

// signatureFault describes the fault of a signature, with advice.
func signatureFault(err error) error {
	switch {
	case errors.Is(err, seal.ErrKey):
		return fmt.Errorf("%w: %s: %w", mark.ErrMasterKey, helpUnknown, err)
	case errors.Is(err, seal.ErrForged):
		return fmt.Errorf("%w; %s", ErrForged, helpForged)
	}
	return err
}

// checkHead returns ErrForged if the signature of a head is wrong.
func (s sealing) checkHead(of Log, head Head) error {
	if s.keys == nil || head.Version == 0 {
		return nil
	}
	signature, err := of.Signature(RecordHead)
	if err != nil {
		return err
	}
	if err := head.signed().Verify(s.keys, signature); err != nil {
		return fmt.Errorf("the record of the current version: %w", signatureFault(err))
	}
	return nil
}

// signHead stores the signature of a head.
func (s sealing) signHead(of Log, head Head) error {
	if s.keys == nil {
		return nil
	}
	return of.SetSignature(RecordHead, head.Sign(s.keys))
}

// signed returns the signed part of a head.
func (h Head) signed() vouch.Head {
	return vouch.Head{Version: h.Version, Newest: h.Newest, Source: h.Source, Log: h.Log, Revision: h.Revision}
}

// Sign returns the signature of a head of a shared log.
func (h Head) Sign(keys *seal.Keys) string { return h.signed().Sign(keys) }

// SealedStore is a Store that encrypts the secrets of backends and signs its records.
type SealedStore struct {
	Store
	sealing
}

// NewSealedStore returns a store that is encrypted and signed with keys, which may be nil.
func NewSealedStore(store Store, keys *seal.Keys) SealedStore {
	return SealedStore{store, sealing{keys}}
}

// Save writes a version, encrypted and signed.
func (s SealedStore) Save(v *Version) error { return s.save(s.Store, v, s.Store.Save) }

// Load returns a version with a right signature and readable secrets.
func (s SealedStore) Load(number int) (*Version, error) { return s.load(s.Store, number) }

// LoadUnsigned returns a version with readable secrets, whatever its signature.
func (s SealedStore) LoadUnsigned(number int) (*Version, error) {
	v, err := s.Store.Load(number)
	if err != nil {
		return nil, err
	}
	return v.opened(s.keys)
}

// SetHead writes the head, encrypted and signed.
func (s SealedStore) SetHead(head Head) error {
	if s.keys != nil && len(head.File) > 0 {
		var services Services
		if err := json.Unmarshal(head.File, &services); err != nil {
			return err
		}
		head.File = stored.WithoutDefaults(vouch.Seal(s.keys, services))
		head.FileSettings, _ = head.FileSettings.MapSecrets(backend.Sealing(s.keys))
	}
	if err := s.Store.SetHead(head); err != nil {
		return err
	}
	return s.signHead(s.Store, head)
}

// Head returns the head, if its signature is right, with its secrets readable.
func (s SealedStore) Head() (Head, error) {
	head, err := s.Store.Head()
	if err != nil {
		return head, err
	}
	if err := s.checkHead(s.Store, head); err != nil {
		return head, err
	}
	if head.FileSettings, err = opened(s.keys, head.FileSettings); err != nil {
		return head, err
	}
	if !bytes.Contains(head.File, []byte(`"sealed`)) {
		return head, nil
	}
	var services Services
	if err := json.Unmarshal(head.File, &services); err != nil {
		return head, nil //nolint:nilerr // lastApplied finds out what to do about it
	}
	if services, err = services.opened(s.keys); err != nil {
		return head, err
	}
	head.File = stored.WithoutDefaults(services)
	return head, nil
}

// SealedShared is a Shared that encrypts the secrets of backends and signs its records.
type SealedShared struct {
	Shared
	sealing
	// checked is the last head with a verified signature.
	checked *Head
}

// NewSealedShared returns a shared log that is encrypted and signed with keys, which may
// be nil.
func NewSealedShared(shared Shared, keys *seal.Keys) SealedShared {
	return SealedShared{shared, sealing{keys}, new(Head)}
}

// Begin opens a transaction that encrypts and signs its writes.
func (s SealedShared) Begin(ctx context.Context, write bool) (Transaction, error) {
	tx, err := s.Shared.Begin(ctx, write)
	if err != nil {
		return nil, err
	}
	return sealedTransaction{tx, s.sealing, s.checked}, nil
}

type sealedTransaction struct {
	Transaction
	sealing
	checked *Head
}

func (t sealedTransaction) Save(v *Version) error {
	return t.save(t.Transaction, v, t.Transaction.Save)
}

func (t sealedTransaction) Load(number int) (*Version, error) { return t.load(t.Transaction, number) }

func (t sealedTransaction) Head() (Head, error) {
	head, err := t.Transaction.Head()
	if err != nil || head.signed() == t.checked.signed() {
		return head, err
	}
	if err := t.checkHead(t.Transaction, head); err != nil {
		return head, err
	}
	*t.checked = head
	return head, nil
}

func (t sealedTransaction) SetHead(head Head) error {
	if err := t.Transaction.SetHead(head); err != nil {
		return err
	}
	return t.signHead(t.Transaction, head)
}

func (t sealedTransaction) Initialise(first Head) (bool, error) {
	isFirst, err := t.Transaction.Initialise(first)
	if err != nil || !isFirst {
		return isFirst, err
	}
	return true, t.signHead(t.Transaction, first)
}

func (t sealedTransaction) PutValue(name string, revision int64, value []byte) error {
	if err := t.Transaction.PutValue(name, revision, value); err != nil || t.keys == nil {
		return err
	}
	return t.SetValueSignature(name, t.keys.SignValue(name, value))
}

// sealed returns the version as it is stored.
func (v *Version) sealed(keys *seal.Keys) *Version {
	sealed := *v
	sealed.Services = vouch.Seal(keys, v.Services)
	sealed.Settings, _ = v.Settings.MapSecrets(backend.Sealing(keys))
	return &sealed
}

// opened returns the version with its secrets readable.
func (v *Version) opened(keys *seal.Keys) (*Version, error) {
	services, err := v.Services.opened(keys)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", v.Number, err)
	}
	managed, err := opened(keys, v.Settings)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", v.Number, err)
	}
	read := *v
	read.Services, read.Settings = services, managed
	return &read, nil
}

// opened returns sections with their secrets readable.
func opened(keys *seal.Keys, sections config.Managed) (config.Managed, error) {
	readable, err := sections.MapSecrets(backend.Opening(keys))
	return readable, keyFault(err)
}

func (s Services) opened(keys *seal.Keys) (Services, error) {
	opened, err := vouch.Open(keys, s)
	return opened, keyFault(err)
}

// keyFault describes why a secret cannot be read, with advice.
func keyFault(err error) error {
	if err == nil {
		return nil
	}
	help := helpWrongKey
	if errors.Is(err, seal.ErrDamaged) {
		help = helpDamaged
	}
	return fmt.Errorf("%w: %s: %w", mark.ErrMasterKey, help, err)
}
