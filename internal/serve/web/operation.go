package web

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Call is one request to an operation of a management surface. It also holds the parts of
// the reply beside the value that the operation returns.
type Call struct {
	*http.Request
	Who access.Identity
	// Scope is the part of the gateway that the caller may see and change by the operation.
	Scope access.Scope
	// DryRun says that the caller wants to know the outcome without any change.
	DryRun bool
	// Content is the body. Given has the members that it gives, where the surface notes them.
	Content []byte
	Given   config.Given

	// Status and Message are the status and the message of the reply. They begin as the
	// table has them.
	Status  int
	Message string
	// Version is the version of the configuration that a read shows, sent as ETag for a
	// later If-Match; none if 0.
	Version int
	// Change describes the effect of a write for the audit log.
	Change Change
	// Cookie is set in the browser that asked, unless it is nil.
	Cookie *http.Cookie
	// Instead writes a reply that is no JSON, or is written piece by piece, in place of
	// the value; nil means that the value is the reply.
	Instead func(http.ResponseWriter)

	surface *Surface
	missing error
}

// Say makes a text the message of the reply.
func (c *Call) Say(format string, args ...any) { c.Message = fmt.Sprintf(format, args...) }

// Done notes the effect of a write for the audit log.
func (c *Call) Done(format string, args ...any) { c.Change.Summary = fmt.Sprintf(format, args...) }

// Words returns how the caller sees texts about errors.
func (c *Call) Words() Wording { return WordingFor(c.Who.Role) }

// Missing returns an error if the body lacks a member that it must have. Operations that
// make no version are not called then. The others ask within their change: a caller with a
// stale If-Match must hear of that first.
func (c *Call) Missing() error { return c.missing }

// Surface holds the properties that all operations of one family have in common.
type Surface struct {
	// Error is the form of its errors.
	Error any
	// Enveloped says that replies have the envelope of the management API. Such a surface
	// reads every body, and has dry runs unless a route says otherwise.
	Enveloped bool
	// Decode reads the body of a call.
	Decode func(c *Call, to any) error
	// Missing returns the error for a body that lacks a member, with the code of the sentence
	// about the member.
	Missing func(name string, code say.Code) error
	// Write answers with the value of an operation, and Fail with its error.
	Write func(w http.ResponseWriter, c *Call, value any)
	Fail  func(w http.ResponseWriter, r *http.Request, err error)
}

// Routes completes the operations of a table with their handlers, and with the types that
// they read and return. A route with a handler of its own keeps it. The document lists them
// under a heading, unless a route has another one.
func (s *Surface) Routes(tag string, table []Route) []Route {
	for i := range table {
		route := &table[i]
		route.Tag, route.Enveloped, route.Error = cmp.Or(route.Tag, tag), s.Enveloped, s.Error
		if route.Handler != nil {
			continue
		}
		if route.Query == nil {
			route.Query = route.Does.query
		}
		if route.Body == nil {
			route.Body = route.Does.body
		}
		if route.Reply == nil {
			route.Reply = route.Does.reply
		}
		route.Handler = s.handler(route)
	}
	return table
}

func (s *Surface) handler(route *Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := IdentityOf(r)
		c := &Call{Request: r, Who: who, Scope: who.Scope(route.Permission, route.Team), Message: route.Says,
			Status: cmp.Or(route.Status, http.StatusOK), surface: s}
		err := s.read(w, c, route)
		var value any
		if err == nil {
			value, err = route.Does.call(c, route)
		}
		if err != nil {
			s.Fail(w, r, err)
			return
		}
		s.answer(w, c, value)
	}
}

// read reads the parts of a write beside its query. It reads the body before the operation
// locks anything: a slow client must not block other changes.
func (s *Surface) read(w http.ResponseWriter, c *Call, route *Route) (err error) {
	if isSafe(c.Method) {
		return nil
	}
	if c.DryRun, err = Flag(c.Request, dryRunFlag); err != nil {
		return Invalid(dryRunFlag, say.From(err))
	}
	if c.DryRun && !s.Enveloped {
		return &RequestError{Status: http.StatusBadRequest, Why: say.New("manage.no_dry_run")}
	}
	if c.Method != http.MethodDelete && (s.Enveloped || route.Body != nil) {
		if c.Content, err = ReadBody(w, c.Request); err != nil {
			return err
		}
	}
	if c.DryRun && route.NoDryRun {
		return BadInput(dryRunFlag, "manage.no_dry_call")
	}
	return nil
}

// dryRunFlag is the query parameter that makes a write only validate.
const dryRunFlag = "dryRun"

// answer sends the reply of an operation that succeeded.
func (s *Surface) answer(w http.ResponseWriter, c *Call, value any) {
	if c.DryRun {
		c.Status = http.StatusOK // nothing was created
	}
	if change, ok := value.(interface{ Tell(*Call) }); ok {
		change.Tell(c)
	}
	noted := ChangeOf(w)
	noted.Summary, noted.DryRun = c.Change.Summary, c.DryRun
	noted.Who, noted.Reply = c.Change.Who, value
	if c.Change.After != 0 {
		noted.Before, noted.After = c.Change.Before, c.Change.After
	}
	if c.Cookie != nil {
		http.SetCookie(w, c.Cookie)
	}
	if c.Version != 0 {
		w.Header().Set("Etag", fmt.Sprintf(`"%d"`, c.Version))
	}
	if c.Instead != nil {
		c.Instead(w)
		return
	}
	s.Write(w, c, value)
}

