package jsonscan

import (
	"strings"
	"testing"
)

// chatBody is a chat request of about the given size, shaped like those that
// official clients send.
func chatBody(size int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"qwen2.5:7b","temperature":0.7,"stream":true,"stream_options":{"include_usage":true},"max_tokens":512,"messages":[{"role":"system","content":"You are a helpful assistant."}`)
	for b.Len() < size-40 {
		b.WriteString(`,{"role":"user","content":"`)
		for n := 0; n < 900 && b.Len() < size-40; n += 53 {
			b.WriteString(`Tell me about \"patch bays\" and what they connect.\n `)
		}
		b.WriteString(`"}`)
	}
	b.WriteString(`],"user":"someone"}`)
	return []byte(b.String())
}

func BenchmarkParse(b *testing.B) {
	for name, size := range map[string]int{"1KB": 1 << 10, "100KB": 100 << 10} {
		body := chatBody(size)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var doc Document
			for b.Loop() {
				if err := doc.Parse(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
