package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Values are small records by name that the gateways of a shared configuration have in
// common beside its versions, such as "key/team-a". The text before the slash is the kind
// of a record. They are no part of a version, because a rollback must not bring back a
// revoked key.
type Values struct {
	shared Shared
	keys   *seal.Keys // sign the values; nil means that they are not signed
	log    *slog.Logger

	mu *sync.Mutex // guards shared and the fields below; in a gateway it is the lock of Control
	// origin is the log that was read last, empty before the first read, and
	// revision the last change of it that this gateway knows.
	origin   string
	revision int64
	// known has the values of the log or, before the first read, this gateway's own.
	known map[string]seal.Value
	// missing has this gateway's values of each kind that the log has no value of.
	missing   map[string]seal.Value
	followers []Follower
}

// Follower is told of values as they change. whole says that values holds all values of
// the log with this name. A Follower must not call Values.
type Follower func(log string, whole bool, values map[string]seal.Value)

// errNoLog means that no gateway has begun a shared configuration yet.
var errNoLog = errors.New("the shared configuration is empty")

func newValues(shared Shared, keys *seal.Keys, mu *sync.Mutex, log *slog.Logger) *Values {
	return &Values{shared: shared, keys: keys, mu: mu, log: log, known: map[string]seal.Value{}}
}

// OpenValues returns the values of a gateway's shared configuration for a program that is
// no gateway, nil where no gateway has begun it yet.
func OpenValues(ctx context.Context, doc *config.Document, shared Shared, log *slog.Logger) (*Values, error) {
	keys, err := doc.Security.MasterKeys()
	if err != nil {
		return nil, err
	}
	sealed := versions.NewSealedShared(shared, keys)
	tx, err := newLogTransaction(ctx, sealed, false)
	if err != nil {
		return nil, err
	}
	defer tx.End()
	if tx.head.Log == "" {
		return nil, nil
	}
	return newValues(sealed, keys, new(sync.Mutex), log), nil
}

// Close closes the connection to the database.
func (v *Values) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shared.Close()
}

// Follow tells followers of all values and of every change from now on. If the log has no
// values of a kind, it gets this gateway's own. An error means that the log could not be
// read; a gateway that follows its configuration tries again.
func (v *Values) Follow(ctx context.Context, own map[string]seal.Value, followers ...Follower) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.followers = followers
	maps.Copy(v.known, own)
	return v.refresh(ctx)
}

// refresh reads the log. The caller has the lock.
func (v *Values) refresh(ctx context.Context) error {
	tx, err := newLogTransaction(ctx, v.shared, false)
	if err != nil {
		return err
	}
	err = v.catchUp(tx)
	tx.End()
	if err != nil {
		return err
	}
	return v.supplyMissing(ctx)
}

// catchUp tells the followers of changes. It does nothing without followers. The caller
// has the lock, and calls supplyMissing after the transaction.
func (v *Values) catchUp(tx *logTransaction) error {
	if len(v.followers) == 0 || tx.head.Log == "" {
		return nil
	}
	newest, err := tx.NewestValue()
	if err != nil {
		return fmt.Errorf("shared values: %w", err)
	}
	whole := v.origin != tx.head.Log || newest < v.revision
	if !whole && newest == v.revision {
		return nil
	}
	since := v.revision
	if whole {
		since = 0
	}
	changed, err := v.read(tx, since)
	if err != nil {
		return fmt.Errorf("shared values: %w", err)
	}
	if v.missing = nil; whole {
		if v.missing = missingFrom(changed, v.known); len(v.missing) > 0 {
			return nil // the followers must not lose the values that supplyMissing will store
		}
	}
	v.notifyFollowers(tx.head.Log, newest, whole, changed)
	return nil
}

// read returns the values that changed after a change.
func (v *Values) read(tx Transaction, since int64) (map[string]seal.Value, error) {
	changed, err := tx.Values(since)
	if err != nil {
		return nil, err
	}
	var signatures map[string]string
	if v.keys != nil {
		if signatures, err = tx.ValueSignatures(); err != nil {
			return nil, err
		}
	}
	values := make(map[string]seal.Value, len(changed))
	for name, data := range changed {
		values[name] = v.keys.Trust(name, data, signatures[name])
	}
	return values, nil
}

// missingFrom returns this gateway's own values of the kinds that others have none of.
func missingFrom(others, own map[string]seal.Value) map[string]seal.Value {
	kinds := map[string]bool{}
	for name := range others {
		kinds[kindOf(name)] = true
	}
	missing := map[string]seal.Value{}
	for name, value := range own {
		if !kinds[kindOf(name)] {
			missing[name] = value
		}
	}
	return missing
}

func kindOf(name string) string {
	kind, _, _ := strings.Cut(name, "/")
	return kind
}

// supplyMissing stores the values that are missing from the log. The caller has the
// lock.
func (v *Values) supplyMissing(ctx context.Context) error {
	if len(v.missing) == 0 {
		return nil
	}
	tx, err := newLogTransaction(ctx, v.shared, true)
	if err != nil {
		return err
	}
	defer tx.End()
	newest, err := tx.NewestValue()
	if err != nil {
		return err
	}
	all, err := v.read(tx, 0)
	if err != nil {
		return err
	}
	// Another gateway may have been faster.
	for name, value := range missingFrom(all, v.known) {
		newest++
		if err := tx.PutValue(name, newest, value.Data); err != nil {
			return err
		}
		if !value.IsTrusted {
			if err := tx.SetValueSignature(name, ""); err != nil {
				return err
			}
		}
		all[name] = value
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	v.missing = nil
	v.notifyFollowers(tx.head.Log, newest, true, all)
	return nil
}

func (v *Values) notifyFollowers(log string, newest int64, whole bool, changed map[string]seal.Value) {
	if whole {
		clear(v.known)
	}
	maps.Copy(v.known, changed)
	v.origin, v.revision = log, newest
	for _, follower := range v.followers {
		follower(log, whole, changed)
	}
}

// Change applies news from the log, calls edit, and stores the value that edit returns,
// or removes it where it is nil. When Change returns, the followers on this gateway were
// told, unless the value was removed.
func (v *Values) Change(ctx context.Context, edit func() (name string, value []byte, err error)) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	tx, err := v.beginWrite(ctx)
	if err != nil {
		return refuse(v.log, err)
	}
	defer tx.End()
	name, value, err := edit()
	if err != nil {
		return err
	}
	newest := v.revision + 1
	if value == nil {
		err = tx.RemoveValue(name)
	} else {
		err = tx.PutValue(name, newest, value)
	}
	if err != nil {
		return refuse(v.log, err)
	}
	if err := tx.Commit(); err != nil {
		_ = refuse(v.log, err)
		return ErrUnconfirmed
	}
	if value == nil {
		delete(v.known, name)
		return nil
	}
	v.notifyFollowers(v.origin, newest, false, map[string]seal.Value{name: {Data: value, IsTrusted: true}})
	return nil
}

// beginWrite begins a write to the log, and applies its news.
func (v *Values) beginWrite(ctx context.Context) (*logTransaction, error) {
	if v.origin == "" {
		if err := v.refresh(ctx); err != nil {
			return nil, err
		}
	}
	tx, err := newLogTransaction(ctx, v.shared, true)
	if err != nil {
		return nil, err
	}
	if tx.head.Log == "" {
		err = errNoLog
	} else if err = v.catchUp(tx); err == nil && len(v.missing) > 0 {
		err = errors.New("the shared configuration was replaced a moment ago")
	}
	if err != nil {
		tx.End()
		return nil, err
	}
	return tx, nil
}
