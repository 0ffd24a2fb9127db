package backup

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/mark"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// restoring is a restore under way.
type restoring struct {
	// begun is the mark of a place where a rekey did not finish.
	begun   mark.Mark
	place   *Place
	archive *archive
	keys    *seal.Keys // sign the records that are made anew
	parts   []store.Part
	kept    []store.Kept
	force   bool
	tell    func(format string, args ...any)
	record  Record
	done    Summary
	// id is that of a restore of an unsigned backup to a place with a master key, else empty.
	id string
	// stage has the configuration and credentials in the form of a data directory, stagedFiles the
	// files and batches in the form of their folder.
	stage, stagedFiles string
	// values are all values of the archive.
	values map[string]access.StoredValue
	// aside is the name of a folder for the content that was there before, and made the data
	// directory if there was none.
	aside, made string
	// own are the names in the data directory that are replaced, and beside those in the folder of files and
	// batches.
	own, beside []string
	moved       []move
}

// move is a file or folder that has another name now.
type move struct{ from, to string }

// Restore brings a backup back to a place where no gateway runs. After an error the place is as
// it was before.
func Restore(ctx context.Context, p *Place, path string, o Options) (Summary, error) {
	a, err := openArchive(path, p.Keys, o.Unsigned)
	if err != nil {
		return Summary{}, err
	}
	defer func() { _ = a.zip.Close() }() // it was only read
	r := &restoring{place: p, archive: a, keys: p.Keys, parts: o.With, force: o.Force, tell: o.Tell,
		record: o.Record}
	for _, part := range o.With {
		if !a.has(part) {
			return Summary{}, fmt.Errorf("the backup has no %s: it was made without --with %s", part, part)
		}
	}
	if len(o.With) == 0 {
		r.parts, err = ParseParts(a.With)
	}
	if err != nil {
		return Summary{}, err
	}
	if err := p.checkFolder(r.parts); err != nil {
		return Summary{}, err
	}
	r.kept = p.kept(r.parts)
	r.nameReplaced()
	r.done = Summary{Made: a.Made, With: r.parts, IsSigned: a.isSigned, IsDisabled: r.isDoubted()}
	if r.done.SHA256, err = digest(path); err != nil {
		return Summary{}, err
	}
	if r.isDoubted() {
		r.id = rand.Text()
	}
	r.aside = asidePrefix + time.Now().UTC().Format("20060102T150405.000Z")
	if p.Database != "" {
		if err = r.toDatabase(ctx); err == nil {
			r.note()
		}
	} else {
		err = r.toDirectory(ctx)
	}
	if err != nil {
		err = errors.Join(err, r.undo(), os.RemoveAll(r.made))
	} else if r.mark().Next != "" {
		only := *p
		if p.Database != "" {
			only.DataDir = "" // another gateway's, or none
		}
		if _, err := Rekey(ctx, &only, o); err != nil {
			r.done.Notes = append(r.done.Notes, "signatures with the new master key; run patchbay rekey: "+err.Error())
		}
	}
	return r.done, errors.Join(err, os.RemoveAll(r.stage), os.RemoveAll(r.stagedFiles))
}

// mark returns the mark of the restored place. What the previous master key has signed is signed anew afterwards.
func (r *restoring) mark() mark.Mark {
	if r.begun.Next != "" {
		return r.begun
	}
	m := mark.Of(r.keys)
	if r.archive.isSigned && r.archive.MasterKey != m.Key {
		m = mark.Begin(r.archive.MasterKey, r.keys)
	}
	return m
}

// digest returns the SHA-256 of a file.
func digest(path string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }() // it was only read
	s := seal.NewSums()
	_, err = io.Copy(s, in)
	return s.Entry().SHA256, err
}

// note records the restore, which is done, in the audit.
func (r *restoring) note() {
	end, err := r.record(&r.done)
	if err != nil {
		r.done.Notes = append(r.done.Notes, "the record of the restore in the audit: "+err.Error())
		return
	}
	end(nil)
}

func (r *restoring) has(part store.Part) bool { return slices.Contains(r.parts, part) }

// isDoubted reports whether the place has a master key and the archive is not signed with it.
func (r *restoring) isDoubted() bool { return r.keys != nil && !r.archive.isSigned }

// notEmpty is the error of a place that has content.
func (r *restoring) notEmpty(what string) error {
	return fmt.Errorf("%s is not empty: it has %s; --force replaces what is there", r.place, what)
}

