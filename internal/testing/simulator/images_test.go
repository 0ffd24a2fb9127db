package simulator

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

type images struct {
	Created int64
	Data    []struct {
		URL     string
		B64     string `json:"b64_json"`
		Revised string `json:"revised_prompt"`
	}
	Usage struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		Total  int `json:"total_tokens"`
	}
}

func decodePNG(t *testing.T, content string) image.Image {
	t.Helper()
	picture, err := png.Decode(strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return picture
}

func fromBase64(t *testing.T, text string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestImagesHaveTheirSizeAndAColourOfThePrompt(t *testing.T) {
	r := newRig(t, Options{})
	for _, test := range []struct {
		size          string
		width, height int
	}{
		{`null`, 1024, 1024}, {`"auto"`, 1024, 1024}, {`"300x200"`, 300, 200}, {`"1x1"`, 16, 16}, {`"9999x20"`, largestSide, 20},
	} {
		ask := func(prompt string) image.Image {
			got := read[images](t, r.post("/v1/images/generations", `{"model":"m","response_format":"b64_json","size":`+test.size+`,"prompt":"`+prompt+`"}`).body)
			if len(got.Data) != 1 || got.Data[0].URL != "" || !strings.Contains(got.Data[0].Revised, prompt) || got.Created == 0 || got.Usage.Total != got.Usage.Input+got.Usage.Output {
				t.Fatalf("got %+v", got)
			}
			return decodePNG(t, fromBase64(t, got.Data[0].B64))
		}
		picture := ask("a red boat")
		if got := picture.Bounds(); got != image.Rect(0, 0, test.width, test.height) {
			t.Errorf("%s: bounds %v", test.size, got)
		}
		inked := 0
		for y := range test.height {
			for x := range test.width {
				if picture.At(x, y) == (color.RGBA{255, 255, 255, 255}) {
					inked++
				}
			}
		}
		if inked == 0 {
			t.Errorf("%s: nothing is drawn", test.size)
		}
		if picture.At(3, 3) == ask("a blue boat").At(3, 3) && test.width > 200 {
			t.Errorf("%s: the prompt does not choose the colour", test.size)
		}
	}
}

func TestImageAddressesAreServed(t *testing.T) {
	r := newRig(t, Options{Key: "secret"})
	request, _ := http.NewRequestWithContext(waittest.Context(t), http.MethodPost, r.URL()+"/v1/images/generations",
		strings.NewReader(`{"model":"m","prompt":"three of them","n":3,"size":"64x64"}`))
	request.Header.Set("Authorization", "Bearer secret")
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	_, _ = body.ReadFrom(response.Body)
	response.Body.Close()
	seen := map[string]bool{}
	for _, item := range read[images](t, body.String()).Data {
		path, found := strings.CutPrefix(item.URL, r.URL())
		if !found || item.B64 != "" || !strings.HasPrefix(path, "/images/") || !strings.HasSuffix(path, ".png") {
			t.Fatalf("item %+v", item)
		}
		got := r.do(waittest.Context(t), http.MethodGet, path, "") // addresses need no key
		if got.status != 200 || got.header.Get("Content-Type") != "image/png" || decodePNG(t, got.body).Bounds().Dx() != 64 {
			t.Errorf("got %d %v", got.status, got.header)
		}
		seen[got.body] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d different images", len(seen))
	}
	if got := r.do(waittest.Context(t), http.MethodGet, "/images/none.png", ""); got.status != 404 {
		t.Errorf("got %+v", got)
	}
}

func TestImageStoreDropsTheOldest(t *testing.T) {
	var images imageStore
	for _, name := range []string{"a", "b", "c"} {
		images.add(name, make([]byte, maxImageBytes/2))
		images.add(name, nil) // it is there already
	}
	_, oldest := images.find("a")
	_, latest := images.find("c")
	if oldest || !latest || images.size > maxImageBytes || len(images.order) != 2 {
		t.Errorf("size %d, order %v", images.size, images.order)
	}
}

func TestBadImageRequests(t *testing.T) {
	r := newRig(t, Options{})
	for _, rest := range []string{`"n":1`, `"prompt":"x","n":0`, `"prompt":"x","n":11`, `"prompt":"x","size":"big"`, `"prompt":"x","size":"-1x5"`, `"prompt":"x","response_format":"jpeg"`} {
		if got := r.post("/v1/images/generations", `{"model":"m",`+rest+`}`); got.status != 400 || !strings.HasPrefix(got.body, `{"error":{`) {
			t.Errorf("%s: %+v", rest, got)
		}
	}
}

// flat returns a picture of one colour, whose left half is of another.
func flat(width, height int, left, right color.Color) image.Image {
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			picture.Set(x, y, right)
			if x < width/2 {
				picture.Set(x, y, left)
			}
		}
	}
	return picture
}

