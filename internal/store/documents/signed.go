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
	// renewTime bounds one attempt to sign what is not signed, and renewEvery is the time
	// between two of them.
	renewTime  = 20 * time.Second
	renewEvery = 20 * time.Second
	// warnEvery is how often it is logged that a document was refused.
	warnEvery = 10 * time.Second
)

// Signed is a store whose documents are signed: with their kind, id, scope, size and content.
// One that somebody else wrote, changed or gave to another scope is not there, and logged.
//
// The signature is the last member of a document's data, which releases that do not sign
// pass over.
type Signed struct {
	Store
	options SignedOptions

	mu     sync.Mutex
	warned time.Time

	stop    context.CancelFunc
	working sync.WaitGroup
}

var _ Store = (*Signed)(nil)

// SignedOptions are what a Signed store works with.
type SignedOptions struct {
	// Keys are the master keys; there must be one.
	Keys *seal.Keys
	// Takeovers say whether documents are read that nobody signed, and WritesBefore that
	// gateways of the release before run, which write such documents.
	Takeovers    *takeover.Records
	WritesBefore bool
	// Kinds are those of the documents.
	Kinds []string
	Log   *slog.Logger
}

// NewSigned returns a store around another one. What is not signed there is signed as far as
// it is taken over, and what an earlier master key has signed is signed anew: now, or in the
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

// Close ends what runs in the background.
func (s *Signed) Close() {
	s.stop()
	s.working.Wait()
}

// keepRenewing renews the signatures until that has succeeded, and for as long as gateways
// run that write documents without.
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

// renew signs the documents whose signature is missing, where that may be, or of an earlier
// master key. When all are signed and nobody writes others, they are taken over.
func (s *Signed) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	for _, kind := range s.options.Kinds {
		err := Each(ctx, s.Store, Query{Kind: kind, IsAscending: true}, func(doc Document) (bool, error) { return true, s.renewOne(ctx, doc) })
		if err != nil {
			return err
		}
	}
	if s.options.WritesBefore || !s.options.Takeovers.IsOpen(takeover.Documents) {
		return nil
	}
	return s.options.Takeovers.Finish(ctx, takeover.Documents)
}

// renewOne signs a document whose signature is missing or of an earlier master key.
func (s *Signed) renewOne(ctx context.Context, doc Document) error {
	if signature := signatureOf(doc.Data); signature != "" && s.options.Keys.IsCurrent(signature) || !s.check(&doc) {
		return nil
	}
	_, err := s.Put(ctx, doc)
	if errors.Is(err, ErrChanged) {
		return nil // whoever changed it has signed it, or the next attempt does
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

// List returns documents in their order, in place of those that are refused the next ones.
// Where only names are asked for, those of refused documents are among them.
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
	signature := s.options.Keys.Sign(signedParts(&doc)...)
	data := append(make([]byte, 0, len(doc.Data)+len(signature)+len(signatureMember)+len(signatureEnd)), doc.Data[:len(doc.Data)-1]...)
	if len(data) > len("{") {
		data = append(data, ',')
	}
	doc.Data = append(append(append(data, signatureMember...), signature...), signatureEnd...)
	return s.Store.Put(ctx, doc)
}

// signedParts are what is signed of a document.
func signedParts(doc *Document) []string {
	return []string{"document", doc.Kind, doc.ID, doc.Scope, strconv.FormatBool(doc.IsOpen), strconv.FormatInt(doc.Bytes, 10), string(doc.Data)}
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

// check takes the signature off a document, and reports whether it is good: right, or missing
// where that may be.
func (s *Signed) check(doc *Document) bool {
	signature := signatureOf(doc.Data)
	if signature == "" {
		if s.options.Takeovers.ReadsUnsigned(takeover.Documents) {
			return true
		}
		s.warn(doc, errUnsigned)
		return false
	}
	data := bytes.TrimSuffix(doc.Data[:len(doc.Data)-len(signatureMember)-len(signature)-len(signatureEnd)], []byte(","))
	doc.Data = append(bytes.Clone(data), '}')
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
		s.options.Log.Warn("the description of a file or batch is refused: no gateway with this master key stored it so", "kind", doc.Kind, "id", doc.ID, "error", err)
	}
}
