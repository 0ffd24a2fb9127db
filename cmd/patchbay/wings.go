package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/demo"
)

// wingVerbs returns the verbs of wings. A line belongs to the wing that its comment or its
// package names, and the file of a verb to the wing that it imports.
func wingVerbs(env []string, stdout, stderr io.Writer) []*cobra.Command {
	return []*cobra.Command{
		newAudit(env, stdout),           // wing: audit
		newBackup(env, stdout, stderr),  // wing: backup
		newRestore(env, stdout, stderr), // wing: backup
		newRekey(env, stdout, stderr),   // wing: backup
		newBatches(env),                 // wing: batches
		newFiles(env),                   // wing: batches
		newDemo(env, stderr),            // wing: demo
		newDoctor(env, stdout),          // wing: doctor
		newImport(stdout, stderr),       // wing: importer
		newBench(env, stdout, stderr),   // wing: measure
		newProcesses(env),               // wing: processes
		newRuns(env),                    // wing: runs
		newInit(env, stdout, stderr),    // wing: starter
		newTail(env, stdout, stderr),    // wing: terminal
		newTop(env, stdout, stderr),     // wing: terminal
	}
}

// foreignHint says how a configuration with mistakes is imported if it is one of another gateway;
// else it is empty.
func foreignHint(name string, content []byte) (hint string) {
	hint = importHint(name, content) // wing: importer
	return hint
}

// offlineTrail returns where operations on a data directory that no gateway uses are recorded, and
// the function that ends the recording.
func offlineTrail(doc *config.Document, data *durable.Dir) (trail web.Trail, end func(), err error) {
	end = func() {}                            //nolint:ineffassign,staticcheck // this is all of it without the wing
	trail, end, err = recordOffline(doc, data) // wing: audit
	return trail, end, err
}

// demoRoutes returns the operations that only the demo serves.
func demoRoutes() (routes []web.Route) {
	routes = append(routes, demo.New(nil, false, false).Routes()...)
	return routes
}
