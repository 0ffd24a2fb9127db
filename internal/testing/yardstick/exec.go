package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/patchbay-ai/patchbay/internal/testing/fleettest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// line is a message of another simulation: it starts, a request is to be routed (the
// answer is an instance), its first token has come, it has ended, or an instance is gone.
type line struct {
	Op        string   `json:"op"`
	T         float64  `json:"t"`
	ID        int      `json:"id"`
	Instances int      `json:"instances"`
	Block     int      `json:"block"`
	KVTokens  int      `json:"kv_tokens"`
	Room      int      `json:"room"`
	Tokens    int      `json:"tokens"`
	Blocks    []uint64 `json:"blocks"`
	Model     string   `json:"model"`
	Session   string   `json:"session"`
	Up        []int    `json:"up"`
	Instance  int      `json:"instance"`
	Cached    int      `json:"cached"`
}

// asked is the key of the requests that another simulation gave one number and that went
// to one instance. They are kept in order, because numbers need not be unique.
type asked struct{ number, instance int }

// serve chooses for another simulation until its input ends.
func serve(in io.Reader, out io.Writer) error {
	var gateway *fleettest.LeastTime
	var block int
	waiting, answered := map[asked][]*fleettest.Request{}, map[asked][]*fleettest.Request{}
	decoder := json.NewDecoder(bufio.NewReaderSize(in, 1<<20))
	for {
		var l line
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("input of -exec: %w", err)
		}
		if gateway == nil && l.Op != "start" {
			return fmt.Errorf("input of -exec: %q before start", l.Op)
		}
		key := asked{l.ID, l.Instance}
		switch l.Op {
		case "start":
			engines := fleettest.Engines{Number: l.Instances,
				Spec: engine.Spec{Block: l.Block, Cache: l.KVTokens, Room: l.Room}}
			gateway = fleettest.NewLeastTime(engines, 0, nil).(*fleettest.LeastTime) // adds no noise to guesses
			block = l.Block
		case "route":
			r := &fleettest.Request{At: l.T, Tokens: l.Tokens, Blocks: l.Blocks, Model: l.Model, Session: l.Session}
			r.Text = len(l.Blocks)*block + block/2 // the text behind the last full block is not told
			key.instance = gateway.Choose(r, l.T, l.Up)
			waiting[key] = append(waiting[key], r)
			if _, err := fmt.Fprintf(out, "{\"instance\":%d}\n", key.instance); err != nil {
				return err
			}
		case "first":
			r := take(waiting, key)
			r.Cached = l.Cached
			gateway.First(r, l.Instance, l.T)
			answered[key] = append(answered[key], r)
		case "end":
			gateway.End(take(answered, key), l.Instance, l.T)
		case "down":
			gateway.Lost(l.Instance)
			forget(waiting, l.Instance)
			forget(answered, l.Instance)
		}
	}
}

// take takes the first request with a key.
func take(from map[asked][]*fleettest.Request, key asked) *fleettest.Request {
	r := from[key][0]
	if from[key] = from[key][1:]; len(from[key]) == 0 {
		delete(from, key)
	}
	return r
}

// forget forgets the requests of an instance that is gone.
func forget(from map[asked][]*fleettest.Request, instance int) {
	for key := range from {
		if key.instance == instance {
			delete(from, key)
		}
	}
}
