package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// workload is the work that every gateway gets.
type workload struct {
	name, title string
	path        string
	body        string
	connections int
	// rate is how many requests are sent in a second; 0 means that each connection
	// sends the next one when it has the answer to the last.
	rate int
	// memory marks a workload that is run once, for its memory rather than for its
	// processor time.
	memory bool
	// refused says that the answer may be 429.
	refused bool
}

// workloads returns all workloads; the one for memory has so many streams.
func workloads(streams int) []workload {
	const chat, embeddings = "/v1/chat/completions", "/v1/embeddings"
	return []workload{ // memory first, because memory that was used once stays
		{"mem", fmt.Sprintf("%d slow streams, KiB each", streams), chat, chatBody("drip", true, 1<<10), streams, 0, true, false},
		{"w1", "chat, 1 KB, 32 connections", chat, chatBody("chat", false, 1<<10), 32, 0, false, false},
		{"w1c", "chat, 1 KB, 1,024 connections", chat, chatBody("chat", false, 1<<10), 1024, 0, false, false},
		{"w2", "stream of 64 events at once, 64 connections", chat, chatBody("stream", true, 1<<10), 64, 0, false, false},
		{"w2d", "stream of 64 events 5 ms apart, 64 connections", chat, chatBody("paced", true, 1<<10), 64, 0, false, false},
		{"w3", "chat, 1,000 a second, backend takes 20 ms", chat, chatBody("wait", false, 1<<10), 64, 1000, false, false},
		{"w4", "chat, 100 KB, 32 connections", chat, chatBody("chat", false, 100<<10), 32, 0, false, false},
		{"w5", "embedding of 1,536 numbers, 32 connections", embeddings, `{"model":"embed","input":"` + strings.Repeat(sentence, 4) + `","encoding_format":"float"}`, 32, 0, false, false},
	}
}

// aloneWorkload is w1 with one connection: the time of a request is that of the way.
func aloneWorkload() workload {
	return workload{name: "w0", title: "chat, 1 KB, 1 connection", path: "/v1/chat/completions", body: chatBody("chat", false, 1<<10), connections: 1}
}

// coldWorkload is w1 with an answer that can be kept.
func coldWorkload() workload {
	body := strings.Replace(chatBody("chat", false, 1<<10), `"temperature":0.7`, `"temperature":0`, 1)
	return workload{name: "w1k", title: "chat, 1 KB, temperature 0, 32 connections", path: "/v1/chat/completions", body: body, connections: 32, refused: true}
}

func chatBody(model string, stream bool, size int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":"%s","temperature":0.7,"stream":%v,"messages":[{"role":"system","content":"You are a helpful assistant."}`, model, stream)
	for b.Len() < size {
		b.WriteString(`,{"role":"user","content":"`)
		for n := 0; n < 4000 && b.Len() < size; n += len(sentence) {
			b.WriteString(sentence)
		}
		b.WriteString(`"}`)
	}
	b.WriteString("]}")
	return b.String()
}

// load sends a workload to an address until the time is over, and returns how many
// requests were answered and the first error. The connections share the keys, if there
// are any.
func load(address string, w workload, duration time.Duration, keys int) (answered int64, err error) {
	var done atomic.Int64
	var first atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	end := began.Add(duration)
	for n := range w.connections {
		all.Go(func() {
			if err := send(address, w.request(address, n, keys), w, began, end, n, &done); err != nil {
				first.CompareAndSwap(nil, &err)
			}
		})
	}
	all.Wait()
	if failed := first.Load(); failed != nil {
		return 0, *failed
	}
	return done.Load(), nil
}

// request is the request of one connection. Where there are more keys than connections,
// it uses keys that lie evenly among all.
func (w workload) request(address string, connection, keys int) []byte {
	key := ""
	if keys > 0 {
		key = "Authorization: Bearer " + keyOf(connection*max(1, keys/w.connections)%keys) + "\r\n"
	}
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", w.path, address, key, len(w.body), w.body)
}

// send is one connection of a workload.
func send(address string, request []byte, w workload, began, end time.Time, number int, done *atomic.Int64) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReaderSize(conn, 32<<10)
	for turn := 0; ; turn++ {
		if w.rate > 0 {
			gap := time.Second * time.Duration(w.connections) / time.Duration(w.rate)
			time.Sleep(time.Until(began.Add(gap*time.Duration(turn) + gap*time.Duration(number)/time.Duration(w.connections))))
		}
		if turn > 0 && (w.memory || time.Now().After(end)) {
			return nil // every connection has its turn, however late it begins
		}
		if _, err := conn.Write(request); err != nil {
			return err
		}
		answer, err := readHead(reader)
		if err != nil {
			return err
		}
		isRefused := w.refused && bytes.HasPrefix(answer.head, []byte("HTTP/1.1 429 "))
		if !isRefused && !bytes.HasPrefix(answer.head, []byte("HTTP/1.1 200 ")) {
			return fmt.Errorf("%s: %s", address, bytes.TrimSpace(answer.head))
		}
		if err := relay(io.Discard, reader, answer); err != nil {
			return err
		}
		done.Add(1)
	}
}