// toDirectory restores to the data directory.
func (r *restoring) toDirectory(ctx context.Context) (err error) {
	dir := r.place.DataDir
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		r.made = dir
	}
	var begun *mark.Mark
	if r.force {
		begun = &r.begun
	}
	data, err := files.OpenToRestore(dir, r.keys, begun)
	if errors.Is(err, files.ErrInUse) {
		return fmt.Errorf("a gateway runs there; stop it first: %w", err)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			r.note()
		}
		_ = data.Close() // nothing is written through it
	}()
	if err := r.checkFiles(); err != nil {
		return err
	}
	r.stage = data.Data().Path(durable.Unfinished("restore"))
	if _, err := r.stageConfiguration(); err != nil {
		return err
	}
	theirs, err := access.ReadStored(data.Data())
	if err != nil {
		r.done.Notes = append(r.done.Notes, "what was revoked there is not known: "+err.Error())
	}
	if err := r.stageValues(theirs); err != nil {
		return err
	}
	if err := r.stageFiles(); err != nil {
		return err
	}
	if err := r.stageDocuments(); err != nil {
		return err
	}
	exchange := func(*sql.Tx) error {
		return data.Exchange(func() error {
			err := r.exchange(dir, r.stage, r.own)
			if err == nil {
				err = r.exchange(r.place.Folder, r.stagedFiles, r.beside)
			}
			if err == nil {
				err = r.tellOwners(ctx, nil)
			}
			if err == nil {
				err = data.SetMark(r.mark())
			}
			if err != nil {
				err = errors.Join(err, r.undo())
			}
			return err
		})
	}
	if r.has(store.Ledger) {
		return r.restoreLedger(ctx, exchange)
	}
	return exchange(nil)
}

// nameReplaced finds what the restore replaces. Batches are described beside files, so what they have in a data
// directory goes with files. A database has the documents itself, and all that the journals have.
func (r *restoring) nameReplaced() {
	for i := range r.place.Kept {
		k := &r.place.Kept[i]
		if k.Part != store.Configuration && !r.has(k.Part) && !(k.Part == store.Batches && r.has(store.Files)) {
			continue
		}
		for _, name := range k.Names() {
			if rest, isBeside := strings.CutPrefix(name, store.Shared); !isBeside {
				r.own = append(r.own, name)
			} else if !slices.Contains(r.beside, rest) && (r.place.Database == "" || name != k.Folder) {
				r.beside = append(r.beside, rest)
			}
		}
	}
}

// tellOwners tells the owners of data about the restore.
func (r *restoring) tellOwners(ctx context.Context, tx *sql.Tx) error {
	made := "an unknown time"
	if !r.done.Made.IsZero() {
		made = r.done.Made.UTC().Format(time.RFC3339)
	}
	if r.isDoubted() {
		made += " without a signature"
	}
	at := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	for i := range r.place.Kept {
		if tell := r.place.Kept[i].Restored; tell != nil {
			if err := tell(ctx, r.place.DataDir, tx, at, made); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFiles returns an error if a restore would replace files, unless it may.
func (r *restoring) checkFiles() error {
	for i := range r.kept {
		for _, name := range r.kept[i].Names() {
			isHere := r.place.Database == "" || strings.HasPrefix(name, store.Shared)
			if path := r.place.path(name); isHere && !r.force && !r.kept[i].IsMerged && isFull(path) {
				return r.notEmpty(path)
			}
		}
	}
	return nil
}

// isFull reports whether there is a file, or a folder that is not empty.
func isFull(path string) bool {
	entries, err := os.ReadDir(path)
	return err != nil && isThere(path) || len(entries) > 0
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// exchange moves files and folders to a folder of their own, and those of the stage to their
// places.
func (r *restoring) exchange(dir, stage string, names []string) error {
	aside := filepath.Join(dir, r.aside)
	for _, name := range names {
		place, staged := filepath.Join(dir, name), filepath.Join(stage, name)
		if isFull(place) {
			if err := os.MkdirAll(aside, 0o700); err != nil {
				return err
			}
			if !slices.Contains(r.done.Replaced, aside) {
				r.done.Replaced = append(r.done.Replaced, aside)
			}
			if err := r.move(place, filepath.Join(aside, name)); err != nil {
				return err
			}
		} else if isThere(place) {
			if err := os.Remove(place); err != nil {
				return err
			}
		}
		if isThere(staged) {
			if err := r.move(staged, place); err != nil {
				return err
			}
		}
	}
	return nil
}

// move moves a file or folder for good, and remembers it.
func (r *restoring) move(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	r.moved = append(r.moved, move{from, to})
	return durable.At(filepath.Dir(to)).Make() // which syncs the folder
}

// undo moves everything back.
func (r *restoring) undo() error {
	var failed error
	for _, m := range slices.Backward(r.moved) {
		failed = errors.Join(failed, os.Rename(m.to, m.from))
	}
	for _, aside := range r.done.Replaced {
		failed = errors.Join(failed, os.Remove(aside))
	}
	r.moved, r.done.Replaced = nil, nil
	return failed
}
