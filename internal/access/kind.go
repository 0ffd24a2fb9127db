package access

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Change says who changes a credential, and when.
type Change struct {
	By string
	At time.Time
	// DryRun says that the change is checked, and not made.
	DryRun bool
	// MayEnable reports whether the change enables a credential that is disabled.
	MayEnable bool
}

func (c Change) at() time.Time { return c.At.UTC().Truncate(time.Second) }

// kind is one kind of credentials, keys or tokens: the ones in the configuration file, and the
// records of the ones issued, rotated or revoked while the gateway ran.
type kind[T any, P record[T]] struct {
	owner  *Credentials
	word   string       // "key" or "token", in stored names, generated names and errors
	prefix string       // of the texts
	static []T          // from the configuration file
	issued map[string]T // by name; owner.mu guards it
}

// record is a credential, as it is stored.
type record[T any] interface {
	*T
	parts() parts
	// checkStored reports the faults of a record that was read.
	checkStored(report say.Report)
}

// parts are the fields that records of every kind have.
type parts struct {
	name, hash *string
	life       *Life
}

// List returns the credentials of the configuration file, followed by the issued ones.
func (k *kind[T, P]) List() []T {
	k.owner.mu.Lock()
	defer k.owner.mu.Unlock()
	all := slices.Clone(k.static)
	for i := range all {
		P(&all[i]).parts().life.RevokedAt = k.revocation(&all[i])
	}
	var issued []P // pointers: comparing them copies nothing
	for _, record := range k.issued {
		if p := P(&record).parts(); !p.life.Static || k.ofFile(*p.name) == nil {
			issued = append(issued, &record)
		}
	}
	slices.SortFunc(issued, func(a, b P) int {
		return cmp.Or(a.parts().life.CreatedAt.Compare(b.parts().life.CreatedAt),
			strings.Compare(*a.parts().name, *b.parts().name))
	})
	for _, record := range issued {
		all = append(all, *record)
	}
	return all
}

// ofFile returns a credential of the configuration file, nil where it has none of that
// name.
func (k *kind[T, P]) ofFile(name string) *T {
	for i := range k.static {
		if *P(&k.static[i]).parts().name == name {
			return &k.static[i]
		}
	}
	return nil
}

// revocation returns when a credential of the configuration file was revoked; zero means
// that it was not, or that the file has another text for it since.
func (k *kind[T, P]) revocation(static *T) time.Time {
	p := P(static).parts()
	found := k.issued[*p.name]
	if of := P(&found).parts(); of.life.Static && *of.hash == *p.hash {
		return of.life.RevokedAt
	}
	return time.Time{}
}

// Issue makes a credential as wanted, and returns its text, which is kept nowhere. One
// without a name gets one. The name of a revoked credential may be used again. A dry run
// returns no text.
func (k *kind[T, P]) Issue(ctx context.Context, wanted T, change Change) (text string, issued T, err error) {
	name := *P(&wanted).parts().name
	if name == "" {
		name = generatedName(k.word + "-")
	}
	return k.issue(ctx, wanted, change, func() (string, error) {
		before, taken := k.issued[name]
		life := P(&before).parts().life
		if k.ofFile(name) != nil || taken && (life.Static || life.RevokedAt.IsZero()) {
			return name, k.refusal(name, ErrExists)
		}
		return name, nil
	})
}

// issue makes a credential with the name that choose returns, in place of the one that had the
// name before.
func (k *kind[T, P]) issue(ctx context.Context, wanted T, change Change,
	choose func() (name string, err error)) (text string, issued T, err error) {
	p := P(&wanted).parts()
	text, *p.hash = newSecret(k.prefix)
	*p.life = Life{CreatedAt: change.at(), CreatedBy: change.By, Source: FromIssue}
	issued, err = k.store(ctx, change, func() (T, error) {
		if *p.name, err = choose(); err != nil {
			return wanted, err
		}
		before := k.issued[*p.name]
		life := P(&before).parts().life
		if !p.life.CreatedAt.After(life.CreatedAt) {
			p.life.CreatedAt = life.CreatedAt.Add(time.Second) // the time tells both apart
		}
		return wanted, nil
	})
	if err != nil || change.DryRun {
		text = ""
	}
	return text, issued, err
}

// Revoke makes a credential useless, including a credential of the configuration file.
func (k *kind[T, P]) Revoke(ctx context.Context, name string, change Change) error {
	_, err := k.store(ctx, change, func() (T, error) {
		static := k.ofFile(name)
		if static == nil {
			found, err := k.changeable(name)
			P(&found).parts().life.RevokedAt = change.at()
			return found, err
		}
		if !k.revocation(static).IsZero() {
			return *static, k.refusal(name, ErrRevoked)
		}
		revoked := *static
		*P(&revoked).parts().life = Life{CreatedAt: change.at(), CreatedBy: change.By, RevokedAt: change.at(),
			Static: true}
		return revoked, nil
	})
	return err
}

