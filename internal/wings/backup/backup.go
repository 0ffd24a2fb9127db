// Package backup writes the content of a data directory or of PostgreSQL to one file, and
// brings it back: the configuration with all versions, keys and tokens and, if wanted, the
// ledger with the budgets, and files and batches. Both places have one form in the file, so a
// gateway can move from one to the other.
package backup

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/pglog"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Options are the choices of a backup or a restore.
type Options struct {
	// With are the parts to back up or restore beside the configuration, keys and tokens. A
	// restore without any brings back all parts of the backup.
	With []store.Part
	// Force lets a restore replace the content of a place that is not empty.
	Force bool
	// Unsigned lets a restore bring back an archive that is not signed with the master key of the
	// place, with all keys and tokens disabled and no secret in use.
	Unsigned bool
	// Program is the version of this program.
	Program string
	// Tell is told of progress, in words, for each file at least.
	Tell func(format string, args ...any)
	// Record notes a restore in the audit.
	Record Record
}

// Record notes an operation on a place in the audit, and returns the function that notes its result. The
// summary is complete when that is called. After an error the operation cannot be recorded.
type Record func(*Summary) (end func(error), err error)

// Summary counts the content of a backup.
type Summary struct {
	Made                 time.Time
	With                 []store.Part
	Versions, Current    int
	Keys, Tokens         int
	Rows, Files, Batches int
	Bytes                int64 // of the contents of files
	// SHA256 is the digest of a backup that is restored or confirmed, and Documents how many documents of
	// it are restored or enabled.
	SHA256    string
	Documents int
	// Replaced are the folders to which a restore moved the content that was there before.
	Replaced []string
	// Missing counts files whose content was deleted meanwhile, and Damaged files and batches
	// whose description cannot be read.
	Missing, Damaged int
	// IsSigned says that the archive is signed with the master key, and IsDisabled that keys, tokens
	// and secrets are disabled because it is not.
	IsSigned, IsDisabled bool
	// Notes say what was left out, and why.
	Notes []string
}

// countValues counts the keys and tokens among values.
func (s *Summary) countValues(values map[string]access.StoredValue) {
	keys, tokens := access.Count(values)
	s.Keys, s.Tokens = s.Keys+keys, s.Tokens+tokens
}

// content is the content of a place beside the ledger, read for a backup.
type content struct {
	// head, versions and values are the configuration with its credentials.
	head     versions.Head
	numbers  []int
	record   func(number int) (*pglog.Stored, error) // nil where it was deleted meanwhile
	headText []byte
	headSign string
	values   map[string]access.StoredValue
	// each calls a function with documents.
	each func(kept []store.Kept, visit func(documents.Document) error) (damaged int, err error)
}

// Write writes a backup of a place to a file, which appears whole or not at all. The gateway may
// run.
func Write(ctx context.Context, p *Place, path string, o Options) (done Summary, err error) {
	err = writeFile(path, func(out io.Writer) error {
		var err error
		done, err = WriteTo(ctx, p, out, o)
		return err
	})
	return done, err
}

// WriteTo writes a backup of a place. The gateway may run.
func WriteTo(ctx context.Context, p *Place, out io.Writer, o Options) (done Summary, err error) {
	if p.checkFolder(o.With) != nil {
		o.With = slices.DeleteFunc(slices.Clone(o.With), func(part store.Part) bool { return part != store.Ledger })
		done.Notes = append(done.Notes, "files and batches: files.folder is not set, so the gateways have none")
	}
	done.Made, done.With, done.IsSigned = time.Now().UTC().Truncate(time.Second), o.With, p.Keys != nil
	about := seal.Manifest{Format: format, Made: done.Made, Program: o.Program, From: fromDirectory}
	for _, part := range o.With {
		about.With = append(about.With, string(part))
	}
	if p.Database != "" {
		about.From = "PostgreSQL"
	}
	err = seal.WriteArchive(out, p.Keys, about, func(w *seal.Archive) error {
		// Answers come before the description of their batch: if it ends meanwhile, the
		// description is of one that has ended and needs them no more.
		if slices.Contains(o.With, store.Batches) {
			if err := p.backUpAnswers(w, o); err != nil {
				return err
			}
		}
		if err := p.read(ctx, func(c *content) error { return p.backUpContent(w, c, o, &done) }); err != nil {
			return err
		}
		if !slices.Contains(o.With, store.Ledger) {
			return nil
		}
		o.Tell("ledger")
		return p.backUpLedger(ctx, w, &done)
	})
	return done, err
}

