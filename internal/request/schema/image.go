package schema

import (
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// ParseImage reads and checks an image generation request.
func (r *Request) ParseImage(body []byte) error {
	if err := r.parse(ImgGen, body, ImageFields); err != nil {
		return err
	}
	if err := r.text("prompt"); err != nil {
		return err
	}
	if err := r.positive("n"); err != nil {
		return err
	}
	for _, name := range []string{"size", "quality", "style", "response_format"} {
		if err := r.optionalText(name); err != nil {
			return err
		}
	}
	if v := r.Field("response_format"); v.Given() {
		return r.imageFormat(string(v.Text()))
	}
	return nil
}

// ParseImageEdit checks an image edit form.
func (r *Request) ParseImageEdit(form *Form) error {
	if err := r.parseForm(ImgEdit, form, ImageEditFields); err != nil {
		return err
	}
	if !form.HasFile("image") {
		return MissingParameter("image")
	}
	if prompt, _ := form.Value("prompt"); prompt == "" {
		return MissingParameter("prompt")
	}
	if value, ok := form.Value("n"); ok && value != "" {
		if n, err := strconv.Atoi(value); err != nil || n < 1 {
			return BadField("n", "value.positive")
		}
	}
	if format, ok := form.Value("response_format"); ok && format != "" {
		return r.imageFormat(format)
	}
	return nil
}

func (r *Request) imageFormat(format string) error {
	switch format {
	case "url", "b64_json":
		r.ImageFormat = format
		return nil
	}
	return BadField("response_format", "value.or", "known", "url", "last", "b64_json")
}

// text checks that a required field is a string that says something.
func (r *Request) text(name string) error {
	v := r.Field(name)
	switch {
	case !v.Given():
		return MissingParameter(name)
	case v.Kind() != jsonscan.String:
		return BadField(name, "value.string")
	case len(v.Raw()) == len(`""`):
		return BadField(name, "field.empty")
	}
	return nil
}

// positive checks that an optional field is a whole number above zero.
func (r *Request) positive(name string) error {
	if v := r.Field(name); v.Given() {
		if n, ok := v.Int(); !ok || n < 1 {
			return BadField(name, "value.positive")
		}
	}
	return nil
}

// optionalText checks that an optional field is a string.
func (r *Request) optionalText(name string) error { return CheckText(name, r.Field(name)) }
