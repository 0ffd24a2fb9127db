package say

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// teller is a function that makes an error for clients of the unified API: which of its
// arguments is a sentence, and what it puts around it.
type teller struct {
	argument      int
	before, after string
}

// tellers are the functions by their names, with the package where others have the name too.
var tellers = map[string]teller{
	"InvalidValue":        {argument: 1},
	"NewError":            {argument: 1},
	"unreadable":          {},
	"overloaded":          {},
	"tooMany":             {},
	"uploadsFull":         {},
	"unloaded":            {},
	"wrongType":           {argument: 1, before: "'7' must be ", after: "."},
	"checkInput":          {before: "'7' must be ", after: "."},
	"batching/full":       {},
	"responses/invalid":   {argument: 1},
	"gemini/fail":         {before: "'7' "},
	"jsonscan/fail":       {argument: 1, before: "The request body is not valid JSON: ", after: " at byte 7."},
	"jsonscan/unexpected": {argument: 1, before: "The request body is not valid JSON: unexpected end of the text: ", after: " at byte 7."},
}

// composed are sentences of which a part is made elsewhere; the tests of texts have them whole.
var composed = []string{
	"'7' 7", "'system' 7", "'7' must be 7.",
	"The request body is not valid JSON: unexpected end of the text: 7 at byte 7.",
	"What is left of the 7 is reserved for requests that have not ended, or kept for other gateways; try again shortly. 7 are used and 7 reserved.",
	"The 7 is used up, or what is left of it is less than this request may take; 7 are used.",
	"There is no endpoint 7 7. Available are POST 7, and GET /v1/models. GET /docs/api shows everything that there is.7",
	"The method 7 is not allowed for 7; allowed are 7.7",
}

// Sentences that are composed have codes for all of their parts.
func TestRefusalsOfRequestsAreFound(t *testing.T) {
	const (
		noEndpoint = "There is no endpoint POST /v1/x:predict. Available are POST /v1/chat/completions, /v1/embeddings, and GET /v1/models. GET /docs/api shows everything that there is."
		noMethod   = "The method GET is not allowed for /v1/chat/completions; allowed are POST, OPTIONS."
		isGemini   = " Gemini's API is at POST /v1beta/models/{model}:generateContent, and its clients need the address of the gateway without a path."
	)
	for text, want := range map[string]Code{
		"Missing required parameter: 'model'.":                                                                                  "call.missing",
		"Missing required parameter: 'messages[2].content'.":                                                                    "call.missing",
		"'model' must be a string.":                                                                                             "call.field",
		"'temperature' must be between 0 and 2.":                                                                                "call.field",
		"'max_tokens' must be at least 1.":                                                                                      "call.field",
		"'generationConfig.seed' must be a number.":                                                                             "call.field",
		"'tools[0].function.parameters' has an unknown type.":                                                                   "call.field",
		"'system' must be a string or an array of text blocks.":                                                                 "call.field",
		"The header x-router-priority must be interactive, normal or batch.":                                                    "call.priority",
		"The request body is not valid JSON: expected ':' after a key at byte 7.":                                               "call.not_json",
		"The request body is not valid JSON: unexpected end of the text: expected ',' or '}' at byte 12.":                       "call.not_json",
		"The request body is larger than the 1048576 bytes that are allowed.":                                                   "call.body_large",
		"The form could not be read: it ended too early.":                                                                       "call.form_unread",
		"The upload takes more than the 7 bytes that one caller may have on the gateway's disk (two thirds of limits.uploads).": "call.upload_most",
		"The backends of this model do not serve tokenize requests. Instances whose adapter is vllm or llamacpp do.":            "call.not_served_by_two",
		noEndpoint:            "call.no_endpoint",
		noEndpoint + isGemini: "call.no_endpoint_hint",
		noMethod:              "call.no_method",
		noMethod + isGemini:   "call.no_method_hint",
	} {
		if said := Of(text); len(said) != 1 || said[0].Code != want || !isWhole(said[0]) || Join(said) != text {
			t.Errorf("%q is taken for %+v, want %s", text, said, want)
		}
	}
}

// Whatever a client of the unified API is told about its request has a code, so that the
// console can say it in any language.
func TestFaultsOfRequestsHaveCodes(t *testing.T) {
	checked := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		for place, text := range toldIn(t, path) {
			if slices.Contains(composed, text) {
				continue
			}
			checked++
			// The name of the field comes before a sentence that begins with a verb.
			if s, known := find("'7' " + text); unicode.IsLower(rune(text[0])) && known && isWhole(s) {
				continue
			}
			if s, known := find(text); !known || !isWhole(s) {
				t.Errorf("%s: %q is in no list of internal/see/say", place, text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("../../wings/batches"); err == nil && checked < 350 { // a tree without wings has fewer
		t.Errorf("only %d sentences were found: the test looks for them in the wrong way", checked)
	}
}

// isWhole reports whether all words of a sentence have a code: its values are sentences, or
// names without spaces in them and lists of such.
func isWhole(s Sentence) bool {
	if s.Code == Other {
		return s.Values["text"] == "7"
	}
	for name, value := range s.Values {
		inner, is := s.Inner[name]
		if is && !isWhole(inner) || !is && !regexp.MustCompile(`^[^ ]+(, [^ ]+)*$`).MatchString(value) {
			return false
		}
	}
	return true
}

// toldIn returns the sentences that a file of Go tells clients, by their places, with a
// number for each value.
func toldIn(t *testing.T, path string) map[string]string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if text, known := sample(spec.Values[0], nil); known {
				constants[spec.Names[0].Name] = text
			}
		}
		return true
	})
	found := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := nameOf(call.Fun)
		told, is := tellers[name]
		if !is {
			told, is = tellers[file.Name.Name+"/"+name]
		}
		if !is || len(call.Args) <= told.argument {
			return true
		}
		if text, known := sample(call.Args[told.argument], constants); known {
			found[set.Position(call.Pos()).String()] = told.before + text + told.after
		}
		return true
	})
	return found
}

// nameOf returns the name of a function that is called.
func nameOf(function ast.Expr) string {
	switch f := function.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
