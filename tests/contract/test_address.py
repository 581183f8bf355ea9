"""Where a server listens, as settings have it."""

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.address import Address, parse_address

PORTS = st.integers(0, 65535)


@given(st.ip_addresses(), PORTS)
def test_every_address_is_read_as_it_is_written(host: object, port: int) -> None:
    address = Address(str(host), port)
    assert parse_address(str(address)) == address


@given(PORTS)
def test_without_a_host_it_is_every_address_of_the_machine(port: int) -> None:
    host, read = parse_address(f":{port}")
    assert host in {"::", "0.0.0.0"}
    assert read == port


def test_name_of_a_host_is_one() -> None:
    assert parse_address("localhost:8085") == Address("localhost", 8085)


@given(st.builds(IPv6Address, st.integers(0, 2**128 - 1)).map(str), PORTS)
def test_ipv6_without_brackets_is_refused_with_the_remedy(host: str, port: int) -> None:
    with pytest.raises(ValueError, match="an IPv6 address stands in brackets"):
        parse_address(f"{host}:{port}")


@pytest.mark.parametrize(
    "wrong",
    ["", "8085", "localhost", "localhost:", ":", "localhost:http", "localhost:65536", "localhost:-1", "localhost:٣",
     "[::1]", "[::g]:80", "[::1:80", "http://localhost:80", "local host:80"],
)  # fmt: skip
def test_what_is_no_address_is_refused_with_examples(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"must be host:port, \[IPv6\]:port or :port, for example"):
        parse_address(wrong)
