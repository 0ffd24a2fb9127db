// Package rerank speaks the two dialects of backends that rank documents: the one of
// Cohere and Jina, and the one of Text Embeddings Inference.
package rerank

import (
	"cmp"
	"crypto/rand"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Rerank speaks the shape that backends for ranking share: a query and
// documents in, results with an index and a score out.
var Rerank = &dialect.Adapter{Call: callRerank, Reply: replyRerank}

// callRerank passes the body on.
func callRerank(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	var set dialect.Field
	if documents := req.Field("documents"); (to.Quirks.TextDocuments || to.Quirks.UnwrapDocuments) &&
		hasObjects(documents) {
		if err := req.ReserveTranslation(); err != nil {
			return err
		}
		set = dialect.Field{Name: "documents", Value: textArray(documents, to.Quirks.UnwrapDocuments)}
	}
	return dialect.PassJSON(req, to, call, "application/json", call.Edits[:0], set)
}

// replyRerank makes the unified reply of the results. It sorts and cuts them and adds the
// documents, whether the backend did or not.
func replyRerank(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, err := reply.Scan(answer.Body)
	if err != nil {
		return err
	}
	list := root.Get("results")
	if !list.Given() {
		list = root.Get("data")
	}
	if list.Kind() != jsonscan.Array {
		return dialect.Invalid("no results")
	}
	return ranked(req, root, list, reply)
}

// result is one ranked document.
type result struct {
	index int64
	score float64
	raw   []byte         // the score as the backend wrote it
	all   jsonscan.Value // the result as the backend wrote it
}

// ranked writes the unified reply: its own members, and the further ones of the backend
// as they came.
func ranked(req *schema.Request, root, list jsonscan.Value, reply *dialect.Reply) error {
	var documents []jsonscan.Value
	for v := range req.Field("documents").All() {
		documents = append(documents, v)
	}
	results, err := readResults(list, len(documents))
	if err != nil {
		return err
	}
	slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(b.score, a.score) })
	if top, ok := req.Field("top_n").Int(); ok {
		results = results[:min(int64(len(results)), top)]
	}
	reply.Usage = rankUsage(root)
	out := jsonwrite.Writer{Out: make([]byte, 0, len(reply.Doc.Data())+rankHead+rankEach*len(results))}
	writeHead(&out, root, list, req)
	withDocuments := req.Field("return_documents").Kind() == jsonscan.True
	known := []string{"index", "score", "relevance_score", "document"}
	if root.Kind() == jsonscan.Absent {
		known = append(known, "text") // the name of the document in a bare list
	}
	for _, r := range results {
		out.Open(`{"index":`).Int(r.index)
		out.Member("score", r.raw)
		out.Member("relevance_score", r.raw)
		if withDocuments {
			out.Name("document").Object()
			out.Member("text", documentText(documents[r.index]))
			out.EndObject()
		}
		copyOthers(&out, r.all, known...)
		out.EndObject()
	}
	out.EndArray()
	out.Name("usage")
	writeUsage(&out, root.Get("usage"), reply.Usage)
	out.EndObject()
	reply.Set(out.Out)
	return nil
}

// The size of a reply beside the backend's own text, in all and for each result.
const rankHead, rankEach = 128, 32

func readResults(list jsonscan.Value, documents int) ([]result, error) {
	var results []result
	seen := make([]bool, documents)
	for v := range list.All() {
		index, ok := v.Get("index").Int()
		if !ok || index < 0 || index >= int64(documents) || seen[index] {
			return nil, dialect.Invalid("a result for no document")
		}
		seen[index] = true
		score := v.Get("relevance_score")
		if !score.Given() {
			score = v.Get("score")
		}
		value, ok := score.Float()
		if !ok {
			return nil, dialect.Invalid("a result without a score")
		}
		results = append(results, result{index, value, score.Raw(), v})
	}
	return results, nil
}

// writeHead begins the reply: its identity, the backend's members beside the results,
// and the start of the list.
func writeHead(w *jsonwrite.Writer, root, list jsonscan.Value, req *schema.Request) {
	w.Open(`{"id":`)
	if id := root.Get("id"); id.Kind() == jsonscan.String {
		w.Raw(id.Raw())
	} else {
		w.Plain("rerank-" + rand.Text())
	}
	w.Member("model", req.ModelJSON())
	copyOthers(w, root, "id", "model", "usage", "error", "results", string(list.Key()))
	w.Name("results").Array()
}

// copyOthers copies the members of an object except the named ones.
func copyOthers(w *jsonwrite.Writer, object jsonscan.Value, but ...string) {
	if object.Kind() != jsonscan.Object {
		return
	}
	for m := range object.All() {
		if !slices.Contains(but, string(m.Key())) {
			w.Copy(m)
		}
	}
}

// writeUsage writes the usage: the backend's report, and the total if that is not a
// part of it.
func writeUsage(w *jsonwrite.Writer, given jsonscan.Value, usage schema.Usage) {
	w.Object()
	if total := given.Get("total_tokens"); total.Kind() == jsonscan.Number {
		w.Copy(total)
	} else {
		w.Name("total_tokens").Int(usage.Total)
	}
	copyOthers(w, given, "total_tokens")
	w.EndObject()
}

// rankUsage reads the tokens in the two places where backends report them.
func rankUsage(root jsonscan.Value) schema.Usage {
	if usage := schema.ReadUsage(root.Get("usage")); usage.Known {
		return usage
	}
	return schema.ReadUsage(root.Get("meta").Get("tokens"))
}

func hasObjects(documents jsonscan.Value) bool {
	for v := range documents.All() {
		if v.Kind() == jsonscan.Object {
			return true
		}
	}
	return false
}

// textArray writes documents as an array of their texts. Documents without a text may
// be kept as they are.
func textArray(documents jsonscan.Value, keepOthers bool) []byte {
	var w jsonwrite.Writer
	w.Array()
	for v := range documents.All() {
		if text, isText := textOf(v); isText || !keepOthers {
			w.Raw(text)
		} else {
			w.Raw(v.Raw())
		}
	}
	w.EndArray()
	return w.Out
}

// documentText returns the text of a document as JSON; one that has no text is
// ranked by all that it has.
func documentText(v jsonscan.Value) []byte {
	text, _ := textOf(v)
	return text
}

// textOf is documentText, and reports whether the document has a text.
func textOf(v jsonscan.Value) (text []byte, isText bool) {
	if v.Kind() == jsonscan.String {
		return v.Raw(), true
	}
	raw := v.Raw()
	var deep jsonscan.Document // one within extra_body lies too deep to be looked into
	if v.First().Kind() == jsonscan.Absent && deep.Parse(raw) == nil {
		v = deep.Root()
	}
	if text := v.Get("text"); text.Kind() == jsonscan.String {
		return text.Raw(), true
	}
	return jsonwrite.AppendText(nil, raw), false
}
