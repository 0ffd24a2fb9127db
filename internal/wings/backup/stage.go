package backup

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/sessions"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// stageConfiguration writes the configuration and credentials to the stage, and checks them there. It returns
// them as they are in the archive.
func (r *restoring) stageConfiguration() (*content, error) {
	r.tell("configuration")
	if err := os.RemoveAll(r.stage); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.stage, 0o700); err != nil {
		return nil, err
	}
	if err := r.stageVersions(); err != nil {
		return nil, err
	}
	c, err := readStaged(r.stage, r.keys)
	if err != nil {
		return nil, err
	}
	r.done.Versions, r.done.Current = len(c.numbers), c.head.Version
	r.done.countValues(r.values)
	head := c.head
	head.Source, head.Position = versions.Restored, versions.Position{}
	return c, versions.NewSealedStore(files.Peek(r.stage), r.keys).SetHead(head)
}

// stageVersions writes the versions of the archive to the stage, and reads its values. Those of a download,
// and of an archive that is not signed, are signed anew.
func (r *restoring) stageVersions() error {
	isNew := r.isDoubted() || r.archive.From == seal.FromDownload
	for name := range r.archive.files {
		if !strings.HasPrefix(name, versionsDir+"/") || isNew && strings.HasSuffix(name, ".sig") {
			continue
		}
		if err := r.archive.unpack(name, filepath.Join(r.stage, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	if err := r.archive.decode(valuesName, &r.values); err != nil || !isNew {
		return err
	}
	store := files.Peek(r.stage)
	sealed := versions.NewSealedStore(store, r.keys)
	numbers, err := store.Versions()
	if err != nil {
		return err
	}
	for _, number := range numbers {
		v, err := sealed.LoadUnsigned(number)
		if err != nil {
			return err
		}
		v.SetRestored(r.id) // empty if there is no doubt about its content
		if err := sealed.Save(v); err != nil {
			return err
		}
	}
	head, err := store.Head()
	head.File, head.FileSettings = nil, nil
	return errors.Join(err, sealed.SetHead(head))
}

// restoreValues completes the values, which take the place of others.
func (r *restoring) restoreValues(theirs map[string]access.StoredValue) error {
	values, err := access.Restored(r.values, theirs, r.keys, r.id)
	if err != nil {
		return err
	}
	r.values = values
	if r.isDoubted() {
		about, err := json.Marshal(unconfirmed{r.id, r.done.SHA256}, json.Deterministic(true))
		if err != nil {
			return err
		}
		r.values[unconfirmedName] = access.StoredValue{Data: about,
			Signatures: []string{r.keys.SignValue(unconfirmedName, about)}}
	}
	return nil
}

// stageValues writes the values to the stage.
func (r *restoring) stageValues(theirs map[string]access.StoredValue) error {
	if err := r.restoreValues(theirs); err != nil {
		return err
	}
	return writeValues(durable.At(r.stage), r.values)
}

// stageDocuments writes the documents to the stages. Those of files and batches are beside their
// contents.
func (r *restoring) stageDocuments() error {
	merged, filed := map[string]documents.Document{}, map[string][]documents.Document{}
	merge := func(doc documents.Document) error { //nolint:unparam // as eachDocument calls it
		if before, has := merged[doc.Kind+"/"+doc.ID]; !has || doc.Created.After(before.Created) {
			merged[doc.Kind+"/"+doc.ID] = doc
		}
		return nil
	}
	isReplaced := func(k store.Kept) bool { return !k.IsMerged }
	if _, err := r.place.eachDocument(slices.DeleteFunc(slices.Clone(r.kept), isReplaced), merge); err != nil {
		return err
	}
	write := func(doc documents.Document) error {
		path := store.Path(store.Of(r.kept, doc.Kind).Folder, r.stage, r.stagedFiles)
		return cmp.Or(os.MkdirAll(path, 0o700), documents.WriteFile(durable.At(path), doc))
	}
	err := r.eachDocument(func(doc documents.Document) error {
		switch k := store.Of(r.kept, doc.Kind); {
		case k.IsMerged:
			return merge(doc)
		case k.Read != nil:
			filed[k.Files[0]] = append(filed[k.Files[0]], doc)
			return nil
		}
		return write(doc)
	})
	if err != nil {
		return err
	}
	if err := r.eachUnseen(merge); err != nil {
		return err
	}
	for _, doc := range merged {
		err = errors.Join(err, write(doc))
	}
	for i := range r.kept {
		if k := &r.kept[i]; k.Write != nil && len(filed[k.Files[0]]) > 0 {
			content, failed := k.Write(filed[k.Files[0]])
			err = errors.Join(err, failed, durable.At(r.stage).Write(k.Files[0], content))
		}
	}
	return err
}

// eachUnseen calls a function with a document for each owner of a key: who is not known counts as seen
// now, so that the keys do not sleep.
func (r *restoring) eachUnseen(visit func(documents.Document) error) error {
	for _, owner := range access.Owners(r.values) {
		doc, err := sessions.SeenAt(owner.Issuer, owner.Subject, owner.Name, time.Now().UTC())
		if err == nil {
			err = visit(documents.Sign(r.keys, doc))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stageFiles unpacks files and batches beside the folder that will have them.
func (r *restoring) stageFiles() error {
	if !r.has(store.Files) {
		return nil
	}
	r.stagedFiles = filepath.Join(r.place.Folder, durable.Unfinished("restore"))
	if err := errors.Join(os.RemoveAll(r.stagedFiles), os.MkdirAll(r.stagedFiles, 0o700)); err != nil {
		return err
	}
	need := r.archive.bytes()
	if space, err := durable.SpaceOf(r.place.Folder); err == nil && space.Total > 0 && space.Free < need {
		return fmt.Errorf("the disk with %s has %d bytes free, and the backup needs %d", r.place.Folder, space.Free,
			need)
	}
	r.tell("%d bytes to unpack", need)
	for name, file := range r.archive.Files {
		isAnswer := strings.HasPrefix(name, answersDir+"/")
		if !strings.HasPrefix(name, contentsDir+"/") && (!isAnswer || !r.has(store.Batches)) {
			continue
		}
		if err := r.archive.unpack(name, filepath.Join(r.stagedFiles, filepath.FromSlash(name))); err != nil {
			return err
		}
		if !isAnswer {
			r.done.Bytes += file.Size
		}
		r.tell("%d bytes of files", r.done.Bytes)
	}
	for i := range r.kept {
		if k := &r.kept[i]; r.isDoubted() && k.Rekey != nil && strings.HasPrefix(k.Files[0], store.Shared) {
			if err := k.Rekey(r.sealing()); err != nil {
				return err
			}
		}
	}
	return nil
}

// sealing returns how the plain files of an unsigned backup are sealed before they take their place.
func (r *restoring) sealing() *store.Rekeying {
	return &store.Rekeying{Keys: r.keys, IsFirst: true,
		Path: func(name string) string { return filepath.Join(r.stagedFiles, strings.TrimPrefix(name, store.Shared)) },
		Done: func(what string, err error) {
			if err != nil {
				r.done.Notes = append(r.done.Notes, what+": "+err.Error())
			}
		}}
}

// eachDocument calls a function with the documents of the archive, and counts them. Of an archive that is
// signed it signs those that a data directory has without signatures, in a file. It marks those of another
// one, and leaves out those that would be merged.
func (r *restoring) eachDocument(visit func(documents.Document) error) error {
	if r.archive.files[documentsName] == nil {
		return nil // of a download
	}
	return r.archive.read(documentsName, func(from io.Reader) error {
		in := jsontext.NewDecoder(from)
		for {
			var doc documents.Document
			err := json.UnmarshalDecode(in, &doc)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil {
				err = documents.CheckName(doc.Kind, doc.ID)
			}
			k := store.Of(r.kept, doc.Kind)
			if err == nil && k != nil && !(r.isDoubted() && k.IsMerged) {
				r.done.countDocument(k, doc.Kind)
				if r.isDoubted() && k.Sealed != nil && r.stagedFiles != "" {
					err = k.Sealed(r.sealing(), &doc)
				}
				if err != nil {
					return err
				}
				if r.isDoubted() {
					doc = documents.SignRestored(r.keys, r.id, doc)
				} else if k.Read != nil && r.archive.From == fromDirectory {
					doc = documents.Sign(r.keys, doc)
				}
				err = visit(doc)
			}
			if err != nil {
				return err
			}
		}
	})
}
