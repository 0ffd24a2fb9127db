package batches

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// sizeOf returns how much of the disk a batch takes.
func (e *Engine) sizeOf(b *Batch) (int64, error) {
	data, err := json.Marshal(b)
	return files.Blocks(len(data)), err
}

// put stores a batch in place of the version that it was read from.
func (e *Engine) put(ctx context.Context, b *Batch) error {
	data, err := json.Marshal(b, json.Deterministic(true))
	if err != nil {
		return err
	}
	version, err := e.o.Documents.Put(ctx, documents.Document{
		Kind: Kind, ID: b.ID, Scope: b.Owner.Scope(), Created: b.Created, IsOpen: !b.State.IsEnd(),
		Bytes: files.Blocks(len(data)), Data: data, Version: b.version,
	})
	if err == nil {
		b.version = version
	}
	return err
}

func (e *Engine) get(ctx context.Context, id string) (Batch, error) {
	doc, err := e.o.Documents.Get(ctx, Kind, id)
	if errors.Is(err, documents.ErrNotFound) {
		return Batch{}, ErrNotFound
	}
	if err != nil {
		return Batch{}, err
	}
	return decode(doc)
}

func decode(doc documents.Document) (Batch, error) {
	var b Batch
	if err := json.Unmarshal(doc.Data, &b); err != nil {
		return Batch{}, fmt.Errorf("the batch %s: %w", doc.ID, err)
	}
	if b.ID != doc.ID || documents.CheckName(Kind, b.ID) != nil { // it names a folder
		return Batch{}, fmt.Errorf("the batch %s: its description is that of %q", doc.ID, b.ID)
	}
	b.version = doc.Version
	return b, nil
}

// edit changes the present form of a batch. The function change returns false to leave it
// unchanged.
func (e *Engine) edit(ctx context.Context, id string, change func(*Batch) bool) (Batch, error) {
	for {
		b, err := e.get(ctx, id)
		if err != nil || !change(&b) {
			return b, err
		}
		if err := e.put(ctx, &b); !errors.Is(err, documents.ErrChanged) {
			return b, err
		}
	}
}
