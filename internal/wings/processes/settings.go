// Package processes runs model servers on the gateway's own host: it starts one on demand,
// waits until it answers, starts it again if it fails, and ends it on demand or when the
// gateway ends, however that happens. Package residency decides which processes are in
// memory together, and which one leaves when another needs its place.
package processes

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const (
	maxProcesses = 256
	maxName      = 63 // as in a host, which a name is part of
	maxArguments = 1024
	maxRestarts  = 100
	maxGroups    = 64
	// portWord is the word for the port of a process in its command, its environment and
	// its ready URL. It has no braces, because braces are references of the configuration.
	portWord = "$PORT"
	// portScheme is the scheme of a ready URL of a server that is ready as soon as it listens.
	portScheme = "tcp"
	// pidWord is the word for the number of the process in its stop command.
	pidWord = "$PID"
	// defaultReady is the path that reports readiness in llama.cpp, vLLM and others.
	defaultReady = "http://127.0.0.1:" + portWord + "/health"
)

// Settings are the processes that a gateway may run, by their names. They come from the
// configuration file only: nobody who may edit instances can run programs.
type Settings map[string]Process

// Bounds are the limits of all processes together.
type Bounds struct {
	// ProcessMemory is how much memory the processes with a memory of their own may have
	// together; 0 where none has.
	ProcessMemory schema.Bytes `json:"processMemory"`
}

// Process describes one process.
type Process struct {
	// Command is the program and its arguments. No shell reads it.
	Command Command `json:"command"`
	// Stop is the command that ends the process, in place of SIGTERM.
	Stop Command `json:"stop"`
	// Preload starts the process with the gateway.
	Preload bool `json:"preload" doc:"Whether the process is started with the gateway, before a request needs it."`
	// Env are the environment variables of the process beside PATH, HOME and the few
	// others that every program needs.
	Env map[string]string `json:"env"`
	// Directory is the working directory of the process; empty means that of the gateway.
	Directory string `json:"directory" doc:"The working directory of the process; empty for that of the gateway."`
	// Ready is the URL that answers with a status of 200 to 299, or takes a connection (tcp), once
	// the process is ready.
	Ready string `json:"ready"`
	// StartTimeout is how long a start may take, and StopTimeout how long the process may
	// take to end after its stop command, and after SIGTERM before it gets SIGKILL.
	StartTimeout schema.Duration `json:"startTimeout" minimum:"1" doc:"How long a start may take."`
	StopTimeout  schema.Duration `json:"stopTimeout" minimum:"0"`
	// StopAfter is how long a process may be idle before it is stopped; 0 means for ever.
	StopAfter schema.Duration `json:"stopAfter" minimum:"0"`
	// Group names sets of processes. At most one process of each set runs at a time.
	Group Groups `json:"group" doc:"A name, or several; at most one process of each group runs at a time."`
	// Memory is the process's part of limits.process-memory, in place of a group.
	Memory schema.Bytes `json:"memory" doc:"What the process takes of limits.process-memory, in place of a group."`
	// Restarts is how often a process that fails is started again before requests for it
	// are refused.
	Restarts int `json:"restarts" minimum:"0" maximum:"100"`
}

// Groups are names of groups.
type Groups []string

// OneOrMore allows one name in place of a list.
func (Groups) OneOrMore() {}

// Docs describes the members that a tag has no room for.
func (Process) Docs() map[string]string {
	return map[string]string{
		"command": "The program and its arguments, as a list or as one text with quotes; no shell reads it. $PORT " +
			"stands for the port that the process is to listen on.",
		"stop": "The command that ends the process, written as command is; empty for SIGTERM. $PID stands for the " +
			"number of the process.",
		"env": "Environment variables of the process; it gets none of the gateway's beside PATH, HOME and " +
			"the like.",
		"ready": "The URL that answers 2xx once the process is ready; empty for http://127.0.0.1:$PORT/health, and " +
			"tcp://127.0.0.1:$PORT for a process that is ready when it takes connections. " +
			"Its address is that of the instances that name the process and have no base-url.",
		"stopTimeout": "How long the process may take to end after its stop command, which SIGTERM follows, and " +
			"after SIGTERM; then it gets SIGKILL.",
		"stopAfter": "How long the process may have no requests before it is stopped; 0 for ever.",
		"restarts": "How often a process that fails is started again, at growing intervals, before requests for " +
			"it are refused.",
	}
}

