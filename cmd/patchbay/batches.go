// This file belongs to the wing batches.

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
)

func newBatches(env []string, stdout, stderr io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "batches",
		Short: "Submit files of requests, follow them, and fetch their results",
		Long: `Submits a file of requests that a running gateway works through in slots that nobody
else needs (batches.enabled), shows how far it is, and fetches the results.

` + batchPlaces,
		Example: `  patchbay batches submit prompts.txt --model qwen3
  patchbay batches follow --output answers.jsonl
  patchbay batches list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBatchesSubmit(env, stdout), newBatchesFollow(env, stdout, stderr), newBatchesResults(env, stdout),
		newBatchesList(env, stdout), newBatchesCancel(env, stdout), newBatchesDelete(env))
	return cmd
}

// newBatchVerb completes a command that asks the gateway in its flags.
func newBatchVerb(env []string, cmd *cobra.Command,
	do func(ctx context.Context, g *batchClient, args []string) error) *cobra.Command {
	flags := flagsIn(env)
	flags.isClient = true
	cmd.Long += "\n\n" + batchPlaces
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return flags.at(cmd.Context(), func(ctx context.Context, r remote) error {
			return do(ctx, &batchClient{r}, args)
		})
	}
	flags.register(cmd)
	return cmd
}

func newBatchesSubmit(env []string, stdout io.Writer) *cobra.Command {
	var endpoint, model, window, system string
	cmd := &cobra.Command{
		Use:   "submit FILE",
		Short: "Upload a file and make a batch of it",
		Long: `Uploads a file and makes a batch of it. Each line is a request as OpenAI's batches
have it (custom_id, method, url, body). With --model each line is a prompt in plain
text, of which a chat is made; its custom_id is the number of the line.`,
		Example: `  patchbay batches submit requests.jsonl
  patchbay batches submit requests.jsonl --endpoint /v1/embeddings
  patchbay batches submit prompts.txt --model qwen3 --system "Answer in one word."`,
		Args: cobra.ExactArgs(1),
		PreRunE: func(*cobra.Command, []string) error {
			if (model != "" || system != "") && (model == "" || endpoint != defaultEndpoint) {
				return &exitError{exitUsage, errors.New("--system needs --model, which makes chats: it has no other " +
					"--endpoint")}
			}
			return nil
		},
	}
	cmd = newBatchVerb(env, cmd, func(ctx context.Context, g *batchClient, args []string) error {
		content, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer func() { _ = content.Close() }()
		var from io.Reader
		if model != "" {
			from = newPromptReader(content, model, system)
		} else if from, err = requestsOf(content); err != nil {
			return err
		}
		made, err := g.submit(ctx, filepath.Base(args[0]), from, endpoint, window)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s\n", made.ID)
		return nil
	})
	cmd.Flags().StringVar(&endpoint, "endpoint", defaultEndpoint,
		"where the requests go: /v1/chat/completions, /v1/completions, /v1/embeddings or /v1/responses")
	cmd.Flags().StringVar(&model, "model", "", "make a chat with this model of each line")
	cmd.Flags().StringVar(&system, "system", "", "with --model: what stands before each prompt")
	cmd.Flags().StringVar(&window, "window", "24h", "the time in which the batch is to end")
	return cmd
}

const defaultEndpoint = "/v1/chat/completions"

func newBatchesFollow(env []string, stdout, stderr io.Writer) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "follow [ID]",
		Short: "Show how far a batch is until it ends",
		Example: `  patchbay batches follow
  patchbay batches follow batch_4f2c`,
		Long: `Shows how far a batch is, the newest if none is named, until it ends. With --output
its results are then fetched. The exit status is 1 where requests failed.`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd = newBatchVerb(env, cmd, func(ctx context.Context, g *batchClient, args []string) error {
		ended, err := g.follow(ctx, args, newBatchBar(stderr))
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s is %s: %s\n", ended.ID, ended.Status, ended.counts())
		for _, fault := range ended.Errors.Data {
			fmt.Fprintf(stdout, "  line %d: %s\n", fault.Line, fault.Message)
		}
		if output != "" {
			if err := g.save(ctx, ended, output, stdout); err != nil {
				return err
			}
		}
		switch {
		case ended.Status != "completed":
			return errors.New("the batch was not completed")
		case ended.Counts.Failed > 0:
			return fmt.Errorf("%d of %d requests failed; patchbay batches results shows why", ended.Counts.Failed,
				ended.Counts.Total)
		}
		return nil
	})
	cmd.Flags().StringVarP(&output, "output", "o", "", "file for the results")
	return cmd
}

func newBatchesResults(env []string, stdout io.Writer) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "results [ID]",
		Short: "Fetch the results of a batch",
		Example: `  patchbay batches results > results.jsonl
  patchbay batches results batch_4f2c`,
		Long: `Fetches the results of a batch that has ended, the newest if none is named: first the
answers, then the errors, each in a line with its custom_id.`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd = newBatchVerb(env, cmd, func(ctx context.Context, g *batchClient, args []string) error {
		b, err := g.find(ctx, args)
		if err != nil {
			return err
		}
		if !b.hasEnded() {
			return fmt.Errorf("%s is %s and has no results yet; patchbay batches follow waits for them", b.ID, b.Status)
		}
		if output == "" {
			return g.writeResults(ctx, b, stdout)
		}
		return g.save(ctx, b, output, stdout)
	})
	cmd.Flags().StringVarP(&output, "output", "o", "", "file for the results (default: standard output)")
	return cmd
}

func newBatchesList(env []string, stdout io.Writer) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List batches, the newest first",
		Example: `  patchbay batches list`,
		Long:    "Lists the newest hundred batches that the key sees.",
		Args:    cobra.NoArgs,
	}
	cmd = newBatchVerb(env, cmd, func(ctx context.Context, g *batchClient, _ []string) error {
		all, err := g.list(ctx, 100)
		if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(stdout, all)
		}
		rows := [][]string{{"ID\tSTATE\tCREATED\tENDPOINT\tREQUESTS"}}
		for _, b := range all {
			rows = append(rows, []string{b.ID, b.Status, time.Unix(b.CreatedAt, 0).Format(time.DateTime), b.Endpoint,
				b.counts()})
		}
		return writeTable(stdout, rows)
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newBatchesCancel(env []string, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel [ID]",
		Short: "Stop a batch; what was done is kept",
		Example: `  patchbay batches cancel
  patchbay batches cancel batch_4f2c`,
		Long: "Stops a batch, the newest if none is named. Requests that run end, and what was done is kept.",
		Args: cobra.MaximumNArgs(1),
	}
	return newBatchVerb(env, cmd, func(ctx context.Context, g *batchClient, args []string) error {
		b, err := g.find(ctx, args)
		if err != nil {
			return err
		}
		if err := g.call(ctx, http.MethodPost, "/v1/batches/"+b.ID+"/cancel", nil, &b); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s is %s: %s\n", b.ID, b.Status, b.counts())
		return nil
	})
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

var errNoBatch = errors.New("there is no batch; patchbay batches submit makes one")

// follow asks how far a batch is until it ends.
func (c *batchClient) follow(ctx context.Context, args []string, show func(submitted)) (submitted, error) {
	b, err := c.find(ctx, args)
	for err == nil {
		show(b)
		if b.hasEnded() {
			return b, nil
		}
		if waiting.Pause(ctx, time.Second) != nil {
			return b, errors.New("interrupted; the batch goes on")
		}
		b, err = c.find(ctx, []string{b.ID})
	}
	return b, err
}
