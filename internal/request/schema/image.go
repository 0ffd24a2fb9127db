package schema

import "strconv"

// ParseImage reads and checks an image generation request.
func (r *Request) ParseImage(body []byte) error {
	if err := r.parse(ImgGen, body, ImageFields); err != nil {
		return err
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
