"""TLS before Temporal, as Temporal Cloud and every serious installation have it: the dev server speaks none itself."""

import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.operating.accepting import accepting


@dataclass(frozen=True)
class Signed:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates for one test."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign(name, self._key, ca=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def sign(self, name: str, *, expired: bool = False) -> Signed:
        """A certificate for 127.0.0.1 and for clients of this name."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = Signed(self._folder / f"{self._name}-{name}.pem", self._folder / f"{self._name}-{name}.key")
        made.certificate.write_bytes(self._sign(name, key, expired=expired).public_bytes(Encoding.PEM))
        made.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return made

    def _sign(
        self, name: str, key: ec.EllipticCurvePrivateKey, *, ca: bool = False, expired: bool = False
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(now + timedelta(days=-1 if expired else 1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
            .sign(self._key, SHA256())
        )


@contextmanager
def secured(
    target: str, server: Signed, clients: Authority | None = None, came: bytearray | None = None
) -> Iterator[str]:
    """TLS before a server for the length of the block; yields its address. With ``clients`` they must show theirs.

    ``came`` gets all that clients send.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    context.set_alpn_protocols(["h2"])
    if clients:
        # Within the handshake, that the reason of a refusal is read for certain; with 1.3 the end may be seen first.
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients.file)
    with accepting(
        lambda client, open_: _serve(client, target, open_, came),
        lambda plain: context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False),
    ) as address:
        yield address


def _serve(client: socket.socket, target: str, open_: list[socket.socket], came: bytearray | None) -> None:
    assert isinstance(client, ssl.SSLSocket)
    with suppress(OSError):
        try:
            client.do_handshake()
        except ssl.SSLError:
            # The client is to read why, before the connection is reset over what it still sends.
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
            return
        host, _, port = target.rpartition(":")
        server = socket.create_connection((host, int(port)))
        open_.append(server)
        # One thread for both ways: a TLS connection is none that two may use at once.
        while True:
            for source in [client] if client.pending() else select.select([client, server], [], [])[0]:
                data = source.recv(65536)
                if not data:
                    client.shutdown(socket.SHUT_RDWR)
                    server.shutdown(socket.SHUT_RDWR)
                    return
                if source is client and came is not None:
                    came += data
                (server if source is client else client).sendall(data)