// DefaultProcess returns the values of the fields that a process leaves out.
func DefaultProcess() Process {
	return Process{
		StartTimeout: schema.Duration(5 * time.Minute),
		StopTimeout:  schema.Duration(10 * time.Second),
		Restarts:     3,
	}
}

// SetDefaults makes p the default process.
func (p *Process) SetDefaults() { *p = DefaultProcess() }

// Check reports every field that has a value it may not have. Its messages never repeat
// arguments or values of variables, which may be secrets.
func (s Settings) Check(report say.Report) {
	if len(s) > maxProcesses {
		report("", say.New("field.entries", "most", maxProcesses))
	}
	for _, name := range Names(s) {
		at := "[" + strconv.Quote(name) + "]"
		if len(name) > maxName || strings.ContainsFunc(name, isNotInName) ||
			slices.Contains(strings.Split(name, "."), "") {
			report(at, say.New("field.group", "most", maxName))
		}
		s[name].check(say.Under(at+".", report))
	}
}

// CheckMemory reports processes that have no room in the memory that all have together.
func CheckMemory(s Settings, bounds Bounds, report say.Report) {
	for _, name := range Names(s) {
		at := "processes[" + strconv.Quote(name) + "].memory"
		switch memory := s[name].Memory; {
		case memory == 0:
		case bounds.ProcessMemory == 0:
			report(at, say.New("field.process_memory"))
		case memory > bounds.ProcessMemory:
			report(at, say.New("field.process_fits", "most", bounds.ProcessMemory))
		}
	}
}

// Lint reports processes that cannot run here, answer elsewhere, or push each other out of
// memory at the start.
func Lint(s Settings, report func(path, message string)) {
	loaded := map[string]string{}
	for _, name := range Names(s) {
		process, at := s[name], "processes["+strconv.Quote(name)+"]"
		for _, group := range process.Group {
			if first := loaded[group]; process.Preload && first != "" {
				report(at+".preload", "has no room beside "+first+", which is preloaded too: one process of the group "+
					group+" runs at a time")
			} else if process.Preload {
				loaded[group] = name
			}
		}
		if missing := process.Missing(); missing != "" {
			report(at+".command", "the program cannot be started here: "+missing)
		}
		if !process.IsLocal() {
			report(at+".ready", "is no address of this host, where the process runs")
		}
	}
}

// Examine reports whether the processes could run here, and starts none.
func Examine(s Settings, report func(level, area, message, fix string)) {
	for _, name := range Names(s) {
		area, missing := "process "+name, s[name].Missing()
		switch {
		case missing != "":
			report("fail", area, missing, "install the program, or correct the first word of command")
		case !s[name].IsLocal():
			report("warn", area, "its ready URL is not one of this host, where it runs",
				"name an address of this host, such as 127.0.0.1")
		default:
			report("ok", area, "its program is there", "")
		}
	}
}

// Names returns the names of the processes in their order.
func Names(s Settings) []string { return slices.Sorted(maps.Keys(s)) }

// isNotInName tells the characters that no name of a process or a group has.
func isNotInName(r rune) bool {
	isAlphanumeric := r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	return !isAlphanumeric && r != '-' && r != '_' && r != '.'
}

func (p Process) check(report say.Report) {
	p.checkCommand(report)
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		at := "env[" + strconv.Quote(name) + "]"
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			report(at, say.Plain("is no name of an environment variable"))
		case strings.ContainsRune(p.Env[name], 0):
			report(at, say.New("field.zero_byte"))
		}
	}
	if strings.ContainsRune(p.Directory, 0) {
		report("directory", say.New("field.zero_byte"))
	}
	p.checkReady(report)
	if p.StartTimeout <= 0 {
		report("startTimeout", say.New("field.longer"))
	}
	if len(p.Group) > 0 && p.Memory != 0 {
		report("memory", say.Plain("must be left out beside group: processes share memory by one of the two"))
	}
	if len(p.Group) > maxGroups {
		report("group", say.New("field.count", "most", fmt.Sprint(maxGroups, " names")))
	}
	for _, group := range p.Group {
		if group == "" || len(group) > maxName || strings.ContainsFunc(group, isNotInName) {
			report("group", say.New("field.group", "most", maxName))
		}
	}
	if p.Restarts < 0 || p.Restarts > maxRestarts {
		report("restarts", say.New("field.between", "least", "0", "most", maxRestarts, "found", p.Restarts))
	}
}

