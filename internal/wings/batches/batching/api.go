// Package batching holds the endpoints of files and batches: /v1/files and /v1/batches in
// the shapes of OpenAI, /v1/messages/batches in the shapes of Anthropic. It turns a line of
// a batch into a request of its owner.
package batching

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/described"
	v1 "github.com/patchbay-ai/patchbay/internal/serve/web/v1"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/batches"
	"github.com/patchbay-ai/patchbay/internal/wings/batches/files"
)

// API answers the endpoints of files and batches.
type API struct {
	options    Options
	operations *account.Operations
}

// Options are the parts that the API works with.
type Options struct {
	// Engine runs batches, nil where they are off, and Files has their files.
	Engine *batches.Engine
	Files  *files.Store
	// Keys decides who may ask.
	Keys           access.Callers
	TrustedProxies []netip.Prefix
	// LongestLine returns how many bytes a request may have, and LargestFile how many a
	// file.
	LongestLine, LargestFile func() int64
	// MaxLines returns how many requests a batch may have.
	MaxLines func() int
	Log      *slog.Logger
}

// New returns the API.
func New(options Options) *API { return &API{options, account.NewOperations()} }

// Routes returns the operations of files and batches.
func (a *API) Routes() []web.Route {
	var routes []web.Route
	add := func(pattern string, handler func(*visit) (any, error), op web.Route) {
		op.Tag = "Files and batches"
		if op.Error == nil {
			op.Error = described.ErrorBody{}
		}
		for _, status := range []int{http.StatusNotFound, http.StatusInsufficientStorage, http.StatusServiceUnavailable,
			http.StatusInternalServerError} {
			if !slices.Contains(op.Errors, status) {
				op.Errors = append(op.Errors, status)
			}
		}
		// A caller who has used up a limit can stop the batch that uses it.
		isLimited := !strings.HasSuffix(pattern, "/cancel")
		op.Pattern, op.Permission, op.Handler = pattern, access.ByKey, a.handle(handler, isLimited)
		routes = append(routes, op)
	}
	a.addFiles(add)
	a.addBatches(add)
	a.addMessageBatches(add)
	return routes
}

type adder func(pattern string, handler func(*visit) (any, error), op web.Route)

// visit is one request to an endpoint of this package.
type visit struct {
	*API
	w     http.ResponseWriter
	r     *http.Request
	owner files.Owner
	scope string
	// claims is the content of the token that the request came with in place of a key.
	claims string
	// user is the user that the request is made for, from a header that the key trusts.
	user string
	// account counts the request in the limit of such operations.
	account account.Account
}

// handle makes a handler of a function that returns the answer, nil where it has answered by
// itself, or why there is none.
func (a *API) handle(answer func(*visit) (any, error), isLimited bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &visit{API: a, w: w, r: r, account: account.Account{Caller: new(access.Caller)}}
		defer v.account.Close()
		var value any
		err := v.identify(isLimited)
		if err == nil {
			value, err = answer(v)
		}
		switch {
		case err != nil:
			v.fail(err)
		case value != nil:
			web.WriteJSON(w, http.StatusOK, value)
		}
	}
}

// batchOwner returns the owner of a batch, by which its lines find out later whether they may run.
func (v *visit) batchOwner() files.Owner {
	owner := v.owner
	owner.Claims = v.claims
	return owner
}

// identify finds out who asks, and counts the request in the limit of such operations.
func (v *visit) identify(isLimited bool) error {
	if v.options.Engine == nil {
		return schema.CodedError(codeOff, "files.off")
	}
	grant, refusal := v.options.Keys.Identify(v.r.Header, web.ClientAddr(v.r, v.options.TrustedProxies))
	if refusal != nil {
		return refusal
	}
	if grant != nil {
		v.owner = files.Owner{Key: grant.ID, Issue: grant.Issue, Tenant: grant.Tenant}
		v.claims = grant.Claims()
		web.RecordOf(v.w).KeyID = grant.ID
		user, refusal := grant.UserOf(v.r.Header)
		if refusal != nil {
			return refusal
		}
		v.user = quota.UserName(user)
	}
	v.scope = v.owner.Scope()
	if isLimited {
		v.account.Caller.Grant = grant
		return v.operations.Visit(&v.account)
	}
	return nil
}

