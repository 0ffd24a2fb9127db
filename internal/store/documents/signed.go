package documents

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// warnEvery is the least time between two log lines about refused documents.
const warnEvery = 10 * time.Second

// Signed is a store that signs its documents: their kind, id, scope, size and content. It
// hides and logs a document that somebody else wrote, changed or gave to another scope.
//
// The signature is the last member of a document's data.
type Signed struct {
	Store
	keys *seal.Keys
	log  *slog.Logger

	mu     sync.Mutex
	warned time.Time
}

var _ Store = (*Signed)(nil)

// NewSigned returns a store around another one. There must be keys.
func NewSigned(store Store, keys *seal.Keys, log *slog.Logger) *Signed {
	return &Signed{Store: store, keys: keys, log: log}
}

// Get returns a document, or ErrNotFound.
func (s *Signed) Get(ctx context.Context, kind, id string) (Document, error) {
	doc, err := s.Store.Get(ctx, kind, id)
	if err == nil && !s.check(&doc) {
		return Document{}, ErrNotFound
	}
	return doc, err
}

// List returns documents in their order. The next documents take the place of refused
// ones. A list of names only includes the names of refused documents.
func (s *Signed) List(ctx context.Context, query Query) (found []Document, err error) {
	if query.OnlyNames {
		return s.Store.List(ctx, query)
	}
	limit := query.Limit
	for {
		docs, err := s.Store.List(ctx, query)
		if err != nil {
			return nil, err
		}
		for i := range docs {
			if s.check(&docs[i]) {
				found = append(found, docs[i])
			}
			if limit > 0 && len(found) == limit {
				return found, nil
			}
		}
		if limit == 0 || len(docs) < limit {
			return found, nil
		}
		query.After, query.AfterCreated = docs[len(docs)-1].ID, docs[len(docs)-1].Created
	}
}

// Put stores a document and returns its new version.
func (s *Signed) Put(ctx context.Context, doc Document) (int64, error) {
	if len(doc.Data) < len("{}") || doc.Data[0] != '{' || signatureOf(doc.Data) != "" {
		return 0, errors.New("a document must be an object without a signature")
	}
	return s.Store.Put(ctx, Sign(s.keys, doc))
}

// Sign returns a document with a signature. One that has a signature, or without keys, stays as it is.
func Sign(keys *seal.Keys, doc Document) Document { return sign(keys, doc) }

// SignRestored is Sign for a document that the restore with this id has brought from an unsigned backup. It
// is refused until Confirm gets the same id. A signature that it has is replaced.
func SignRestored(keys *seal.Keys, restore string, doc Document) Document {
	takeSignature(&doc)
	return sign(keys, doc, "restored", restore)
}

func sign(keys *seal.Keys, doc Document, more ...string) Document {
	if keys == nil || len(doc.Data) < len("{}") || signatureOf(doc.Data) != "" {
		return doc
	}
	signature := keys.Sign(append(signedParts(&doc), more...)...)
	data := append(make([]byte, 0, len(doc.Data)+len(signature)+len(signatureMember)+len(signatureEnd)),
		doc.Data[:len(doc.Data)-1]...)
	if len(data) > len("{") {
		data = append(data, ',')
	}
	doc.Data = append(append(append(data, signatureMember...), signature...), signatureEnd...)
	return doc
}

// Rekeyed returns a document that one of the keys has signed, signed with the current one. A document without a
// signature is signed if that is allowed. Change may change it. If an unsigned backup was restored with it and is
// not confirmed, restore is the id of the restore, and stays in the signature.
func Rekeyed(keys *seal.Keys, doc Document, mayBeUnsigned bool, restore string, change func(*Document) error,
) (_ Document, isChanged bool, err error) {
	before := doc.Data
	signature := takeSignature(&doc)
	var more []string
	if signature == "" && !mayBeUnsigned {
		return doc, false, errUnsigned
	}
	if signature != "" {
		err = keys.Verify(signature, signedParts(&doc)...)
	}
	if err != nil && restore != "" {
		more = []string{"restored", restore}
		err = keys.Verify(signature, append(signedParts(&doc), more...)...)
	}
	if err == nil {
		err = change(&doc)
	}
	if err != nil {
		return doc, false, err
	}
	doc = sign(keys, doc, more...)
	return doc, !bytes.Equal(doc.Data, before), nil
}

// Confirm signs the documents of some kinds that are as SignRestored made them for a restore, and returns
// their number. All others stay as they are.
func Confirm(ctx context.Context, store Store, keys *seal.Keys, restore string, kinds []string) (n int, err error) {
	for _, kind := range kinds {
		err := Each(ctx, store, Query{Kind: kind}, func(doc Document) (bool, error) {
			signature := takeSignature(&doc)
			if keys.Verify(signature, append(signedParts(&doc), "restored", restore)...) != nil {
				return true, nil
			}
			n++
			_, err := store.Put(ctx, Sign(keys, doc))
			return true, err
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// signedParts returns the parts of a document that are signed.
func signedParts(doc *Document) []string {
	return []string{"document", doc.Kind, doc.ID, doc.Scope, strconv.FormatBool(doc.IsOpen),
		strconv.FormatInt(doc.Bytes, 10), string(doc.Data)}
}

const (
	signatureMember = `"signature":"`
	signatureEnd    = `"}`
)

// signatureOf returns the signature at the end of an object, empty if there is none.
func signatureOf(data []byte) string {
	at := bytes.LastIndex(data, []byte(signatureMember))
	if at < 0 || !bytes.HasSuffix(data, []byte(signatureEnd)) || at+len(signatureMember) > len(data)-len(signatureEnd) {
		return ""
	}
	signature := string(data[at+len(signatureMember) : len(data)-len(signatureEnd)])
	if strings.ContainsAny(signature, `"\`) {
		return ""
	}
	return signature
}

// takeSignature takes the signature off a document and returns it, empty if there is none.
func takeSignature(doc *Document) string {
	signature := signatureOf(doc.Data)
	if signature == "" {
		return ""
	}
	data := bytes.TrimSuffix(doc.Data[:len(doc.Data)-len(signatureMember)-len(signature)-len(signatureEnd)],
		[]byte(","))
	doc.Data = append(bytes.Clone(data), '}')
	return signature
}

// check takes the signature off a document, and reports whether it is good.
func (s *Signed) check(doc *Document) bool {
	err := errUnsigned
	if signature := takeSignature(doc); signature != "" {
		err = s.keys.Verify(signature, signedParts(doc)...)
	}
	if err != nil {
		s.warn(doc, err)
	}
	return err == nil
}

var errUnsigned = errors.New("it is not signed")

// warn logs that a document was refused.
func (s *Signed) warn(doc *Document, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.warned) >= warnEvery {
		s.warned = now
		s.log.Warn("a stored document is refused: no gateway with this master key stored it so",
			"kind", doc.Kind, "id", doc.ID, "error", err)
	}
}