// read lets a function read the content of a place at one moment.
func (p *Place) read(ctx context.Context, use func(*content) error) error {
	if p.Database != "" {
		return p.readDatabase(ctx, use)
	}
	c, err := p.readDirectory()
	if err != nil {
		return err
	}
	return use(c)
}

// readDirectory reads the data directory, also while a gateway writes it. Files appear whole,
// and a version does not change.
func (p *Place) readDirectory() (*content, error) {
	if _, err := os.Stat(p.DataDir); err != nil {
		return nil, fmt.Errorf("there is no data directory: %w", err)
	}
	if err := files.Check(p.DataDir, p.Keys); err != nil {
		return nil, err
	}
	c, err := readStaged(p.DataDir, p.Keys)
	if err != nil {
		return nil, err
	}
	c.each = p.eachDocument
	return c, nil
}

// readStaged reads the configuration and credentials of a data directory, and checks that the
// master key fits the current version.
func readStaged(dir string, keys *seal.Keys) (_ *content, err error) {
	store := files.Peek(dir)
	sealed := versions.NewSealedStore(store, keys)
	c := new(content)
	if c.head, err = sealed.Head(); err != nil {
		return nil, err
	}
	if c.head.Version == 0 {
		return nil, fmt.Errorf("%s has no configuration: no gateway has run there", dir)
	}
	data := durable.At(filepath.Join(dir, versionsDir))
	if c.headText, err = data.Read(filepath.Base(headName)); err != nil {
		return nil, err
	}
	if c.headSign, err = store.Signature(versions.RecordHead); err != nil {
		return nil, err
	}
	if _, err := sealed.Load(c.head.Version); err != nil {
		return nil, err
	}
	if c.numbers, err = store.Versions(); err != nil {
		return nil, err
	}
	c.numbers = slices.DeleteFunc(c.numbers, func(number int) bool { return number > c.head.Newest }) // made meanwhile
	c.record = func(number int) (*pglog.Stored, error) { return readRecord(store, data, number) }
	if c.values, err = access.ReadStored(store.Data()); err != nil {
		return nil, err
	}
	return c, readUnconfirmed(store.Data(), c.values)
}

