package actuator

import (
	"cmp"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"
)

func goVersion() string { return strings.TrimPrefix(runtime.Version(), "go") }

// Info answers GET /actuator/info.
func (a *API) Info(w http.ResponseWriter, r *http.Request) {
	build := a.options.Build
	type fields map[string]any
	reply(w, r, http.StatusOK, fields{
		"app": fields{
			"name": "Patchbay", "version": build.Version,
			"description": "A gateway that routes AI model requests from one OpenAI-compatible API to many backends",
		},
		"build": fields{
			"version": build.Version, "artifact": "patchbay", "name": "Patchbay", "group": "github.com/patchbay-ai", "time": build.time(),
		},
		"git": fields{"branch": cmp.Or(build.Branch, unknown), "commit": fields{"id": cmp.Or(build.Commit, unknown), "time": cmp.Or(build.commitTime(), unknown)}},
		// There is no Java here; tools ask for these fields all the same.
		"java":    fields{"version": goVersion(), "vendor": "Go (no JVM)"},
		"go":      fields{"version": goVersion(), "compiler": runtime.Compiler, "os": runtime.GOOS, "arch": runtime.GOARCH},
		"os":      fields{"name": runtime.GOOS, "arch": runtime.GOARCH},
		"process": fields{"pid": os.Getpid(), "cpus": runtime.GOMAXPROCS(0)},
	})
}

// unknown stands for what the build did not say.
const unknown = "unknown"

// commitTime returns when the commit was made, empty where nobody knows.
func (b Build) commitTime() string {
	at, err := time.Parse(time.RFC3339, b.Date)
	if err != nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// time returns when the program was built: when its commit was made, so that
// the same source is the same program, else when the program's file was written.
func (b Build) time() string {
	if at := b.commitTime(); at != "" {
		return at
	}
	if path, err := os.Executable(); err == nil {
		if file, err := os.Stat(path); err == nil {
			return file.ModTime().UTC().Format(time.RFC3339)
		}
	}
	return time.Unix(0, 0).UTC().Format(time.RFC3339)
}
