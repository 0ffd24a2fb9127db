"""A plugin of pytest for llama.cpp's own server tests (tools/server/tests of its repository).

The tests start llama.cpp's server themselves. This plugin gives each server a model of this
machine in place of one of a hub, and, if LLAMA_GATEWAY is the address of a gateway in front of
LLAMA_PORT, sends the gateway what it has a door for. What models say is not compared, because the
suite expects the words of the models that it downloads. Which tests sent the gateway something is
written to LLAMA_REACHED.
"""

import copy
import json
import os
import pathlib
import urllib.parse

import pytest
import requests
import utils  # of the suite

try:
    import httpx
except ImportError:
    httpx = None

PORT = int(os.environ["LLAMA_PORT"])
GATEWAY = urllib.parse.urlsplit(os.environ.get("LLAMA_GATEWAY", ""))
MODELS = {kind: os.environ[f"LLAMA_{kind}_MODEL"] for kind in ("CHAT", "EMBEDDING", "RERANK")}

# The paths of llama.cpp's server for which the gateway has doors, and the model to name if the request names none.
DOORS = {
    "/chat/completions": "chat", "/completions": "chat", "/responses": "chat", "/messages": "chat", "/messages/count_tokens": "chat",
    "/embeddings": "embedding", "/rerank": "rerank",
}

reached = 0


def with_local_model(preset):
    def make():
        server = preset()
        kind = "EMBEDDING" if server.server_embeddings else "RERANK" if server.server_reranking else "CHAT"
        server.model_hf_repo = server.model_hf_file = None
        server.model_file, server.n_threads = MODELS[kind], 1
        return server

    return staticmethod(make)


def routed(server, path, data):
    """Returns a server with the port to which a request goes, its path, and its body."""
    door = path.removeprefix("/v1")
    target = copy.copy(server)
    if not GATEWAY.port or door not in DOORS:
        target.server_port = PORT
        return target, path, data
    target.server_port = GATEWAY.port
    if isinstance(data, dict) and not data.get("model"):
        data = {**data, "model": DOORS[door]}
    return target, "/v1" + door, data


def patch():
    for name, preset in list(vars(utils.ServerPreset).items()):
        if isinstance(preset, staticmethod) and name != "load_all":
            setattr(utils.ServerPreset, name, with_local_model(preset.__func__))
    utils.ServerPreset.load_all = staticmethod(lambda: None)
    utils.match_regex = lambda *_: True
    start, request, stream = utils.ServerProcess.start, utils.ServerProcess.make_request, utils.ServerProcess.make_stream_request

    def start_here(self, *arguments, **named):
        self.server_port = PORT
        start(self, *arguments, **named)
        if GATEWAY.port:
            self.server_port = GATEWAY.port  # for clients that ask for it

    def make_request(self, method, path, data=None, *arguments, **named):
        target, path, data = routed(self, path, data)
        return request(target, method, path, data, *arguments, **named)

    def make_stream_request(self, method, path, data=None, *arguments, **named):
        target, path, data = routed(self, path, data)
        return stream(target, method, path, data, *arguments, **named)

    utils.ServerProcess.start, utils.ServerProcess.make_request, utils.ServerProcess.make_stream_request = start_here, make_request, make_stream_request


def count(client):
    send = client.send

    def counted(self, sent, *arguments, **named):
        global reached
        reached += GATEWAY.port is not None and urllib.parse.urlsplit(str(sent.url)).port == GATEWAY.port
        return send(self, sent, *arguments, **named)

    client.send = counted


def pytest_configure(config):
    patch()
    count(requests.Session)
    if httpx:
        count(httpx.Client)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    before = reached
    try:
        return (yield)
    finally:
        if reached > before and "LLAMA_REACHED" in os.environ:
            with pathlib.Path(os.environ["LLAMA_REACHED"]).open("a") as names:
                names.write(json.dumps(item.nodeid) + "\n")
