package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// Log is the part of a shared configuration that keeps the credentials which all gateways have in
// common.
type Log interface {
	// Change brings this gateway up to date, runs the edit, and stores the value
	// that it returns under its name. When Change returns without an error, Take
	// was called with the value.
	Change(ctx context.Context, edit func() (name string, value []byte, err error)) error
}

// Credentials are the API keys of the unified API and the tokens of the management API: the ones
// in the configuration file, and the ones issued, rotated or revoked while the gateway ran. A
// file keeps the latter; it is a copy of the shared log where gateways share their configuration.
// A change takes effect at once. A nil Credentials has no guard and no roster.
type Credentials struct {
	Keys   Keys
	Tokens Tokens

	dir      *durable.Dir
	settings Settings
	master   *seal.Keys // nil means that nothing is encrypted and signed
	report   *slog.Logger
	log      Log // nil where this gateway shares nothing

	accounts *allowance.Accounts
	book     *budget.Book // nil keeps no budgets
	people   *People      // nil lets no key sleep

	// subjectKey makes the ids of visitors, nil before the first one.
	subjectKey  atomic.Pointer[[]byte]
	maxVisitors int
	// memory returns the limit of the program's memory; nil means that none is known.
	memory func() int64

	guard  atomic.Pointer[Guard]
	roster atomic.Pointer[Roster]
	known  atomic.Bool

	mu sync.Mutex // guards the fields below
	// origin names the shared log that the values are a copy of; it is empty for
	// values of this gateway alone.
	origin string
	// values holds the stored values by name. The records of Keys and Tokens are the same values,
	// decoded, and mu guards them too. unsigned holds the names without a signature of the master
	// key.
	values   map[string]jsontext.Value
	unsigned map[string]bool
	// activities count the use of the keys, by their ids.
	activities map[string]*activity
	// session signs the sessions of browsers.
	session session
	// teams holds the stored teams by their tenants.
	teams map[string]Team
	// issuers know visitors, nil where there are none. visitors are the ones with limits or
	// budgets, by their ids.
	issuers  Issuers
	visitors map[string]counted
}

// Why a credential cannot be issued, rotated or revoked.
var (
	ErrExists     = errors.New("exists already")
	ErrStatic     = errors.New("belongs to the configuration file and is changed there, or revoked here")
	ErrUnknown    = errors.New("does not exist")
	ErrRevoked    = errors.New("is revoked already")
	ErrSave       = errors.New("saving the credentials")
	errUnreadable = errors.New("was written by another release and cannot be read")
)

const (
	credentialsFile = "keys.json"
	keyPrefix       = "pb-"
	tokenPrefix     = "pbt-"
	secretBytes     = 32
)

// stored is the content of the file.
type stored struct {
	Log    string                    `json:"log,omitzero"`
	Values map[string]jsontext.Value `json:"values,omitzero"`
}

