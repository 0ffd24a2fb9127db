package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
)

// FuzzLoad feeds arbitrary text as file, variable and argument. Nothing may
// panic, every refusal says where, and what is accepted is sound.
func FuzzLoad(f *testing.F) {
	f.Add("quota: {enabled: true}", "PATCHBAY_LOG_LEVEL=debug", "limits.max-attempts=3")
	f.Add("services: {chat: {instances: [&a {name: m, base-url: http://h}, {<<: *a, name: n}]}}", "A=1", "log={level: warn}")
	f.Fuzz(func(t *testing.T, file, env, set string) {
		src := config.Source{File: "fuzz.yaml", Content: []byte(file), Env: strings.Split(env, "\n")}
		if set != "" {
			src.Set = strings.Split(set, "\n")
		}
		loaded, err := config.Load(src)
		if err != nil {
			var problems config.Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("error %T %v", err, err)
			}
			for _, problem := range problems {
				if problem.File == "" || !problem.Said.Is() {
					t.Fatalf("problem without a place or a message: %+v", problem)
				}
			}
			return
		}
		copied := loaded.Document.Clone()
		if !copied.Equal(loaded.Document) {
			t.Fatal("the clone differs")
		}
		if problems := copied.Validate(nil); len(problems) > 0 {
			t.Fatalf("accepted, but %v", problems)
		}
	})
}
