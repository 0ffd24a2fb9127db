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
		Kind: kind, ID: b.ID, Scope: b.Owner.Scope(), Created: b.Created, IsOpen: !b.State.IsEnd(),
		Bytes: files.Blocks(len(data)), Data: data, Version: b.version,
	})
	if err == nil {
		b.version = version
	}
	return err
}

func (e *Engine) get(ctx context.Context, id string) (Batch, error) {
	doc, err := e.o.Documents.Get(ctx, kind, id)
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
	if b.ID != doc.ID || documents.CheckName(kind, b.ID) != nil { // it names a folder
		return Batch{}, fmt.Errorf("the batch %s: its description is that of %q", doc.ID, b.ID)
	}
	b.version = doc.Version
	return b, nil
}

// each calls a function with the batches of a query and a scope until it returns false or an error.
// A description that cannot be read does not keep others from being found.
func (e *Engine) each(ctx context.Context, query documents.Query, scope string,
	visit func(Batch) (more bool, err error)) error {
	query.Kind = kind
	if scope != AnyScope {
		query.Scopes = []string{scope}
	}
	return documents.Each(ctx, e.o.Documents, query, func(doc documents.Document) (bool, error) {
		b, err := decode(doc)
		if err != nil {
			e.tell(err, "reading a description, which is passed over")
			return true, nil
		}
		return visit(b)
	})
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
