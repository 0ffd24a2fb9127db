package openai

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// chunksOf reads a stream to its end, with every chunk read anew or not.
func chunksOf(t testing.TB, stream string, anew bool) (chunks []string, usage string, err error) {
	t.Helper()
	events := Chat{}.Events(streamRequest(t), strings.NewReader(stream)).(*events)
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

const mouldChunk = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"%s","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]%s}`

func TestChunksThatFitAMouldAreNotReadAgain(t *testing.T) {
	for _, model := range []string{"m", "another name"} {
		var stream strings.Builder
		texts := []string{"", "Hello", " wörld", `\"quoted\" \u00e9 \\`, `\ud83d`, "日本", strings.Repeat("long ", 500), "\u007f", "}", `"}]}`}
		for _, text := range texts {
			text = strings.ReplaceAll(text, `"}`, `\"}`)
			fmt.Fprintf(&stream, "data: "+mouldChunk+"\n\n", model, text, "")
		}
		stream.WriteString("data: [DONE]\n\n")
		fast, _, _ := chunksOf(t, stream.String(), false)
		slow, _, _ := chunksOf(t, stream.String(), true)
		if fmt.Sprint(fast) != fmt.Sprint(slow) || len(fast) != len(texts) {
			t.Errorf("%s:\n%q\n%q", model, fast, slow)
		}
	}
}

func TestMouldsAreExact(t *testing.T) {
	var m chunkTemplate
	events := Chat{}.Events(streamRequest(t), strings.NewReader("data: "+fmt.Sprintf(mouldChunk, "m", "text", "")+"\n\n")).(*events)
	if _, err := events.Next(); err != nil {
		t.Fatal(err)
	}
	m = events.template
	for chunk, want := range map[string]bool{
		fmt.Sprintf(mouldChunk, "m", "another", ""):                         true,
		fmt.Sprintf(mouldChunk, "m", "", ""):                                true,
		fmt.Sprintf(mouldChunk, "n", "text", ""):                            false,
		fmt.Sprintf(mouldChunk, "m", "text", `,"usage":{}`):                 false,
		fmt.Sprintf(mouldChunk, "m", "a line\nbreak", ""):                   false,
		fmt.Sprintf(mouldChunk, "m", "no text \xff", ""):                    false,
		fmt.Sprintf(mouldChunk, "m", `wrong \x escape`, ""):                 false,
		fmt.Sprintf(mouldChunk, "m", `"},"finish_reason":"stop`, ""):        false,
		fmt.Sprintf(mouldChunk, "m", `","role":"assistant`, ""):             false,
		fmt.Sprintf(mouldChunk, "m", `ends with a backslash \`, ""):         false,
		fmt.Sprintf(mouldChunk, "m", "text", "") + " ":                      false,
		fmt.Sprintf(mouldChunk, "m", strings.Repeat("x", 70<<10), ""):       false,
		strings.Replace(fmt.Sprintf(mouldChunk, "m", "", ""), `""`, `"`, 1): false,
	} {
		if m.matches([]byte(chunk)) != want {
			t.Errorf("fits %t: %.200s", !want, chunk)
		}
	}
}

// FuzzMould reads any three events: what comes of them does not depend on
// whether the moulds of earlier ones were used.
func FuzzMould(f *testing.F) {
	f.Add("one", "two", "three", "m")
	f.Add("", `","x":"`, `\`, "other")
	f.Fuzz(func(t *testing.T, a, b, c, model string) {
		var stream bytes.Buffer
		for _, text := range []string{a, b, c} {
			fmt.Fprintf(&stream, "data: "+mouldChunk+"\n\n", model, text, "")
			fmt.Fprintf(&stream, "data: %s\n\n", text)
		}
		fast, fastUsage, fastErr := chunksOf(t, stream.String(), false)
		slow, slowUsage, slowErr := chunksOf(t, stream.String(), true)
		if fmt.Sprintf("%q", fast) != fmt.Sprintf("%q", slow) || fastUsage != slowUsage || fmt.Sprint(fastErr) != fmt.Sprint(slowErr) {
			t.Errorf("%q %s %v\n%q %s %v", fast, fastUsage, fastErr, slow, slowUsage, slowErr)
		}
	})
}
