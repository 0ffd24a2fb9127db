package openai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// chunksOf reads a stream to its end, with every chunk read anew or not.
func chunksOf(t testing.TB, stream string, anew bool) (chunks []string, usage string, err error) {
	t.Helper()
	events := Chat.Events(streamRequest(t), strings.NewReader(stream)).Events.(*events)
	for {
		if anew {
			events.template = chunkTemplate{}
		}
		chunk, err := events.Next()
		if err != nil {
			return chunks, fmt.Sprint(events.Usage()), err
		}
		chunks = append(chunks, string(chunk))
	}
}

const templateChunk = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"%s","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]%s}`

func TestChunksThatMatchATemplateAreNotScanned(t *testing.T) {
	for _, model := range []string{"m", "another name"} {
		var stream strings.Builder
		texts := []string{"", "Hello", " wörld", `\"quoted\" \u00e9 \\`, `\ud83d`, "日本", strings.Repeat("long ", 500), "\u007f", "}", `"}]}`}
		for _, text := range texts {
			text = strings.ReplaceAll(text, `"}`, `\"}`)
			fmt.Fprintf(&stream, "data: "+templateChunk+"\n\n", model, text, "")
		}
		stream.WriteString("data: [DONE]\n\n")
		fast, _, _ := chunksOf(t, stream.String(), false)
		slow, _, _ := chunksOf(t, stream.String(), true)
		if fmt.Sprint(fast) != fmt.Sprint(slow) || len(fast) != len(texts) {
			t.Errorf("%s:\n%q\n%q", model, fast, slow)
		}
	}
}

func TestTemplatesAreExact(t *testing.T) {
	var m chunkTemplate
	events := Chat.Events(streamRequest(t), strings.NewReader("data: "+fmt.Sprintf(templateChunk, "m", "text", "")+"\n\n")).Events.(*events)
	if _, err := events.Next(); err != nil {
		t.Fatal(err)
	}
	m = events.template
	for chunk, want := range map[string]bool{
		fmt.Sprintf(templateChunk, "m", "another", ""):                         true,
		fmt.Sprintf(templateChunk, "m", "", ""):                                true,
		fmt.Sprintf(templateChunk, "n", "text", ""):                            false,
		fmt.Sprintf(templateChunk, "m", "text", `,"usage":{}`):                 false,
		fmt.Sprintf(templateChunk, "m", "a line\nbreak", ""):                   false,
		fmt.Sprintf(templateChunk, "m", "no text \xff", ""):                    false,
		fmt.Sprintf(templateChunk, "m", `wrong \x escape`, ""):                 false,
		fmt.Sprintf(templateChunk, "m", `"},"finish_reason":"stop`, ""):        false,
		fmt.Sprintf(templateChunk, "m", `","role":"assistant`, ""):             false,
		fmt.Sprintf(templateChunk, "m", `ends with a backslash \`, ""):         false,
		fmt.Sprintf(templateChunk, "m", "text", "") + " ":                      false,
		fmt.Sprintf(templateChunk, "m", strings.Repeat("x", 70<<10), ""):       false,
		strings.Replace(fmt.Sprintf(templateChunk, "m", "", ""), `""`, `"`, 1): false,
	} {
		if _, _, matches := m.apply(new([]byte), []byte(chunk)); matches != want {
			t.Errorf("fits %t: %.200s", !want, chunk)
		}
	}
}

// FuzzTemplate reads any three events: what comes of them does not depend on
// whether the templates of earlier ones were used.
func FuzzTemplate(f *testing.F) {
	f.Add("one", "two", "three", "m")
	f.Add("", `","x":"`, `\`, "other")
	f.Fuzz(func(t *testing.T, a, b, c, model string) {
		var stream bytes.Buffer
		for _, text := range []string{a, b, c} {
			fmt.Fprintf(&stream, "data: "+templateChunk+"\n\n", model, text, "")
			fmt.Fprintf(&stream, "data: %s\n\n", text)
		}
		fast, fastUsage, fastErr := chunksOf(t, stream.String(), false)
		slow, slowUsage, slowErr := chunksOf(t, stream.String(), true)
		if fmt.Sprintf("%q", fast) != fmt.Sprintf("%q", slow) || fastUsage != slowUsage || fmt.Sprint(fastErr) != fmt.Sprint(slowErr) {
			t.Errorf("%q %s %v\n%q %s %v", fast, fastUsage, fastErr, slow, slowUsage, slowErr)
		}
	})
}

// Chunks of a completion have their text in the choice itself.
func TestChunksOfCompletionsAreRecognizedByTheirTemplate(t *testing.T) {
	const chunk = `{"id":"c","object":"text_completion","created":1,"model":"another name","choices":[{"index":%d,"text":"%s","logprobs":null,"finish_reason":%s}]}`
	read := func(anew bool) (chunks []string, matched int) {
		req := new(schema.Request)
		if err := req.ParseCompletion([]byte(`{"model":"m","prompt":["a","b"],"stream":true}`)); err != nil {
			t.Fatal(err)
		}
		var stream strings.Builder
		for i, text := range []string{"one", " two", "", `\"three\"`, "日本", `\ud83d`} {
			fmt.Fprintf(&stream, "data: "+chunk+"\n\n", i/3, text, "null")
		}
		for i := range 2 {
			fmt.Fprintf(&stream, "data: "+chunk+"\n\n", i, "", `"stop"`)
		}
		events := Completion.Events(req, strings.NewReader(stream.String()+"data: [DONE]\n\n")).Events.(*events)
		for {
			if anew {
				events.template = chunkTemplate{}
			}
			out, err := events.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				return chunks, matched
			}
			if events.rested && len(chunks) > 0 && len(chunks) < 3 {
				matched++ // it was not scanned
			}
			chunks = append(chunks, string(out))
		}
	}
	fast, matched := read(false)
	slow, _ := read(true)
	if fmt.Sprint(fast) != fmt.Sprint(slow) || len(fast) != 8 || matched != 2 {
		t.Errorf("%d matched:\n%q\n%q", matched, fast, slow)
	}
}

// A stream that rests holds nothing that scanning needs, and goes on as before.
func TestAStreamThatRestsHoldsNoMemoryForScanning(t *testing.T) {
	chunk := "data: " + fmt.Sprintf(templateChunk, "another name", "text", "") + "\n\n"
	last := strings.ReplaceAll(chunk, `"finish_reason":null`, `"finish_reason":"stop"`)
	events := Chat.Events(streamRequest(t), strings.NewReader(chunk+chunk+last+"data: [DONE]\n\n")).Events.(*events)
	want, _, _ := chunksOf(t, chunk+chunk+last+"data: [DONE]\n\n", true)
	for n := range want {
		got, err := events.Next()
		if err != nil || string(got) != want[n] {
			t.Fatalf("%q, %v, want %q", got, err, want[n])
		}
		if n == 1 && (events.segments != nil || len(events.Doc.Data()) > 0) { // it matched the template
			t.Error("memory is held")
		}
	}
	if _, err := events.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
