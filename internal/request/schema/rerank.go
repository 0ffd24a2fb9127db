package schema

import (
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// ParseRerank reads and checks a rerank request.
func (r *Request) ParseRerank(body []byte) error {
	if err := r.parse(Rerank, body); err != nil {
		return err
	}
	if err := r.text("query"); err != nil {
		return err
	}
	documents := r.Field("documents")
	switch {
	case !documents.Given():
		return MissingParameter("documents")
	case documents.Kind() != jsonscan.Array:
		return wrongType("documents", "an array")
	case documents.Empty():
		return InvalidValue("documents", "'documents' must not be empty.")
	}
	i := 0
	for v := range documents.All() {
		if k := v.Kind(); k != jsonscan.String && k != jsonscan.Object {
			return wrongType("documents["+strconv.Itoa(i)+"]", "a string or an object with a text")
		}
		if err := r.checkCase(v, readsDocumentField); err != nil {
			return err
		}
		i++
	}
	if v := r.Field("top_n"); v.Given() {
		if n, ok := v.Int(); !ok || n < 1 {
			return wrongType("top_n", "a positive integer")
		}
	}
	_, err := r.boolean("return_documents")
	return err
}
