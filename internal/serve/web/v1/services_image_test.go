package v1_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

type images struct {
	Created int64 `json:"created"`
	Data    []struct {
		URL           string `json:"url"`
		B64JSON       string `json:"b64_json"`
		RevisedPrompt string `json:"revised_prompt"`
	} `json:"data"`
}

func sizeOfPNG(t *testing.T, content []byte) image.Point {
	t.Helper()
	decoded, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return decoded.Bounds().Size()
}

// check looks into every image of an answer, which all have the one form.
func (i *images) check(t *testing.T, r *gatewaytest.Gateway, count int, inBase64 bool, size image.Point) {
	t.Helper()
	if i.Created < 1_000_000_000 || len(i.Data) != count {
		t.Fatalf("created %d, %d images, want %d", i.Created, len(i.Data), count)
	}
	for _, item := range i.Data {
		if (item.B64JSON != "") != inBase64 || (item.URL != "") == inBase64 {
			t.Fatalf("base64 wanted: %v, address %q, %d bytes of base64", inBase64, item.URL, len(item.B64JSON))
		}
		content, err := base64.StdEncoding.DecodeString(item.B64JSON)
		if !inBase64 {
			content, err = fetchImage(r, item.URL)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := sizeOfPNG(t, content); got != size {
			t.Errorf("%v, want %v", got, size)
		}
	}
}

func fetchImage(r *gatewaytest.Gateway, url string) ([]byte, error) {
	if inline, ok := strings.CutPrefix(url, "data:image/png;base64,"); ok {
		return base64.StdEncoding.DecodeString(inline)
	}
	request, err := http.NewRequestWithContext(gatewaytest.Deadline(r.T), http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := r.Client.Do(request)
	if err != nil {
		return nil, err
	}
	return []byte(gatewaytest.ReadReply(response).Body), nil
}

func TestImages(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartService(t)
	for format, inBase64 := range map[string]bool{
		``: false, `,"response_format":"url"`: false, `,"response_format":"b64_json"`: true, `,"response_format":null`: false,
	} {
		got := decode[images](t, r.Post("/v1/images/generations", `{"model":"m","prompt":"a cat","size":"64x48","n":2`+format+`}`))
		got.check(t, r, 2, inBase64, image.Pt(64, 48))
		if got.Data[0].RevisedPrompt == "" {
			t.Error("the revised prompt is lost")
		}
	}
}

// A caller that asked for one form never gets the other in its place.
func TestImagesInTheOtherForm(t *testing.T) {
	t.Parallel()
	content := base64.StdEncoding.EncodeToString([]byte(gatewaytest.Picture(t, 4, 4)))
	form := func(r *gatewaytest.Gateway, format string) gatewaytest.Reply {
		return r.PostForm("/v1/images/edits", gatewaytest.Field("model", "m"), gatewaytest.Field("prompt", "x"), gatewaytest.Photo(t, "image"), gatewaytest.Field("response_format", format))
	}
	json := func(r *gatewaytest.Gateway, format string) gatewaytest.Reply {
		return r.Post("/v1/images/generations", `{"model":"m","prompt":"x","response_format":"`+format+`"}`)
	}
	for name, ask := range map[string]func(*gatewaytest.Gateway, string) gatewaytest.Reply{"generations": json, "edits": form} {
		t.Run(name, func(t *testing.T) {
			r, b := gatewaytest.StartService(t)
			b.Script(simulator.Step{Body: `{"created":1700000000,"data":[{"url":"http://10.0.0.1/secret.png"}]}`})
			answer := ask(r, "b64_json")
			answer.FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
			gatewaytest.ContainsNone(t, answer.Body, "10.0.0.1")
			b.Script(simulator.Step{Body: `{"created":1700000000,"data":[{"b64_json":"` + content + `"}]}`})
			inline := decode[images](t, ask(r, "url"))
			inline.check(t, r, 1, false, image.Pt(4, 4))
			// Both at once suits everybody.
			b.Script(simulator.Step{Body: `{"data":[{"url":"https://cdn.example/x.png","b64_json":"` + content + `"}]}`})
			both := decode[images](t, ask(r, "b64_json"))
			if both.Data[0].B64JSON != content || both.Created == 0 {
				t.Errorf("answer %+v", both)
			}
		})
	}
}

func TestAnswersThatAreNotImagesAreErrors(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"error inside a 200": simulator.ErrorObject("no", "t", "c"),
		"no images":          `{"created":1,"data":[]}`,
		"no data":            `{"created":1}`,
		"empty image":        `{"created":1,"data":[{"url":""}]}`,
		"page":               simulator.HTMLPage,
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := gatewaytest.StartService(t, simulator.Step{Body: body}, simulator.Step{Body: body})
			r.Post("/v1/images/generations", pictureC).FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
			r.PostForm("/v1/images/edits", gatewaytest.Field("model", "m"), gatewaytest.Field("prompt", "x"), gatewaytest.Photo(t, "image")).
				FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
		})
	}
}

