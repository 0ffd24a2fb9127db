package jsonscan

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// chatBody is a chat request of about the given size, shaped like those that
// official clients send. Its text has an escape every 18 bytes, which is more than
// source code has.
func chatBody(size int) []byte {
	return chatOf(size, `Tell me about \"patch bays\" and what they connect.\n `)
}

// chatOf is a chat request of about the given size, whose text repeats a sentence.
func chatOf(size int, sentence string) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"qwen2.5:7b","temperature":0.7,"stream":true,"stream_options":{"include_usage":true},"max_tokens":512,"messages":[{"role":"system","content":"You are a helpful assistant."}`)
	for b.Len() < size-40 {
		b.WriteString(`,{"role":"user","content":"`)
		for n := 0; n < 900 && b.Len() < size-40; n += len(sentence) {
			b.WriteString(sentence)
		}
		b.WriteString(`"}`)
	}
	b.WriteString(`],"user":"someone"}`)
	return []byte(b.String())
}

// embeddingAnswer is the answer to an embeddings request, with so many numbers.
func embeddingAnswer(floats int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	text := []byte(`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[`)
	for i := range floats {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendFloat(text, random.Float64()*0.2-0.1, 'g', 10, 64)
	}
	return append(text, `]}],"model":"text-embedding-3-small","usage":{"prompt_tokens":8,"total_tokens":8}}`...)
}

// benchmarkTexts are what the gateway scans most, and what is hardest to scan.
func benchmarkTexts() []struct {
	name string
	text []byte
} {
	return []struct {
		name string
		text []byte
	}{
		{"chat-1KB", chatOf(1<<10, "Tell me about patch bays, and about what they connect. ")},
		{"chat-100KB", chatOf(100<<10, "Tell me about patch bays, and about what they connect. ")},
		{"escapes-1KB", chatBody(1 << 10)},
		{"escapes-100KB", chatBody(100 << 10)},
		{"chinese-100KB", chatOf(100<<10, "请告诉我有关跳线盘的信息，以及它们连接什么。")},
		{"embedding-1536", embeddingAnswer(1536)},
	}
}

func BenchmarkParse(b *testing.B) {
	for _, c := range benchmarkTexts() {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			var doc Document
			for b.Loop() {
				if err := doc.Parse(c.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTokenizer does the same work with the strict tokenizer that the tests
// take as their oracle.
func BenchmarkTokenizer(b *testing.B) {
	for _, c := range benchmarkTexts() {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			reader, decoder := bytes.NewReader(nil), new(jsontext.Decoder)
			for b.Loop() {
				reader.Reset(c.text)
				decoder.Reset(reader)
				if err := decoder.SkipValue(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCopy is how fast memory can be read and written at all.
func BenchmarkCopy(b *testing.B) {
	for _, c := range benchmarkTexts() {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			to := make([]byte, len(c.text))
			for b.Loop() {
				copy(to, c.text)
			}
		})
	}
}
