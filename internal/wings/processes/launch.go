package processes

import (
	"os"
	"strings"
)

// child is a process that was started.
type child interface {
	// PID returns the number of the process, 0 before it is known.
	PID() int
	// Terminate asks the process to end, and Kill ends it and everything it started.
	Terminate()
	Kill()
	// Done is closed when nothing is left of the process; Ending then tells how it ended.
	Done() <-chan struct{}
	Ending() ending
}

// inherited are the variables of the gateway that every process gets: the places of programs,
// libraries and models, the GPUs, and people's language and time zone. All others may be secrets.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TMP", "TEMP", "LANG", "LC_ALL", "LC_CTYPE", "TZ",
	"XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "SYSTEMROOT", "LD_LIBRARY_PATH", "HF_HOME", "LLAMA_CACHE", "DOCKER_HOST",
	"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
	"HSA_OVERRIDE_GFX_VERSION",
}

// environment returns the variables of a process.
func environment(own map[string]string, lookup func(string) (string, bool)) []string {
	var all []string
	for _, name := range inherited {
		if _, replaced := own[name]; replaced {
			continue
		}
		if value, ok := lookup(name); ok {
			all = append(all, name+"="+value)
		}
	}
	for name, value := range own {
		all = append(all, name+"="+value)
	}
	return all
}

// processEnvironment is environment with the variables of this program.
func processEnvironment(p Process) []string { return environment(p.Env, os.LookupEnv) }

// Missing returns why the program of a process cannot be started, as far as that can be
// seen without starting it, or nothing.
func (p Process) Missing() string {
	words, err := p.Command.words()
	if err != nil || len(words) == 0 {
		return ""
	}
	path := os.Getenv("PATH")
	if own, ok := p.Env["PATH"]; ok {
		path = own
	}
	return missing(words[0], p.Directory, strings.Split(path, string(os.PathListSeparator)))
}
