package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// events is how many events a streamed answer has.
const events = 64

// modelElsewhere matches the model in a body that a gateway has written anew.
var modelElsewhere = regexp.MustCompile(`"model": ?"[a-z-]+"`)

// answerLikeABackend answers requests with texts that were made before. The requested
// model chooses the text.
func answerLikeABackend(conn net.Conn) { answer(conn, streamedAnswer()) }

// breakStreams is a backend that dies in the middle of each stream: it closes the connection
// after ten events.
func breakStreams(conn net.Conn) { answer(conn, streamedAnswer()[:11]) }

func answer(conn net.Conn, chunks [][]byte) {
	whole, embedding := wholeAnswer(), embeddingAnswer(1536)
	var doors doorAnswers
	reader := bufio.NewReaderSize(conn, 128<<10)
	var body bytes.Buffer
	for {
		request, err := readHead(reader)
		if err != nil {
			return
		}
		path := pathOf(request.head)
		body.Reset()
		if relay(&body, reader, request) != nil {
			return
		}
		start := body.Bytes()[:min(body.Len(), 1024)]
		if named := modelElsewhere.Find(body.Bytes()); !bytes.Contains(start, []byte(`"model":"`)) && named != nil {
			start = bytes.ReplaceAll(named, []byte(" "), nil)
		}
		switch {
		case strings.HasSuffix(path, "/models"): // gateways that ask for them
			model := "chat"
			if strings.HasPrefix(path, "/stream/") {
				model = "stream"
			}
			_, err = conn.Write(withLength(`{"object":"list","data":[{"id":"` + model + `","object":"model"}]}`))
		case bytes.Contains(start, []byte(`"model":"door-`)):
			if doors == nil {
				doors = newDoorAnswers()
			}
			err = doors.write(conn, path, body.Bytes())
		case bytes.Contains(start, []byte(`"model":"embed"`)):
			_, err = conn.Write(embedding)
		case bytes.Contains(start, []byte(`"model":"wait"`)):
			time.Sleep(20 * time.Millisecond)
			_, err = conn.Write(whole)
		case bytes.Contains(start, []byte(`"model":"stream"`)):
			if len(chunks) <= events {
				_ = writePaced(conn, chunks, 50*time.Millisecond)
				return // before the end
			}
			err = writePaced(conn, chunks, 0)
		case bytes.Contains(start, []byte(`"model":"paced"`)):
			err = writePaced(conn, chunks, 5*time.Millisecond)
		case bytes.Contains(start, []byte(`"model":"drip"`)):
			err = writePaced(conn, chunks, 100*time.Millisecond)
		default:
			_, err = conn.Write(whole)
		}
		if err != nil {
			return
		}
	}
}

// writePaced writes each event by itself, as models do.
func writePaced(w io.Writer, chunks [][]byte, apart time.Duration) error {
	for n, chunk := range chunks {
		if n > 1 && apart > 0 {
			time.Sleep(apart)
		}
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

func withLength(body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// sentence is text as models write it, with an escape here and there.
const sentence = `A patch bay connects what is plugged into it: \"inputs\" here, outputs there, and nothing in between.\n`

func wholeAnswer() []byte {
	return withLength(`{"id":"chatcmpl-1","object":"chat.completion","created":1741569952,"model":"chat","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat(sentence, 5) + `"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":190,"completion_tokens":80,"total_tokens":270}}`)
}

func embeddingAnswer(floats int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	text := []byte(`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[`)
	for n := range floats {
		if n > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendFloat(text, random.Float64()*0.2-0.1, 'f', 10, 64)
	}
	return withLength(string(text) + `]}],"model":"embed","usage":{"prompt_tokens":8,"total_tokens":8}}`)
}

// streamedAnswer returns the head of a streamed answer and its events, each a chunk
// of HTTP.
func streamedAnswer() [][]byte {
	chunk := func(text string) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(text), text) }
	all := [][]byte{[]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")}
	for n := range events {
		delta, finish := `{"content":" connect"}`, "null"
		switch n {
		case 0:
			delta = `{"role":"assistant","content":""}`
		case events - 1:
			delta, finish = `{}`, `"stop"`
		}
		all = append(all, chunk(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1741569952,"model":"stream","choices":[{"index":0,"delta":`+
			delta+`,"logprobs":null,"finish_reason":`+finish+"}]}\n\n"))
	}
	all = append(all, chunk("data: [DONE]\n\n"))
	last := len(all) - 1
	all[last] = append(all[last], "0\r\n\r\n"...)
	return all
}
