package patchbay_test

import (
	"go/ast"
)

// waitedFor names who waits for the goroutine that a function starts with a go
// statement. All others are started with the Go method of a sync.WaitGroup, beside
// which its Wait is easy to find.
var waitedFor = map[string]string{
	"cmd/patchbay.stopWithGrace":            "it waits itself, unless a second signal ends the process",
	"internal/gatewaytest.ChatLater":        "the test that receives the reply",
	"internal/gatewaytest.StartHeldBackend": "the end of the test",
	"internal/logs.NewBatched":              "Batch.Close, by done",
	"internal/processes.follow":             "nobody: it ends with the program, which is a supervisor",
	"internal/quota.start":                  "group.wait",
	"internal/simulator.Start":              "Backend.Close, by accepting",
	"internal/storetest.Start":              "Server.Kill, by exited",
	"internal/transport.push":               "pool.close, by gone",
	"internal/transport.startUpload":        "Response.discard, by done",
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