// rotate gives a credential that was issued a new text, which it returns. Before that,
// keep gets the record with the old one.
func (k *kind[T, P]) rotate(ctx context.Context, name string, change Change,
	keep func(*T)) (text string, rotated T, err error) {
	text, hash := newSecret(k.prefix)
	rotated, err = k.edit(ctx, name, change, func(found *T) error {
		keep(found)
		p := P(found).parts()
		*p.hash, p.life.RotatedAt = hash, change.at()
		if change.MayEnable {
			p.life.DisabledBy = ""
		}
		return nil
	})
	if err != nil || change.DryRun {
		text = ""
	}
	return text, rotated, err
}

// edit changes the record of a credential that was issued.
func (k *kind[T, P]) edit(ctx context.Context, name string, change Change, edit func(*T) error) (edited T, err error) {
	return k.store(ctx, change, func() (T, error) {
		if found := k.issued[name]; P(&found).parts().life.Static || k.ofFile(name) != nil {
			return found, k.refusal(name, ErrStatic)
		}
		found, err := k.changeable(name)
		if err == nil {
			err = edit(&found)
		}
		return found, err
	})
}

// Enable makes a credential good that a backup without a signature had.
func (k *kind[T, P]) Enable(ctx context.Context, name string, change Change) (T, error) {
	return k.edit(ctx, name, change, func(found *T) error {
		P(found).parts().life.DisabledBy = ""
		return nil
	})
}

// changeable returns a credential that was issued and can be changed.
func (k *kind[T, P]) changeable(name string) (T, error) {
	found, known := k.issued[name]
	p := P(&found).parts()
	switch {
	case !known:
		return found, k.refusal(name, ErrUnknown)
	case *p.hash == "":
		return found, k.refusal(name, errUnreadable)
	case !p.life.RevokedAt.IsZero():
		return found, k.refusal(name, ErrRevoked)
	}
	return found, nil
}

// refusal says why a credential cannot be changed.
func (k *kind[T, P]) refusal(name string, why error) error {
	code, known := map[error]say.Code{
		ErrExists: "manage.exists_", ErrStatic: "manage.file_", ErrUnknown: "manage.unknown_",
		ErrRevoked: "manage.revoked_",
	}[why]
	if !known {
		return fmt.Errorf("the %s %s %w", k.word, name, why)
	}
	return say.Wrap(why, code+say.Code(k.word), "name", name)
}

// store runs an edit and stores the record that it returns. A dry run stores nothing.
func (k *kind[T, P]) store(ctx context.Context, change Change, edit func() (T, error)) (stored T, err error) {
	if change.DryRun {
		k.owner.mu.Lock()
		defer k.owner.mu.Unlock()
		return edit()
	}
	err = k.owner.change(ctx, func() (string, any, error) {
		stored, err = edit()
		return k.storedName(*P(&stored).parts().name), stored, err
	})
	return stored, err
}

// storedName returns the name under which a credential is stored.
func (k *kind[T, P]) storedName(name string) string { return k.word + "/" + name }

// stores reports whether a value holds a credential of this kind.
func (k *kind[T, P]) stores(value string) bool { return strings.HasPrefix(value, k.storedName("")) }

// decode reads the value of a credential into its record. An unreadable value becomes a
// record with nothing but a name, which no caller can present.
func (k *kind[T, P]) decode(stored string, value []byte) error {
	name := strings.TrimPrefix(stored, k.storedName(""))
	var read T
	p := P(&read).parts()
	err := json.Unmarshal(value, &read, json.RejectUnknownMembers(true))
	if err == nil {
		err = problemsOf(P(&read).checkStored)
	}
	if err == nil && *p.name != name {
		err = fmt.Errorf("the record of %s is called %s", name, *p.name)
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", k.word, name, err)
		read = *new(T)
		*p.name = name
	}
	p.life.Source = FromIssue
	k.issued[name] = read
	return err
}

// inForce returns the credentials that are neither revoked nor disabled. The ones from the configuration
// file come last.
func (k *kind[T, P]) inForce() []P {
	all := make([]P, 0, len(k.issued)+len(k.static))
	revoked := map[string]bool{}
	for _, issued := range k.issued {
		switch p := P(&issued).parts(); {
		case !p.life.RevokedAt.IsZero():
			revoked[*p.hash] = true
		case p.life.DisabledBy == "":
			all = append(all, &issued)
		}
	}
	for i := range k.static {
		if static := P(&k.static[i]); !revoked[*static.parts().hash] {
			all = append(all, static)
		}
	}
	return all
}
