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

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/store/takeover"
)

const (
	// renewTime bounds one attempt to sign unsigned documents, and renewEvery is the time
	// between two attempts.
	renewTime  = 20 * time.Second
	renewEvery = 20 * time.Second
	// warnEvery is the least time between two log lines about refused documents.
	warnEvery = 10 * time.Second
)

// Signed is a store that signs its documents: their kind, id, scope, size and content. It
// hides and logs a document that somebody else wrote, changed or gave to another scope.
//
// The signature is the last member of a document's data. Releases that do not sign ignore
// it.
type Signed struct {
	Store
	options SignedOptions

	mu     sync.Mutex
	warned time.Time

	stop    context.CancelFunc
	working sync.WaitGroup
}

var _ Store = (*Signed)(nil)

// SignedOptions are the parts and rules of a Signed store.
type SignedOptions struct {
	// Keys are the master keys; there must be one.
	Keys *seal.Keys
	// Takeovers say whether unsigned documents are read, and WritesBefore that gateways
	// of the release before run, which write such documents. Without Takeovers none is read.
	Takeovers    *takeover.Records
	WritesBefore bool
	// Kinds are the kinds of documents in the store.
	Kinds []string
	Log   *slog.Logger
}

// NewSigned returns a store around another one. It signs unsigned documents as far as
// they are taken over, and signs documents of an earlier master key anew: now, or in the
// background where that is not possible.
func NewSigned(store Store, options SignedOptions) *Signed {
	s := &Signed{Store: store, options: options}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	if err := s.renew(ctx); err != nil || options.WritesBefore {
		s.working.Go(func() { logs.Persist(ctx, options.Log, "signing descriptions", s.keepRenewing) })
	}
	return s
}

// Close ends the work in the background.
func (s *Signed) Close() {
	s.stop()
	s.working.Wait()
}

// keepRenewing renews the signatures until that has succeeded, and as long as other
// gateways write unsigned documents.
func (s *Signed) keepRenewing(ctx context.Context) {
	for waiting.Pause(ctx, renewEvery) == nil {
		err := s.renew(ctx)
		if err == nil && !s.options.WritesBefore {
			return
		}
		if err != nil && ctx.Err() == nil {
			s.options.Log.Debug("descriptions of files and batches cannot be signed now", "error", err)
		}
	}
}

// renew signs the documents without a signature, where that is allowed, and documents
// that an earlier master key signed. When all are signed and nobody writes unsigned ones,
// the takeover is finished.
func (s *Signed) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	for _, kind := range s.options.Kinds {
		err := Each(ctx, s.Store, Query{Kind: kind, IsAscending: true},
			func(doc Document) (bool, error) { return true, s.renewOne(ctx, doc) })
		if err != nil {
			return err
		}
	}
	if s.options.WritesBefore || s.options.Takeovers == nil || !s.options.Takeovers.IsOpen(takeover.Documents) {
		return nil
	}
	return s.options.Takeovers.Finish(ctx, takeover.Documents)
}

// renewOne signs a document that has no signature or one of an earlier master key.
func (s *Signed) renewOne(ctx context.Context, doc Document) error {
	if signature := signatureOf(doc.Data); signature != "" && s.options.Keys.IsCurrent(signature) || !s.check(&doc) {
		return nil
	}
	_, err := s.Put(ctx, doc)
	if errors.Is(err, ErrChanged) {
		return nil // the writer that changed it has signed it, or the next attempt does
	}
	return err
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
	return s.Store.Put(ctx, Sign(s.options.Keys, doc))
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

// check takes the signature off a document, and reports whether it is good: right, or
// missing where that is allowed.
func (s *Signed) check(doc *Document) bool {
	signature := takeSignature(doc)
	if signature == "" {
		if s.options.Takeovers != nil && s.options.Takeovers.ReadsUnsigned(takeover.Documents) {
			return true
		}
		s.warn(doc, errUnsigned)
		return false
	}
	if err := s.options.Keys.Verify(signature, signedParts(doc)...); err != nil {
		s.warn(doc, err)
		return false
	}
	return true
}

var errUnsigned = errors.New("it is not signed")

// warn logs that a document was refused.
func (s *Signed) warn(doc *Document, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.warned) >= warnEvery {
		s.warned = now
		s.options.Log.Warn("a stored document is refused: no gateway with this master key stored it so",
			"kind", doc.Kind, "id", doc.ID, "error", err)
	}
}
