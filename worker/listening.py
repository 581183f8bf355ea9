"""HTTP servers of the standard library, on addresses of either family."""

import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from contract.address import Address


class HttpServer(ThreadingHTTPServer):
    """A server that listens from the start."""

    def __init__(self, address: Address, handler: type[BaseHTTPRequestHandler]) -> None:
        """Bind.

        Raises:
            OSError: the address cannot be bound.
        """
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__(address, handler)
        self.at = Address(address.host, self.server_address[1])
        """Where: port 0 has become the one that was picked."""

    def server_bind(self) -> None:
        """Bind, with ``::`` for IPv4 too, whatever the machine's default is (net.ipv6.bindv6only)."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()
