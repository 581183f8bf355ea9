"""A Temporal that is reached by TLS, with a certificate of one's own or an API key: by each of our programs."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from temporalio.client import WorkflowExecutionStatus

from contract.first_call import first_call
from contract.names import ExitCode, incident_id
from deploy.local.temporal import Temporal, running_temporal
from detector.temporal_side import TemporalSide
from detector.trouble import Trouble
from tests.operating.command import nodemend
from tests.operating.secure_front import Authority, Signed, secured
from tests.runbook.world import finding
from worker.errors import StartError
from worker.temporal import connect, load_connection, make_runtime

pytestmark = [pytest.mark.temporal, pytest.mark.thorough]


@dataclass(frozen=True)
class Fleet:
    """A server, who signs for it, and what clients are set to."""

    temporal: Temporal
    ours: Authority
    strangers: Authority

    def settings(self, address: str, **changes: str | Path | None) -> dict[str, str]:
        """For a client that does everything right, but for the changes; None leaves a variable unset."""
        own = self.ours.sign("client")
        usual: dict[str, str | Path | None] = {
            "TEMPORAL_ADDRESS": address,
            "TEMPORAL_NAMESPACE": self.temporal.namespace,
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH": self.ours.file,
            "TEMPORAL_TLS_CLIENT_CERT_PATH": own.certificate,
            "TEMPORAL_TLS_CLIENT_KEY_PATH": own.key,
            "NODEMEND_CLUSTER": "c",
        }
        return {name: str(value) for name, value in {**usual, **changes}.items() if value is not None}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("secure")
    with running_temporal(folder) as temporal:
        yield Fleet(temporal, Authority(folder, "ours"), Authority(folder, "strangers"))


def shows(own: Signed) -> dict[str, str | Path | None]:
    """A client that shows this certificate."""
    return {"TEMPORAL_TLS_CLIENT_CERT_PATH": own.certificate, "TEMPORAL_TLS_CLIENT_KEY_PATH": own.key}


WITHOUT_CERTIFICATE = {"TEMPORAL_TLS_CLIENT_CERT_PATH": None, "TEMPORAL_TLS_CLIENT_KEY_PATH": None}


@pytest.mark.parametrize("with_key", [False, True], ids=["certificate", "API key"])
async def test_each_program_reaches_it(fleet: Fleet, with_key: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with secured(fleet.temporal.address, fleet.ours.sign("server"), None if with_key else fleet.ours) as address:
        own = {**WITHOUT_CERTIFICATE, "TEMPORAL_API_KEY": "a key"} if with_key else {}
        settings = fleet.settings(address, **own)
        command = nodemend("status", **settings)
        assert command.returncode == ExitCode.OK, command.stderr
        surround(monkeypatch, settings)
        report = finding()
        await TemporalSide().deliver(report)
        worker = await connect(load_connection(), make_runtime(""), "worker")
        incident = worker.get_workflow_handle(incident_id(report.cluster, report.node, report.instance_id))
        assert (await incident.describe()).status is WorkflowExecutionStatus.RUNNING


_HUFFMAN: Final = {
    " ": "010100", "B": "1011101", "a": "00011", "c": "00100", "e": "00101", "r": "101100", "s": "01000", "t": "01001"
}  # fmt: skip
"""The codes of RFC 7541, appendix B, for the letters of the one value that is looked for."""


def as_header(value: str) -> bytes:
    """A header's value as HPACK writes it (RFC 7541, 5.2): its length, then Huffman's code, filled up with ones."""
    bits = "".join(_HUFFMAN[letter] for letter in value)
    octets = [bits[at : at + 8].ljust(8, "1") for at in range(0, len(bits), 8)]
    return bytes([0x80 | len(octets), *(int(octet, 2) for octet in octets)])


async def test_api_key_itself_is_in_what_each_program_sends(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dev server takes whoever comes: that the header is there is seen at the front, for each on its own."""
    settings_of = {**WITHOUT_CERTIFICATE, "TEMPORAL_API_KEY": "secret"}
    for program in (_status, _deliver, _work):
        came = bytearray()
        with secured(fleet.temporal.address, fleet.ours.sign("server"), came=came) as address:
            settings = fleet.settings(address, **settings_of)
            with monkeypatch.context() as patch:
                surround(patch, settings)
                await program(settings)
        assert as_header("Bearer secret") in came, program.__name__


async def _status(settings: dict[str, str]) -> None:
    done = nodemend("status", **settings)
    assert done.returncode == ExitCode.OK, done.stderr


async def _deliver(_: dict[str, str]) -> None:
    """The courier, which the detector and watch-cluster share."""
    await TemporalSide().deliver(finding())


async def _work(_: dict[str, str]) -> None:
    await connect(load_connection(), make_runtime(""), "worker")


