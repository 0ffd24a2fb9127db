package processes

import "github.com/patchbay-ai/patchbay/internal/plain/say"

func init() { say.Declare(sentences) }

// sentences are the sentences of this feature.
var sentences = []say.Entry{
	{"process.unstarted", "it cannot be started: {*why}"},
	{"process.unstarted_plain", "it cannot be started"},
	{"process.panicked", "the gateway failed to see to it"},
	{"process.late", "it was not ready within {time}"},
	{"process.exited", "it exited with status {status}"},
	{"process.signal", "it ended by signal {number} ({signal})"},
	{"process.supervisor", "its supervisor was ended"},
	{"process.port_taken", "another program already listens on {address}"},
	{"process.no_program", "the program {program} was not found in PATH"},
	{"process.bad_program", "the program {program} cannot be started: {why}"},
	{"process.no_port", "no port is free: {why}"},
	{"process.platform", "processes can only be run on Linux, macOS and other kinds of Unix, not on {system}"},
	{"process.unknown_plain", "there is no such process in the configuration file"},
	{"process.failed_bare", "the process failed"},
	{"process.failed_plain", "the process failed: {name}"},
	{"process.stopped_plain", "the process was stopped"},
	{"process.in_use_plain", "the process is in use"},
	{"process.unknown", "there is no such process in the configuration file: {name}"},
	{"process.failed", "the process failed: {name}: {*why}"},
	{"process.stopped", "the process was stopped: {name}"},
	{"process.in_use", "the process is in use: {name}"},
	{"process.not_now", "the process cannot be changed now: {*why}"},
	{"process.none", `not found: the configuration file of this gateway has no process "{name}"`},
	{"field.address", "want an address such as {example}"},
	{"field.process_memory", "wants limits.process-memory: how much memory all processes may have together"},
	{"field.process_fits", "is more than limits.process-memory, {most}, so that the process never fits"},
}
