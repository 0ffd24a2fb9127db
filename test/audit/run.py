#!/usr/bin/env python3
"""Lets verify.py, which was written from docs/audit.md, verify the audit of a gateway, and compares it with
patchbay audit verify on records that were changed, removed or moved. It installs cryptography where it is not
there; exit 3 says that it could not."""
import base64
import datetime
import hashlib
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).parent
BINARY = os.environ["PATCHBAY_BIN"]
TOOLS = pathlib.Path(os.environ.get("AUDIT_DIR", HERE.parent.parent / "bin" / "audit"))
CRYPTOGRAPHY = "48.0.0"
TOKEN = "an-administrator-of-the-audit-test"


def python():
    """Returns a Python that has cryptography."""
    if subprocess.run([sys.executable, "-c", "import cryptography"], capture_output=True).returncode == 0:
        return sys.executable
    own = TOOLS / "python" / "bin" / "python"
    try:
        if not own.exists():
            subprocess.run([sys.executable, "-m", "venv", TOOLS / "python"], check=True)
        if subprocess.run([own, "-c", "import cryptography"], capture_output=True).returncode:
            pip = [own, "-m", "pip", "--quiet", "--disable-pip-version-check", "--timeout", "20", "--retries", "2"]
            subprocess.run([*pip, "install", f"cryptography=={CRYPTOGRAPHY}"], check=True, timeout=300)
    except (subprocess.SubprocessError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(3)
    return own


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Gateway:
    def __init__(self, folder):
        self.folder, port = folder, free_port()
        self.url = f"http://127.0.0.1:{port}"
        config = folder / "patchbay.yaml"
        config.write_text(
            f"server: {{listen: '127.0.0.1:{port}', data-dir: '{folder / 'data'}'}}\n"
            "security: {enabled: true, tokens: [{name: root, role: ADMIN, token-sha256: "
            f"{hashlib.sha256(TOKEN.encode()).hexdigest()}}}]}}\n")
        self.process = subprocess.Popen([BINARY, "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(self.url + "/actuator/health").close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def ask(self, method, path, body=None, token=TOKEN):
        request = urllib.request.Request(self.url + path, method=method, data=body and json.dumps(body).encode(),
                                         headers={"Authorization": "Bearer " + token})
        try:
            with urllib.request.urlopen(request) as reply:
                return reply.read()
        except urllib.error.HTTPError as error:
            return error.read()

    def stop(self):
        self.process.terminate()
        self.process.wait()


def rehashed(record):
    from importlib.util import module_from_spec, spec_from_file_location
    spec = spec_from_file_location("verify", HERE / "verify.py")
    verify = module_from_spec(spec)
    spec.loader.exec_module(verify)
    record["hash"] = hashlib.sha256(verify.canonical(verify.without(record, "hash"))).hexdigest()
    return record


def tampered(lines, chance):
    """Returns lines with one thing done to them, and what it was."""
    lines, at = list(lines), chance.randrange(len(lines) - 1)
    what = chance.choice(["change", "rehash", "remove", "swap", "cut", "none"])
    if what in ("change", "rehash"):
        record = json.loads(lines[at])
        record[chance.choice(["who", "result", "time", "object", "address"])] = "höher\u2028"
        lines[at] = json.dumps(rehashed(record) if what == "rehash" else record)
    elif what == "remove":
        del lines[at]
    elif what == "swap":
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    elif what == "cut":
        lines = lines[:at + 1]
    return lines, f"{what} at {at + 1}"


def compare_explanations(folder, runner):
    """Restores, and compares the verifiers on both chains of the gateway and on forged explanations."""
    restored = folder / "data" / "audit" / "restored.json"
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    restored.write_text(json.dumps({"time": now, "made": "then"}))
    gateway = Gateway(folder)
    try:
        gateway.ask("POST", "/api/auth/keys", {"id": "after"})
        lines = gateway.ask("GET", "/api/audit?format=jsonl").decode().splitlines()
    finally:
        gateway.stop()
    records = [json.loads(line) for line in lines]
    begins = [i for i, r in enumerate(records) if r["action"] == "audit.begin"]
    assert len(begins) == 2 and {r["gateway"].endswith("/low") for r in records} == {True, False}, lines
    for member, value in [(None, None), ("signature", ""), ("cause", "x"), ("keep", 1), ("until", "2999-01-01T00:00:00.000000Z")]:
        changed = [dict(r) for r in records]
        if member:
            changed[begins[0]][member] = value
            rehashed(changed[begins[0]])
        (folder / "audit.jsonl").write_text("".join(json.dumps(r) + "\n" for r in changed))
        foreign = subprocess.run([runner, HERE / "verify.py", folder / "audit.jsonl", "--keys", folder / "keys.json"],
                                 capture_output=True, text=True)
        own = subprocess.run([BINARY, "audit", "verify", folder / "audit.jsonl", "--key", folder / "keys.json"],
                             capture_output=True, text=True)
        if foreign.returncode != own.returncode or own.returncode != (1 if member else 0):
            sys.exit(f"another {member}: verify.py says {foreign.stdout}{foreign.stderr}, patchbay {own.stdout}{own.stderr}")


def main():
    runner = python()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        gateway = Gateway(folder)
        try:
            for i in range(12):
                gateway.ask("POST", "/api/auth/keys", {"id": f"key-{i}", "tenant": 'ü"\\<&>'})
            gateway.ask("DELETE", "/api/auth/keys/key-1")
            gateway.ask("POST", "/api/audit/rotate-key")
            gateway.ask("DELETE", "/api/auth/keys/key-2")
            (folder / "keys.json").write_bytes(gateway.ask("GET", "/api/audit/keys"))
            lines = gateway.ask("GET", "/api/audit?format=jsonl").decode().splitlines()
            for _ in range(3):
                gateway.ask("GET", "/api/auth/keys", token="wrong")
        finally:
            gateway.stop()
        kept = folder / "data" / "audit" / "heads.log"
        heads = folder / "heads.jsonl"  # of the first chain
        heads.write_text("".join(h + "\n" for h in kept.read_text().splitlines() if not json.loads(h)["gateway"].endswith("/low")))
        last = json.loads(lines[-1])["hash"]
        assert len(lines) == 15, lines
        chance = random.Random(46)
        counts = {}
        for _ in range(60):
            content, what = tampered(lines, chance)
            (folder / "audit.jsonl").write_text("".join(line + "\n" for line in content))
            foreign = subprocess.run([runner, HERE / "verify.py", folder / "audit.jsonl", "--heads", heads, "--keys",
                                      folder / "keys.json", "--head", last], capture_output=True, text=True)
            own = subprocess.run([BINARY, "audit", "verify", folder / "audit.jsonl", "--head", last],
                                 capture_output=True, text=True)
            seqs = [(r.stdout + r.stderr).removeprefix("patchbay: ").split(" does not hold")[0] for r in (foreign, own)]
            isGood = what.startswith("none")
            if foreign.returncode != own.returncode or own.returncode != (0 if isGood else 1) or not isGood and seqs[0] != seqs[1]:
                sys.exit(f"{what}: verify.py says {foreign.returncode} {foreign.stdout}{foreign.stderr}, "
                         f"patchbay {own.returncode} {own.stdout}{own.stderr}")
            counts[what.split()[0]] = counts.get(what.split()[0], 0) + 1
        compare_explanations(folder, runner)
        # A head with a signature of another one is found by both.
        (folder / "audit.jsonl").write_text("".join(line + "\n" for line in lines))
        signed = [json.loads(line) for line in kept.read_text().splitlines()]
        signed[0]["signature"] = base64.b64encode(bytes(64)).decode()
        heads = kept
        heads.write_text("".join(json.dumps(head) + "\n" for head in signed))
        foreign = subprocess.run([runner, HERE / "verify.py", folder / "audit.jsonl", "--heads", heads, "--keys",
                                  folder / "keys.json"], capture_output=True, text=True)
        own = subprocess.run([BINARY, "audit", "verify", "--data-dir", folder / "data"], capture_output=True, text=True)
        if foreign.returncode != 1 or own.returncode != 1:
            sys.exit(f"a forged head: {foreign.stderr}, {own.stderr}")
    print("the verifier in Python and the gateway's agree:", ", ".join(f"{n} {w}" for w, n in sorted(counts.items())))


if __name__ == "__main__":
    main()
