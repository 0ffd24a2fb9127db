package schema

import "github.com/patchbay-ai/patchbay/internal/request/jsonscan"

// ParseRerank reads and checks a rerank request.
func (r *Request) ParseRerank(body []byte) error {
	if err := r.parse(Rerank, body, RerankFields); err != nil {
		return err
	}
	documents := r.Field("documents")
	if err := CheckList("documents", documents, "field.empty"); err != nil {
		return err
	}
	for i, v := range documents.Elements() {
		if k := v.Kind(); k != jsonscan.String && k != jsonscan.Object {
			return BadField(Element("documents", i), "value.string_or_text")
		}
		if err := documentFields.checkCase(v); err != nil {
			return err
		}
	}
	return nil
}
