package main

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/simulator"
)

type images struct {
	Created int64 `json:"created"`
	Data    []struct {
		URL           string `json:"url"`
		B64JSON       string `json:"b64_json"`
		RevisedPrompt string `json:"revised_prompt"`
	} `json:"data"`
}

// picture returns a PNG.
func picture(t *testing.T, width, height int) string {
	t.Helper()
	canvas := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range width {
		canvas.Set(i, i%height, color.NRGBA{uint8(i), 200, 30, 255})
	}
	var out bytes.Buffer
	if err := png.Encode(&out, canvas); err != nil {
		t.Fatal(err)
	}
	return out.String()
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
func (i *images) check(t *testing.T, r *rig, count int, inBase64 bool, size image.Point) {
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

func fetchImage(r *rig, url string) ([]byte, error) {
	if inline, ok := strings.CutPrefix(url, "data:image/png;base64,"); ok {
		return base64.StdEncoding.DecodeString(inline)
	}
	request, err := http.NewRequestWithContext(deadline(r.t), http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	return []byte(drain(response).body), nil
}

func TestImages(t *testing.T) {
	r, _ := startService(t)
	for format, inBase64 := range map[string]bool{
		``: false, `,"response_format":"url"`: false, `,"response_format":"b64_json"`: true, `,"response_format":null`: false,
	} {
		got := decode[images](t, r.post("/v1/images/generations", `{"model":"m","prompt":"a cat","size":"64x48","n":2`+format+`}`))
		got.check(t, r, 2, inBase64, image.Pt(64, 48))
		if got.Data[0].RevisedPrompt == "" {
			t.Error("the revised prompt is lost")
		}
	}
}

// A caller that asked for one form never gets the other in its place.
func TestImagesInTheOtherForm(t *testing.T) {
	content := base64.StdEncoding.EncodeToString([]byte(picture(t, 4, 4)))
	form := func(r *rig, format string) reply {
		return r.postForm("/v1/images/edits", field("model", "m"), field("prompt", "x"), photo(t, "image"), field("response_format", format))
	}
	json := func(r *rig, format string) reply {
		return r.post("/v1/images/generations", `{"model":"m","prompt":"x","response_format":"`+format+`"}`)
	}
	for name, ask := range map[string]func(*rig, string) reply{"generations": json, "edits": form} {
		t.Run(name, func(t *testing.T) {
			r, b := startService(t)
			b.Script(simulator.Step{Body: `{"created":1700000000,"data":[{"url":"http://10.0.0.1/secret.png"}]}`})
			answer := ask(r, "b64_json")
			answer.failsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
			noneOf(t, answer.body, "10.0.0.1")
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

func TestImagesThatAreNone(t *testing.T) {
	for name, body := range map[string]string{
		"error inside a 200": simulator.ErrorObject("no", "t", "c"),
		"no images":          `{"created":1,"data":[]}`,
		"no data":            `{"created":1}`,
		"empty image":        `{"created":1,"data":[{"url":""}]}`,
		"page":               simulator.HTMLPage,
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := startService(t, simulator.Step{Body: body}, simulator.Step{Body: body})
			r.post("/v1/images/generations", pictureC).failsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
			r.postForm("/v1/images/edits", field("model", "m"), field("prompt", "x"), photo(t, "image")).
				failsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
		})
	}
}

func TestImageEdits(t *testing.T) {
	one, two, mask := picture(t, 16, 16), picture(t, 24, 24), picture(t, 16, 16)
	r, b := startService(t)
	for name, parts := range map[string][]part{
		"one":         {field("model", "m"), field("prompt", "red"), upload("image", "a.png", "image/png", one)},
		"files first": {upload("image", "a.png", "image/png", one), field("prompt", "red"), field("model", "m"), field("user", "u")},
		"several": {
			upload("image[]", "a.png", "image/png", one), upload("image[]", "b.png", "image/png", two),
			upload("mask", "m.png", "image/png", mask), field("model", "m"), field("prompt", "red"), field("n", "2"),
		},
		"repeated": {
			field("model", "m"), field("prompt", "red"), upload("image", "a.png", "image/png", one),
			upload("image", "b.png", "image/png", two), field("size", "auto"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for format, inBase64 := range map[string]bool{"url": false, "b64_json": true} {
				got := decode[images](t, r.postForm("/v1/images/edits", append(parts, field("response_format", format))...))
				count := map[bool]int{true: 2, false: 1}[name == "several"]
				if len(got.Data) != count {
					t.Fatalf("%d images", len(got.Data))
				}
				got.Data = got.Data[:1] // the second has the size of the second upload
				got.check(t, r, 1, inBase64, image.Pt(16, 16))
				requests := b.Requests()
				sent := partsOf(t, requests[len(requests)-1])
				for i, want := range append(parts, field("response_format", format)) {
					if len(sent) != len(parts)+1 || sent[i] != want {
						t.Fatalf("the backend got %.500q", sent)
					}
				}
			}
		})
	}
}

func TestInvalidImageEdits(t *testing.T) {
	r, b := startService(t)
	const missing, invalid = "missing_parameter", "invalid_value"
	model, prompt, file := field("model", "m"), field("prompt", "p"), photo(t, "image")
	for name, test := range map[string]struct {
		parts       []part
		code, param string
	}{
		"no model":       {[]part{prompt, file}, missing, "model"},
		"no prompt":      {[]part{model, file}, missing, "prompt"},
		"empty prompt":   {[]part{model, field("prompt", ""), file}, missing, "prompt"},
		"no image":       {[]part{model, prompt}, missing, "image"},
		"mask alone":     {[]part{model, prompt, photo(t, "mask")}, missing, "image"},
		"n of zero":      {[]part{model, prompt, file, field("n", "0")}, invalid, "n"},
		"n of words":     {[]part{model, prompt, file, field("n", "two")}, invalid, "n"},
		"unknown format": {[]part{model, prompt, file, field("response_format", "png")}, invalid, "response_format"},
	} {
		t.Run(name, func(t *testing.T) {
			r.postForm("/v1/images/edits", test.parts...).failsWith(t, http.StatusBadRequest, invalidRequest, test.code, test.param)
		})
	}
	if n := b.Stats().Arrived; n != 0 {
		t.Errorf("the backend got %d requests", n)
	}
}
