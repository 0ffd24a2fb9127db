#!/usr/bin/env python3
"""Does what people do with batches, with the official Python clients of OpenAI and Anthropic.

Arguments: the address of a gateway with batches, and a model for chats and one for embeddings. Prints
one line of JSON for each test: its name, and what was wrong or null.
"""

import json
import sys
import time

import anthropic
import openai

BASE, CHAT, EMBEDDING = sys.argv[1:]
# A batch of a few lines ends within seconds; the limit only notices one that hangs.
LIMIT = 120


def awaited(look, has_ended):
    """Looks until a batch has ended."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        batch = look()
        if has_ended(batch):
            return batch
        time.sleep(0.1)
    raise AssertionError(f"it did not end within {LIMIT} s: {batch}")


def equal(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


def refused(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError(f"it was not refused with {kind.__name__}")


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def chat(name, model):
    return {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": {"model": model, "messages": [{"role": "user", "content": name}]}}


def embedding(name):
    return {"custom_id": name, "method": "POST", "url": "/v1/embeddings", "body": {"model": EMBEDDING, "input": name}}


class OpenAI:
    def __init__(self):
        self.client = openai.OpenAI(base_url=BASE + "/v1", api_key="any", max_retries=0)

    def submit(self, lines, endpoint):
        content = "\n".join(map(json.dumps, lines)).encode()
        file = self.client.files.create(file=("in.jsonl", content), purpose="batch")
        return file, self.client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h", metadata={"night": "1"})

    def end_of(self, batch):
        return awaited(lambda: self.client.batches.retrieve(batch.id), lambda b: b.status in ("completed", "failed", "expired", "cancelled"))

    def test_files(self):
        """A file is uploaded, found, read and deleted."""
        content = json.dumps(chat("a", CHAT)).encode()
        file = self.client.files.create(file=("in.jsonl", content), purpose="batch")
        equal((file.purpose, file.filename, file.bytes), ("batch", "in.jsonl", len(content)))
        equal(self.client.files.retrieve(file.id).id, file.id)
        equal(file.id in [one.id for one in self.client.files.list(limit=1)], True)
        equal(self.client.files.content(file.id).read(), content)
        equal(self.client.files.delete(file.id).deleted, True)
        refused(openai.NotFoundError, lambda: self.client.files.retrieve(file.id))

    def test_batch(self):
        """A file becomes a batch, and the batch files of answers and errors."""
        _, made = self.submit([chat("a", CHAT), chat("b", "nobody")], "/v1/chat/completions")
        batch = self.end_of(made)
        equal(batch.status, "completed")
        equal((batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed), (2, 1, 1))
        equal(batch.metadata, {"night": "1"})
        answers = lines_of(self.client.files.content(batch.output_file_id).text)
        equal([(one["custom_id"], one["response"]["status_code"]) for one in answers], [("a", 200)])
        equal([one["custom_id"] for one in lines_of(self.client.files.content(batch.error_file_id).text)], ["b"])
        equal(made.id in [one.id for one in self.client.batches.list(limit=1)], True)

    def test_embeddings(self):
        """Lines for embeddings have vectors."""
        _, made = self.submit([embedding("x"), embedding("y")], "/v1/embeddings")
        batch = self.end_of(made)
        answers = lines_of(self.client.files.content(batch.output_file_id).text)
        equal([one["custom_id"] for one in answers if one["response"]["body"]["data"][0]["embedding"]], ["x", "y"])

    def test_bad_file(self):
        """A bad file says which line is at fault."""
        _, made = self.submit([chat("a", CHAT), chat("a", CHAT)], "/v1/chat/completions")
        batch = self.end_of(made)
        equal((batch.status, batch.errors.data[0].code, batch.errors.data[0].line), ("failed", "duplicate_custom_id", 2))

    def test_cancel(self):
        """A batch that is cancelled keeps what was done."""
        _, made = self.submit([chat(f"line {n}", CHAT) for n in range(2000)], "/v1/chat/completions")
        awaited(lambda: self.client.batches.retrieve(made.id), lambda b: b.status == "in_progress")
        equal(self.client.batches.cancel(made.id).status in ("cancelling", "cancelled"), True)
        batch = self.end_of(made)
        equal(batch.status, "cancelled")
        done = lines_of(self.client.files.content(batch.output_file_id).text) if batch.output_file_id else []
        equal(len(done), batch.request_counts.completed)
        refused(openai.NotFoundError, lambda: self.client.batches.retrieve("batch_nobody"))


class Anthropic:
    def __init__(self):
        self.batches = anthropic.Anthropic(base_url=BASE, api_key="any", max_retries=0).messages.batches

    def submit(self, names):
        message = [{"role": "user", "content": "hello"}]
        return self.batches.create(requests=[{"custom_id": name, "params": {"model": CHAT, "max_tokens": 8, "messages": message}} for name in names])

    def end_of(self, batch):
        return awaited(lambda: self.batches.retrieve(batch.id), lambda b: b.processing_status == "ended")

    def test_batch(self):
        """Messages become a batch, whose results are read and which is deleted."""
        made = self.submit(["a", "b"])
        batch = self.end_of(made)
        equal((batch.request_counts.succeeded, batch.request_counts.errored), (2, 0))
        results = list(self.batches.results(batch.id))
        equal([(one.custom_id, one.result.type, one.result.message.role) for one in results], [("a", "succeeded", "assistant"), ("b", "succeeded", "assistant")])
        equal(made.id in [one.id for one in self.batches.list(limit=1)], True)
        equal(self.batches.delete(batch.id).type, "message_batch_deleted")
        refused(anthropic.NotFoundError, lambda: self.batches.retrieve(batch.id))

    def test_cancel(self):
        """A batch that is cancelled has a result for each message."""
        names = [f"line-{n}" for n in range(2000)]
        made = self.submit(names)
        equal(self.batches.cancel(made.id).processing_status in ("canceling", "ended"), True)
        batch = self.end_of(made)
        results = list(self.batches.results(batch.id)) if batch.results_url else []
        equal((len(results), {one.result.type for one in results} <= {"succeeded", "canceled"}), (len(names), True))


def main():
    for kind in (OpenAI, Anthropic):
        tests = kind()
        for name in [name for name in dir(kind) if name.startswith("test_")]:
            try:
                getattr(tests, name)()
                fault = None
            except Exception as failure:  # whatever it is, the other tests run
                fault = f"{type(failure).__name__}: {failure}"
            print(json.dumps([f"{kind.__name__}.{name}", fault]), flush=True)


if __name__ == "__main__":
    main()
