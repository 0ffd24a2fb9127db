package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/seal"
)

// ErrMasterKey means that stored secrets cannot be read with security.master-key. Nothing
// is changed then.
var ErrMasterKey = errors.New("the stored secrets of backends cannot be read")

// What helps when stored secrets cannot be read.
const (
	helpWrongKey = "set security.master-key, or security.previous-master-key, to the key with which they were encrypted"
	helpDamaged  = "the key is right, but the stored version was changed; restore it from a backup"
)

// rewriter is a store whose versions can be changed in place.
type rewriter interface {
	// Rewrite calls change with every version, and stores those again for which it
	// returns true. An error of change ends it.
	Rewrite(change func(*Version) (bool, error)) error
}

// sealedStore is a Store in which the secrets of backends are encrypted.
type sealedStore struct {
	Store
	keys *seal.Keys
}

func (s sealedStore) Save(v *Version) error { return s.Store.Save(v.sealed(s.keys)) }

func (s sealedStore) Load(number int) (*Version, error) {
	v, err := s.Store.Load(number)
	if err != nil {
		return nil, err
	}
	return v.opened(s.keys)
}

func (s sealedStore) SetHead(head Head) error {
	if s.keys != nil && len(head.File) > 0 {
		var services Services
		if err := json.Unmarshal(head.File, &services); err != nil {
			return err
		}
		head.File = withoutDefaults(services.sealed(s.keys))
	}
	return s.Store.SetHead(head)
}

func (s sealedStore) Head() (Head, error) {
	head, err := s.Store.Head()
	if err != nil || !bytes.Contains(head.File, []byte(`"sealed`)) {
		return head, err
	}
	var services Services
	if err := json.Unmarshal(head.File, &services); err != nil {
		return head, nil //nolint:nilerr // lastApplied finds out what to do about it
	}
	services, err = services.opened(s.keys)
	if err != nil {
		return head, err
	}
	head.File = withoutDefaults(services)
	return head, nil
}

// rewrite encrypts what is stored as plain text or with the previous key, after it has
// found that everything can be read.
func (s sealedStore) rewrite() (count int, err error) {
	files, canRewrite := s.Store.(rewriter)
	if s.keys == nil || !canRewrite {
		return 0, nil
	}
	if err := files.Rewrite(func(v *Version) (bool, error) {
		_, err := v.opened(s.keys)
		return false, err
	}); err != nil {
		return 0, err
	}
	err = files.Rewrite(func(v *Version) (bool, error) {
		changed, err := v.reseal(s.keys)
		if changed {
			count++
		}
		return changed, err
	})
	if err != nil {
		return count, err
	}
	head, err := s.Head()
	if err != nil || len(head.File) == 0 {
		return count, err
	}
	return count, s.SetHead(head)
}

// sealedShared is a Shared in which the secrets of backends are encrypted.
type sealedShared struct {
	Shared
	keys *seal.Keys
}

func (s sealedShared) Begin(ctx context.Context, write bool) (Transaction, error) {
	tx, err := s.Shared.Begin(ctx, write)
	if err != nil {
		return nil, err
	}
	return sealedTransaction{tx, s.keys}, nil
}

type sealedTransaction struct {
	Transaction
	keys *seal.Keys
}

func (t sealedTransaction) Save(v *Version) error { return t.Transaction.Save(v.sealed(t.keys)) }

func (t sealedTransaction) Load(number int) (*Version, error) {
	v, err := t.Transaction.Load(number)
	if err != nil {
		return nil, err
	}
	return v.opened(t.keys)
}

// seal encrypts the versions of the shared log that are stored as plain text or with
// the previous key. The caller has the lock.
func (s *sharedLog) seal(ctx context.Context) error {
	if s.keys == nil || s.isSealed {
		return nil
	}
	todo, err := s.plainVersions(ctx)
	if err == nil && len(todo) > 0 {
		if err = s.replaceVersions(ctx, todo); err == nil {
			s.log.Info("the secrets of the shared versions are encrypted now", "versions", len(todo), "key", s.keys.ID())
		}
	}
	s.isSealed = err == nil
	return err
}

// plainVersions returns the versions of the shared log that need it, encrypted.
func (s *sharedLog) plainVersions(ctx context.Context) ([]*Version, error) {
	tx, err := s.stored.Begin(ctx, false)
	if err != nil {
		return nil, err
	}
	defer tx.End()
	numbers, err := tx.Versions()
	if err != nil {
		return nil, err
	}
	var todo []*Version
	for _, number := range numbers {
		v, err := tx.Load(number)
		if err != nil {
			continue // those that cannot be read are reported when they are used
		}
		changed, err := v.reseal(s.keys)
		if err != nil {
			return nil, err
		}
		if changed {
			todo = append(todo, v)
		}
	}
	return todo, nil
}

// replaceVersions stores versions of the shared log again.
func (s *sharedLog) replaceVersions(ctx context.Context, versions []*Version) error {
	tx, err := s.stored.Begin(ctx, true)
	if err != nil {
		return err
	}
	defer tx.End()
	for _, v := range versions {
		if err := tx.Replace(v); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// sealed returns the version as it is stored.
func (v *Version) sealed(keys *seal.Keys) *Version {
	if keys == nil {
		return v
	}
	stored := *v
	stored.Services = v.Services.sealed(keys)
	return &stored
}

// opened returns the version with its secrets readable.
func (v *Version) opened(keys *seal.Keys) (*Version, error) {
	services, err := v.Services.opened(keys)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", v.Number, err)
	}
	read := *v
	read.Services = services
	return &read, nil
}

// reseal encrypts the secrets of a stored version with the current key, and reports
// whether that changed any.
func (v *Version) reseal(keys *seal.Keys) (changed bool, err error) {
	for _, service := range v.Services {
		for i := range service.Instances {
			changed = changed || service.Instances[i].NeedsSealing(keys)
		}
	}
	if !changed {
		return false, nil
	}
	read, err := v.opened(keys)
	if err != nil {
		return false, err
	}
	v.Services = read.Services.sealed(keys)
	return true, nil
}

func (s Services) sealed(keys *seal.Keys) Services {
	sealed, _ := s.mapInstances(func(serviceType schema.ServiceType, service *config.Service, i int) error {
		service.Instances[i] = service.Instances[i].Sealed(keys, serviceType.String())
		return nil
	})
	return sealed
}

func (s Services) opened(keys *seal.Keys) (Services, error) {
	return s.mapInstances(func(serviceType schema.ServiceType, service *config.Service, i int) error {
		opened, err := service.Instances[i].Opened(keys, serviceType.String())
		if err != nil {
			help := helpWrongKey
			if errors.Is(err, seal.ErrDamaged) {
				help = helpDamaged
			}
			return fmt.Errorf("%w: %s: %s: %w", ErrMasterKey, help, serviceType, err)
		}
		service.Instances[i] = opened
		return nil
	})
}

// mapInstances returns a copy of the services in which each instance was changed.
func (s Services) mapInstances(change func(serviceType schema.ServiceType, service *config.Service, i int) error) (Services, error) {
	if s == nil {
		return nil, nil
	}
	mapped := make(Services, len(s))
	for serviceType, service := range s {
		service = service.Clone()
		for i := range service.Instances {
			if err := change(serviceType, &service, i); err != nil {
				return nil, err
			}
		}
		mapped[serviceType] = service
	}
	return mapped, nil
}
