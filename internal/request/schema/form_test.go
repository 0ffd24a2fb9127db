package schema_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// form makes a form of name=value parts; a value that begins with @ is a file.
func form(parts ...string) *schema.Form {
	f := new(schema.Form)
	for _, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		if content, ok := strings.CutPrefix(value, "@"); ok {
			f.Parts = append(f.Parts, schema.Part{Name: name, File: &schema.File{
				Filename: "a", Size: int64(len(content)), Open: func() io.Reader { return strings.NewReader(content) },
			}})
			continue
		}
		f.Parts = append(f.Parts, schema.Part{Name: name, Value: value})
	}
	return f
}

func TestForms(t *testing.T) {
	parsers := map[string]func(*schema.Request, *schema.Form) error{
		"transcription": (*schema.Request).ParseTranscription,
		"image edit":    (*schema.Request).ParseImageEdit,
	}
	for _, c := range []struct{ kind, parts, param, code string }{
		{"transcription", "model=m file=@a", "", ""},
		{"transcription", "file=@a model=m", "", ""},
		{"transcription", "file[]=@a model=m", "", ""},
		{"transcription", "model=m file=@a response_format=json temperature=0.5 language=en", "", ""},
		{"transcription", "model=m file=@a response_format=verbose_json", "", ""},
		{"transcription", "model=m file=@a response_format=text", "", ""},
		{"transcription", "model=m file=@a response_format=srt", "", ""},
		{"transcription", "model=m file=@a response_format=vtt", "", ""},
		{"transcription", "model=m file=@a response_format= temperature=", "", ""},
		{"transcription", "model=m file=@a temperature=1e-3", "", ""},
		{"transcription", "file=@a", "model", schema.CodeMissingParameter},
		{"transcription", "model= file=@a", "model", schema.CodeMissingParameter},
		{"transcription", "model=@m file=@a", "model", schema.CodeMissingParameter},
		{"transcription", "model=m", "file", schema.CodeMissingParameter},
		{"transcription", "model=m file=text", "file", schema.CodeMissingParameter},
		{"transcription", "model=m file=@a response_format=xml", "response_format", schema.CodeInvalidValue},
		{"transcription", "model=m file=@a response_format=JSON", "response_format", schema.CodeInvalidValue},
		{"transcription", "model=m file=@a temperature=hot", "temperature", schema.CodeInvalidValue},
		{"transcription", "model=m file=@a temperature=NaN", "temperature", schema.CodeInvalidValue},
		{"transcription", "model=m file=@a temperature=Inf", "temperature", schema.CodeInvalidValue},
		{"transcription", "model=m file=@a timestamp_granularities[]=word timestamp_granularities[]=segment x=1 x=2", "", ""},
		{"transcription", "model[]=m file=@a response_format[]=srt", "", ""},
		{"transcription", "model=m model=other file=@a", "model", schema.CodeInvalidValue},
		{"transcription", "model=m model=m file=@a", "model", schema.CodeInvalidValue},
		{"transcription", "model=m file=@a model[]=other", "model", schema.CodeInvalidValue},
		{"transcription", "model[]=m model[]=other file=@a", "model", schema.CodeInvalidValue},
		{"transcription", "model=m model[0]=other file=@a", "model", schema.CodeInvalidValue},
		{"transcription", "model=m model=@other file=@a", "model", schema.CodeInvalidValue},
		{"transcription", "model=@other model=m file=@a", "model", schema.CodeInvalidValue},
		{"transcription", "model=m model= file=@a", "model", schema.CodeInvalidValue},
		{"transcription", "model=m file=@a file=@b", "file", schema.CodeInvalidValue},
		{"transcription", "model=m file=@a response_format=json response_format=srt", "response_format", schema.CodeInvalidValue},
		{"transcription", "model=m file=@a response_format=@srt", "response_format", schema.CodeInvalidValue},
		{"transcription", "model=m file=@a temperature=0 temperature[]=hot", "temperature", schema.CodeInvalidValue},
		{"transcription", "model=m file=@a stream=false stream=true", "stream", schema.CodeInvalidValue},
		{"transcription", "model=m file=@a language=en language=de", "language", schema.CodeInvalidValue},
		{"transcription", "model=m file=@a prompt=a prompt=b", "prompt", schema.CodeInvalidValue},
		{"transcription", "model=m file=@a user=a user=b", "user", schema.CodeInvalidValue},
		{"image edit", "model=m model=other image=@a prompt=p", "model", schema.CodeInvalidValue},
		{"image edit", "model=m model[]=@other image=@a prompt=p", "model", schema.CodeInvalidValue},
		{"image edit", "model=m image=@a prompt=p prompt=q", "prompt", schema.CodeInvalidValue},
		{"image edit", "model=m image=@a prompt=p n=1 n=9", "n", schema.CodeInvalidValue},
		{"image edit", "model=m image=@a prompt=p size=1x1 size[]=2x2", "size", schema.CodeInvalidValue},
		{"image edit", "model=m image=@a mask=@b mask=@c prompt=p", "mask", schema.CodeInvalidValue},
		{"image edit", "model=m image=@a image=@b image[]=@c image[]=@d prompt=p", "", ""},
		{"image edit", "model=m image=@a prompt=p", "", ""},
		{"image edit", "image[]=@a image[]=@b mask=@c prompt=p model=m n=2 size=1x1", "", ""},
		{"image edit", "model=m image=@a prompt=p n= response_format=", "", ""},
		{"image edit", "model=m image=@a prompt=p response_format=url", "", ""},
		{"image edit", "model=m image=@a prompt=p response_format=b64_json", "", ""},
		{"image edit", "image=@a prompt=p", "model", schema.CodeMissingParameter},
		{"image edit", "model=m prompt=p", "image", schema.CodeMissingParameter},
		{"image edit", "model=m image=a.png prompt=p", "image", schema.CodeMissingParameter},
		{"image edit", "model=m image=@a", "prompt", schema.CodeMissingParameter},
		{"image edit", "model=m image=@a prompt=", "prompt", schema.CodeMissingParameter},
		{"image edit", "model=m image=@a prompt=p n=0", "n", schema.CodeInvalidValue},
		{"image edit", "model=m image=@a prompt=p n=1.5", "n", schema.CodeInvalidValue},
		{"image edit", "model=m image=@a prompt=p n=two", "n", schema.CodeInvalidValue},
		{"image edit", "model=m image=@a prompt=p response_format=png", "response_format", schema.CodeInvalidValue},
	} {
		var req schema.Request
		err := parsers[c.kind](&req, form(strings.Fields(c.parts)...))
		if c.param == "" {
			if err != nil || string(req.Model) != "m" || req.Form == nil {
				t.Errorf("%s: %s: %v", c.kind, c.parts, err)
			}
			continue
		}
		wantRefusal(t, []byte(c.parts), err, c.param, c.code)
	}
}

