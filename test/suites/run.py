#!/usr/bin/env python3
"""Runs suites that others wrote against the binary, and prints a table of their scores.

A gateway stands in front of the simulated backends of `patchbay demo`, with one model for each
kind of backend. llm-comply, CompatCanary and the packages openai and anthropic, whose generated
test suites come with their sources, are installed from PyPI and npm, in the versions that are
pinned here, below the directory that SUITES_DIR names.

With --quick it runs what takes little time and needs no npm: each request of the generated suites once,
validated strictly, and llm-comply on two kinds of backends. It ends with status 3 where the suites
cannot be installed.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BINARY = pathlib.Path(os.environ.get("PATCHBAY_BIN", ROOT / "bin" / "patchbay")).resolve()
TOOLS = pathlib.Path(os.environ.get("SUITES_DIR", ROOT / "bin" / "suites")).resolve()

COMPLY = "0.5.0"
CANARY = "0.2.2"
OPENAI = "3.49.0"
ANTHROPIC = "2.8.0"
# What the generated suites import.
PYTEST = [
    "pytest==9.2.0", "pytest-asyncio==1.4.1.post1", "pytest-xdist==3.8.0", "rich==15.0.0", "inline-snapshot==0.36.1", "dirty-equals==0.11",
    "respx==0.23.1", "time-machine==3.6.0", "http-snapshot==0.1.9", "httpx-aiohttp==0.2.0", "nest-asyncio==1.6.0",
]

QUICK = "--quick" in sys.argv[1:]
CANNOT_INSTALL = 3

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

QUICK_KINDS = ["openai", "anthropic"]

# The names that the generated suites ask for, and the models of the demo that have them as aliases.
ALIASES = {
    "chat": {name: f"{PREFIX}openai" for name in ["gpt-6-astra", "model", "gpt-3.5-turbo-instruct", "omni-moderation-2024-09-26"]}
    | {name: f"{PREFIX}anthropic" for name in ["claude-opus-5-5", "model_id"]},
    "embedding": {"text-embedding-3-small": "demo-embedding"},
    "tts": {"tts-1": "demo-tts"},
    "stt": {"gpt-4o-transcribe": "demo-stt", "whisper-1": "demo-stt"},
    "img-gen": {"gpt-image-1.5": "demo-image", "gpt-image-2.5-flare": "demo-image"},
    "img-edit": {"gpt-image-1.5": "demo-image-edit", "gpt-image-2.5-flare": "demo-image-edit"},
}

# The tests of what the gateway serves, below tests/api_resources.
OPENAI_TESTS = {
    "chat": ["chat/test_completions.py"], "responses": ["test_responses.py", "responses"], "completions": ["test_completions.py"],
    "embeddings": ["test_embeddings.py"], "moderations": ["test_moderations.py"], "models": ["test_models.py"],
    "images": ["test_images.py"], "audio": ["audio/test_speech.py", "audio/test_transcriptions.py", "audio/test_translations.py"],
    "files": ["test_files.py"], "batches": ["test_batches.py"],
}
ANTHROPIC_TESTS = {
    "messages": ["test_messages.py", "beta/test_messages.py"], "batches": ["messages/test_batches.py", "beta/messages/test_batches.py"], "models": ["test_models.py", "beta/test_models.py"],
}

# The forms in which the generated suites send a request again that they have sent once: what differs is
# in the client. The last are no requests.
REPEATED = ["Async", "loose", "raw_response", "streaming_response", "path_params"]

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


def old_claudes(python):
    """Returns the models of which the client of Anthropic warns; a test asks for each of them."""
    command = [python / "python", "-c", "from anthropic.resources.messages import DEPRECATED_MODELS; print(*DEPRECATED_MODELS)"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def configuration(backend, old):
    lines = ["batches: {enabled: true}", "services:"]
    for service, aliases in ALIASES.items():
        if service == "chat":
            aliases = aliases | {name: f"{PREFIX}anthropic" for name in old}
        lines += [f"  {service}:", f"    aliases: {json.dumps(aliases)}", "    instances:"]
        if service == "chat":
            lines += [
                f'      - {{name: {PREFIX}{kind}, upstream-model: {model}, base-url: "{backend}", {rest}}}'
                for kind, (model, rest) in KINDS.items()
            ]
        else:
            lines += [f'      - {{name: {model}, base-url: "{backend}", adapter: openai}}' for model in sorted(set(aliases.values()))]
    return "\n".join(lines) + "\n"


def install():
    """Installs the suites, and returns the folder of the Python that has them."""
    python, pins = TOOLS / "python" / "bin", f"{COMPLY} {OPENAI} {ANTHROPIC} {CANARY if not QUICK else ''} {' '.join(PYTEST)}"
    installed = TOOLS / ("installed-quick" if QUICK else "installed")
    if installed.exists() and installed.read_text() == pins:
        return python
    if not (python / "pip").exists():
        subprocess.run([sys.executable, "-m", "venv", TOOLS / "python"], check=True)
    pip = [python / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "--timeout", "20", "--retries", "2"]
    # Most of what is installed is never imported, so that compiling it takes longer than the tests.
    subprocess.run([*pip, "install", "--no-compile", f"llm-comply=={COMPLY}", "jsonschema", f"openai=={OPENAI}", f"anthropic=={ANTHROPIC}", *PYTEST], check=True, timeout=600)
    for name, version in (("openai", OPENAI), ("anthropic", ANTHROPIC)):
        if not (TOOLS / f"{name}-{version}").exists():
            command = [*pip, "download", "--no-deps", "--no-binary", name, "--dest", TOOLS, f"{name}=={version}"]
            subprocess.run(command, check=True, timeout=300, stdout=subprocess.DEVNULL)
            with tarfile.open(TOOLS / f"{name}-{version}.tar.gz") as sources:
                sources.extractall(TOOLS, filter="data")
    if not QUICK:
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", TOOLS, f"compatcanary@{CANARY}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    installed.write_text(pins)
    return python


def run_generated(python, folder, base, tests):
    """Runs the generated suite of a client, and returns for each part what passed, what ran and what failed."""
    report, resources = TOOLS / "report.xml", "tests/api_resources/"
    version = "/v1" if folder.startswith("openai") else ""
    command = [python / "python", "-m", "pytest", "-p", "sdk_suite", "-p", "no:cacheprovider", "-n", "0", "-q", "--tb=no", "-W", "ignore", f"--junitxml={report}"]
    command += ["-k", " and ".join(f"not {form}" for form in REPEATED)] if QUICK else []
    command += [resources + test for part in tests.values() for test in part]
    variables = os.environ | {"TEST_API_BASE_URL": base + version, "SUITE_BASE": base + "/v1", "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"}
    printed = subprocess.run(command, cwd=TOOLS / folder, env=variables, capture_output=True, text=True, timeout=900)
    if printed.returncode not in (0, 1):
        sys.exit(f"{folder}: the suite did not run\n{(printed.stdout + printed.stderr)[-2000:]}")
    scores = {part: (0, 0, []) for part in tests}
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("skipped") is not None:
            continue
        file = case.get("classname").replace(".", "/").removeprefix(resources)
        part = next(part for part, files in tests.items() if any(file.startswith(name.removesuffix(".py") + "/") for name in files))
        fault = case.find("failure") if case.find("failure") is not None else case.find("error")
        passed, ran, faults = scores[part]
        if fault is not None:
            faults.append(f"{file}.{case.get('name')}: {fault.get('message')[:200]}")
        scores[part] = passed + (fault is None), ran + 1, faults
    return scores


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


def run_batches(python, base, columns):
    """Uses files and batches with the Python clients, and returns passed, run and faults for each client."""
    command = [python / "python", HERE / "batches.py", base, PREFIX + "openai", "text-embedding-3-small"]
    output = subprocess.run(command, capture_output=True, text=True, timeout=900)
    results = [json.loads(line) for line in output.stdout.splitlines()]
    if output.returncode != 0:
        results.append(["OpenAI.start", output.stderr[-500:]])
    scores = {}
    for column in columns:
        of = [(name, fault) for name, fault in results if name.startswith(column + ".")]
        faults = [f"{name}: {fault}" for name, fault in of if fault is not None]
        scores[column] = len(of) - len(faults), len(of), faults
    return scores


def suites_of(python):
    """Returns the suites that run on every kind of backend, by name."""
    comply, canary = python / "llm-comply", TOOLS / "node_modules" / "compatcanary" / "src" / "cli.js"
    suites = {
        f"llm-comply {COMPLY}, Open Responses": lambda base, model: run_comply(comply, base, model, "open-responses"),
        f"llm-comply {COMPLY}, OpenAI chat": lambda base, model: run_comply(comply, base, model, "openai-chat"),
        f"llm-comply {COMPLY}, Anthropic": lambda base, model: run_comply(comply, base, model, "anthropic"),
    }
    if not QUICK:
        suites[f"CompatCanary {CANARY}"] = lambda base, model: run_canary(canary, base, model)
    return suites


class Table:
    """Prints scores as they come, and counts them."""

    def __init__(self, width):
        self.width, self.passed, self.failed = width, 0, 0

    def head(self, columns):
        print(f"{'suite':{self.width}}  " + "  ".join(f"{column:>11}" for column in columns))

    def row(self, name, columns, run):
        cells, faults = [], []
        for column in columns:
            got, of, wrong = run(column)
            cells.append(f"{got}/{of}")
            faults += [f"  {column}: {fault}" for fault in wrong]
            self.passed, self.failed = self.passed + (got == of), self.failed + (got != of)
        print(f"{name:{self.width}}  " + "  ".join(f"{cell:>11}" for cell in cells), flush=True)
        print(*faults, sep="\n", end="\n" if faults else "")


def run_all(python, base):
    suites = suites_of(python)
    table = Table(max(map(len, suites)))
    kinds = QUICK_KINDS if QUICK else list(KINDS)
    table.head(kinds)
    for name, run in suites.items():
        table.row(name, kinds, lambda kind: run(base + "/v1", PREFIX + kind))
    for name, version, tests in (("openai", OPENAI, OPENAI_TESTS), ("anthropic", ANTHROPIC, ANTHROPIC_TESTS)):
        print()
        table.head(tests)
        scores = run_generated(python, f"{name}-{version}", base, tests)
        table.row(f"{name} {version} (Python)", tests, lambda part: scores[part])
    print()
    clients = ["OpenAI", "Anthropic"]
    table.head(clients)
    scores = run_batches(python, base, clients)
    table.row("files and batches (Python)", clients, lambda client: scores[client])
    return table


def main():
    try:
        python = install()
    except (OSError, subprocess.SubprocessError) as failure:
        print(f"the suites could not be installed: {failure}", file=sys.stderr)
        sys.exit(CANNOT_INSTALL)
    with tempfile.TemporaryDirectory(prefix="patchbay-suites-") as folder:
        demo, address = start(["demo", "--traffic=false"], folder)
        try:
            pathlib.Path(folder, "suites.yaml").write_text(configuration(backend_of(address), old_claudes(python)))
            gateway, base = start(["serve", "suites.yaml", "--data-dir", "data"], folder)
            try:
                table = run_all(python, base)
            finally:
                stop(gateway)
        finally:
            stop(demo)
    print(f"{table.passed} passed, {table.failed} failed")
    sys.exit(table.failed > 0)


if __name__ == "__main__":
    main()
