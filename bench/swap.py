"""Measures llama-swap and Patchbay side by side, with the same models and the same servers.

usage: python3 bench/swap.py LLAMA_SWAP PATCHBAY LLAMA_SERVER MODEL.gguf

The arguments are programs, and a small model for llama.cpp. Two models, a and b, are one file;
one of them runs at a time. Only Python's standard library is needed. Linux only.
"""
import http.client
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SWAP, PATCHBAY, SERVER, MODEL = (os.path.abspath(path) for path in sys.argv[1:5])
FOLDER = tempfile.mkdtemp()
COMMAND = (f"{SERVER} --port ${{PORT}} --model {MODEL} --ctx-size 16384 --parallel 4 --threads 1"
           " --threads-batch 1 --cache-ram 0 --no-webui --log-disable")


class Proxy:
    """One of the two programs, listening on a free port."""

    def __init__(self, name):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        listen = f"127.0.0.1:{self.port}"
        arguments = [SWAP, "-config", FOLDER + "/config.yaml", "-listen", listen]
        if name == "patchbay":
            arguments = [PATCHBAY, "serve", FOLDER + "/patchbay.yaml", "--listen", listen, "--data-dir",
                         tempfile.mkdtemp(dir=FOLDER)]
        with open(f"{FOLDER}/{name}.log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(arguments, stdout=log, stderr=subprocess.STDOUT)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.05)

    def chat(self, model, tokens=8, began=None):
        """Returns the seconds to the first byte of an answer, and whether it was complete."""
        start, first, text = time.monotonic(), None, b""
        body = {"model": model, "stream": True, "max_tokens": tokens, "ignore_eos": True,
                "messages": [{"role": "user", "content": "Hello"}]}
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            connection.request("POST", "/v1/chat/completions", json.dumps(body),
                               {"Content-Type": "application/json"})
            reply = connection.getresponse()
            while piece := reply.read1(65536):
                text += piece
                if first is None and b"data:" in text:
                    first = time.monotonic() - start
                    if began:
                        began.set()
            return first, reply.status == 200 and b"[DONE]" in text
        except (OSError, http.client.HTTPException):
            return first, False

    def descendants(self):
        """Returns the processes below the proxy: servers, and whatever stands between."""
        parents = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                    parents.setdefault(int(stat.read().rsplit(")", 1)[1].split()[1]), []).append(int(pid))
            except OSError:
                pass
        found = [self.process.pid]
        for pid in found:
            found += parents.get(pid, [])
        return found[1:]

    def servers(self):
        return [pid for pid in self.descendants() if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(SERVER)]

    def memory(self):
        """Returns RSS and RssAnon in MiB, of all that is no model server."""
        pids = {self.process.pid, *self.descendants()} - set(self.servers())
        status = [open(f"/proc/{pid}/status", encoding="utf-8").read() for pid in pids]
        return [round(sum(int(re.search(what + r":\s+(\d+)", text)[1]) for text in status) / 1024)
                for what in ("VmRSS", "RssAnon")]


def at_once(clients, work):
    threads = [threading.Thread(target=work, args=(n,)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def for_seconds(proxy, seconds, clients, choose, tokens):
    """Returns the answers of clients that send one request after the other."""
    answers, end = [], time.monotonic() + seconds

    def client(number):
        dice = random.Random(number)
        while time.monotonic() < end:
            answers.append(proxy.chat(choose(dice), tokens)[1])
    at_once(clients, client)
    return f"{answers.count(False)} of {len(answers)}"


def stop(proxy):
    """Stops a proxy under four long answers and four requests that wait for the other model."""
    proxy.chat("a")
    began, ends, stopped = [threading.Event() for _ in range(4)], [], []

    def client(number):
        if number < 4:
            ok = proxy.chat("a", 3000, began[number])[1]
        else:
            began[0].wait(30)
            ok = proxy.chat("b")[1]
        ends.append((number < 4, ok, time.monotonic()))

    def end(_):
        for event in began:
            event.wait(30)
        time.sleep(0.3)
        stopped.append(time.monotonic())
        proxy.process.send_signal(signal.SIGTERM)
    at_once(2, lambda n: end(n) if n else at_once(8, client))
    proxy.process.wait(60)
    late = [(is_answer, ok) for is_answer, ok, at in ends if at > stopped[0]]
    return [f"{sum(not ok for is_answer, ok in late if is_answer == which)} of "
            f"{sum(is_answer == which for is_answer, _ in late)}" for which in (True, False)]


def measure(name):
    proxy = Proxy(name)
    time.sleep(1)
    yield "memory at rest: RSS, RssAnon in MiB", proxy.memory()
    proxy.chat("a")
    swaps, loaded = [], []
    for turn in range(20):
        swaps.append(proxy.chat("ba"[turn % 2])[0])
        time.sleep(0.3)
        loaded += [proxy.chat("ba"[turn % 2]) for _ in range(10)]
    yield "first byte after a swap: median, longest in ms", [round(f(swaps) * 1000) for f in (statistics.median, max)]
    yield "first byte of a loaded model: median in ms", round(1000 * statistics.median(t for t, ok in loaded if ok), 1)
    yield "lost: one client, loaded", f"{sum(not ok for _, ok in loaded)} of {len(loaded)}"
    yield "lost: 8 clients, a or b at random, 30 s", for_seconds(proxy, 30, 8, lambda dice: dice.choice("ab"), 8)
    threading.Timer(3, lambda: [os.kill(pid, signal.SIGKILL) for pid in proxy.servers()]).start()
    yield "lost: 4 clients, the server is killed once, 10 s", for_seconds(proxy, 10, 4, lambda _: "a", 64)
    yield "memory after all that: RSS, RssAnon in MiB", proxy.memory()
    yield "lost: the proxy is stopped; answers under way, requests that wait", stop(proxy)
    proxy = Proxy(name)
    proxy.chat("a")
    servers = proxy.servers()
    proxy.process.kill()
    proxy.process.wait()
    time.sleep(1)
    left = [pid for pid in servers if os.path.exists(f"/proc/{pid}/maps") and open(f"/proc/{pid}/maps", "rb").read()]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    yield "left behind: servers after the proxy was killed", len(left)


with open(FOLDER + "/config.yaml", "w", encoding="utf-8") as file:
    file.write("models:\n" + "".join(f"  {model}:\n    cmd: {COMMAND}\n" for model in "ab"))
subprocess.run([PATCHBAY, "import", FOLDER + "/config.yaml", "-o", FOLDER + "/patchbay.yaml"], check=True,
               stdout=subprocess.DEVNULL)
for program in ("llama-swap", "patchbay"):
    for what, value in measure(program):
        print(f"{program:11} {what:68} {value}", flush=True)