func TestWhatIsReadOfAForm(t *testing.T) {
	var req schema.Request
	if err := req.ParseTranscription(form("file=@a", "model=m", "user=u", "response_format=srt")); err != nil {
		t.Fatal(err)
	}
	if req.TranscriptFormat() != "srt" || string(req.User) != "u" || req.Service != schema.STT {
		t.Errorf("format %s, user %s, service %s", req.TranscriptFormat(), req.User, req.Service)
	}
	req.Reset()
	if err := req.ParseTranscription(form("file=@a", "model=m", "response_format=")); err != nil || req.TranscriptFormat() != "json" || req.User != nil {
		t.Errorf("format %s, user %q (%v), want json", req.TranscriptFormat(), req.User, err)
	}
	req.Reset()
	if err := req.ParseImageEdit(form("image=@a", "model=m", "prompt=p", "response_format=url")); err != nil || req.ImageFormat != "url" || req.Service != schema.ImgEdit {
		t.Errorf("format %s, service %s (%v), want url", req.ImageFormat, req.Service, err)
	}
	var speech schema.Request
	if err := speech.ParseSpeech([]byte(`{"model":"m","input":"a","voice":"v"}`)); err != nil || speech.AudioFormat() != "mp3" {
		t.Errorf("format %s (%v), want mp3", speech.AudioFormat(), err)
	}
	speech.Reset()
	if err := speech.ParseSpeech([]byte(`{"model":"m","input":"a","voice":"v","extra_body":{"response_format":"wav"}}`)); err != nil || speech.AudioFormat() != "wav" {
		t.Errorf("format %s (%v), want wav", speech.AudioFormat(), err)
	}
}

// TestFormFieldsThatWereCheckedAreSent wants the names that backends go by on the
// fields that were read under another spelling.
func TestFormFieldsThatWereCheckedAreSent(t *testing.T) {
	var req schema.Request
	f := form("file[]=@a", "timestamp_granularities[]=word", "model[]=m", "response_format[]=srt", "x[]=1")
	if err := req.ParseTranscription(f); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, part := range req.Form.Parts {
		names = append(names, part.Name)
	}
	if want := []string{"file", "timestamp_granularities[]", "model", "response_format", "x[]"}; !slices.Equal(names, want) {
		t.Errorf("the parts are %q, want %q", names, want)
	}
}

func TestFormsAreReadInTheirOrder(t *testing.T) {
	f := form("a=1", "b[]=2", "b[]=3", "c=@file", "a=4")
	for name, want := range map[string]string{"a": "1", "b": "2"} {
		if got, ok := f.Value(name); got != want || !ok {
			t.Errorf("%s is %q (%v), want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{"c", "d", ""} {
		if got, ok := f.Value(name); ok {
			t.Errorf("%q is %q, want nothing", name, got)
		}
	}
	if !f.HasFile("c") || f.HasFile("a") || f.HasFile("d") {
		t.Error("the wrong parts are files")
	}
}
