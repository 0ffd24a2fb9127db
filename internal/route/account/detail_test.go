package account

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// A report of zeros is none unless the answer is empty, and a total alone is divided: money is paid
// for what the answer took, and the ledger has what was reported.
func TestReportsWithoutDetailAreCompleted(t *testing.T) {
	const (
		words  = `{"choices":[{"message":{"content":"sixteen letters "}}]}` // 4 tokens
		prompt = 5                                                          // the estimate of the prompt
	)
	chat, moderations, embeddings, rerank := schema.DoorChat, schema.DoorModerations, schema.DoorEmbeddings, schema.DoorRerank
	total := func(n int64) schema.Usage { return schema.Usage{Known: true, Total: n} }
	zeros := total(0)
	for name, test := range map[string]struct {
		door               schema.Door
		reported           schema.Usage
		answer             string
		isCut              bool // the answer is not complete
		prompt, completion int64
		tokens, unsettled  int64 // of the ledger
	}{
		"chat, a total":                     {chat, total(30), words, false, 26, 4, 30, 0},
		"chat, a total below the estimate":  {chat, total(3), words, false, 0, 3, 3, 0},
		"chat, a total of an empty answer":  {chat, total(30), "{}", false, 30, 0, 30, 0},
		"chat, zeros":                       {chat, zeros, words, false, prompt, 4, 0, 1},
		"chat, zeros of an empty answer":    {chat, zeros, "{}", false, 0, 0, 0, 0},
		"chat, zeros of what is cut":        {chat, zeros, "{}", true, prompt, 0, 0, 1},
		"chat, an answer without a prompt":  {chat, schema.Usage{Known: true, Completion: 1, Total: 1}, words, true, prompt, 4, 1, 0},
		"chat, all":                         {chat, schema.Usage{Known: true, Prompt: 9, Completion: 2, Total: 11}, words, false, 9, 2, 11, 0},
		"moderations, a total":              {moderations, total(30), words, false, 30, 0, 30, 0},
		"embeddings, a total":               {embeddings, total(30), words, false, 30, 0, 30, 0},
		"embeddings, zeros":                 {embeddings, zeros, words, false, prompt, 0, 0, 1},
		"rerank, a total":                   {rerank, total(30), words, false, 30, 0, 30, 0},
		"rerank, zeros":                     {rerank, zeros, words, false, prompt, 0, 0, 1},
		"rerank, no report":                 {rerank, schema.Usage{}, words, false, prompt, 0, 0, 0},
		"transcription, tokens of no words": {schema.DoorTranscriptions, zeros, words, false, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.renew("k")
			before := w.ledger.Stats().Unsettled
			a := &Account{
				Desk: &w.desk, Asks: new(schema.Request), Table: w.table, Class: schema.Normal,
				Caller: &access.Caller{Grant: w.grant, KeyID: w.grant.ID},
				Record: &calls.Record{Started: time.Now(), Service: test.door.Service()},
			}
			if err := a.Asks.ParseBody(schema.DoorChat, []byte(`{"model":"m","input":"twenty letters here."}`), fields); err != nil {
				t.Fatal(err)
			}
			a.Find()
			if _, err := a.Open(t.Context(), func(context.Context) (Answer, error) { return nil, nil }); err != nil {
				t.Fatal(err)
			}
			a.door, a.most.Prompt = test.door, prompt
			a.ServeBy(a.Pool)
			if err := a.Count(); err != nil {
				t.Fatal(err)
			}
			a.Measure([]byte(test.answer))
			a.Settle(test.reported, !test.isCut, true)
			if want := a.Pool.Price.Cost(prices.Quantity{Prompt: test.prompt, Completion: test.completion}); a.Record.Cost != want {
				t.Errorf("got the cost %v, want %v", a.Record.Cost, want)
			}
			if got := w.ledger.Stats().Unsettled - before; got != test.unsettled {
				t.Errorf("got %d requests without a report, want %d", got, test.unsettled)
			}
			if _, got := w.ledgerOf(t); got != test.tokens {
				t.Errorf("got %d tokens in the ledger, want %d", got, test.tokens)
			}
			w.book.Close(t.Context())
			_ = errors.Join(w.ledger.Close(t.Context()), w.spent.Close(t.Context())) // the database takes nothing
		})
	}
}
