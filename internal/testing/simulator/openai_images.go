package simulator

import (
	"encoding/base64"
	"fmt"
	"image"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	imageEditsPath = "/v1/images/edits"
	mostImages     = 10
	usualSide      = 1024
)

// imagesRequest is an image request in OpenAI's dialect.
type imagesRequest struct {
	Model          string       `json:"model"`
	Prompt         string       `json:"prompt"`
	N              *wholeNumber `json:"n"`
	Size           string       `json:"size"`
	ResponseFormat string       `json:"response_format"`
}

// answerImages serves POST /v1/images/generations.
func answerImages(x *exchange) {
	var request imagesRequest
	if !x.decode(&request) || !x.serves(request.Model) || !x.acceptsImages(&request) {
		return
	}
	width, height, ok := sizeOf(request.Size)
	if !ok {
		x.refuse("size", "'size' must be WIDTHxHEIGHT or auto.")
		return
	}
	x.sendImages(&request, func(i int) []byte {
		return paint(width, height, seedOf(request.Prompt)+uint64(i))
	}, 0)
}

// answerImageEdit serves POST /v1/images/edits: it returns the uploaded images in
// another colour where the mask is transparent.
func answerImageEdit(x *exchange) {
	if !x.hasForm() || !x.serves(x.form.value("model")) {
		return
	}
	request := imagesRequest{Prompt: x.form.value("prompt"), ResponseFormat: x.form.value("response_format")}
	if text := x.form.value("n"); text != "" {
		n, _ := strconv.Atoi(text) // 0 if it is not a number, which is refused below
		request.N = new(wholeNumber(n))
	}
	if !x.acceptsImages(&request) {
		return
	}
	var pictures []image.Image
	for _, file := range x.form.files["image"] {
		picture, ok := readPicture(file)
		if !ok {
			x.refuse("image", "'image' must be a PNG, JPEG or GIF of at most "+strconv.Itoa(mostPixels)+" pixels.")
			return
		}
		pictures = append(pictures, picture)
	}
	if len(pictures) == 0 {
		x.fail(http.StatusBadRequest, *invalidRequest("image", "missing_required_parameter", "'image' is missing."))
		return
	}
	var mask image.Image
	if files := x.form.files["mask"]; len(files) > 0 {
		var ok bool
		if mask, ok = readPicture(files[0]); !ok || mask.Bounds().Size() != pictures[0].Bounds().Size() {
			x.refuse("mask", "'mask' must be a picture of the size of the first image.")
			return
		}
	}
	x.sendImages(&request, func(i int) []byte {
		picture, mask := pictures[i%len(pictures)], mask
		if mask != nil && mask.Bounds().Size() != picture.Bounds().Size() {
			mask = nil // it belongs to another picture
		}
		return tint(picture, mask, colourOf(seedOf(request.Prompt)+uint64(i)))
	}, len(pictures))
}

// acceptsImages checks the fields that both image services have, or answers with an
// error.
func (x *exchange) acceptsImages(request *imagesRequest) bool {
	switch {
	case request.Prompt == "":
		x.fail(http.StatusBadRequest, *invalidRequest("prompt", "missing_required_parameter", "'prompt' is missing."))
	case request.N != nil && (*request.N < 1 || *request.N > mostImages):
		x.refuse("n", "'n' must be between 1 and "+strconv.Itoa(mostImages)+".")
	case request.ResponseFormat != "" && request.ResponseFormat != "url" && request.ResponseFormat != "b64_json":
		x.refuse("response_format", "'response_format' must be url or b64_json.")
	default:
		return true
	}
	return false
}

// sizeOf reads a size and limits both sides to the supported range.
func sizeOf(size string) (width, height int, ok bool) {
	if size == "" || size == "auto" {
		return usualSide, usualSide, true
	}
	across, down, _ := strings.Cut(size, "x")
	width, wide := strconv.Atoi(across)
	height, high := strconv.Atoi(down)
	if wide != nil || high != nil || width < 1 || height < 1 {
		return 0, 0, false
	}
	return min(max(width, 16), largestSide), min(max(height, 16), largestSide), true
}

// sendImages answers with the requested number of images.
func (x *exchange) sendImages(request *imagesRequest, draw func(i int) []byte, uploads int) {
	n := 1
	if request.N != nil {
		n = int(*request.N)
	}
	out := strconv.AppendInt([]byte(`{"created":`), time.Now().Unix(), 10)
	out = append(out, `,"data":[`...)
	for i := range n {
		if i > 0 {
			out = append(out, ',')
		}
		drawn := draw(i)
		if request.ResponseFormat == "b64_json" {
			out = base64.StdEncoding.AppendEncode(append(out, `{"b64_json":"`...), drawn)
			out = append(out, '"')
		} else {
			name := hex(seedOf(string(drawn))) + ".png"
			x.backend.images.add(name, drawn)
			out = appendString(append(out, `{"url":`...), x.backend.URL()+imagesPath+name)
		}
		out = appendString(append(out, `,"revised_prompt":`...), "A white frame on the colour of these words: "+
			excerpt(request.Prompt))
		out = append(out, '}')
	}
	x.sendJSON(x.withUsage(append(out, ']'), imageUsage(countTokens(request.Prompt), uploads*imageTokens,
		n*imageTokens)))
}

func imageUsage(text, images, made int) string {
	return fmt.Sprintf(`{"total_tokens":%d,"input_tokens":%d,"output_tokens":%d,`+
		`"input_tokens_details":{"text_tokens":%d,"image_tokens":%d}}`, text+images+made, text+images, made, text,
		images)
}