// readUnconfirmed adds the note of a restore that is not confirmed to the values of a data directory.
func readUnconfirmed(dir *durable.Dir, values map[string]access.StoredValue) error {
	text, err := dir.Read(unconfirmedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var value access.StoredValue
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if values[unconfirmedName] = value; err != nil {
		return fmt.Errorf("%s: %w", unconfirmedFile, err)
	}
	return nil
}

// writeValues writes values to a data directory.
func writeValues(dir *durable.Dir, values map[string]access.StoredValue) error {
	if value, has := values[unconfirmedName]; has {
		text, err := json.Marshal(value, json.Deterministic(true))
		if err == nil {
			err = dir.Write(unconfirmedFile, text)
		}
		if err != nil {
			return err
		}
	}
	return access.WriteStored(dir, values)
}

// readRecord reads a version from the folder of versions, nil if there is none.
func readRecord(store *files.Store, dir *durable.Dir, number int) (*pglog.Stored, error) {
	text, err := dir.Read(fmt.Sprintf("%08d.json", number))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	signature, err := store.Signature(versions.Record(number))
	if err != nil {
		return nil, err
	}
	return &pglog.Stored{Number: number, Text: text, Signature: signature}, nil
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// backUpContent adds the content of a place.
func (p *Place) backUpContent(w *seal.Archive, c *content, o Options, done *Summary) error {
	o.Tell("configuration")
	done.Current = c.head.Version
	if err := w.AddBytes(headName, c.headText); err != nil {
		return err
	}
	add := func(name, suffix, text string) error {
		if text == "" {
			return nil
		}
		return w.AddBytes(versionsDir+"/"+name+suffix, []byte(text+"\n"))
	}
	if err := add("current", ".sig", c.headSign); err != nil {
		return err
	}
	for _, number := range c.numbers {
		r, err := c.record(number)
		if err == nil && r == nil && number == c.head.Version {
			err = errors.New("the current version changed meanwhile; try again")
		}
		if err != nil {
			return err
		}
		if r == nil {
			continue // deleted meanwhile
		}
		name := fmt.Sprintf("%08d", number)
		if err := errors.Join(add(name, ".sig", r.Signature),
			w.AddBytes(versionsDir+"/"+name+".json", r.Text)); err != nil {
			return err
		}
		done.Versions++
	}
	done.countValues(c.values)
	values := access.WithoutSessions(c.values)
	maps.DeleteFunc(values, func(name string, _ access.StoredValue) bool { return !p.travels(name) })
	if err := w.AddJSON(valuesName, values); err != nil {
		return err
	}
	return p.backUpDocuments(w, c, o, done)
}

// fromDirectory is the place of a backup of a data directory, in the manifest.
const fromDirectory = "data directory"

// backUpDocuments adds the documents of a place, and the contents of files. A file whose content was
// deleted meanwhile is left out.
func (p *Place) backUpDocuments(w *seal.Archive, c *content, o Options, done *Summary) error {
	o.Tell("documents")
	var docs []documents.Document
	kept := p.kept(o.With)
	damaged, err := c.each(kept, func(doc documents.Document) error {
		docs = append(docs, doc)
		return nil
	})
	if done.Damaged = damaged; err != nil {
		return err
	}
	docs = slices.DeleteFunc(docs, func(doc documents.Document) bool {
		k := store.Of(kept, doc.Kind)
		if err != nil || k.Contents == "" {
			return false
		}
		size, isThere, failed := addFile(w, contentsDir+"/"+doc.ID, p.path(k.Contents+doc.ID))
		err = failed
		if !isThere {
			done.Missing++
			return true
		}
		done.Bytes += size
		o.Tell("%d bytes of files", done.Bytes)
		return false
	})
	if err != nil {
		return err
	}
	return w.Add(documentsName, zip.Deflate, func(to io.Writer) error {
		out := jsontext.NewEncoder(to)
		for i := range docs {
			done.countDocument(store.Of(kept, docs[i].Kind), docs[i].Kind)
			if err := json.MarshalEncode(out, docs[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// countDocument counts a document of a kind. Files and batches are the first kinds of their declarations.
func (s *Summary) countDocument(k *store.Kept, kind string) {
	s.Documents++
	switch {
	case kind != k.Kinds[0]:
	case k.Part == store.Files:
		s.Files++
	case k.Part == store.Batches:
		s.Batches++
	}
}

// backUpAnswers adds the answers of batches that have not ended.
func (p *Place) backUpAnswers(w *seal.Archive, o Options) error {
	o.Tell("answers of batches")
	for _, folder := range p.folders(store.Batches) {
		found, err := fs.Glob(os.DirFS(folder), "*/answers-*")
		for _, path := range found {
			if name := answersDir + "/" + path; err == nil && allowedNames.MatchString(name) {
				_, _, err = addFile(w, name, filepath.Join(folder, path))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachDocument calls a function with documents of a data directory, in which a gateway may work. It
// counts those that cannot be read, which the gateway passes over as well.
func (p *Place) eachDocument(kept []store.Kept, visit func(documents.Document) error) (damaged int, err error) {
	read := map[string]bool{"": true}
	for i := range kept {
		k, more := &kept[i], 0
		switch {
		case k.Read != nil:
			err = p.eachInFile(k, visit)
		case !read[k.Folder]:
			more, err = eachInFolder(durable.At(p.path(k.Folder)), kept, visit)
			damaged += more
		}
		if read[k.Folder] = true; err != nil {
			return damaged, err
		}
	}
	return damaged, nil
}

// eachInFile is eachDocument for documents that have a file in place of a folder.
func (p *Place) eachInFile(k *store.Kept, visit func(documents.Document) error) error {
	content, err := durable.At(p.DataDir).Read(k.Files[0])
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	docs, err := k.Read(content)
	for i := range docs {
		err = errors.Join(err, visit(docs[i]))
	}
	return err
}

func eachInFolder(dir *durable.Dir, kept []store.Kept, visit func(documents.Document) error) (damaged int,
	err error) {
	names, err := dir.Names()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		doc, err := documents.ReadFile(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			damaged++
			continue
		}
		if store.Of(kept, doc.Kind) == nil {
			continue
		}
		if err := visit(doc); err != nil {
			return damaged, err
		}
	}
	return damaged, nil
}
