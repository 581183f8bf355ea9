"""What it means that a call to Temporal was denied, or the first one failed before Temporal could say a word. Pure.

The SDK's core (tonic and rustls) tells the cause in the text of one error alone, by the names of its types: gRPC's
``Code``, rustls' ``CertificateError`` and ``AlertDescription``.
"""

import re
from dataclasses import dataclass
from typing import Final

from contract.names import ExitCode


@dataclass(frozen=True)
class FirstCall:
    """Why it failed."""

    what: str
    """Goes on from "Temporal at ADDRESS"."""
    remedy: str
    code: int
    """``ExitCode``: with ``UNAVAILABLE`` waiting may mend it, else nothing but somebody who changes a setting."""


_RUNS: Final = "Check that it runs, and TEMPORAL_ADDRESS."
_OWN: Final = (
    "Check TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH: whether it has expired, and whether the "
    "server trusts who signed it."
)


def denied(why: str) -> FirstCall:
    """Temporal, or what stands before it, knows who asks and says no."""
    return FirstCall(
        f"refuses these credentials: {why}",
        "Check TEMPORAL_API_KEY or the TEMPORAL_TLS_* certificate, and what it may do in the namespace.",
        ExitCode.NO_PERMISSION,
    )


_KNOWN: Final = (
    (
        re.compile(r"invalid target URL: (.+)"),
        FirstCall(
            "is no address ({})",
            "Give TEMPORAL_ADDRESS as host:port, such as temporal.example:7233; an IPv6 address in brackets.",
            ExitCode.CONFIG,
        ),
    ),
    (re.compile(r"code: (Unauthenticated|PermissionDenied)"), denied("{}")),
    (
        re.compile(
            r"(?:received fatal alert: |AlertReceived\()(CertificateRequired|HandshakeFailure|CertificateExpired"
            r"|CertificateRevoked|CertificateUnknown|BadCertificate|UnsupportedCertificate|UnknownCA|AccessDenied)"
        ),
        FirstCall("refuses the certificate of this client, or that it shows none: {}", _OWN, ExitCode.NO_PERMISSION),
    ),
    (
        re.compile(r"InvalidCertificate\((UnknownIssuer|BadSignature)"),
        FirstCall(
            "shows a certificate that nobody who is trusted here has signed: {}",
            "Set TEMPORAL_TLS_SERVER_CA_CERT_PATH to the authority that signs it.",
            ExitCode.CONFIG,
        ),
    ),
    (
        re.compile(r"InvalidCertificate\((NotValidForName)"),
        FirstCall(
            "shows a certificate for another name: {}",
            "Set TEMPORAL_TLS_SERVER_NAME to a name that it is for.",
            ExitCode.CONFIG,
        ),
    ),
    (
        re.compile(r"InvalidCertificate\((Expired|NotValidYet)"),
        FirstCall(
            "shows a certificate that is not valid now: {}",
            "Renew it there, and compare the clocks.",
            ExitCode.UNAVAILABLE,
        ),
    ),
    (
        re.compile(r"InvalidCertificate\((\w+)|(?i:invalid peer certificate: (\w+))"),
        FirstCall(
            "cannot be reached: its certificate is not trusted here ({})", "Check TEMPORAL_TLS_*.", ExitCode.UNAVAILABLE
        ),
    ),
    (
        re.compile(r"(HttpsUriWithoutTlsSupport)"),
        FirstCall(
            "cannot be reached: it is asked for with TLS, which is not set up",
            "Check TEMPORAL_ADDRESS and TEMPORAL_TLS_*.",
            ExitCode.UNAVAILABLE,
        ),
    ),
    (
        re.compile(r"(InvalidContentType)"),
        FirstCall(
            "cannot be reached: it does not speak TLS",
            "Check TEMPORAL_ADDRESS, or leave TEMPORAL_TLS and TEMPORAL_API_KEY unset.",
            ExitCode.UNAVAILABLE,
        ),
    ),
    (
        # With TLS 1.3 the client's handshake is over before the server has judged its certificate (RFC 8446, 2): it may
        # see the end before the reason.
        re.compile(r"call error after connection: .*(connection closed|broken pipe|ConnectionReset)"),
        FirstCall(
            "closed the connection at the first call ({}), as one does that wants TLS, or another certificate",
            f"Check TEMPORAL_TLS_* and whether it wants TLS. {_RUNS}",
            ExitCode.UNAVAILABLE,
        ),
    ),
    (
        re.compile(r"(Connection refused)"),
        FirstCall("cannot be reached: nothing listens there", _RUNS, ExitCode.UNAVAILABLE),
    ),
    (
        re.compile(r"(dns error)"),
        FirstCall("cannot be reached: no such host is known", _RUNS, ExitCode.UNAVAILABLE),
    ),
)


def first_call(error: str) -> FirstCall:
    """What the text of the SDK's error means."""
    for pattern, meaning in _KNOWN:
        if found := pattern.search(error):
            return FirstCall(meaning.what.format(found[found.lastindex or 0]), meaning.remedy, meaning.code)
    return FirstCall(f"cannot be reached: {error}", _RUNS, ExitCode.UNAVAILABLE)