func TestEditsTintTheUploadInsideTheMask(t *testing.T) {
	black, clear := color.NRGBA{A: 255}, color.NRGBA{}
	upload, mask := string(encodePNG(flat(40, 30, black, black))), string(encodePNG(flat(40, 30, clear, black)))
	var asJPEG bytes.Buffer
	if err := jpeg.Encode(&asJPEG, flat(40, 30, black, black), nil); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name        string
		parts       []part
		left, right bool // whether they are tinted
		count       int
	}{
		{"all of it", []part{{"image", "a.png", upload}}, true, true, 1},
		{"inside the mask", []part{{"mask", "m.png", mask}, {"image", "a.png", upload}}, true, false, 1},
		{"JPEG", []part{{"image", "a.jpg", asJPEG.String()}}, true, true, 1},
		{"a list of images", []part{{"image[]", "a.png", upload}, {"image[]", "b.png", upload}, {"n", "", "2"}}, true, true, 2},
		{"a part without a filename", []part{{"image", "", upload}}, true, true, 1},
	}
	r := newRig(t, Options{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			parts := append(test.parts, part{"model", "", "m"}, part{"prompt", "", "make it warm"}, part{"response_format", "", "b64_json"})
			got := read[images](t, r.sendForm("/v1/images/edits", parts...).body)
			if len(got.Data) != test.count {
				t.Fatalf("got %+v", got)
			}
			picture := decodePNG(t, fromBase64(t, got.Data[0].B64))
			if picture.Bounds() != image.Rect(0, 0, 40, 30) {
				t.Errorf("bounds %v", picture.Bounds())
			}
			tinted := func(x int) bool {
				red, _, _, _ := picture.At(x, 15).RGBA()
				return red > 0x1000
			}
			if diff := cmp.Diff([]bool{test.left, test.right}, []bool{tinted(5), tinted(35)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBadEdits(t *testing.T) {
	picture := string(encodePNG(flat(4, 4, color.Black, color.Black)))
	model, prompt := part{"model", "", "m"}, part{"prompt", "", "x"}
	r := newRig(t, Options{})
	for name, parts := range map[string][]part{
		"no image":        {model, prompt},
		"no prompt":       {model, {"image", "a.png", picture}},
		"no picture":      {model, prompt, {"image", "a.png", "hello"}},
		"mask of no size": {model, prompt, {"image", "a.png", picture}, {"mask", "m.png", string(encodePNG(flat(5, 4, color.Black, color.Black)))}},
		"no number":       {model, prompt, {"image", "a.png", picture}, {"n", "", "two"}},
	} {
		if got := r.sendForm("/v1/images/edits", parts...); got.status != 400 || !strings.HasPrefix(got.body, `{"error":{`) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := r.sendForm("/v1/images/edits", model, prompt, part{"image", "a.png", picture}); !strings.Contains(got.body, r.URL()+"/images/") {
		t.Errorf("address: %+v", got)
	}
}