// unread is an error that closes the connection, because the body was not read to its end.
type unread struct{ error }

// Unwrap returns the error itself.
func (u unread) Unwrap() error { return u.error }

// fail answers with an error.
func (v *visit) fail(err error) {
	if v.r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client left
	}
	known := v.known(err)
	web.RecordOf(v.w).Code = known.Code
	if errors.As(err, new(unread)) || v.r.Method == http.MethodPost && v.r.ContentLength != 0 &&
		errors.As(err, new(*schema.Error)) {
		v.w.Header().Set("Connection", "close")
	}
	v1.Fail(v.w, v.r, known)
}

// known returns the caller's form of an error.
func (v *visit) known(err error) *schema.Error {
	var told *schema.Error
	if errors.As(err, &told) {
		return told
	}
	for _, one := range [...]struct {
		is   error
		code string
		said say.Code
	}{
		{files.ErrNotFound, codeNoFile, "files.unknown"},
		{batches.ErrNotFound, codeNoBatch, "batch.missing"},
		{files.ErrTooMany, codeFull, "files.many"},
		{files.ErrNoRoom, codeFull, "files.full"},
		{batches.ErrTooManyKept, codeFull, "batch.kept"},
		{files.ErrAllFull, schema.CodeStorageFull, "files.all_full"},
		{files.ErrAllTooMany, schema.CodeStorageFull, "files.all_many"},
		{batches.ErrAllTooManyKept, schema.CodeStorageFull, "batch.all_kept"},
		{batches.ErrEnded, schema.CodeInvalidValue, "batch.over"},
		{batches.ErrNotEnded, schema.CodeInvalidValue, "batch.not_over"},
	} {
		if errors.Is(err, one.is) {
			known := schema.CodedError(one.code, one.said)
			known.NoRetry = one.code == schema.CodeStorageFull
			return known
		}
	}
	switch {
	case errors.Is(err, files.ErrTooLarge):
		return schema.CodedError(schema.CodeRequestTooLarge, "files.large", "size", v.options.LargestFile())
	case errors.Is(err, files.ErrDiskFull), durable.IsFull(err):
		v.options.Log.Error("the disk for files is full", "error", err)
		full := schema.CodedError(schema.CodeStorageFull, "files.disk_full")
		full.NoRetry = true
		return full
	case errors.Is(err, documents.ErrUnavailable):
		v.options.Log.Error("the store of files and batches does not answer", "path", v.r.URL.Path, "error", err)
		away := schema.CodedError(schema.CodeStorageUnavailable, "files.away")
		away.RetryAfter = storeRetry
		return away
	case errors.Is(err, batches.ErrTooMany):
		open := schema.CodedError(schema.CodeRateLimitExceeded, "batch.open")
		open.RetryAfter, open.NoRetry = time.Minute, true
		return open
	}
	v.options.Log.Error("files and batches", "path", v.r.URL.Path, "error", err)
	return schema.CodedError(schema.CodeInternal, "call.failed")
}

// storeRetry is the time until a caller should ask a store again that does not answer.
const storeRetry = 5 * time.Second

// limit reads how many elements of a list are wanted.
func (v *visit) limit(usual, most int) (int, error) {
	text := v.r.URL.Query().Get("limit")
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, schema.BadField("limit", "field.range", "least", "1", "most", most)
	}
	return n, nil
}

// messagesError is the form of errors of Anthropic's endpoints.
func messagesError() any { return messages.ErrorBody{} }

// seconds returns a time as OpenAI writes it, nil where there is none.
func seconds(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	at := t.Unix()
	return &at
}

func textOrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
