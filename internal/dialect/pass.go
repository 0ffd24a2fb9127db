package dialect

import (
	"bytes"
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Field is a field of a body and the value that it gets, written as JSON; the zero
// Field sets nothing.
type Field struct {
	Name  string
	Value []byte
}

// Accept returns the type of the answer that a request asks for.
func Accept(req *schema.Request) string {
	if req.Stream {
		return "text/event-stream"
	}
	return "application/json"
}

// PassBody describes a call with the caller's own body and the backend's name of the
// model, for doors that are not unified.
func PassBody(req *schema.Request, to *Target, call *wire.Call) error {
	to.Begin(call, to.PathFor(req), "application/json", Accept(req))
	call.Edits = call.Edits[:0]
	if to.ModelJSON != nil {
		call.Edits = append(call.Edits, req.Body.Root().Get("model").Replace(to.ModelJSON))
	}
	call.Body = req.Body.Splice(call.Body[:0], call.Edits)
	return nil
}

// PassUnified is PassJSON for a body that needs nothing else.
func PassUnified(req *schema.Request, to *Target, call *wire.Call) error {
	return PassJSON(req, to, call, Accept(req), call.Edits[:0], Field{})
}

// PassJSON describes a call with the caller's own body, with the given edits, with
// another value for one field if the caller gave it, and with the parts that every body
// needs: the backend's name of the model, and the members of extra_body at the top
// level.
func PassJSON(req *schema.Request, to *Target, call *wire.Call, accept string, edits []jsonscan.Edit, set Field) error {
	to.Begin(call, to.PathFor(req), "application/json", accept)
	root := req.Body.Root()
	if to.ModelJSON != nil {
		edits = append(edits, root.Get("model").Replace(to.ModelJSON))
	}
	if v := root.Get(set.Name); set.Value != nil && v.Given() {
		edits = append(edits, v.Replace(set.Value))
	}
	if extra := root.Get("extra_body"); extra.Kind() != jsonscan.Absent {
		if err := req.ReserveTranslation(); err != nil {
			return err
		}
		edits = flatten(edits, root, extra, set)
	}
	call.Edits = edits
	call.Body = req.Body.Splice(call.Body[:0], edits)
	return nil
}

// flatten replaces extra_body by its members. A member that the caller gave itself
// stays out; one that it gave as null is filled in there.
func flatten(edits []jsonscan.Edit, root, extra jsonscan.Value, set Field) []jsonscan.Edit {
	var members jsonwrite.Writer
	own := root.Members()
	for m := range extra.All() {
		name := m.Key()
		given, value := own.Get(name), m.Raw()
		if set.Value != nil && string(name) == set.Name && m.Given() {
			value = set.Value
		}
		switch {
		case given.Given():
		case given.Kind() == jsonscan.Null:
			edits = append(edits, given.Replace(value))
		default:
			members.Name(string(m.RawKey())).Raw(value)
		}
	}
	if len(members.Out) == 0 {
		return append(edits, extra.Remove())
	}
	start, end := extra.MemberSpan()
	return append(edits, jsonscan.Edit{Start: start, End: end, With: members.Out})
}

// RenameModel adds the edit that gives an answer the client's name of the model, written as
// JSON, if the answer names one.
func RenameModel(edits []jsonscan.Edit, answer jsonscan.Value, name []byte) []jsonscan.Edit {
	if model := answer.Get("model"); model.Given() && !bytes.Equal(model.Raw(), name) {
		return append(edits, model.Replace(name))
	}
	return edits
}

// Pass makes a scanned answer the reply, under the client's name of the model, written as
// JSON.
func (r *Reply) Pass(model []byte) {
	r.Edits = RenameModel(r.Edits[:0], r.Doc.Root(), model)
	r.Segments = r.Doc.Splice(r.Segments[:0], r.Edits)
}

// ScanMember scans an answer that must have a member of a kind.
func (r *Reply) ScanMember(body []byte, name string, kind jsonscan.Kind) (root, member jsonscan.Value, err error) {
	if root, err = r.Scan(body); err != nil {
		return root, member, err
	}
	if member = root.Get(name); member.Kind() != kind {
		err = fmt.Errorf("%w: no %s", ErrInvalid, name)
	}
	return root, member, err
}
