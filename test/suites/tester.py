#!/usr/bin/env python3
"""Runs openai-compatible-tester in its strict mode against the gateway, on a model that does as it is told.

    tester.py CHECKOUT

CHECKOUT is a checkout of avelrl/openai-compatible-tester, which is in no registry; it is built with Go
and run with its own tests, those of WebSockets and compaction included.
"""

import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # what is imported is beside this

from obedient import start_backend
from run import start, stop

# What the gateway does not serve, with the reasons; docs/conformance.md has them too.
NOT_SERVED = {"responses.conversations": "conversations are not kept"}

CAPABILITIES = ["responses.assistant_phase", "responses.compaction", "responses.websocket"]
EXTENDED = [
    "assistant_phase", "compact", "compact.missing_model", "websocket.basic", "websocket.sequential", "websocket.continuation",
    "websocket.previous_response_not_found", "websocket.reconnect_store_false_recovery", "websocket.failed_continuation_evicts_cache",
    "websocket.compact_new_chain",
]


def run_tester(binary, checkout, folder, address, suite, *arguments):
    command = [
        binary, "--no-tui", "--base-url", address, "--models", folder / "models.yaml", "--capabilities", folder / "capabilities.yaml",
        "--endpoints", checkout / "configs" / "endpoints.yaml", "--clients", checkout / "configs" / "clients.yaml",
        "--suite", checkout / "configs" / suite, "--mode", "strict", "--out-dir", folder / suite, *arguments,
    ]
    printed = subprocess.run(command, cwd=folder, env=os.environ | {"OPENAI_API_KEY": "any"}, capture_output=True, text=True, timeout=600)
    reports = list(folder.glob(f"{suite}*/raw.csv"))
    if not reports:
        sys.exit(f"the suite did not run\n{printed.stdout}{printed.stderr}")
    with reports[0].open() as rows:
        return list(csv.DictReader(rows))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    checkout = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="patchbay-tester-") as name:
        folder = pathlib.Path(name)
        subprocess.run(["go", "build", "-o", folder / "tester", "."], cwd=checkout, check=True, env=os.environ | {"GOFLAGS": "-mod=mod"})
        (folder / "models.yaml").write_text('profiles: [{name: "default", chat_model: obedient, responses_model: obedient}]\n')
        (folder / "capabilities.yaml").write_text(json.dumps({"capabilities": {name: {"status": "supported"} for name in CAPABILITIES}}))
        instance = f'{{name: obedient, base-url: "{start_backend()}", adapter: openai}}'
        (folder / "suites.yaml").write_text(f"services: {{chat: {{instances: [{instance}]}}}}\n")
        gateway, address = start(["serve", "suites.yaml", "--data-dir", "data"], folder)
        try:
            rows = run_tester(folder / "tester", checkout, folder, address, "suite.yaml")
            tests = ",".join("responses." + test for test in EXTENDED)
            rows += run_tester(folder / "tester", checkout, folder, address, "suite_responses_extended.yaml", "--tests", tests)
        finally:
            stop(gateway)
    served = [row for row in rows if row["test_id"] not in NOT_SERVED]
    failed = [row for row in served if row["status"] != "pass"]
    print(f"openai-compatible-tester, strict: {len(served) - len(failed)} of {len(served)} pass; {len(rows) - len(served)} not served")
    for row in failed:
        print(f"  {row['test_id']}: {row['status']} {row['error_type']} {row['error_message']}")
    sys.exit(len(failed) > 0)


if __name__ == "__main__":
    main()
