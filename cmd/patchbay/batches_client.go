// This file belongs to the wing batches.

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

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

// print prints the state of the batch.
func (b *submitted) print(a *asking) error {
	_, err := fmt.Fprintf(a.out(), "%s is %s: %s\n", b.ID, b.Status, b.counts())
	return err
}

// upload uploads a file as it is read, and returns its id.
func (a *asking) upload(name string, content io.Reader) (id string, err error) {
	var head bytes.Buffer
	form := multipart.NewWriter(&head)
	_ = form.WriteField("purpose", "batch") // into memory
	_, _ = form.CreateFormFile("file", name)
	before := head.String()
	head.Reset()
	_ = form.Close()
	response, err := a.open(a.ctx, http.MethodPost, "/v1/files",
		io.MultiReader(strings.NewReader(before), content, &head), form.FormDataContentType())
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	var file struct {
		ID string `json:"id"`
	}
	err = a.remote.read(response, &file)
	return file.ID, err
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

// findBatch returns the batch of the id in the arguments, the newest if none is given.
func findBatch(a *asking) (b submitted, err error) {
	if len(a.args) > 0 {
		err = a.call(a.ctx, http.MethodGet, "/v1/batches/"+a.args[0], nil, &b)
		return b, err
	}
	var list struct {
		Data []submitted `json:"data"`
	}
	if err = a.call(a.ctx, http.MethodGet, "/v1/batches?limit=1", nil, &list); err != nil {
		return b, err
	}
	if len(list.Data) == 0 {
		return b, errors.New("there is no batch; patchbay batches submit makes one")
	}
	return list.Data[0], nil
}

// writeResults writes the answers and then the errors of a batch.
func (a *asking) writeResults(b submitted, to io.Writer) error {
	for _, file := range []string{b.Output, b.ErrorFile} {
		if file == "" {
			continue
		}
		response, err := a.open(a.ctx, http.MethodGet, "/v1/files/"+file+"/content", nil, "")
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
func (a *asking) save(b submitted, path string) error {
	part := path + ".part"
	file, err := os.Create(part)
	if err != nil {
		return err
	}
	if err = cmp.Or(a.writeResults(b, file), file.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part)
		return err
	}
	_, err = fmt.Fprintf(a.out(), "the results are in %s\n", path)
	return err
}