// OpenCredentials reads the credentials that were issued. A file that cannot be
// read is an error: nobody may be let in, or kept out, by mistake. Keys and tenants with limits of
// all gateways together count them in shared, which is nil if there are none.
func OpenCredentials(dir *durable.Dir, s Settings, report *slog.Logger, shared *tally.Pool) (*Credentials, error) {
	master, err := s.MasterKeys()
	if err != nil {
		return nil, fmt.Errorf("security.master-key: %w", err)
	}
	c := &Credentials{dir: dir, settings: s, master: master, report: report, accounts: allowance.NewAccounts(shared),
		activities: map[string]*activity{}, visitors: map[string]counted{}, maxVisitors: maxVisitors}
	c.Keys, c.Tokens = newKeys(c), newTokens(c)
	c.clearValues()
	signatures, err := c.readSealed()
	if err != nil {
		return nil, err
	}
	data, err := dir.Read(credentialsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if err == nil {
		if err := c.read(data, signatures); err != nil {
			return nil, fmt.Errorf("keys: %s: %w", credentialsFile, err)
		}
	}
	c.known.Store(true)
	c.rebuild()
	return c, nil
}

func (c *Credentials) read(data []byte, signatures map[string][]string) error {
	var file stored
	if err := json.Unmarshal(data, &file, json.RejectUnknownMembers(true)); err != nil {
		return err
	}
	if file.Values == nil {
		return errors.New("there are no keys in it")
	}
	for name, value := range file.Values {
		// A shared value of a newer release is refused, but does not prevent the start.
		if err := c.setValue(name, c.trusted(name, value, signatures[name])); err != nil && file.Log == "" {
			return err
		}
	}
	c.origin = file.Log
	return nil
}

func (c *Credentials) clearValues() {
	c.values, c.Keys.issued, c.Tokens.issued = map[string]jsontext.Value{}, map[string]IssuedKey{},
		map[string]IssuedToken{}
	c.unsigned, c.session = map[string]bool{}, session{}
	c.teams = map[string]Team{}
}

// SetBook makes the keys have their budgets. Where no key is required it makes them known: they
// have their terms, and callers without a good key are let in as guests. It must be called before
// requests are served.
func (c *Credentials) SetBook(book *budget.Book) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book = book
	c.rebuild()
}

// Share makes the credentials follow a shared log. Until Take is called, the copy of
// the log that an earlier run made is in force; without such a copy Known is false.
// Share returns the values of this gateway, for a log that has none. It must be
// called before requests are served.
func (c *Credentials) Share(log Log) map[string]seal.Value {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = log
	c.known.Store(c.origin != "")
	own := make(map[string]seal.Value, len(c.values))
	for name, value := range c.values {
		own[name] = seal.Value{Data: value, IsTrusted: !c.unsigned[name]}
	}
	return own
}

// Known reports whether the credentials are known; requests are refused until then.
func (c *Credentials) Known() bool { return c.known.Load() }

// Take puts values of the shared log into force; whole says that these are all
// that it has. Values of other kinds are passed over.
func (c *Credentials) Take(log string, whole bool, values map[string]seal.Value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if whole {
		c.backUpOwn(values)
		c.clearValues()
	}
	changed := whole || c.origin != log
	for name, value := range values {
		if !c.Keys.stores(name) && !c.Tokens.stores(name) && !strings.HasPrefix(name, teamKind) &&
			!strings.HasPrefix(name, sessionKind) && name != sealedSessionName {
			continue
		}
		changed = true
		if err := c.setValue(name, value); err != nil {
			c.report.Error("a shared credential is refused", "name", name, "error", err)
		}
	}
	if !changed {
		return
	}
	c.origin = log
	c.rebuild() // before the file is written: a revoked key is refused at once
	c.known.Store(true)
	if err := c.save(c.values); err != nil {
		c.report.Error("the shared credentials are in force and could not be saved here", "error", err)
	}
}

// backUpOwn keeps a copy of the credentials that were issued here before the
// gateway joined a shared configuration that has others.
func (c *Credentials) backUpOwn(theirs map[string]seal.Value) {
	var lost []string
	for name := range c.values {
		if _, shared := theirs[name]; !shared && !strings.HasPrefix(name, sessionKind) && name != sealedSessionName {
			lost = append(lost, name)
		}
	}
	if c.origin != "" || len(lost) == 0 {
		return
	}
	name := "keys-before-sharing-" + time.Now().UTC().Format("20060102T150405Z") + ".json"
	data, err := c.dir.Read(credentialsFile)
	if err == nil {
		err = c.dir.Write(name, data)
	}
	slices.Sort(lost)
	c.report.Warn("credentials that were issued here are not part of the shared configuration and are refused; a "+
		"copy is kept",
		"credentials", lost, "copy", name, "error", err)
}

