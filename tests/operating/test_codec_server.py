"""The codec server: Temporal's protocol, for the pages of one UI."""

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse

import pytest
from google.protobuf.json_format import MessageToJson, Parse
from temporalio.api.common.v1 import Payload, Payloads

from cli.codec_server import make_server, serve
from cli.errors import CommandError
from contract.address import Address
from contract.payload_codec import close
from contract.payload_keys import FOLDER_SETTING, Keyring

UI = "http://localhost:8233"
KEYS = Keyring({"2026-12": b"\x02" * 32}, "2026-12")
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"what is kept"')


@pytest.fixture
def port() -> Iterator[int]:
    with make_server(Address("127.0.0.1", 0), UI, KEYS) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask(port: int, path: str, body: str | bytes = "", method: str = "POST", **headers: str) -> tuple[HTTPResponse, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


def document(*payloads: Payload) -> str:
    return MessageToJson(Payloads(payloads=payloads))


def test_page_of_the_ui_gets_what_was_closed_and_what_was_not(port: int) -> None:
    answer, text = ask(port, "/decode", document(close(PLAIN, KEYS), PLAIN), Origin=UI)
    assert answer.status == 200
    assert list(Parse(text, Payloads()).payloads) == [PLAIN, PLAIN]
    assert answer.getheader("Access-Control-Allow-Origin") == UI


def test_browser_may_ask_first(port: int) -> None:
    answer, _ = ask(port, "/decode", method="OPTIONS", Origin=UI)
    assert answer.status == 204
    assert "X-Namespace" in (answer.getheader("Access-Control-Allow-Headers") or "")


@pytest.mark.parametrize("method", ["POST", "OPTIONS"])
def test_page_of_another_place_gets_nothing(port: int, method: str) -> None:
    answer, text = ask(port, "/decode", document(close(PLAIN, KEYS)), method, Origin="http://evil.example")
    assert answer.status == 403
    assert "payloads" not in text


def test_what_was_encoded_here_opens_here(port: int) -> None:
    _, closed = ask(port, "/encode", document(PLAIN))
    assert "what is kept" not in closed
    assert list(Parse(ask(port, "/decode", closed)[1], Payloads()).payloads) == [PLAIN]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/decode", "no json", 400),
        ("/decode", b"\xff\xfe", 400),
        ("/decode", json.dumps({"payloads": [{"metadata": {"encoding": "YmluYXJ5L2VuY3J5cHRlZA=="}}]}), 422),
        ("/", "{}", 404),
    ],
)
def test_what_it_cannot_do_it_says(port: int, path: str, body: str | bytes, status: int) -> None:
    assert ask(port, path, body)[0].status == status


def test_payload_of_another_key_is_named(port: int) -> None:
    other = Keyring({"2025-01": b"\x03" * 32}, "2025-01")
    answer, text = ask(port, "/decode", document(close(PLAIN, other)))
    assert answer.status == 422
    assert "'2025-01'" in text


def test_without_keys_it_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_SETTING, raising=False)
    with pytest.raises(CommandError, match="nothing to open"):
        serve("127.0.0.1:0", UI)
