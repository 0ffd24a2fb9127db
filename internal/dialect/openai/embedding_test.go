package openai

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// BenchmarkEmbeddingBase64 makes base64 of 2,048 vectors of 1,536 numbers, as
// JSON text with the digits that backends in Python and C++ write.
func BenchmarkEmbeddingBase64(b *testing.B) {
	const inputs = 2048
	answer := embeddingAnswer(inputs, 1536)
	input := `"input":["a"` + strings.Repeat(`,"a"`, inputs-1) + `]`
	for name, body := range map[string]string{
		"base64": `{"model":"m","encoding_format":"base64",` + input + `}`,
		"float":  `{"model":"m",` + input + `}`,
	} {
		req := new(schema.Request)
		if err := req.ParseEmbedding([]byte(body)); err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(answer)))
			b.ReportAllocs()
			var reply dialect.Reply
			for b.Loop() {
				reply.Reset()
				if err := Embedding.Reply(req, dialect.Answer{Body: answer}, &reply); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func embeddingAnswer(count, dimensions int) []byte {
	random := rand.New(rand.NewPCG(3, 4))
	out := []byte(`{"object":"list","model":"m","data":[`)
	for i := range count {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"object":"embedding","index":`...)
		out = strconv.AppendInt(out, int64(i), 10)
		out = append(out, `,"embedding":[`...)
		for j := range dimensions {
			if j > 0 {
				out = append(out, ',')
			}
			out = strconv.AppendFloat(out, float64(float32(random.NormFloat64()/20)), 'g', -1, 64)
		}
		out = append(out, `]}`...)
	}
	return append(out, `],"usage":{"prompt_tokens":9,"total_tokens":9}}`...)
}
