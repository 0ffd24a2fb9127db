"""A plugin of pytest for the generated test suites of openai-python and anthropic-sdk-python.

The suites were made for a mock that answers anything that the schema allows. This plugin leaves
out what the gateway does not serve, and corrects the few values that no server takes together:
everything else of such a request is tested as the suite has it. Both tables are printed in
docs/conformance.md, with the reasons. SUITE_BASE is the address of the gateway with /v1.
"""

import base64
import json
import os
import re
import time
import urllib.request

import pytest

# What is not served, by the name of the test.
NOT_SERVED = {
    r"test_models.py.*_delete": "models belong to the operator: DELETE is 405, and they are removed by the management API",
    r"test_images.py.*_create_variation": "there is no door for variations, an endpoint of dall-e-2 only, which is gone",
    r"test_responses.py.*_cancel": "only responses made with `background: true` can be cancelled, which the gateway refuses",
    r"test_responses.py.*_retrieve.*overload_2": "only responses made with `background: true` can be streamed again, which the gateway refuses",
    r"chat/test_completions.py.*_(retrieve|update|list|delete)": "chat completions are not kept; responses are",
    r"test_embeddings.py.*(method|raw_response|streaming_response)_create(?!_with_all_params)":
        "the client asks for base64 and validates the answer as numbers before it decodes it: no server that does as it is told passes",
    r"test_files.py.*(content|_retrieve_content)": "the suite answers these itself, so that no server is asked",
    r"messages/test_batches.py.*(method|raw_response|streaming_response)_results": "the suite answers these itself, so that no server is asked",
}

GONE = object()

# What is corrected of the bodies of requests, by their path: the value, or GONE where the member is left out.
CORRECTED = {
    "/chat/completions": {"max_tokens": 16, "max_completion_tokens": 16},
    "/files": {"purpose": "batch"},
    "/responses": {"max_tool_calls": 1, "background": GONE, "conversation": GONE, "previous_response_id": GONE, "prompt": GONE, "moderation": GONE},
    "/responses/compact": {"previous_response_id": GONE},
    "/responses/input_tokens": {"conversation": GONE, "previous_response_id": GONE},
}

# What is added where a request has none.
ADDED = {
    "/responses": {"model": "model", "input": "string"},
    "/responses/compact": {"model": "model", "input": "string"},
    "/responses/input_tokens": {"model": "model", "input": "string"},
    "/moderations": {"model": "omni-moderation-2024-09-26"},
    "/images/generations": {"model": "gpt-image-1.5"},
    "/images/edits": {"model": "gpt-image-1.5"},
}



def ask(path, body=None, kind="application/json"):
    """Sends the gateway a request, and returns what it answers."""
    asked = urllib.request.Request(os.environ["SUITE_BASE"] + path, body, {"Content-Type": kind})
    with urllib.request.urlopen(asked, timeout=60) as reply:
        return json.load(reply)


def new_response():
    return ask("/responses", json.dumps({"model": "model", "input": "string"}).encode())["id"]


def new_file(lines=1):
    """Uploads a file of a batch, and returns its id."""
    line = {"method": "POST", "url": "/v1/responses", "body": {"model": "model", "input": "string"}}
    text = "\n".join(json.dumps({"custom_id": str(n)} | line) for n in range(lines))
    fields = [("purpose", "", "batch"), ("file", '; filename="lines.jsonl"', text)]
    form = "".join(f'--line\r\nContent-Disposition: form-data; name="{name}"{rest}\r\n\r\n{value}\r\n' for name, rest, value in fields) + "--line--\r\n"
    return ask("/files", form.encode(), "multipart/form-data; boundary=line")["id"]


# So many lines have not all run when the next request cancels their batch.
LONG = 200


def new_batch(lines=1):
    body = {"input_file_id": new_file(lines), "endpoint": "/v1/responses", "completion_window": "24h"}
    return ask("/batches", json.dumps(body).encode())["id"]


def new_message_batch(is_ended, lines=1):
    params = {"model": "model_id", "max_tokens": 16, "messages": [{"role": "user", "content": "string"}]}
    name = ask("/messages/batches", json.dumps({"requests": [{"custom_id": str(n), "params": params} for n in range(lines)]}).encode())["id"]
    while is_ended and ask("/messages/batches/" + name)["processing_status"] != "ended":
        time.sleep(0.02)
    return name


# The ids in the suites; each test gets an object of its own in their place.
IDS = {
    re.compile(r"^/responses/(resp_677efb5139a88190b512bc3fef8e535d|response_id)(?=/|$)"): lambda _: "/responses/" + new_response(),
    re.compile(r"^/files/file_id$"): lambda _: "/files/" + new_file(),
    re.compile(r"^/batches/batch_id$"): lambda _: "/batches/" + new_batch(),
    re.compile(r"^/batches/batch_id(?=/cancel$)"): lambda _: "/batches/" + new_batch(LONG),
}
MESSAGE_BATCH = re.compile(r"^/v1/messages/batches/message_batch_id(?!/results)(?=[/?]|$)")


# The suite uploads the text "Example data" as a picture; this is one, of 8 by 8 pixels.
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAYAAADED76LAAAAEklEQVR42mP4z8DwHx9mGBkKAMLXf4HVAzL9AAAAAElFTkSuQmCC"
)


def pictured(files):
    """Returns the files of a form with a picture in place of the text."""
    pairs = files.items() if isinstance(files, dict) else files
    return [(name, PICTURE if isinstance(file, bytes) else ("picture.png", PICTURE, "image/png")) for name, file in pairs]


def correct(options):
    if options.url == "/images/edits" and options.files:
        options.files = pictured(options.files)
    for pattern, own in IDS.items():
        options.url = pattern.sub(own, options.url)
    query = dict(options.params or {})
    if query.get("limit") == 0:
        options.params = {**query, "limit": 1, "after": ""}
    body = options.json_data
    if options.method.lower() == "post" and options.url == "/batches":
        options.json_data = {**body, "input_file_id": new_file()}
    if options.method.lower() == "post" and options.url in CORRECTED | ADDED:
        body = dict(body or {})
        for name, value in CORRECTED.get(options.url, {}).items():
            if name in body:
                body[name] = value
        for name, value in ADDED.get(options.url, {}).items():
            body.setdefault(name, value)
        options.json_data = {name: value for name, value in body.items() if value is not GONE}
    return options


def correct_messages(options):
    """Corrects a request of the suite of Anthropic."""
    is_deleted, lines = options.method.lower() == "delete", LONG if "/cancel" in options.url else 1
    options.url = MESSAGE_BATCH.sub(lambda _: "/v1/messages/batches/" + new_message_batch(is_deleted, lines), options.url)
    query = dict(options.params or {})
    if options.url.startswith("/v1/messages/batches") and "after_id" in query:
        options.params = {name: value for name, value in query.items() if name not in ("after_id", "before_id")}
    return options


def wrap(client, later_client, corrected):
    plain, later = client._prepare_options, later_client._prepare_options

    async def prepare_later(self, options):
        return await later(self, corrected(options))

    client._prepare_options = lambda self, options: plain(self, corrected(options))
    later_client._prepare_options = prepare_later


def pytest_configure(config):
    import anthropic
    import openai

    wrap(openai.OpenAI, openai.AsyncOpenAI, correct)
    wrap(anthropic.Anthropic, anthropic.AsyncAnthropic, correct_messages)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    left_out = [item for item in items if any(re.search(pattern, item.nodeid) for pattern in NOT_SERVED)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
