"""A backend of OpenAI's chat API whose model does as it is told, in the few ways that suites ask for.

A suite that tests a gateway with instructions for its model tests the model too. This one repeats what
it is to reply exactly, remembers a code, calls the tool that it is given with the values of the
prompt, and fills an object with those that the prompt has.
"""

import http.server
import json
import re
import threading


def text_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def reply_to(request):
    """Returns the text of the answer, or the call of a tool as its name and arguments."""
    messages = request["messages"]
    said = " ".join(map(text_of, messages))
    last = next(text_of(m) for m in reversed(messages) if m["role"] == "user")
    tools, results = request.get("tools") or [], [m for m in messages if m["role"] == "tool"]
    if results:
        number = re.search(r"\d+", text_of(results[-1]))
        return number.group() if number else text_of(results[-1])
    if tools:
        function = tools[0]["function"]
        return function["name"], arguments_for(function, last)
    if request.get("response_format", {}).get("type") in ("json_object", "json_schema"):
        whole = re.search(r"\{.*\}", last)
        values = {name: json.loads(value) for name, value in re.findall(r'(\w+)=("[^"]*"|\d+)', last)}
        return whole.group() if whole else json.dumps(values)
    remembered = re.search(r"code(?: word:)?\s*=?\s*([a-z]+|\d+)[.,]? Reply", said)
    if remembered and re.search(r"[Ww]hat (?:is|was)", last):
        return remembered.group(1)
    exact = re.search(r"(?:exactly:?|with|Say|Reply)\s+(\w+)", last) or re.search(r"exactly:?\s+(\w+)", said)
    return exact.group(1) if exact else "OK"


def arguments_for(function, prompt):
    properties = function.get("parameters", {}).get("properties", {})
    numbers = iter(re.findall(r"\d+", prompt))
    return {name: int(next(numbers, 0)) if schema.get("type") == "integer" else written(prompt) for name, schema in properties.items()}


def written(prompt):
    return "4 + 4" if "four plus four" in prompt else 'print("hello world")'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send("application/json", json.dumps({"object": "list", "data": [{"id": "obedient", "object": "model", "created": 1, "owned_by": "test"}]}))

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = reply_to(request)
        message, reason = {"role": "assistant", "content": reply}, "stop"
        if isinstance(reply, tuple):
            call = {"id": "call_1", "type": "function", "function": {"name": reply[0], "arguments": json.dumps(reply[1])}}
            message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        head = {"id": "chatcmpl-1", "created": 1, "model": request["model"]}
        if not request.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self.send("application/json", json.dumps(head | {"object": "chat.completion", "choices": [choice], "usage": usage}))
            return
        for index, call in enumerate(message.get("tool_calls", [])):
            call["index"] = index
        deltas = [{"role": "assistant"} | {n: v for n, v in message.items() if n == "tool_calls"}, *({"content": c} for c in message["content"] or "")]
        choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas] + [[{"index": 0, "delta": {}, "finish_reason": reason}]]
        chunks = [head | {"object": "chat.completion.chunk", "choices": choice} for choice in choices]
        chunks.append(head | {"object": "chat.completion.chunk", "choices": [], "usage": usage})
        self.send("text/event-stream", "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n")

    def send(self, kind, text):
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def start_backend():
    """Starts the backend, and returns its address; it ends with the process."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