// Function is the code of an operation, with the types that it reads and returns.
type Function struct {
	query, body, reply any
	call               func(c *Call, route *Route) (any, error)
}

// Do makes a Function of a Go function that reads neither a query nor a body.
func Do[R any](do func(*Call) (R, error)) Function {
	return Function{reply: *new(R), call: func(c *Call, _ *Route) (any, error) { return do(c) }}
}

// DoWith makes a Function of a Go function that reads a query.
func DoWith[Q, R any](do func(*Call, *Q) (R, error)) Function {
	return Function{query: *new(Q), reply: *new(R), call: func(c *Call, _ *Route) (any, error) {
		var query Q
		if err := ReadQuery(c.Request, &query); err != nil {
			return nil, err
		}
		return do(c, &query)
	}}
}

// DoBody makes a Function of a Go function that reads a body.
func DoBody[B, R any](do func(*Call, *B) (R, error)) Function {
	return Function{body: *new(B), reply: *new(R), call: func(c *Call, route *Route) (any, error) {
		var body B
		if err := c.decode(&body, route); err != nil {
			return nil, err
		}
		return do(c, &body)
	}}
}

// List makes a Function of a Go function that returns a list. A request may ask for a page
// of it.
func List[T any](do func(*Call) ([]T, error)) Function {
	return ListWith(func(c *Call, _ *PageQuery) ([]T, error) { return do(c) })
}

// ListWith is List for a function that reads a query, which has a PageQuery in it.
func ListWith[Q interface{ Page() *Page }, T any](do func(*Call, *Q) ([]T, error)) Function {
	f := DoWith(func(c *Call, query *Q) (any, error) {
		all, err := do(c, query)
		if err != nil {
			return nil, err
		}
		page := (*query).Page()
		shown := OnPage(page, all)
		if page == nil {
			return shown, nil
		}
		return PageView[T]{shown, *page}, nil
	})
	f.reply = ListOf[T]{}
	return f
}

// decode reads the body, on top of the defaults that its type has.
func (c *Call) decode(to any, route *Route) error {
	if preset, ok := to.(interface{ SetDefaults() }); ok {
		preset.SetDefaults()
	}
	if route.BodyOptional && len(c.Content) == 0 {
		return nil
	}
	if err := c.surface.Decode(c, to); err != nil {
		return err
	}
	c.missing = c.lacks(to)
	if route.Versioned {
		return nil
	}
	return c.missing
}

// RequestError is why an operation refuses a request.
type RequestError struct {
	Status int
	Why    say.Sentence

	cause error
}

func (e *RequestError) Unwrap() error { return e.cause }

func (e *RequestError) Error() string { return e.Why.String() }

// Said returns the sentence of the error.
func (e *RequestError) Said() say.Sentence { return e.Why }

// Invalid returns an error about a field of a request, or about the request itself where the
// field is empty.
func Invalid(field string, why say.Sentence) error {
	return &RequestError{Status: http.StatusBadRequest, Why: why.About(field)}
}

// BadInput is Invalid with the sentence of a code and values.
func BadInput(field string, why say.Code, pairs ...any) error {
	return Invalid(field, say.New(why, pairs...))
}

// NotFound returns an error about something that a request names and that does not exist.
func NotFound(why say.Sentence) error { return &RequestError{Status: http.StatusNotFound, Why: why} }

// NoSuch is NotFound with the sentence of a code and values.
func NoSuch(why say.Code, pairs ...any) error { return NotFound(say.New(why, pairs...)) }

// Away returns an error about something that cannot be reached or changed now.
func Away(why say.Sentence) error {
	return &RequestError{Status: http.StatusServiceUnavailable, Why: why}
}

// Group completes the declarations of operations on objects of one kind: their heading, the permission
// of those that only read and of the others, and the tenant of the objects. An operation keeps what it
// declares itself.
func Group(tag string, reads, writes access.Permission, concerns func(*http.Request, any) string,
	table []Route) []Route {
	for i := range table {
		route := &table[i]
		permission := writes
		if strings.HasPrefix(route.Pattern, http.MethodGet) {
			permission = reads
		}
		route.Tag, route.Permission = cmp.Or(route.Tag, tag), cmp.Or(route.Permission, permission)
		if route.Concerns == nil && !route.isOfTenant() {
			route.Concerns = concerns
		}
	}
	return table
}

// OfGateway is the Route.Concerns of operations whose objects belong to no tenant.
func OfGateway(*http.Request, any) string { return "" }

// ByReply returns the Route.Concerns of operations whose reply has the tenant.
func ByReply[R any](tenant func(*R) string) func(*http.Request, any) string {
	return func(_ *http.Request, reply any) string {
		if r, ok := reply.(R); ok {
			return tenant(&r)
		}
		return ""
	}
}
