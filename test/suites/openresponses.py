#!/usr/bin/env python3
"""Runs the compliance tests of Open Responses against the gateway, on every kind of backend.

    openresponses.py CHECKOUT

CHECKOUT is a checkout of openresponses/openresponses, or of a fork, in which `npm install bun zod` has
run. The simulated backends call a tool only if they are made to, which the one test of tools does not
do: it runs on a model that does as it is told, all others on every kind.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # what is imported is beside this

from obedient import start_backend
from run import KINDS, PREFIX, Table, backend_of, configuration, start, stop

TOOLS_TEST = "tool-calling"


def run_tests(checkout, base, model, wanted):
    """Runs the tests whose ids are wanted, and returns what passed, what ran and what failed."""
    command = [checkout / "node_modules" / ".bin" / "bun", "run", "bin/compliance-test.ts", "-u", base, "-k", "any", "-m", model, "--json"]
    printed = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=600)
    results = [result for result in json.loads(printed.stdout)["results"] if wanted(result["id"])]
    faults = [f"{result['id']}: {error}" for result in results if result["status"] != "passed" for error in result["errors"][:2]]
    return sum(result["status"] == "passed" for result in results), len(results), faults


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    checkout = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="patchbay-openresponses-") as folder:
        demo, address = start(["demo", "--traffic=false"], folder)
        try:
            instance = f'      - {{name: obedient, base-url: "{start_backend()}", adapter: openai}}\n'
            text = configuration(backend_of(address), []).replace("    instances:\n", "    instances:\n" + instance, 1)
            pathlib.Path(folder, "suites.yaml").write_text(text)
            gateway, base = start(["serve", "suites.yaml", "--data-dir", "data"], folder)
            try:
                table, columns = Table(len("Open Responses")), [*KINDS, "obedient"]
                table.head(columns)
                table.row("Open Responses", columns, lambda kind: (
                    run_tests(checkout, base + "/v1", kind, lambda _: True) if kind == "obedient"
                    else run_tests(checkout, base + "/v1", PREFIX + kind, lambda test: test != TOOLS_TEST)
                ))
            finally:
                stop(gateway)
        finally:
            stop(demo)
    sys.exit(table.failed > 0)


if __name__ == "__main__":
    main()
