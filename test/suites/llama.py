#!/usr/bin/env python3
"""Runs llama.cpp's own server tests against its server alone and with the gateway in front of it.

    llama.py CHECKOUT

CHECKOUT is a checkout of llama.cpp's repository, of which only tools/server/tests is read;
LLAMA_SERVER names the server's binary, and CHAT_MODEL, EMBEDDING_MODEL and RERANK_MODEL name files of
small models. The gateway must pass every test that the server alone passes with these models. The
packages of the suite (requests, openai, numpy, wget, pytest) are installed below SUITES_DIR.
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.dont_write_bytecode = True  # what is imported is beside this

from run import HERE, OPENAI, PYTEST, TOOLS, start, stop

# The tests of what OpenAI, Anthropic and Jina have, by their files.
TESTS = ["test_chat_completion", "test_compat_anthropic", "test_compat_oai_responses", "test_completion", "test_embedding", "test_rerank"]

# What the gateway does otherwise than llama.cpp's server, with the reasons; docs/conformance.md has them too.
OTHERWISE = {
    r"::test_chat_completion_stream\[": "`model` of an answer is the name that clients of the gateway have for it, not the alias of the server",
    r"::test_context_size_exceeded": "errors have OpenAI's types, here invalid_request_error with the code context_length_exceeded",
    r"::test_anthropic_empty_messages": "Anthropic's reference requires a message; the server takes none",
    r"::test_anthropic_messages_streaming$": "the stream of a chat says at its end how long the prompt was: message_delta has it, message_start cannot",
    r"::test_anthropic_thinking$": "Anthropic's reference: budget_tokens is at least 1024; the test has 50",
    r"::test_anthropic_(tool_result_with_image|vision_format_accepted)": "a picture for a model that cannot see is the client's mistake: 400, where the server has 500",
    r"::test_embedding_mixed_input": "OpenAI's schema has texts, or lists of tokens, not both in one list",
    r"::test_rerank_tei": "the door has Cohere's and Jina's shape, not that of Text Embeddings Inference",
}

# The names of models in the suite.
ALIASES = {
    "chat": ["gpt-3.5-turbo-instruct", "gpt-4.1", "test", "test-model", "codellama70b", "davinci-002", "dummy", "claude-3-test"],
    "embedding": ["text-embedding-3-small"],
    "rerank": [],
}


def configuration(port):
    lines = ["services:"]
    for service, aliases in ALIASES.items():
        lines += [
            f"  {service}:", "    circuit-breaker: {enabled: false}", "    health-check: {enabled: false}",
            f"    aliases: {json.dumps(dict.fromkeys(aliases, service))}",
            "    instances:", f'      - {{name: {service}, base-url: "http://127.0.0.1:{port}", adapter: llamacpp{", responses: true" if service == "chat" else ""}}}',
        ]
    return "\n".join(lines) + "\n"


def install():
    python = TOOLS / "llama" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", TOOLS / "llama"], check=True)
    pytest = next(name for name in PYTEST if name.startswith("pytest=="))
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", pytest, f"openai=={OPENAI}", "requests", "numpy", "wget"]
    subprocess.run(command, check=True, timeout=600)
    return python


def run_tests(python, checkout, port, folder, gateway=""):
    """Runs the suite, and returns the failure of each test, None for a pass, and the tests that reached the gateway."""
    tests, report, names = checkout / "tools" / "server" / "tests", folder / "report.xml", folder / "reached"
    names.write_text("")
    variables = os.environ | {
        "LLAMA_PORT": str(port), "LLAMA_GATEWAY": gateway, "LLAMA_REACHED": str(names), "LLAMA_SERVER_BIN_PATH": os.environ["LLAMA_SERVER"],
        "LLAMA_CHAT_MODEL": os.environ["CHAT_MODEL"], "LLAMA_EMBEDDING_MODEL": os.environ["EMBEDDING_MODEL"], "LLAMA_RERANK_MODEL": os.environ["RERANK_MODEL"],
        "PYTHONPATH": f"{HERE}:{tests}", "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1",
    }
    command = [python, "-m", "pytest", "-p", "llama_suite", "-p", "no:cacheprovider", "-q", "--tb=short", "-W", "ignore", f"--junitxml={report}", "-m", "not slow"]
    printed = subprocess.run([*command, *(f"unit/{name}.py" for name in TESTS)], cwd=tests, env=variables, capture_output=True, text=True, timeout=1800)
    if printed.returncode not in (0, 1):
        sys.exit(f"the suite did not run\n{(printed.stdout + printed.stderr)[-3000:]}")
    results = {}
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("skipped") is None:
            fault = case.find("failure") if case.find("failure") is not None else case.find("error")
            results[f"{case.get('classname').removeprefix('unit.')}::{case.get('name')}"] = None if fault is None else fault.get("message")[:300]
    through = {json.loads(line).removeprefix("unit/").replace(".py", "") for line in names.read_text().splitlines()}
    return results, through


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    checkout, python = pathlib.Path(sys.argv[1]).resolve(), install()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="patchbay-llama-") as name:
        folder = pathlib.Path(name)
        alone, _ = run_tests(python, checkout, port, folder)
        (folder / "suites.yaml").write_text(configuration(port))
        gateway, address = start(["serve", "suites.yaml", "--data-dir", "data"], folder)
        try:
            behind, through = run_tests(python, checkout, port, folder, address)
        finally:
            stop(gateway)
    passed = {test for test in through if alone.get(test, "") is None}
    lost = {test: behind[test] for test in sorted(passed) if behind[test] is not None}
    excused = {test for test in lost if any(re.search(pattern, test) for pattern in OTHERWISE)}
    print(f"{len(alone)} tests; {len(through)} of them use a door of the gateway, and {len(passed)} of these pass with llama.cpp's server alone and these models")
    print(f"through the gateway {len(passed) - len(lost)} of {len(passed)} pass, {len(excused)} are answered otherwise on purpose")
    for test, fault in lost.items():
        reason = next((reason for pattern, reason in OTHERWISE.items() if re.search(pattern, test)), None)
        print(f"  {test}: {reason or fault}")
    sys.exit(len(lost) > len(excused))


if __name__ == "__main__":
    main()
