package actuator

import (
	"cmp"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

func goVersion() string { return strings.TrimPrefix(runtime.Version(), "go") }

func (a *API) info(*web.Call) (info, error) {
	build := a.options.Build
	return info{
		Demo: a.options.Demo,
		App: appInfo{
			Name: "Patchbay", Version: build.Version,
			Description: "A gateway that routes AI model requests from one OpenAI-compatible API to many backends",
		},
		Build: buildInfo{
			Version: build.Version, Artifact: "patchbay", Name: "Patchbay", Group: "github.com/patchbay-ai",
			Time: build.time(),
		},
		Git: gitInfo{cmp.Or(build.Branch, unknown),
			commitInfo{cmp.Or(build.Commit, unknown), cmp.Or(build.commitTime(), unknown)}},
		// There is no Java here; tools ask for these fields all the same.
		Java:    javaInfo{goVersion(), "Go (no JVM)"},
		Go:      goInfo{goVersion(), runtime.Compiler, runtime.GOOS, runtime.GOARCH},
		OS:      osInfo{runtime.GOOS, runtime.GOARCH},
		Process: processInfo{os.Getpid(), runtime.GOMAXPROCS(0)},
	}, nil
}

// info describes the running program.
type info struct {
	Demo    bool        `json:"demo,omitzero" doc:"The backends are simulated."`
	App     appInfo     `json:"app"`
	Build   buildInfo   `json:"build"`
	Git     gitInfo     `json:"git"`
	Java    javaInfo    `json:"java"`
	Go      goInfo      `json:"go"`
	OS      osInfo      `json:"os"`
	Process processInfo `json:"process"`
}

type appInfo struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description"`
}

type buildInfo struct {
	Version  string `json:"version"`
	Artifact string `json:"artifact"`
	Name     string `json:"name"`
	Group    string `json:"group"`
	Time     string `json:"time"`
}

type gitInfo struct {
	Branch string     `json:"branch"`
	Commit commitInfo `json:"commit"`
}

type commitInfo struct {
	ID   string `json:"id"`
	Time string `json:"time"`
}

type javaInfo struct {
	Version string `json:"version"`
	Vendor  string `json:"vendor"`
}

type goInfo struct {
	Version  string `json:"version"`
	Compiler string `json:"compiler"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

type osInfo struct {
	Name string `json:"name"`
	Arch string `json:"arch"`
}

type processInfo struct {
	PID  int `json:"pid"`
	CPUs int `json:"cpus"`
}

// unknown is shown for a value that the build did not set.
const unknown = "unknown"

// commitTime returns when the commit was made, or "" if that is not known.
func (b Build) commitTime() string {
	at, err := time.Parse(time.RFC3339, b.Date)
	if err != nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// time returns when the program was built. That is the time of its commit, because
// builds are reproducible, or else the time of the program's file.
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
