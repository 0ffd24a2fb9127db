// This file belongs to the wing batches.

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
)

func newBatches(env []string) *cobra.Command {
	flags := flagsIn(env)
	flags.isClient = true
	verbs := []remoteVerb{{
		use:   "submit FILE",
		short: "Upload a file and make a batch of it",
		long: `Uploads a file and makes a batch of it. Each line is a request as OpenAI's batches
have it (custom_id, method, url, body). With --model each line is a prompt in plain
text, of which a chat is made; its custom_id is the number of the line.`,
		example: `  patchbay batches submit requests.jsonl
  patchbay batches submit requests.jsonl --endpoint /v1/embeddings
  patchbay batches submit prompts.txt --model qwen3 --system "Answer in one word."`,
		args: cobra.ExactArgs(1), isPlain: true, does: submitBatch,
		flags: []flag{
			{"endpoint", "", defaultEndpoint,
				"where the requests go: /v1/chat/completions, /v1/completions, /v1/embeddings or /v1/responses", nil},
			{"model", "", "", "make a chat with this model of each line", nil},
			{"system", "", "", "with --model: what stands before each prompt", nil},
			{"window", "", "24h", "the time in which the batch is to end", nil},
		},
		setup: func(cmd *cobra.Command) { cmd.PreRunE = checkSubmit },
	}, {
		use:   "follow [ID]",
		short: "Show how far a batch is until it ends",
		example: `  patchbay batches follow
  patchbay batches follow batch_4f2c`,
		long: `Shows how far a batch is, the newest if none is named, until it ends. With --output
its results are then fetched. The exit status is 1 where requests failed.`,
		args: cobra.MaximumNArgs(1), isPlain: true, does: followBatch, setup: outputFlag("file for the results"),
	}, {
		use:   "results [ID]",
		short: "Fetch the results of a batch",
		example: `  patchbay batches results > results.jsonl
  patchbay batches results batch_4f2c`,
		long: `Fetches the results of a batch that has ended, the newest if none is named: first the
answers, then the errors, each in a line with its custom_id.`,
		args: cobra.MaximumNArgs(1), isPlain: true, does: fetchResults,
		setup: outputFlag("file for the results (default: standard output)"),
	}, {
		use:     "list",
		short:   "List batches, the newest first",
		example: `  patchbay batches list`,
		long:    "Lists the newest hundred batches that the key sees.",
		args:    cobra.NoArgs,
		does: func(a *asking) error {
			var list struct {
				Data jsontext.Value `json:"data"`
			}
			if err := a.call(a.ctx, http.MethodGet, "/v1/batches?limit=100", nil, &list); err != nil {
				return err
			}
			a.data = list.Data
			return table("ID\tSTATE\tCREATED\tENDPOINT\tREQUESTS", func(b *submitted) []string {
				return []string{b.ID, b.Status, time.Unix(b.CreatedAt, 0).Format(time.DateTime), b.Endpoint, b.counts()}
			})(a)
		},
	}, {
		use:   "cancel [ID]",
		short: "Stop a batch; what was done is kept",
		example: `  patchbay batches cancel
  patchbay batches cancel batch_4f2c`,
		long: "Stops a batch, the newest if none is named. Requests that run end, and what was done is kept.",
		args: cobra.MaximumNArgs(1), isPlain: true,
		does: func(a *asking) error {
			b, err := findBatch(a)
			if err == nil {
				err = a.call(a.ctx, http.MethodPost, "/v1/batches/"+b.ID+"/cancel", nil, &b)
			}
			if err != nil {
				return err
			}
			return b.print(a)
		},
	}}
	for i := range verbs {
		verbs[i].long += "\n\n" + batchPlaces
	}
	cmd := newFamily(flags, "batch", false, remoteVerb{
		use:   "batches",
		short: "Submit files of requests, follow them, and fetch their results",
		long: `Submits a file of requests that a running gateway works through in slots that nobody
else needs (batches.enabled), shows how far it is, and fetches the results.

` + batchPlaces,
		example: `  patchbay batches submit prompts.txt --model qwen3
  patchbay batches follow --output answers.jsonl
  patchbay batches list`,
	}, verbs...)
	cmd.AddCommand(newBatchesDelete(env))
	return cmd
}

const defaultEndpoint = "/v1/chat/completions"

// outputFlag returns the setup of a verb with a file for results.
func outputFlag(usage string) func(*cobra.Command) {
	return func(cmd *cobra.Command) { cmd.Flags().StringP("output", "o", "", usage) }
}

// text returns the value of a flag.
func (a *asking) text(flag string) string { return a.cmd.Flag(flag).Value.String() }

