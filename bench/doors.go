package main

import (
	"bytes"
	"fmt"
	"net"
	"strings"
)

// doorModels are the instances behind the workloads of the doors, one for each API that
// a backend can speak.
const doorModels = `      - {name: door-openai, base-url: "http://%[1]s"}
      - {name: door-responses, base-url: "http://%[1]s", responses: true}
      - {name: door-anthropic, base-url: "http://%[1]s", adapter: anthropic}
      - {name: door-ollama, base-url: "http://%[1]s", adapter: ollama}
`

// doorWorkload is a workload through another endpoint than chat, beside the one of chat
// that does the same work: both pass bytes on, or both translate.
type doorWorkload struct {
	workload
	// beside is the name of the workload of chat.
	beside string
}

// doorWorkloads returns w1 and w2 through each endpoint.
func doorWorkloads() []doorWorkload {
	const chat, messages, responses, completions = "/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions"
	pairs := []struct{ path, backend, beside string }{
		{chat, "openai", ""},
		{messages, "anthropic", "openai"},
		{responses, "responses", "openai"},
		{completions, "openai", "openai"},
		{chat, "anthropic", ""},
		{messages, "openai", "anthropic"},
		{responses, "openai", "anthropic"},
		{chat, "ollama", ""},
		{messages, "ollama", "ollama"},
		{responses, "ollama", "ollama"},
		{completions, "ollama", "ollama"},
	}
	name := func(row, path, backend string) string { return row + path[len("/v1"):] + ":" + backend }
	var all []doorWorkload
	for _, stream := range []bool{false, true} {
		row, connections := "w1", 32
		if stream {
			row, connections = "w2", 64
		}
		for _, p := range pairs {
			w := doorWorkload{workload: workload{
				name: name(row, p.path, p.backend), path: p.path, body: doorBody(p.path, "door-"+p.backend, stream), connections: connections,
			}}
			if p.beside != "" {
				w.beside = name(row, chat, p.beside)
			}
			all = append(all, w)
		}
	}
	return all
}

// workloadsOf returns the workloads without the chat workloads they are compared with.
func workloadsOf(doors []doorWorkload) []workload {
	var all []workload
	for _, d := range doors {
		all = append(all, d.workload)
	}
	return all
}

// doorBody is a request of 1 KB with the same texts for every endpoint.
func doorBody(path, model string, stream bool) string {
	text := strings.Repeat(sentence, 8)
	const system = "You are a helpful assistant."
	begin := fmt.Sprintf(`{"model":"%s","temperature":0.7,"stream":%v,`, model, stream)
	switch path {
	case "/v1/messages":
		return begin + `"max_tokens":1000,"system":"` + system + `","messages":[{"role":"user","content":"` + text + `"}]}`
	case "/v1/responses":
		return begin + `"store":false,"instructions":"` + system + `","input":[{"role":"user","content":"` + text + `"}]}`
	case "/v1/completions":
		return begin + `"max_tokens":1000,"prompt":"` + text + `"}`
	}
	return begin + `"max_tokens":1000,"messages":[{"role":"system","content":"` + system + `"},{"role":"user","content":"` + text + `"}]}`
}

// doorAnswers are the answers of a backend by the path of the request: whole, and as 64
// events.
type doorAnswers map[string]struct {
	whole  []byte
	chunks [][]byte
}

// write answers a request of one of the models in doorModels.
func (a doorAnswers) write(conn net.Conn, path string, start []byte) error {
	answer := a[path]
	if bytes.Contains(start, []byte(`"stream":true`)) {
		return writePaced(conn, answer.chunks, 0)
	}
	_, err := conn.Write(answer.whole)
	return err
}

// pathOf returns the path of a request.
func pathOf(head []byte) string {
	_, after, _ := bytes.Cut(head, []byte{' '})
	path, _, _ := bytes.Cut(after, []byte{' '})
	return string(path)
}

func newDoorAnswers() doorAnswers {
	text := strings.Repeat(sentence, 5)
	all := doorAnswers{}
	add := func(path, whole, contentType string, events []string) {
		answer := all[path]
		answer.whole = withLength(whole)
		answer.chunks = chunked(contentType, events)
		all[path] = answer
	}
	const sse = "text/event-stream"
	chat := all["/v1/chat/completions"]
	chat.whole, chat.chunks = wholeAnswer(), streamedAnswer()
	all["/v1/chat/completions"] = chat
	add("/v1/completions", `{"id":"cmpl-1","object":"text_completion","created":1741569952,"model":"door","choices":[{"index":0,"text":"`+text+
		`","logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":190,"completion_tokens":80,"total_tokens":270}}`, sse, completionEvents())
	add("/v1/messages", `{"id":"msg_1","type":"message","role":"assistant","model":"door","content":[{"type":"text","text":"`+text+
		`"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":190,"output_tokens":80}}`, sse, messageEvents())
	add("/v1/responses", responseObject("completed", text), sse, responseEvents())
	add("/api/chat", `{"model":"door","created_at":"2025-03-10T01:25:52Z","message":{"role":"assistant","content":"`+text+
		`"},"done":true,"done_reason":"stop","prompt_eval_count":190,"eval_count":80}`, "application/x-ndjson", ollamaLines(`"message":{"role":"assistant","content":"%s"}`))
	add("/api/generate", `{"model":"door","created_at":"2025-03-10T01:25:52Z","response":"`+text+
		`","done":true,"done_reason":"stop","prompt_eval_count":190,"eval_count":80}`, "application/x-ndjson", ollamaLines(`"response":"%s"`))
	return all
}

