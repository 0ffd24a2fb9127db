#!/usr/bin/env python3
"""Runs suites that others wrote against the binary, and prints a table of their scores.

A gateway stands in front of the simulated backends of `patchbay demo`, with one model for each
kind of backend. llm-comply and CompatCanary are installed from PyPI and npm, in the versions
that are pinned here, below the directory that SUITES_DIR names.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BINARY = pathlib.Path(os.environ.get("PATCHBAY_BIN", ROOT / "bin" / "patchbay")).resolve()
TOOLS = pathlib.Path(os.environ.get("SUITES_DIR", ROOT / "bin" / "suites")).resolve()

COMPLY = "0.5.0"
CANARY = "0.2.2"

# The names of the models contain what the suites look for: they skip tests of reasoning for
# models whose names are not those of models that reason.
PREFIX = "gpt-5-claude-opus-"

# For each kind of backend the model of the demo that answers for it, and its adapter.
KINDS = {
    "openai": ("demo-chat", "adapter: openai"),
    "vllm": ("demo-chat", "adapter: vllm"),
    "llamacpp": ("demo-chat", "adapter: llamacpp"),
    "ollama": ("demo-ollama", "adapter: ollama"),
    "anthropic": ("demo-claude", "adapter: anthropic"),
    "gemini": ("demo-gemini", "adapter: gemini"),
    "responses": ("demo-responses", "adapter: openai, responses: true"),
}

START_LIMIT = 60


def start(arguments, cwd):
    """Starts the binary, and returns the process and the address on which it listens."""
    log = open(pathlib.Path(cwd) / f"{arguments[0]}.log", "w+")
    process = subprocess.Popen([BINARY, *arguments, "--listen", "127.0.0.1:0"], cwd=cwd, stdout=log, stderr=log)
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+", pathlib.Path(log.name).read_text())
        if found and is_ready(found.group()):
            return process, found.group()
        time.sleep(0.05)
    process.kill()
    sys.exit(f"{arguments[0]} did not start:\n{pathlib.Path(log.name).read_text()}")


def is_ready(address):
    try:
        with urllib.request.urlopen(address + "/actuator/health/readiness", timeout=5) as reply:
            return reply.status == 200
    except OSError:
        return False


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=40)
    except subprocess.TimeoutExpired:
        process.kill()


def backend_of(demo):
    """Returns the address of the simulated backend that speaks every dialect."""
    with urllib.request.urlopen(demo + "/api/config/instance/type/chat", timeout=10) as reply:
        listed = json.load(reply)["data"]
    return next(i["baseUrl"] for i in listed if i["name"] == "demo-gemini")


def configuration(backend):
    rows = [
        f'      - {{name: {PREFIX}{kind}, upstream-model: {model}, base-url: "{backend}", {rest}}}'
        for kind, (model, rest) in KINDS.items()
    ]
    return "services:\n  chat:\n    instances:\n" + "\n".join(rows) + "\n"


def install():
    """Installs the suites, and returns the commands that run them."""
    comply = TOOLS / "python" / "bin" / "llm-comply"
    if not comply.exists():
        subprocess.run([sys.executable, "-m", "venv", TOOLS / "python"], check=True)
    pip = [TOOLS / "python" / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"llm-comply=={COMPLY}", "jsonschema"], check=True)
    canary = TOOLS / "node_modules" / "compatcanary" / "src" / "cli.js"
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", TOOLS, f"compatcanary@{CANARY}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return comply, canary


def run_comply(comply, base, model, form):
    command = [comply, "-u", base, "-k", "any", "-m", model, "--format", form, "--json"]
    output = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
    results = json.loads(output)
    results = results["results"] if isinstance(results, dict) else results
    faults = [f"{r['id']}: {e}" for r in results if r["status"] != "passed" for e in r["errors"][:2]]
    return sum(r["status"] == "passed" for r in results), len(results), faults


def run_canary(canary, base, model):
    command = ["node", canary, "scan", "--base-url", base, "--model", model, "--api-key", "any", "--format", "json", "--fail-on", "never"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=300).stdout)
    faults = [f"{r['id']}: {r['summary']}" for r in report["results"] if r["status"] != "pass"]
    return report["score"], 100, faults


def main():
    comply, canary = install()
    suites = {
        f"llm-comply {COMPLY}, Open Responses": lambda base, model: run_comply(comply, base, model, "open-responses"),
        f"llm-comply {COMPLY}, OpenAI chat": lambda base, model: run_comply(comply, base, model, "openai-chat"),
        f"llm-comply {COMPLY}, Anthropic": lambda base, model: run_comply(comply, base, model, "anthropic"),
        f"CompatCanary {CANARY}": lambda base, model: run_canary(canary, base, model),
    }
    passed = failed = 0
    width = max(map(len, suites))
    with tempfile.TemporaryDirectory(prefix="patchbay-suites-") as folder:
        demo, address = start(["demo", "--traffic=false"], folder)
        try:
            pathlib.Path(folder, "suites.yaml").write_text(configuration(backend_of(address)))
            gateway, base = start(["serve", "suites.yaml", "--data-dir", "data"], folder)
            try:
                print(f"{'suite':{width}}  " + "  ".join(f"{kind:>9}" for kind in KINDS))
                for name, run in suites.items():
                    cells, faults = [], []
                    for kind in KINDS:
                        got, of, wrong = run(base + "/v1", PREFIX + kind)
                        cells.append(f"{got}/{of}")
                        faults += [f"  {kind}: {fault}" for fault in wrong]
                        passed, failed = passed + (got == of), failed + (got != of)
                    print(f"{name:{width}}  " + "  ".join(f"{cell:>9}" for cell in cells), flush=True)
                    print(*faults, sep="\n", end="\n" if faults else "")
            finally:
                stop(gateway)
        finally:
            stop(demo)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
