// Package control is the one writer of the configuration. Every change, from
// wherever it comes, is an edit of a copy of the document that is validated,
// compiled, saved as a version and only then put into force.
package control

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/adapter"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/routing"
)

// Control owns the configuration in force.
type Control struct {
	store   *Store
	current *routing.Current
	log     *slog.Logger

	mu      sync.Mutex // serialises changes; requests never take it
	doc     *config.Document
	version int
	newest  int // the highest number ever used; numbers are not reused
	source  string
}

// Origins of versions.
const (
	FromFile   = "file"
	FromReload = "reload"
)

// Open puts the right configuration into force: the version that was current at
// the last stop, unless the services of the configuration file changed since
// they were last read; then the file becomes a new version.
func Open(store *Store, doc *config.Document, current *routing.Current, log *slog.Logger) (*Control, error) {
	c := &Control{store: store, current: current, log: log, doc: doc.Clone()}
	numbers, err := store.List()
	if err != nil {
		return nil, fmt.Errorf("versions: %w", err)
	}
	if len(numbers) > 0 {
		c.newest = numbers[len(numbers)-1]
	}
	last, err := store.current()
	if err != nil {
		log.Warn("the record of the current version cannot be read; taking the newest one that can", "error", err)
	}
	c.newest = max(c.newest, last.Version)
	c.source = sourceOf(doc)
	if len(numbers) == 0 || last.Source != c.source {
		if len(numbers) > 0 {
			log.Info("the configuration file changed since it was last read and becomes a new version", "version", c.newest+1)
		}
		return c, c.commit(c.doc, FromFile, "read from the configuration file")
	}
	version := c.newestReadable(last.Version, numbers)
	if version == nil {
		log.Warn("no stored version can be read; the configuration file becomes a new one", "version", c.newest+1)
		return c, c.commit(c.doc, FromFile, "read from the configuration file")
	}
	c.doc.Services = version.Services
	c.version = version.Number
	table, err := routing.Compile(c.doc, nil)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", version.Number, err)
	}
	current.Store(table)
	return c, nil
}

// newestReadable returns the wanted version or, if that cannot be read, the
// newest one that can. Files that cannot be read stay where they are.
func (c *Control) newestReadable(wanted int, numbers []int) *Version {
	candidates := []int{wanted}
	for i := len(numbers) - 1; i >= 0; i-- {
		candidates = append(candidates, numbers[i])
	}
	for _, number := range candidates {
		if number == 0 {
			continue
		}
		v, err := c.store.Load(number)
		if err == nil {
			err = c.check(v)
		}
		if err == nil {
			if number != wanted {
				c.log.Warn("another version takes its place", "version", number)
			}
			return v
		}
		c.log.Warn("a stored version cannot be used", "version", number, "error", err)
	}
	return nil
}

func (c *Control) check(v *Version) error {
	doc := c.doc.Clone()
	doc.Services = v.Services
	return validate(doc)
}

// Version returns the number of the version in force.
func (c *Control) Version() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// Apply changes the configuration: the edit gets a copy of the document and
// changes it as it likes. When any step fails nothing has changed. An edit that
// changes nothing makes no version.
func (c *Control) Apply(origin, summary string, edit func(*config.Document) error) (version int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	doc := c.doc.Clone()
	if err := edit(doc); err != nil {
		return c.version, err
	}
	if doc.Equal(c.doc) {
		return c.version, nil
	}
	return c.version, c.commit(doc, origin, summary)
}

// commit validates, compiles, saves and puts a document into force, in that order.
func (c *Control) commit(doc *config.Document, origin, summary string) error {
	if err := validate(doc); err != nil {
		return err
	}
	table, err := routing.Compile(doc, c.current.Load())
	if err != nil {
		return err
	}
	number := c.version
	if number == 0 || !config.EqualServices(doc.Services, c.doc.Services) {
		number = c.newest + 1
		v := &Version{Number: number, CreatedAt: time.Now().UTC(), Origin: origin, Summary: summary, Services: doc.Services}
		if err := c.store.Save(v); err != nil {
			return fmt.Errorf("saving the configuration: %w", err)
		}
		c.newest = number
	}
	if err := c.store.setCurrent(pointer{Version: number, Source: c.source}); err != nil {
		return fmt.Errorf("saving the configuration: %w", err)
	}
	c.doc, c.version = doc, number
	c.current.Store(table)
	return nil
}

// Reload takes the services and limits of a document that was read from the
// configuration file again. It reports whether anything changed.
func (c *Control) Reload(doc *config.Document) (changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.doc.Clone()
	previous := c.source
	if source := sourceOf(doc); source != c.source {
		next.Services = doc.Clone().Services
		c.source = source
	}
	next.Limits = doc.Limits
	if next.Equal(c.doc) && previous == c.source {
		return false, nil
	}
	if err := c.commit(next, FromReload, "the configuration file changed"); err != nil {
		c.source = previous
		return false, err
	}
	return true, nil
}

func validate(doc *config.Document) error {
	if problems := doc.Validate(adapter.Check); len(problems) > 0 {
		return problems
	}
	return nil
}

// sourceOf identifies the services that a configuration file gives, after
// substitution: a key that comes from the environment counts as a change too.
func sourceOf(doc *config.Document) string {
	// Settings can always be encoded; the error is part of the signature only.
	data, _ := json.Marshal(doc.Services, json.Deterministic(true))
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