// checkSubmit refuses --system without --model, and --model with an endpoint that is not for chats.
func checkSubmit(cmd *cobra.Command, _ []string) error {
	model, system := cmd.Flag("model").Value.String(), cmd.Flag("system").Value.String()
	if (model != "" || system != "") && (model == "" || cmd.Flag("endpoint").Value.String() != defaultEndpoint) {
		return &exitError{exitUsage, errors.New("--system needs --model, which makes chats: it has no other " +
			"--endpoint")}
	}
	return nil
}

// submitBatch uploads a file as it is read, and makes a batch of it.
func submitBatch(a *asking) error {
	content, err := os.Open(a.args[0])
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	var from io.Reader
	if model := a.text("model"); model != "" {
		from = newPromptReader(content, model, a.text("system"))
	} else if from, err = requestsOf(content); err != nil {
		return err
	}
	file, err := a.upload(filepath.Base(a.args[0]), from)
	if err != nil {
		return err
	}
	var made submitted
	wanted := map[string]string{"input_file_id": file, "endpoint": a.text("endpoint"),
		"completion_window": a.text("window")}
	if err := a.call(a.ctx, http.MethodPost, "/v1/batches", wanted, &made); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out(), "%s\n", made.ID)
	return err
}

// followBatch asks how far a batch is until it ends, and fetches its results if a file for them is named.
func followBatch(a *asking) error {
	b, err := findBatch(a)
	for show := newBatchBar(a.cmd.ErrOrStderr()); err == nil; b, err = findBatch(a) {
		if show(b); b.hasEnded() {
			break
		}
		if waiting.Pause(a.ctx, time.Second) != nil {
			return errors.New("interrupted; the batch goes on")
		}
		a.args = []string{b.ID}
	}
	if err != nil {
		return err
	}
	_ = b.print(a)
	for _, fault := range b.Errors.Data {
		fmt.Fprintf(a.out(), "  line %d: %s\n", fault.Line, fault.Message)
	}
	if output := a.text("output"); output != "" {
		if err := a.save(b, output); err != nil {
			return err
		}
	}
	switch {
	case b.Status != "completed":
		return errors.New("the batch was not completed")
	case b.Counts.Failed > 0:
		return fmt.Errorf("%d of %d requests failed; patchbay batches results shows why", b.Counts.Failed,
			b.Counts.Total)
	}
	return nil
}

func fetchResults(a *asking) error {
	b, err := findBatch(a)
	switch output := a.text("output"); {
	case err != nil:
		return err
	case !b.hasEnded():
		return fmt.Errorf("%s is %s and has no results yet; patchbay batches follow waits for them", b.ID, b.Status)
	case output == "":
		return a.writeResults(b, a.out())
	default:
		return a.save(b, output)
	}
}

// newBatchBar returns a function that draws the progress of a batch on a terminal.
// Elsewhere it writes a line when the batch changes its state.
func newBatchBar(to io.Writer) func(submitted) {
	f, isFile := to.(interface{ Fd() uintptr })
	if isFile && term.IsTerminal(int(f.Fd())) {
		return func(b submitted) {
			done, total := b.Counts.Completed+b.Counts.Failed, max(b.Counts.Total, 1)
			fmt.Fprintf(to, "\r\x1b[K[%-40s] %3d %%  %s%s", strings.Repeat("=", done*40/total), done*100/total,
				b.counts(), b.left(time.Now()))
			if b.hasEnded() {
				fmt.Fprint(to, "\r\x1b[K")
			}
		}
	}
	last := ""
	return func(b submitted) {
		if b.Status != last {
			last = b.Status
			fmt.Fprintf(to, "%s: %s\n", b.Status, b.counts())
		}
	}
}

// promptReader reads prompts, one in each line, as requests.
type promptReader struct {
	lines         *bufio.Scanner
	model, system string
	number        int
	rest          []byte // of the request that is being read
}

func newPromptReader(from io.Reader, model, system string) *promptReader {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 32<<20)
	return &promptReader{lines: lines, model: model, system: system}
}

// Read reads requests.
func (p *promptReader) Read(to []byte) (int, error) {
	for len(p.rest) == 0 {
		if !p.lines.Scan() {
			return 0, cmp.Or(p.lines.Err(), io.EOF)
		}
		p.number++
		if text := strings.TrimSpace(strings.TrimPrefix(p.lines.Text(), "\ufeff")); text != "" {
			p.rest = promptLine(p.number, p.model, p.system, text)
		}
	}
	n := copy(to, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// requestsOf returns a file of requests from its beginning on, or an error if its first
// line is no request.
func requestsOf(content io.Reader) (io.Reader, error) {
	const enough = 64 << 10
	from := bufio.NewReaderSize(content, enough)
	head, err := from.Peek(enough)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if text := bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\ufeff"))); len(text) > 0 && text[0] != '{' {
		return nil, errors.New("the first line of the file is no request in JSON; where each line is a prompt, " +
			"--model says for which model")
	}
	return from, nil
}
