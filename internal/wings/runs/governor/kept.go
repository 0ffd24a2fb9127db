package governor

import (
	"errors"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/registry"
)

// stored declares the decisions about runs. They go with the ledger, which has what the runs have used.
// A gateway alone has a file of them, and gateways that share a database a document for each run.
func stored() []store.Kept {
	return []store.Kept{{
		Name: "runs of agents that were ended or got more, with what they have used", Part: store.Ledger,
		Kinds: []string{registry.Kind}, Signed: []string{registry.Kind},
		Files: []string{savedFile, budget.RunsJournalDir + "/"}, Read: entriesOf, Write: fileOf,
		Bound: "20,000 runs of an owner, 200,000 in all", Ends: "8 days after their last use",
	}}
}

// entriesOf returns the runs of the file as the registry has them.
func entriesOf(content []byte) (docs []documents.Document, err error) {
	var all []registry.Run
	err = json.Unmarshal(content, &all)
	for i := range all {
		doc, failed := registry.Document(&all[i], all[i].Used)
		docs, err = append(docs, doc), errors.Join(err, failed)
	}
	return docs, err
}

// fileOf returns the file with the runs of a registry.
func fileOf(docs []documents.Document) ([]byte, error) {
	all := []registry.Run{}
	for i := range docs {
		if r, ok := registry.Read(&docs[i]); ok {
			all = append(all, r)
		}
	}
	return json.Marshal(all)
}