func (p Process) checkCommand(report say.Report) {
	if len(p.Command) == 0 {
		report("command", say.Plain("is required: the program and its arguments"))
	}
	for i, command := range []Command{p.Command, p.Stop} {
		at := []string{"command", "stop"}[i]
		words, err := command.words()
		switch {
		case err != nil:
			report(at, say.From(err))
		case len(command) > 0 && (len(words) == 0 || strings.TrimSpace(words[0]) == ""):
			report(at, say.Plain("has no program"))
		case len(words) > maxArguments:
			report(at, say.New("field.count", "most", fmt.Sprint(maxArguments, " arguments")))
		case slices.ContainsFunc(words, func(word string) bool { return strings.ContainsRune(word, 0) }):
			report(at, say.New("field.zero_byte"))
		}
	}
}

func (p Process) checkReady(report say.Report) {
	if p.Ready == "" {
		if len(p.Command) > 0 && !p.usesPort() {
			report("ready", say.Plain("is required where neither command nor env has "+portWord+
				": the URL that answers once the process is ready, such as http://127.0.0.1:8081/health"))
		}
		return
	}
	parsed, err := url.Parse(strings.ReplaceAll(p.Ready, portWord, "1"))
	switch {
	case err != nil || parsed.Host == "" || !slices.Contains([]string{"http", "https", portScheme}, parsed.Scheme):
		report("ready", say.Plain("want a URL such as http://127.0.0.1:"+portWord+"/health"))
	case parsed.Scheme == portScheme && (parsed.Port() == "" || parsed.Path != ""):
		report("ready", say.New("field.address", "example", "tcp://127.0.0.1:$PORT, without a path"))
	case parsed.User != nil:
		report("ready", say.Plain("must not contain a user name or password"))
	case parsed.Fragment != "":
		report("ready", say.New("field.url_fragment"))
	}
}

// usesPort reports whether the process gets its port from the gateway.
func (p Process) usesPort() bool {
	has := func(text string) bool { return strings.Contains(text, portWord) }
	return slices.ContainsFunc(p.Command, has) || has(p.Ready) ||
		slices.ContainsFunc(slices.Collect(maps.Values(p.Env)), has)
}

// withPort returns the process as it is started: its commands split into words, and its port
// in place of portWord.
func (p Process) withPort(port int) Process {
	number := strconv.Itoa(port)
	for _, command := range []*Command{&p.Command, &p.Stop} {
		words, _ := command.words() // was checked
		*command = replaced(words, portWord, number)
	}
	p.Env = maps.Clone(p.Env)
	for name, value := range p.Env {
		p.Env[name] = strings.ReplaceAll(value, portWord, number)
	}
	p.Ready = strings.ReplaceAll(cmp.Or(p.Ready, defaultReady), portWord, number)
	return p
}

// baseURL returns the address of a process with its port filled in.
func (p Process) baseURL() string {
	parsed, err := url.Parse(p.Ready)
	if err != nil {
		return ""
	}
	return strings.Replace(parsed.Scheme, portScheme, "http", 1) + "://" + parsed.Host
}

// IsLocal reports whether the ready URL is one of this host.
func (p Process) IsLocal() bool {
	parsed, err := url.Parse(p.withPort(1).Ready)
	if err != nil {
		return false
	}
	address := net.ParseIP(parsed.Hostname())
	return parsed.Hostname() == "localhost" || address != nil && address.IsLoopback()
}

// sameProgram reports whether a process that runs by one of the settings need not be
// started anew to run by the other.
func (p Process) sameProgram(other Process) bool {
	return slices.Equal(p.Command, other.Command) && maps.Equal(p.Env, other.Env) && p.Directory == other.Directory &&
		p.Ready == other.Ready && slices.Equal(p.Group, other.Group) && p.Memory == other.Memory
}