// chunked returns the head of a streamed answer and its events, each a chunk of HTTP.
func chunked(contentType string, events []string) [][]byte {
	all := [][]byte{[]byte("HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\nTransfer-Encoding: chunked\r\n\r\n")}
	for _, event := range events {
		all = append(all, fmt.Appendf(nil, "%x\r\n%s\r\n", len(event), event))
	}
	last := len(all) - 1
	all[last] = append(all[last], "0\r\n\r\n"...)
	return all
}

func named(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

func completionEvents() []string {
	var all []string
	for n := range events {
		text, finish := " connect", "null"
		if n == events-1 {
			text, finish = "", `"stop"`
		}
		all = append(all, `data: {"id":"cmpl-1","object":"text_completion","created":1741569952,"model":"door","choices":[{"index":0,"text":"`+
			text+`","logprobs":null,"finish_reason":`+finish+"}]}\n\n")
	}
	return append(all, "data: [DONE]\n\n")
}

func messageEvents() []string {
	all := []string{
		named("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"door","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":190,"output_tokens":1}}}`),
		named("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
	}
	for range events - 4 {
		all = append(all, named("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" connect"}}`))
	}
	return append(all,
		named("content_block_stop", `{"type":"content_block_stop","index":0}`),
		named("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":80}}`),
		named("message_stop", `{"type":"message_stop"}`))
}

func responseObject(status, text string) string {
	output, usage := "[]", "null"
	if status == "completed" {
		output = `[` + responseItem("completed", text) + `]`
		usage = `{"input_tokens":190,"input_tokens_details":{"cached_tokens":0},"output_tokens":80,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":270}`
	}
	return `{"id":"resp_1","object":"response","created_at":1741569952,"status":"` + status + `","error":null,"incomplete_details":null,"instructions":"You are a helpful assistant.","model":"door","output":` +
		output + `,"parallel_tool_calls":true,"previous_response_id":null,"store":false,"temperature":0.7,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_p":1,"usage":` + usage + `,"metadata":{}}`
}

func responseItem(status, text string) string {
	content := "[]"
	if status == "completed" {
		content = `[{"type":"output_text","text":"` + text + `","annotations":[]}]`
	}
	return `{"id":"msg_1","type":"message","status":"` + status + `","role":"assistant","content":` + content + `}`
}

func responseEvents() []string {
	var all []string
	add := func(name, rest string) {
		all = append(all, named(name, fmt.Sprintf(`{"type":"%s","sequence_number":%d,%s}`, name, len(all), rest)))
	}
	const at = `"item_id":"msg_1","output_index":0,"content_index":0,`
	text := strings.Repeat(" connect", events-8)
	add("response.created", `"response":`+responseObject("in_progress", ""))
	add("response.in_progress", `"response":`+responseObject("in_progress", ""))
	add("response.output_item.added", `"output_index":0,"item":`+responseItem("in_progress", ""))
	add("response.content_part.added", at+`"part":{"type":"output_text","text":"","annotations":[]}`)
	for range events - 8 {
		add("response.output_text.delta", at+`"delta":" connect"`)
	}
	add("response.output_text.done", at+`"text":"`+text+`"`)
	add("response.content_part.done", at+`"part":{"type":"output_text","text":"`+text+`","annotations":[]}`)
	add("response.output_item.done", `"output_index":0,"item":`+responseItem("completed", text))
	add("response.completed", `"response":`+responseObject("completed", text))
	return all
}

func ollamaLines(shape string) []string {
	var all []string
	for range events - 1 {
		all = append(all, `{"model":"door","created_at":"2025-03-10T01:25:52Z",`+fmt.Sprintf(shape, " connect")+",\"done\":false}\n")
	}
	return append(all, `{"model":"door","created_at":"2025-03-10T01:25:52Z",`+fmt.Sprintf(shape, "")+",\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":190,\"eval_count\":80}\n")
}

// printDoors prints a row for each endpoint: its cost beside the cost of chat for the
// same work.
func printDoors(chosen []workload, gateways []*gateway, results []result) {
	fmt.Printf("\n%s\n\nCPU of the gateway for each request in microseconds, and the ratio to what chat costs for the same work in the same round (medians)\n\n", machine())
	fmt.Println("| workload | gateway | chat | this endpoint | ratio |\n|---|---|---|---|---|")
	costs := map[string][]float64{}
	for _, r := range results {
		costs[r.Gateway+" "+r.Workload] = append(costs[r.Gateway+" "+r.Workload], r.CPU)
	}
	beside := map[string]string{}
	for _, w := range doorWorkloads() {
		beside[w.name] = w.beside
	}
	for _, w := range chosen {
		for _, g := range gateways {
			base, own := costs[g.name+" "+beside[w.name]], costs[g.name+" "+w.name]
			if len(base) == 0 {
				continue
			}
			var ratios []float64
			for n := range min(len(own), len(base)) {
				ratios = append(ratios, own[n]/base[n])
			}
			fmt.Printf("| %s | %s | %s %.0f | %.0f | %.2f |\n", w.name, g.name, beside[w.name], median(base), median(own), median(ratios))
		}
	}
}
