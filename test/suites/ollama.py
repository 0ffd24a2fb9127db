#!/usr/bin/env python3
"""Sends the same requests to Ollama and to the gateway's Ollama endpoints in front of it, and compares the answers.

    ollama.py MODELS

MODELS is a folder with Modelfile.NAME for a chat model, one that thinks and one for embeddings, which are
created as NAME; CHAT, THINKING and EMBEDDING say which is which. OLLAMA names Ollama's binary. Statuses,
types of content and JSON have to be the same, member by member, except times and ids, and except values of
what a gateway has of its own: its models, where only the members and their kinds are compared, and the
words of errors.
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.dont_write_bytecode = True  # what is imported is beside this

from run import start, stop

CHAT, THINKING, EMBEDDING = (os.environ.get(name, default) for name, default in (("CHAT", "tinychat"), ("THINKING", "tinythink"), ("EMBEDDING", "tinyembed")))

# What differs from one request to the next, or from one server to the other.
CHANGING = re.compile(r"(_duration|_at)$|^(prompt_eval_count|id)$")

# Where the gateway has another status on purpose: Ollama's, its own, and why.
OTHERWISE = {
    (404, 503): "a model that nobody serves is 503 at every endpoint of the gateway",
    (500, 400): "an option of the wrong type is the client's mistake",
}

# What only the server of a model knows.
UNKNOWN_HERE = re.compile(r"\.(families|model_info|tensors|context_length)\b")

TOOL = {"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
HI = [{"role": "user", "content": "hi"}]
FIXED = {"temperature": 0, "seed": 1}

# The requests: method, path, body, and whether only the members are compared.
REQUESTS = [
    ("GET", "/api/version", None, True), ("GET", "/api/tags", None, True),
    ("POST", "/api/show", {"model": CHAT}, True), ("POST", "/api/show", {"model": "none"}, True),
    *(
        ("POST", "/api/chat", {"model": CHAT, "messages": HI, "options": FIXED} | more, False)
        for more in (
            {"stream": False}, {}, {"stream": True, "options": {"num_predict": 3}}, {"stream": False, "tools": [TOOL]}, {"tools": [TOOL]},
            {"stream": False, "messages": [{"role": "user", "content": "JSON"}], "format": "json"}, {"stream": False, "messages": [{"role": "user", "content": "JSON"}], "format": SCHEMA},
            {"stream": False, "messages": [{"role": "system", "content": "be kind"}, *HI]}, {"stream": False, "keep_alive": "5m"}, {"stream": False, "keep_alive": -1},
            {"stream": False, "model": THINKING, "think": True}, {"model": THINKING, "think": True}, {"stream": False, "model": THINKING, "think": False},
            {"stream": False, "messages": [*HI, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}]}, {"role": "tool", "content": "rain", "tool_name": "get_weather"}]},
            {"stream": False, "logprobs": True, "top_logprobs": 2}, {"stream": False, "messages": []}, {"stream": False, "think": True},
            {"stream": False, "model": "none"}, {"stream": False, "messages": 1}, {"stream": False, "options": {"temperature": "hot"}},
        )
    ),
    *(
        ("POST", "/api/generate", {"model": CHAT, "prompt": "hi", "options": FIXED} | more, False)
        for more in (
            {"stream": False}, {}, {"stream": False, "raw": True, "options": {"num_predict": 3}}, {"stream": False, "system": "be kind"}, {"stream": False, "template": "{{ .Prompt }}", "options": {"num_predict": 3}},
            {"stream": False, "prompt": ""}, {"stream": False, "format": "json", "options": FIXED | {"num_predict": 8}}, {"stream": False, "model": THINKING, "think": True}, {"stream": False, "model": "none"},
            {"stream": False, "suffix": "x"},
        )
    ),
    *(
        ("POST", "/api/embed", {"model": EMBEDDING, "input": "hi"} | more, False)
        for more in ({}, {"input": ["a", "b"]}, {"dimensions": 8}, {"truncate": True}, {"input": []}, {"input": 1}, {"model": "none"}, {"input": "long " * 2000, "truncate": False})
    ),
    ("GET", "/api/ps", None, True),
    ("POST", "/api/embeddings", {"model": EMBEDDING, "prompt": "hi"}, False),
    ("POST", "/api/chat", b"{", False), ("POST", "/api/chat", {}, False), ("GET", "/api/chat", None, True),
]


def ask(base, method, path, body):
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        reply = urllib.request.urlopen(request, timeout=120)
    except urllib.error.HTTPError as refused:
        reply = refused
    with reply:
        text = reply.read().decode()
        kind = reply.headers.get("Content-Type", "").split(";")[0]
        lines = [json.loads(line) for line in text.splitlines() if line] if "json" in kind else [text]
        return reply.status, kind, lines


def without_changing(value):
    if isinstance(value, dict):
        return {name: type(inner).__name__ if CHANGING.search(name) else without_changing(inner) for name, inner in value.items()}
    return [without_changing(inner) for inner in value] if isinstance(value, list) else value


def members(value):
    if isinstance(value, dict):
        return {name: members(inner) for name, inner in value.items()}
    return [members(value[0])] if isinstance(value, list) and value else type(value).__name__


def difference(one, other, path=""):
    """Returns where two values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [d for name in sorted({*one, *other}) for d in difference(one.get(name, "—"), other.get(name, "—"), f"{path}.{name}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [d for n, (a, b) in enumerate(zip(one, other)) for d in difference(a, b, f"{path}[{n}]")]
    if isinstance(one, float) and isinstance(other, (int, float)) and abs(one - other) < 1e-4:
        return []
    return [] if one == other else [f"{path or 'body'}: {str(one)[:200]!r}, behind the gateway {str(other)[:200]!r}"]


def start_ollama(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    variables = os.environ | {"OLLAMA_HOST": address, "OLLAMA_MODELS": str(folder / "models"), "OLLAMA_NO_CLOUD": "1", "OLLAMA_KEEP_ALIVE": "10m", "HOME": str(folder)}
    log = open(folder / "ollama.log", "w")
    process = subprocess.Popen([os.environ["OLLAMA"], "serve"], env=variables, stdout=log, stderr=log)
    for _ in range(600):
        try:
            ask("http://" + address, "GET", "/api/version", None)
            return process, "http://" + address, variables
        except OSError:
            time.sleep(0.1)
    process.kill()
    sys.exit((folder / "ollama.log").read_text())


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    models = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="patchbay-ollama-") as name:
        folder = pathlib.Path(name)
        ollama, alone, variables = start_ollama(folder)
        try:
            for model in (CHAT, THINKING, EMBEDDING):
                subprocess.run([os.environ["OLLAMA"], "create", model, "-f", models / f"Modelfile.{model}"], cwd=models, env=variables, check=True, capture_output=True)
            services = {"chat": (CHAT, THINKING), "embedding": (EMBEDDING,)}
            lines = ["services:"]
            for service, names in services.items():
                lines += [f"  {service}:", "    instances:", *(f'      - {{name: {n}, base-url: "{alone}", adapter: ollama}}' for n in names)]
            (folder / "suites.yaml").write_text("\n".join(lines) + "\n")
            gateway, behind = start(["serve", "suites.yaml", "--data-dir", "data"], folder)
            try:
                failed = compare(alone, behind + "/ollama")
            finally:
                stop(gateway)
        finally:
            stop(ollama)
    print(f"{len(REQUESTS) - failed} of {len(REQUESTS)} answers are the same")
    sys.exit(failed > 0)


def compared(one, other, view):
    if one[0] >= 400 or other[0] >= 400:
        statuses = (one[0], other[0])
        is_error = isinstance(other[2][0], dict) and isinstance(other[2][0].get("error"), str)
        return [] if is_error and (one[0] == other[0] or statuses in OTHERWISE) else [f"status and error: {one[0]}, behind the gateway {other[0]} {other[2]}"]
    differences = difference([one[0], one[1], view(one[2])], [other[0], other[1], view(other[2])])
    return [text for text in differences if not UNKNOWN_HERE.search(text)]


def compare(alone, behind):
    failed = 0
    for method, path, body, only_members in REQUESTS:
        ask(alone, method, path, body)  # caches of prompts are warm for both
        one, other = ask(alone, method, path, body), ask(behind, method, path, body)
        differences = compared(one, other, members if only_members else without_changing)
        if differences:
            failed += 1
            print(f"{method} {path} {str(body)[:160]}", *differences[:6], sep="\n  ")
    return failed


if __name__ == "__main__":
    main()
