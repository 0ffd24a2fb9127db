#!/usr/bin/env python3
"""Verifies an audit of Patchbay by the rules of docs/audit.md, and shares no code with the gateway.

usage: verify.py RECORDS.jsonl [--heads FILE] [--keys FILE] [--head HASH]

The files of heads and keys are replies of GET /api/audit/heads and GET /api/audit/keys, or files of the
data directory. It exits with 0, or with 1 and the seq of the first record that does not hold.
"""
import argparse
import base64
import datetime
import hashlib
import json
import re
import sys


class Fault(Exception):
    """A record that does not hold."""


def quoted(text):
    """Writes a text as RFC 8785 does."""
    short = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
    return '"' + "".join(short.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text) + '"'


def canonical(members):
    """Writes an object of texts and whole numbers as RFC 8785 does."""
    def written(value):
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise Fault("has a member that is neither a text nor a whole number")
        return quoted(value) if isinstance(value, str) else str(value)
    names = sorted(members, key=lambda name: name.encode("utf-16-be"))
    return ("{" + ",".join(f"{quoted(name)}:{written(members[name])}" for name in names) + "}").encode()


def without(members, name):
    return {key: value for key, value in members.items() if key != name}


def is_own(record):
    try:
        return record["hash"] == hashlib.sha256(canonical(without(record, "hash"))).hexdigest()
    except (Fault, KeyError, UnicodeEncodeError):
        return False


def fail(seq, why):
    raise Fault(f"seq {seq} does not hold: {why}")


def read_lines(path):
    records = []
    with open(path, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            records.append(record if isinstance(record, dict) else {})
    return records


def read_list(path):
    """Reads a reply of the API, a list, or JSON lines."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        value = json.loads(text)
    except ValueError:
        value = [json.loads(line) for line in text.splitlines() if line.strip()]
    if isinstance(value, dict):
        value = value.get("data", [value])
    return value


def chains_of(records):
    """Cuts the records of a file into chains: those of a gateway follow each other."""
    chains, current = [], {}
    for record in records:
        gateway = record.get("gateway")
        chain = current.get(gateway)
        if chain is None and not is_own(record) and chains:
            chain = chains[-1]  # its gateway may have been changed
        begins = record.get("seq") == 1 and record.get("action") == "audit.begin" and record.get("who") == "gateway"
        if chain is None or begins:
            before = begins and re.search(r"; chain (\d+) before it ended at seq (\d+), hash (\S+)", record["object"])
            before = before and (int(before[1]), int(before[2]), before[3])
            if before and chain:
                chain["number"] = before[0]
            number = chain["number"] + 1 if chain else before[0] + 1 if before else 1
            chain = current[gateway] = {"gateway": gateway, "number": number, "records": [], "before": before}
            chains.append(chain)
        chain["records"].append(record)
    return chains


def is_signed(value, gateway, keys):
    """Reports whether a key of the gateway signed an object, without its signature."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    for key in keys:
        if key["gateway"] != gateway.removesuffix("/low"):
            continue
        try:
            public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key["publicKey"]))
            public.verify(base64.b64decode(value.get("signature", "")), canonical(without(value, "signature")))
            return True
        except (InvalidSignature, ValueError):
            pass
    return False


def is_explanation(record):
    return record.get("who") == "gateway" and record.get("action") in ("audit.begin", "audit.expire")


def time_of(text):
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")


def explains(record, keys):
    """Reports whether a record that explains why others are missing is accepted."""
    if not is_signed(without(record, "hash"), record["gateway"], keys):
        return False
    try:
        until, least = time_of(record["until"]), time_of(record["time"])
        if record["cause"] == "age":
            least -= datetime.timedelta(seconds=record["keep"])
        return record["cause"] in ("age", "bytes") and record["keep"] > 0 and until <= least
    except (KeyError, TypeError, ValueError):
        return False