func TestImageEdits(t *testing.T) {
	t.Parallel()
	one, two, mask := gatewaytest.Picture(t, 16, 16), gatewaytest.Picture(t, 24, 24), gatewaytest.Picture(t, 16, 16)
	r, b := gatewaytest.StartService(t)
	for name, parts := range map[string][]gatewaytest.Part{
		"one":         {gatewaytest.Field("model", "m"), gatewaytest.Field("prompt", "red"), gatewaytest.Upload("image", "a.png", "image/png", one)},
		"files first": {gatewaytest.Upload("image", "a.png", "image/png", one), gatewaytest.Field("prompt", "red"), gatewaytest.Field("model", "m"), gatewaytest.Field("user", "u")},
		"several": {
			gatewaytest.Upload("image[]", "a.png", "image/png", one), gatewaytest.Upload("image[]", "b.png", "image/png", two),
			gatewaytest.Upload("mask", "m.png", "image/png", mask), gatewaytest.Field("model", "m"), gatewaytest.Field("prompt", "red"), gatewaytest.Field("n", "2"),
		},
		"repeated": {
			gatewaytest.Field("model", "m"), gatewaytest.Field("prompt", "red"), gatewaytest.Upload("image", "a.png", "image/png", one),
			gatewaytest.Upload("image", "b.png", "image/png", two), gatewaytest.Field("size", "auto"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for format, inBase64 := range map[string]bool{"url": false, "b64_json": true} {
				got := decode[images](t, r.PostForm("/v1/images/edits", append(parts, gatewaytest.Field("response_format", format))...))
				count := map[bool]int{true: 2, false: 1}[name == "several"]
				if len(got.Data) != count {
					t.Fatalf("%d images", len(got.Data))
				}
				got.Data = got.Data[:1] // the second has the size of the second upload
				got.check(t, r, 1, inBase64, image.Pt(16, 16))
				requests := b.Requests()
				sent := partsOf(t, requests[len(requests)-1])
				for i, want := range append(parts, gatewaytest.Field("response_format", format)) {
					if len(sent) != len(parts)+1 || sent[i] != want {
						t.Fatalf("the backend got %.500q", sent)
					}
				}
			}
		})
	}
}

func TestInvalidImageEdits(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartService(t)
	const missing, invalid = "missing_parameter", "invalid_value"
	model, prompt, file := gatewaytest.Field("model", "m"), gatewaytest.Field("prompt", "p"), gatewaytest.Photo(t, "image")
	for name, test := range map[string]struct {
		parts       []gatewaytest.Part
		code, param string
	}{
		"no model":       {[]gatewaytest.Part{prompt, file}, missing, "model"},
		"no prompt":      {[]gatewaytest.Part{model, file}, missing, "prompt"},
		"empty prompt":   {[]gatewaytest.Part{model, gatewaytest.Field("prompt", ""), file}, missing, "prompt"},
		"no image":       {[]gatewaytest.Part{model, prompt}, missing, "image"},
		"mask alone":     {[]gatewaytest.Part{model, prompt, gatewaytest.Photo(t, "mask")}, missing, "image"},
		"n of zero":      {[]gatewaytest.Part{model, prompt, file, gatewaytest.Field("n", "0")}, invalid, "n"},
		"n of words":     {[]gatewaytest.Part{model, prompt, file, gatewaytest.Field("n", "two")}, invalid, "n"},
		"unknown format": {[]gatewaytest.Part{model, prompt, file, gatewaytest.Field("response_format", "png")}, invalid, "response_format"},
	} {
		t.Run(name, func(t *testing.T) {
			r.PostForm("/v1/images/edits", test.parts...).FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, test.code, test.param)
		})
	}
	if n := b.Stats().Arrived; n != 0 {
		t.Errorf("the backend got %d requests", n)
	}
}
