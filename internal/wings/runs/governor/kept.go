package governor

import (
	"errors"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/store"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/board"
)

// stored declares the decisions about runs. They go with the ledger, which has what the runs have used.
// A gateway alone has a file of them, and gateways that share a database a document for each run.
func stored() []store.Kept {
	return []store.Kept{{
		Name: "runs of agents that were ended or got more, with what they have used", Part: store.Ledger,
		Kinds: []string{board.Kind}, Signed: []string{board.Kind}, Entry: board.Rekey,
		Files: []string{savedFile, budget.RunsJournalDir + "/"}, Read: shownOf,
		Write: savedOf, Redis: []string{"quota.distributed.key-prefix:runs:"},
		Bound: "20,000 runs of an owner, 200,000 in all", Ends: "8 days after their last use",
	}}
}

// shownOf returns the runs of the file as a board has them. Their members have the same names.
func shownOf(content []byte) (docs []documents.Document, err error) {
	var all []board.Run
	err = json.Unmarshal(content, &all)
	for i := range all {
		r := &all[i]
		r.ID = publicID(budget.RunName(&quota.Key{APIKey: r.Owner, User: quota.UserName(r.Name)}))
		doc, failed := board.Document(r, r.Used)
		docs, err = append(docs, doc), errors.Join(err, failed)
	}
	return docs, err
}

// savedOf returns the file with the runs of a board.
func savedOf(docs []documents.Document) ([]byte, error) {
	all := []board.Run{}
	for i := range docs {
		if r, ok := board.Read(&docs[i]); ok {
			all = append(all, r)
		}
	}
	return json.Marshal(all)
}
