package genai

import (
	"bytes"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// FuzzRead holds that a request is refused in the caller's words, or becomes a request of
// the unified API that is strict JSON, and that the client's own body stays as it is.
func FuzzRead(f *testing.F) {
	for _, body := range []string{
		`{"contents":[{"parts":[{"text":"hi"}]}]}`,
		`{"contents":{"parts":{"text":"a\ud83d"}},"system_instruction":{"parts":[{"text":"s"}]}}`,
		`{"contents":[{"role":"model","parts":[{"text":"t","thought":true},{"functionCall":{"id":"a","name":"f","args":{"x":1}},"thoughtSignature":"c2ln"},{"text":"x","thought_signature":"eA=="}]},{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"result":"r"}}},{"function_response":{"name":"g","response":{"a":[1]}}},{"fileData":{"mimeType":"image/png","fileUri":"https://x.test/a.png"}},{"inlineData":{"mimeType":"audio/wav","data":"aGk="}},{"inlineData":{"mimeType":"application/pdf","data":"aGk="}}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","properties":{"a":{"type":"ARRAY","items":{"type":"STRING","nullable":true},"minItems":"1"},"b":{"anyOf":[{"type":"NUMBER"}],"format":"enum"}}}},{"name":"g","parametersJsonSchema":{"type":"object"}}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}}`,
		`{"contents":[{"parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":5,"temperature":0.5,"topP":1,"topK":3,"seed":1,"candidateCount":2,"stopSequences":["a"],"responseMimeType":"application/json","responseSchema":{"type":"STRING","enum":["a"]},"responseLogprobs":true,"logprobs":2,"thinkingConfig":{"thinkingLevel":"HIGH"},"responseModalities":["TEXT"]},"safetySettings":[],"cachedContent":""}`,
		`{"generateContentRequest":{"contents":[{"parts":[{"text":"hi"}]}]}}`,
		`{"content":{"parts":[{"text":"hi"}]},"outputDimensionality":3}`,
		`{"requests":[{"content":{"parts":[{"text":"hi"}]}}]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, read := range []func(*schema.Request, []byte) error{ReadRequest, ReadStreamRequest, ReadCountRequest, ReadEmbed, ReadBatchEmbed} {
			original := bytes.Clone(body)
			req := &schema.Request{PathModel: "m"}
			text, err := unified(req, read(req, body))
			if err != nil {
				var refusal *schema.Error
				if !errors.As(err, &refusal) || refusal.HTTPStatus() != 400 {
					t.Errorf("%q: %v", body, err)
				}
				continue
			}
			if !jsontext.Value(text).IsValid(jsontext.AllowInvalidUTF8(true)) || !utf8.Valid(text) {
				t.Fatalf("%q became %q, which is no strict JSON", body, text)
			}
			if !bytes.Equal(body, original) {
				t.Fatalf("the client's body was changed: %q, was %q", body, original)
			}
		}
	})
}

// unified returns a request that was read as one of the unified API.
func unified(req *schema.Request, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if req.Decode == nil {
		turned, err := req.Turned(EmbedClient.Turn.Request)
		if err != nil {
			return nil, err
		}
		return turned.Body.Data(), nil
	}
	asked, err := req.Chat()
	if err != nil {
		return nil, err
	}
	var w jsonwrite.Writer
	w.Object()
	asked.Write(&w, "max_tokens")
	w.EndObject()
	return w.Out, nil
}
