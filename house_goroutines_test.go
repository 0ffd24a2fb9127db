package patchbay_test

import (
	"go/ast"
	"slices"
	"strings"
)

// waitedFor names who waits for the goroutine that a function starts with a go
// statement. All others are started with the Go method of a sync.WaitGroup, beside
// which its Wait is easy to find.
var waitedFor = map[string]string{
	"cmd/patchbay.stopWithGrace":                    "it waits itself, unless a second signal ends the process",
	"internal/gateway/gatewaytest.ChatLater":        "the test that receives the reply",
	"internal/gateway/gatewaytest.StartHeldBackend": "the end of the test",
	"internal/see/logs.NewBatched":                  "Batch.Close, by done",
	"internal/wings/processes.follow":               "nobody: it ends with the program, which is a supervisor",
	"internal/count/quota.start":                    "group.wait",
	"internal/testing/simulator.Start":              "Backend.Close, by accepting",
	"internal/testing/storetest.Start":              "Server.Kill, by exited",
	"internal/hosts/transport.push":                 "pool.close, by gone",
	"internal/hosts/transport.startUpload":          "Response.discard, by done",
}

// goroutinesHaveOwners finds go statements of which nobody has said who waits for
// the goroutine.
func goroutinesHaveOwners(tr *tree) []string {
	var found []string
	for _, f := range tr.product() {
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := f.dir + "." + fn.Name.Name
			starts := 0
			ast.Inspect(fn, func(n ast.Node) bool {
				if statement, ok := n.(*ast.GoStmt); ok {
					if starts++; waitedFor[name] == "" || starts > 1 {
						found = append(found, tr.at(statement.Pos(), "nobody is known to wait for this goroutine; start it with the Go method of a sync.WaitGroup that its owner waits for, or name who waits in waitedFor"))
					}
				}
				return true
			})
		}
	}
	return found
}

// uncaught names functions that start goroutines, or set timers, in which no panic is caught, and
// why: they handle no bytes of clients, backends or stores, or there is nobody else whom a panic
// would harm.
var uncaught = map[string]string{
	"cmd/patchbay.runGateway":                     "it watches a file and tells the service manager; what reads the file is contained",
	"cmd/patchbay.stopWithGrace":                  "the program ends",
	"internal/wings/answercache/flight.Board":     "ends a flight whose first client has left",
	"internal/wings/batches.Halt":                 "ends a context",
	"internal/wings/doctor":                       "a verb of the command line",
	"internal/testing/replay":                     "a tool for measurements",
	"internal/testing/yardstick":                  "a tool for measurements",
	"internal/serve/front.AfterFunc":              "calls what ends calls, which reads nothing",
	"internal/serve/front.Start":                  "ends connections by the clock",
	"internal/serve/front.cancel":                 "calls what ends calls, which reads nothing",
	"internal/serve/front.serve":                  "ends a context",
	"internal/gateway.Start":                      "accepts connections, whose bytes others read",
	"internal/gateway.Stop":                       "closes listeners",
	"internal/gateway.start":                      "net/http, which catches what handlers do",
	"internal/gateway/gatewaytest":                "tests",
	"internal/see/logs.NewBatched":                "writes lines; there is no log to say that it failed",
	"internal/wings/measure":                      "a verb of the command line",
	"internal/wings/processes.supervise":          "the supervisor of one process, which ends with it",
	"internal/wings/processes.follow":             "the supervisor of one process, which ends with it",
	"internal/wings/processes.launch":             "reads what our own supervisor says; what a process prints is contained by its output",
	"internal/route/proxy.notify":                 "writes the same comment to everybody",
	"internal/route/proxy.start":                  "writes the same comment to everybody",
	"internal/count/quota.start":                  "runs functions that are contained where they are passed in",
	"internal/count/quota.probeNow":               "ends a context",
	"internal/store/redis":                        "ends connections when a context ends",
	"internal/testing/simulator":                  "a backend of tests and of the demo",
	"internal/testing/simulator/engine":           "a backend of tests and of the demo",
	"internal/wings/starter":                      "a verb of the command line",
	"internal/testing/storetest":                  "tests",
	"internal/hosts/transport.openTunnel":         "sets a deadline when a context ends",
	"internal/hosts/transport.push":               "closes idle connections by the clock",
	"internal/hosts/transport.watch":              "closes a connection when a context ends",
	"internal/serve/web.boundWrite":               "sets a deadline",
	"internal/serve/web.follow":                   "asks whether a token still stands",
	"internal/wings/demo":                         "a demonstration",
	"internal/wings/realtime/socket.closeBackend": "closes a connection by the clock",
	"internal/wings/realtime/socket.end":          "closes a connection by the clock",
	"internal/wings/realtime/socket.run":          "ends contexts",
	"internal/wings/realtime/socket.stopAtOnce":   "ends contexts",
}

// boundaries are the functions of package logs that catch panics.
var boundaries = []string{"Contain", "Persist", "Try", "Caught"}

// goroutinesCatchPanics finds goroutines and timers that end the process when they panic: nothing in
// them, nor in what they call first in their own package, catches it.
func goroutinesCatchPanics(tr *tree) []string {
	catching := map[string]bool{}
	for _, f := range tr.product() {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil && catches(fn.Body, f.dir, nil) {
				catching[f.dir+"."+fn.Name.Name] = true
			}
		}
	}
	used, dirs := map[string]bool{}, map[string]bool{}
	var found []string
	for _, f := range tr.product() {
		dirs[f.dir] = true
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				started := startedBy(n)
				if started == nil || catches(started, f.dir, catching) {
					return true
				}
				if name := excuseOf(f.dir, fn.Name.Name); name != "" {
					used[name] = true
				} else {
					found = append(found, tr.at(n.Pos(), "a panic in this goroutine ends the process; run it within logs.Contain, or within logs.Persist where it is a loop, or say in uncaught whose bytes it does not handle (%s.%s)", f.dir, fn.Name.Name))
				}
				return true
			})
		}
	}
	for name := range uncaught {
		dir, _, _ := strings.Cut(name, ".")
		if dirs[dir] && !used[name] {
			found = append(found, "uncaught in house_goroutines_test.go names "+name+", where no goroutine is started that needs it; remove the row")
		}
	}
	slices.Sort(found)
	return found
}

// excuseOf returns the row of uncaught for a function: its own, or that of its package.
func excuseOf(dir, name string) string {
	for _, row := range []string{dir + "." + name, dir} {
		if uncaught[row] != "" {
			return row
		}
	}
	return ""
}

// startedBy returns what a statement or call runs on another goroutine, nil if it starts none.
func startedBy(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.GoStmt:
		return n.Call
	case *ast.CallExpr:
		called, ok := n.Fun.(*ast.SelectorExpr)
		switch {
		case !ok:
		case called.Sel.Name == "Go" && len(n.Args) == 1:
			return n.Args[0]
		case called.Sel.Name == "AfterFunc" && len(n.Args) > 0:
			return n.Args[len(n.Args)-1]
		}
	}
	return nil
}

// catches reports whether code calls a function that catches panics: one of package logs, or one of
// its own package that is known to.
func catches(code ast.Node, dir string, known map[string]bool) (does bool) {
	ast.Inspect(code, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			from, isName := n.X.(*ast.Ident)
			does = does || isName && from.Name == "logs" && slices.Contains(boundaries, n.Sel.Name) || known[dir+"."+n.Sel.Name]
		case *ast.Ident:
			does = does || known[dir+"."+n.Name]
		}
		return !does
	})
	return does
}