def removed_in(chains, keys):
    """Returns up to which record each chain was removed."""
    gone = {}
    for chain in chains:
        for record in chain["records"]:
            if is_own(record) and is_explanation(record) and record["action"] == "audit.expire" and explains(record, keys):
                found = re.match(r"gateway (\S+), chain (\d+), seq 1 to (\d+), hash ", record["object"])
                if found:
                    name = (found[1], int(found[2]))
                    gone[name] = max(gone.get(name, 0), int(found[3]))
    return gone


def check_chain(chain, gone, keys):
    records = chain["records"]
    first = records[0].get("seq")
    if not isinstance(first, int) or first < 1:
        first = 1
    if first > gone + 1:
        fail(gone + 1, "it is missing")
    before = None
    for i, record in enumerate(records):
        seq = first + i
        if not is_own(record):
            fail(seq, "its hash is not that of its content")
        if record["seq"] != seq:
            fail(seq, f"seq {record['seq']} is in its place")
        if is_explanation(record) and not explains(record, keys):
            fail(seq, "it explains why records are missing, and has no signature or reason that counts")
        if before is None and seq == 1 and record["previous"] != "":
            fail(1, "it is the first record and names one before it")
        if before is not None and record["previous"] != before["hash"]:
            if i + 1 == len(records) or records[i + 1].get("previous") == record["hash"]:
                fail(seq - 1, "the next record names another hash")
            fail(seq, "it does not name the hash of the record before")
        before = record


def check_ends(chains, gone):
    """Checks that each chain ends as the first record of the next one has it."""
    for chain in chains:
        if not chain["before"]:
            continue
        number, seq, digest = chain["before"]
        found = [c for c in chains if (c["gateway"], c["number"]) == (chain["gateway"], number)]
        if not found:
            if seq > gone.get((chain["gateway"], number), 0):
                fail(gone.get((chain["gateway"], number), 0) + 1, f"the whole chain {number} is missing")
            continue
        last = found[0]["records"][-1]
        if any(r["seq"] == seq and r["hash"] != digest for r in found[0]["records"]):
            fail(seq, "it is not the one that the gateway wrote")
        if last["seq"] > seq:
            fail(seq + 1, "the gateway did not write it")
        if last["seq"] < seq:
            fail(last["seq"] + 1, "it is missing")


def check_heads(chains, heads, keys):
    for head in sorted(heads, key=lambda head: head["seq"]):
        if not is_signed(head, head["gateway"], keys):
            fail(head["seq"], "no known key signed its head")
        own = [chain["records"] for chain in chains if chain["gateway"] == head["gateway"]]
        if any(r["seq"] == head["seq"] and r["hash"] == head["hash"] for records in own for r in records):
            continue
        of_its_time = [records for records in own if records[0]["time"] <= head["time"]]
        if own and not of_its_time and own[0][0]["seq"] == 1 and "; chain " not in own[0][0]["object"]:
            fail(1, "nothing says that records were before it")
        if own and not of_its_time or of_its_time and head["seq"] < of_its_time[-1][0]["seq"]:
            continue  # it left because of its age
        last = of_its_time[-1][-1]["seq"] if own else 0
        fail(min(last + 1, head["seq"]), "it is not the record that the gateway signed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("records")
    parser.add_argument("--heads")
    parser.add_argument("--keys")
    parser.add_argument("--head")
    given = parser.parse_args()
    try:
        chains = chains_of(read_lines(given.records))
        keys = read_list(given.keys) if given.keys else []
        gone = removed_in(chains, keys)
        for chain in chains:
            check_chain(chain, gone.get((chain["gateway"], chain["number"]), 0), keys)
        check_ends(chains, gone)
        if given.heads:
            check_heads(chains, read_list(given.heads), keys)
        hashes = {record["hash"] for chain in chains for record in chain["records"]}
        if given.head and given.head not in hashes:
            fail(chains[-1]["records"][-1]["seq"] + 1 if chains else 1, "no record has the hash of the head")
    except Fault as fault:
        sys.exit(str(fault))
    print(f"{sum(len(chain['records']) for chain in chains)} records of {len(chains)} chains hold")


if __name__ == "__main__":
    main()
