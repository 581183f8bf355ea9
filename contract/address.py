"""Where a server listens: ``host:port``, as every setting of Nodemend has it.

A host is a name, an IPv4 address or, in brackets, an IPv6 one (RFC 3986, 3.2.2). Without one, as in ``:8085``, it is
every address of the machine, of both families: the pods of a cluster have those of one (Kubernetes, Services,
``ipFamilies``; EKS, ``ipFamily``), and nobody wants to know which.
"""

import socket
from ipaddress import IPv6Address
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator

_LARGEST: Final = 65535
_FORMS: Final = "must be host:port, [IPv6]:port or :port, for example 127.0.0.1:8085"


class Address(NamedTuple):
    """A host, without brackets, and a port; port 0 picks a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """The address to listen on. One without a host is ``::`` where that takes IPv4 too, ``0.0.0.0`` elsewhere.

    Raises:
        ValueError: it is none; the message says what it must be.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > _LARGEST:
        raise ValueError(_FORMS)
    if host.startswith("[") and host.endswith("]"):
        try:
            return Address(str(IPv6Address(host[1:-1])), int(port))
        except ValueError as error:
            raise ValueError(f"{_FORMS}; {error}") from error
    if ":" in host:
        raise ValueError(f"{_FORMS}; an IPv6 address stands in brackets")
    if any(character in host for character in "[]/ "):
        raise ValueError(_FORMS)
    return Address(host or ("::" if socket.has_dualstack_ipv6() else "0.0.0.0"), int(port))  # noqa: S104


def _checked(text: str) -> str:
    parse_address(text)
    return text


ListenAddress = Annotated[str, AfterValidator(_checked)]
"""Of a setting that must have one."""
OptionalListenAddress = Annotated[str, AfterValidator(lambda text: text and _checked(text))]
"""Of a setting that may be empty: nothing is served then."""
