package schema

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
)

// Source is a request as its client wrote it, where the client speaks another
// dialect than that of the unified API.
type Source struct {
	// Body is the client's own body.
	Body jsonscan.Document
	// Header and Query are what else the client sent, for backends that speak the
	// same dialect. Nothing of it is passed on that a dialect does not name.
	Header http.Header
	Query  string
	// Passed is told the id of an answer that a backend keeps and that is passed on;
	// nil where nobody wants to know.
	Passed func(id string)

	unified []byte // memory for the body in the unified shape
}

// keepUnified is the largest memory for a unified body that is kept for the next request.
const keepUnified = 1 << 20

// Reset lets go of the request and keeps the memory for the next one.
func (s *Source) Reset() {
	s.Body.Reset()
	unified := s.unified[:0]
	if cap(unified) > keepUnified {
		unified = nil
	}
	*s = Source{Body: s.Body, unified: unified}
}

// ParseSource reads the body of a request in the dialect of a door that is not
// unified, and checks what the requests of all doors have in common. It puts the fields
// that have one of the names into found, as jsonscan.Value.Find does. A key that differs
// only in case from one of the names is refused.
func (r *Request) ParseSource(door Door, body []byte, names *jsonscan.Names, found []jsonscan.Value) error {
	r.Service, r.Door = door.Service(), door
	if r.Source == nil {
		r.Source = new(Source)
	}
	r.Source.Body.Reserve = r.Body.Reserve
	if err := r.Source.Body.Parse(body); err != nil {
		return invalidJSON(err)
	}
	root := r.Source.Body.Root()
	if root.Kind() != jsonscan.Object {
		return NewError(CodeInvalidJSON, "The request body must be a JSON object.")
	}
	if root.Find(names, found) > 0 {
		if err := r.checkCase(root, func(_ ServiceType, name []byte) bool { return names.Has(name) }); err != nil {
			return err
		}
	}
	model := root.Get("model")
	switch {
	case !model.Given():
		return MissingParameter("model")
	case model.Kind() != jsonscan.String:
		return wrongType("model", "a string")
	}
	r.Model = model.Text()
	return checkModelName(r.Model)
}

// CheckExtraBody checks the member extra_body of a request in another dialect than the
// unified one, which is written into the unified shape as it is.
func (r *Request) CheckExtraBody(extra jsonscan.Value) error {
	if extra.Given() && extra.Kind() != jsonscan.Object {
		return wrongType("extra_body", "an object")
	}
	if err := r.checkCase(extra, readsField); err != nil {
		return err
	}
	return checkExtra(extra, jsonscan.Value{})
}

// Unify sets the body in the unified shape of a request that came in another one,
// which write writes into the memory that it is given, or into other memory where that
// is too small. Unify does nothing if the body is there, because only the first of
// several attempts needs to write it.
func (r *Request) Unify(write func(r *Request, into []byte) ([]byte, error)) error {
	if r.Body.Data() != nil || r.Source == nil {
		return nil
	}
	body, err := write(r, r.Source.unified[:0])
	if err != nil {
		return err
	}
	r.Source.unified = body
	if err := r.Body.Parse(body); err != nil {
		reserve := r.Body.Reserve
		r.Body.Reset()
		r.Body.Reserve = reserve
		return invalidJSON(err)
	}
	return nil
}

// data returns the text of the request as the client wrote it.
func (r *Request) data() []byte {
	if r.Source != nil {
		return r.Source.Body.Data()
	}
	return r.Body.Data()
}
