package dialect

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/hosts/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Field is a field of a body and the value that it gets, written as JSON; the
// zero field is none.
type Field struct {
	Name  string
	Value []byte
}

// PassJSON describes a call whose body is the caller's own, with the given
// edits, with another value for one field if the caller gave it, and with what
// every body needs: the backend's name of the model, and the members of
// extra_body at the top level.
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

// flatten moves the members of extra_body to where it stands. A member that the
// caller gave itself stays out; one that it gave as null is filled in there.
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
