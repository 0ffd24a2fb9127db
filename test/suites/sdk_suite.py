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
}

GONE = object()

# What is corrected of the bodies of requests, by their path: the value, or GONE where the member is left out.
CORRECTED = {
    "/chat/completions": {"max_tokens": 16, "max_completion_tokens": 16},
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

# The ids of responses in the suite; each test gets a response of its own in their place.
RESPONSE_ID = re.compile(r"^/responses/(resp_677efb5139a88190b512bc3fef8e535d|response_id)(?=/|$)")


def new_response():
    body = json.dumps({"model": "model", "input": "string"}).encode()
    asked = urllib.request.Request(os.environ["SUITE_BASE"] + "/responses", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as reply:
        return json.load(reply)["id"]


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
    options.url = RESPONSE_ID.sub(lambda _: "/responses/" + new_response(), options.url)
    query = dict(options.params or {})
    if "/input_items" in options.url and query.get("limit") == 0:
        options.params = {**query, "limit": 1, "after": ""}
    body = options.json_data
    if options.method.lower() == "post" and options.url in CORRECTED | ADDED:
        body = dict(body or {})
        for name, value in CORRECTED.get(options.url, {}).items():
            if name in body:
                body[name] = value
        for name, value in ADDED.get(options.url, {}).items():
            body.setdefault(name, value)
        options.json_data = {name: value for name, value in body.items() if value is not GONE}
    return options


def pytest_configure(config):
    try:
        import openai
    except ImportError:
        return
    plain, later = openai.OpenAI._prepare_options, openai.AsyncOpenAI._prepare_options

    async def prepare_later(self, options):
        return await later(self, correct(options))

    openai.OpenAI._prepare_options = lambda self, options: plain(self, correct(options))
    openai.AsyncOpenAI._prepare_options = prepare_later


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    left_out = [item for item in items if any(re.search(pattern, item.nodeid) for pattern in NOT_SERVED)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
