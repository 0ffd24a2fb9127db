package starter_test

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/wings/starter"
)

func TestNoPortOfABackendIsListenedOn(t *testing.T) {
	backends := []starter.Backend{{BaseURL: "http://127.0.0.1:8080"}, {BaseURL: "http://localhost:8082/v1"}, {BaseURL: "http://gpu1:9000"}, {BaseURL: "https://api.openai.com"}}
	for wanted, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8083", // 8081 is llama.cpp's second one
		"0.0.0.0:8082":   "0.0.0.0:8083",
		"127.0.0.1:9000": "127.0.0.1:9000",
		"127.0.0.1:0":    "127.0.0.1:0",
		"unix:/run/p":    "unix:/run/p",
	} {
		if got := starter.ListenBeside(wanted, backends); got != want {
			t.Errorf("%s: %s, want %s", wanted, got, want)
		}
	}
	if got := starter.TakenBy("[::]:8080", backends); got != "http://127.0.0.1:8080" {
		t.Errorf("taken by %q", got)
	}
}
