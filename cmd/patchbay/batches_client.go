// This file belongs to the wing batches.

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// batchClient speaks to the endpoints of files and batches.
type batchClient struct{ remote }

// submitted is a batch as the gateway shows it.
type submitted struct {
	ID        string `json:"id"`
	Status    string `json:"status"`
	Endpoint  string `json:"endpoint"`
	CreatedAt int64  `json:"created_at"`
	Began     int64  `json:"in_progress_at"`
	Output    string `json:"output_file_id"`
	ErrorFile string `json:"error_file_id"`
	Counts    struct {
		Total     int `json:"total"`
		Completed int `json:"completed"`
		Failed    int `json:"failed"`
	} `json:"request_counts"`
	Errors struct {
		Data []struct {
			Message string `json:"message"`
			Line    int    `json:"line"`
		} `json:"data"`
	} `json:"errors"`
}

func (b *submitted) counts() string {
	text := fmt.Sprintf("%d of %d", b.Counts.Completed+b.Counts.Failed, b.Counts.Total)
	if b.Counts.Failed > 0 {
		text += fmt.Sprintf(", %d failed", b.Counts.Failed)
	}
	return text
}

func (b *submitted) hasEnded() bool {
	switch b.Status {
	case "completed", "failed", "expired", "cancelled":
		return true
	}
	return false
}

// left says how long the batch will take at the rate it had so far.
func (b *submitted) left(now time.Time) string {
	done := b.Counts.Completed + b.Counts.Failed
	took := now.Sub(time.Unix(b.Began, 0))
	if done == 0 || b.Began == 0 || took <= 0 {
		return ""
	}
	rest := time.Duration(float64(took) / float64(done) * float64(b.Counts.Total-done))
	return ", " + rest.Round(time.Second).String() + " left"
}

// submit uploads a file as it is read, and makes a batch of it.
func (c *batchClient) submit(ctx context.Context, name string, content io.Reader, endpoint, window string) (submitted,
	error) {
	var head bytes.Buffer
	form := multipart.NewWriter(&head)
	_ = form.WriteField("purpose", "batch") // into memory
	_, _ = form.CreateFormFile("file", name)
	before := head.String()
	head.Reset()
	_ = form.Close()
	response, err := c.open(ctx, http.MethodPost, "/v1/files",
		io.MultiReader(strings.NewReader(before), content, &head), form.FormDataContentType())
	if err != nil {
		return submitted{}, err
	}
	defer func() { _ = response.Body.Close() }()
	var file struct {
		ID string `json:"id"`
	}
	if err := c.read(response, &file); err != nil {
		return submitted{}, err
	}
	var made submitted
	asks := map[string]string{"input_file_id": file.ID, "endpoint": endpoint, "completion_window": window}
	err = c.call(ctx, http.MethodPost, "/v1/batches", asks, &made)
	return made, err
}

// promptLine returns the request for a prompt.
func promptLine(number int, model, system, text string) []byte {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	type body struct {
		Model    string    `json:"model"`
		Messages []message `json:"messages"`
	}
	asks := body{Model: model, Messages: []message{{"user", text}}}
	if system != "" {
		asks.Messages = []message{{"system", system}, {"user", text}}
	}
	line, err := json.Marshal(struct {
		CustomID string `json:"custom_id"`
		Method   string `json:"method"`
		URL      string `json:"url"`
		Body     body   `json:"body"`
	}{fmt.Sprintf("line-%d", number), http.MethodPost, defaultEndpoint, asks})
	if err != nil { // the prompt is no text; the gateway says so
		line = []byte("{")
	}
	return append(line, '\n')
}

func (c *batchClient) list(ctx context.Context, limit int) ([]submitted, error) {
	var list struct {
		Data []submitted `json:"data"`
	}
	err := c.call(ctx, http.MethodGet, fmt.Sprintf("/v1/batches?limit=%d", limit), nil, &list)
	return list.Data, err
}

// find returns the batch of an id, the newest where none is given.
func (c *batchClient) find(ctx context.Context, args []string) (submitted, error) {
	if len(args) == 0 {
		all, err := c.list(ctx, 1)
		if err == nil && len(all) == 0 {
			err = errNoBatch
		}
		if err != nil {
			return submitted{}, err
		}
		return all[0], nil
	}
	var b submitted
	err := c.call(ctx, http.MethodGet, "/v1/batches/"+args[0], nil, &b)
	return b, err
}

// writeResults writes the answers and then the errors of a batch.
func (c *batchClient) writeResults(ctx context.Context, b submitted, to io.Writer) error {
	for _, file := range []string{b.Output, b.ErrorFile} {
		if file == "" {
			continue
		}
		response, err := c.open(ctx, http.MethodGet, "/v1/files/"+file+"/content", nil, "")
		if err != nil {
			return err
		}
		_, err = io.Copy(to, response.Body)
		_ = response.Body.Close()
		if err != nil {
			return fmt.Errorf("the results did not come whole: %w", err)
		}
	}
	return nil
}

// save writes the results of a batch to a file, which is whole or not there.
func (c *batchClient) save(ctx context.Context, b submitted, path string, stdout io.Writer) error {
	file, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	err = c.writeResults(ctx, b, file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(path+".part", path)
	}
	if err != nil {
		_ = os.Remove(path + ".part")
		return err
	}
	fmt.Fprintf(stdout, "the results are in %s\n", path)
	return nil
}