// setValue stores and decodes a value. A value that cannot be decoded becomes a credential
// that no caller can present.
func (c *Credentials) setValue(name string, value seal.Value) error {
	if name == sessionKeyName && c.master != nil {
		return nil // its readers could make sessions, so it makes none
	}
	c.values[name] = compacted(value.Data)
	delete(c.unsigned, name)
	if !value.IsTrusted {
		c.unsigned[name] = true
	}
	switch {
	case c.Keys.stores(name):
		return c.Keys.decode(name, value.Data)
	case c.Tokens.stores(name):
		err := c.Tokens.decode(name, value.Data)
		c.Tokens.markUnsigned(name, !value.IsTrusted)
		return err
	case strings.HasPrefix(name, teamKind):
		return c.setTeam(name, value.Data)
	case name == sessionKeyName:
		return c.session.set(value.Data)
	case name == subjectKeyName && value.IsTrusted:
		return c.setSubjectKey(value.Data)
	case name == subjectKeyName:
		return nil
	case name == sealedSessionName:
		return c.session.open(c.master, value.Data)
	}
	return fmt.Errorf("%s: %w", name, errUnreadable)
}

// rebuild builds guard and roster from the settings and the values.
func (c *Credentials) rebuild() {
	c.guard.Store(c.newGuard())
	c.roster.Store(c.newRoster())
}

// Guard returns the guard in force, nil when the unified API is open.
func (c *Credentials) Guard() *Guard {
	if c == nil {
		return nil
	}
	return c.guard.Load()
}

// Roster returns the roster in force, nil when management is open.
func (c *Credentials) Roster() *Roster { return c.roster.Load() }

// MasterKeys returns the master keys, nil if there are none.
func (c *Credentials) MasterKeys() *seal.Keys { return c.master }

// Enforced reports whether credentials are required.
func (c *Credentials) Enforced() bool { return c.settings.Enabled }

// change runs an edit and stores the record that it returns.
func (c *Credentials) change(ctx context.Context, edit func() (name string, record any, err error)) error {
	encoded := func() (string, []byte, error) {
		name, record, err := edit()
		if err != nil {
			return "", nil, err
		}
		value, err := json.Marshal(record, json.Deterministic(true))
		return name, value, err
	}
	if c.log != nil {
		return c.log.Change(ctx, func() (string, []byte, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return encoded()
		})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	name, value, err := encoded()
	if err != nil {
		return err
	}
	next := maps.Clone(c.values)
	next[name] = value
	origin := c.origin
	c.origin = ""
	if err := c.save(next, name); err != nil {
		c.origin = origin
		return fmt.Errorf("%w: %w", ErrSave, err)
	}
	if err := c.setValue(name, seal.Value{Data: value, IsTrusted: true}); err != nil {
		return err
	}
	c.rebuild()
	return nil
}

// newSecret makes the text of a credential and its hash.
func newSecret(prefix string) (text, hash string) {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails
	text = prefix + base64.RawURLEncoding.EncodeToString(secret)
	return text, HashOf(text)
}

// HashOf returns the hash that is stored of a credential: lower-case hexadecimal SHA-256.
func HashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// NobodysHash is the hash of a missing credential: no text is known to have it.
const NobodysHash = "0000000000000000000000000000000000000000000000000000000000000000"

// generatedName returns a random name for a credential that was issued without one.
func generatedName(prefix string) string { return prefix + strings.ToLower(rand.Text()[:10]) }

// checkName reports an id or a name that cannot be part of a path or a log.
func checkName(field, name string, report say.Report) {
	const longest = 128
	foreign := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("-_.:", r)
	}
	if strings.ContainsFunc(name, foreign) || len(name) > longest {
		report(field, say.New("field.plain_name"))
	}
	if name == "." || name == ".." {
		report(field, say.New("field.dots"))
	}
}

// CheckTenant reports a name of a tenant that cannot be stored or shown.
func CheckTenant(field, name string, report say.Report) {
	const longest = 128
	if len(name) > longest {
		report(field, say.New("field.bytes", "most", "128"))
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		report(field, say.New("field.control_text"))
	}
}
