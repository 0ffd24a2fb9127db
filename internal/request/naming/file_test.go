package naming_test

import (
	"slices"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/naming"
)

func TestModelsAreNamedAfterTheirFiles(t *testing.T) {
	for _, c := range []struct{ files, want []string }{
		{[]string{"/models/Qwen2.5-7B-Instruct-Q4_K_M.gguf"}, []string{"Qwen2.5-7B-Instruct-Q4_K_M"}},
		{[]string{"x.gguf", `C:\models\y.GGUF`, "../a b/z.gguf"}, []string{"x", "y", "z"}},
		{[]string{"/models/big-00001-of-00003.gguf"}, []string{"big"}},
		{[]string{"ggml-org/gemma-3-1b-it-GGUF", "qwen3:8b", "/models/folder"}, []string{"ggml-org/gemma-3-1b-it-GGUF", "qwen3:8b", "/models/folder"}},
		{[]string{"/a/x.gguf", "/b/x.gguf", "/b/y.gguf"}, []string{"/a/x.gguf", "/b/x.gguf", "y"}},
		{[]string{"x", "/a/x.gguf"}, []string{"x", "/a/x.gguf"}},
		{[]string{"/a/.gguf", ".gguf"}, []string{"/a/.gguf", ".gguf"}},
		{nil, []string{}},
	} {
		if got := naming.OfFiles(c.files); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.files, got, c.want)
		}
	}
}