def surround(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
    """Set them for what runs in this process: the SDK reads its own from the process' environment."""
    for name in {name for name in os.environ if name.startswith(("TEMPORAL_", "NODEMEND_"))} - settings.keys():
        monkeypatch.delenv(name)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


REFUSED = [
    ("a stranger's", "UnknownCA"),
    ("an expired", "CertificateExpired"),
    ("no", "HandshakeFailure"),
]


@pytest.mark.parametrize(("which", "why"), REFUSED, ids=[which for which, _ in REFUSED])
async def test_certificate_that_the_server_does_not_take_is_77_and_named(
    fleet: Fleet, which: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {
        "a stranger's": shows(fleet.strangers.sign("stranger")),
        "an expired": shows(fleet.ours.sign("old client", expired=True)),
        "no": WITHOUT_CERTIFICATE,
    }[which]
    with secured(fleet.temporal.address, fleet.ours.sign("server"), fleet.ours) as address:
        await _end_alike(fleet.settings(address, **own), ExitCode.NO_PERMISSION, why, "CLIENT_CERT_PATH", monkeypatch)


async def test_server_that_nobody_known_vouches_for_is_78_and_says_what_to_set(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    with secured(fleet.temporal.address, fleet.strangers.sign("server"), fleet.ours) as address:
        await _end_alike(fleet.settings(address), ExitCode.CONFIG, "UnknownIssuer", "SERVER_CA_CERT_PATH", monkeypatch)


async def test_server_of_another_name_is_78_and_says_what_to_set(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    with secured(fleet.temporal.address, fleet.ours.sign("server"), fleet.ours) as address:
        settings = fleet.settings(address, TEMPORAL_TLS_SERVER_NAME="temporal.example")
        await _end_alike(settings, ExitCode.CONFIG, "NotValidForName", "SERVER_NAME", monkeypatch)


async def _end_alike(
    settings: dict[str, str], code: int, why: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command and the worker end with the code, and the courier goes on; all of them say why, and what to do."""
    command = nodemend("status", **settings)
    assert command.returncode == code, command.stderr
    surround(monkeypatch, settings)
    with pytest.raises(StartError) as ended:
        await connect(load_connection(), make_runtime(""), "worker")
    assert ended.value.code == code
    with pytest.raises(Trouble) as waits:
        await TemporalSide().deliver(finding())
    for said in (command.stderr, str(ended.value), str(waits.value)):
        assert settings["TEMPORAL_ADDRESS"] in said
        assert why in said
        assert f"TEMPORAL_TLS_{setting}" in said


def test_server_whose_certificate_has_expired_is_waited_for(fleet: Fleet) -> None:
    with secured(fleet.temporal.address, fleet.ours.sign("server", expired=True)) as address:
        command = nodemend("status", **fleet.settings(address))
    assert command.returncode == ExitCode.UNAVAILABLE, command.stderr
    assert "not valid now" in command.stderr
    assert "Renew it" in command.stderr


def test_server_that_wants_tls_and_gets_none_is_told_as_such(fleet: Fleet) -> None:
    with secured(fleet.temporal.address, fleet.ours.sign("server")) as address:
        plain = fleet.settings(address, **WITHOUT_CERTIFICATE, TEMPORAL_TLS_SERVER_CA_CERT_PATH=None)
        command = nodemend("status", **plain)
    assert command.returncode == ExitCode.UNAVAILABLE, command.stderr
    assert "wants TLS" in command.stderr
    assert "TEMPORAL_TLS_" in command.stderr


@pytest.mark.parametrize(
    "told",
    [
        'hyper::Error(Io, Custom { kind: InvalidData, error: "received fatal alert: CertificateRequired" })',
        "ConnectError(Custom { kind: InvalidData, error: AlertReceived(CertificateExpired) })",
        'Status { code: PermissionDenied, message: "request unauthorized" }',
        'Status { code: Unauthenticated, message: "no key" }',
    ],
    ids=["TLS 1.3", "TLS 1.2", "an authoriser", "no key"],
)
def test_refusal_is_told_apart_however_it_was_said(told: str) -> None:
    assert first_call(f"Failed client connect: {told}").code == ExitCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("error: InvalidCertificate(Revoked)", "its certificate is not trusted here (Revoked)"),
        ("invalid peer certificate: BadEncoding", "its certificate is not trusted here (BadEncoding)"),
        ("transport error: HttpsUriWithoutTlsSupport", "asked for with TLS, which is not set up"),
    ],
)
def test_what_is_wrong_with_its_tls_is_told_in_words(told: str, words: str) -> None:
    assert words in first_call(told).what


def test_what_nobody_knows_is_told_as_it_is_and_tried_again() -> None:
    told = first_call("something new")
    assert "something new" in told.what
    assert told.code == ExitCode.UNAVAILABLE
