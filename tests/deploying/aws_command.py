"""As much of the ``aws`` command as the documents use, over boto3: its names, shorthand, ``file://`` and ``--query``.

The command itself would bring a botocore of its own. What a document has wrong here, it has wrong there: operations and
options are looked up in AWS's own models, as the command does.
"""

import json
import os
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import boto3
import jmespath
from botocore import xform_name
from botocore.validate import validate_parameters

_SERVICES = {"s3api": "s3"}
_RENAMED = {"notification-endpoint": "Endpoint"}
"""Options whose names would be the command's own (``awscli/customizations/argrename.py``)."""
Instead = Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]
"""What answers operations that moto does not know, once their arguments are found to be as AWS's model has them."""
_SHIM = f"""#!{sys.executable} -ISs
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as to:
    to.connect(os.environ["AWS_COMMAND_SOCKET"])
    to.sendall(json.dumps([os.getcwd(), *sys.argv[1:]]).encode() + b"\\n")
    with to.makefile() as answer:
        code, text = json.loads(answer.readline())
print(text, file=sys.stderr if code else sys.stdout)
sys.exit(code)
"""


@contextmanager
def aws_command(folder: Path, instead: Instead) -> Iterator[dict[str, str]]:
    """Have ``aws`` answered by this process, which has read the models; gives what the shell's environment needs."""
    path = folder / "aws.socket"
    shim = folder / "bin" / "aws"
    shim.parent.mkdir()
    shim.write_text(_SHIM)
    shim.chmod(0o755)

    class Answering(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            folder, *arguments = json.loads(self.rfile.readline())
            try:
                answer = [0, run(arguments, Path(folder), instead)]
            except Exception as error:  # whatever it is, the shell has to see that it failed
                answer = [1, f"aws {' '.join(arguments)}: {type(error).__name__}: {error}"]
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    with socketserver.ThreadingUnixStreamServer(str(path), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield {"AWS_COMMAND_SOCKET": str(path), "PATH": f"{shim.parent}{os.pathsep}{os.environ['PATH']}"}
        finally:
            server.shutdown()


@cache
def _client(service: str) -> Any:
    return boto3.client(_SERVICES.get(service, service))  # type: ignore[call-overload]


def run(arguments: list[str], folder: Path, instead: Instead = MappingProxyType({})) -> str:
    """Run one command; returns what it prints.

    Raises:
        ValueError: there is no such operation or option.
        ClientError: AWS refuses.
    """
    service, operation, *rest = arguments
    client = _client(service)
    model = client.meta.service_model
    (name,) = [n for n in model.operation_names if xform_name(n, "-") == operation] or [""]
    if not name:
        raise ValueError(f"{service} has no operation {operation}")
    members = model.operation_model(name).input_shape.members
    shapes = {xform_name(member, "-"): (member, shape) for member, shape in members.items()}
    given: dict[str, Any] = {}
    query, output = "", "json"
    while rest:
        option = rest.pop(0).removeprefix("--")
        values = []
        while rest and not rest[0].startswith("--"):
            values.append(rest.pop(0))
        if option == "query":
            (query,) = values
        elif option == "output":
            (output,) = values
        elif option == "cli-input-json":
            given |= json.loads(_read(values[0], folder))
        else:
            shown = xform_name(_RENAMED[option], "-") if option in _RENAMED else option
            if shown not in shapes:
                raise ValueError(f"{service} {operation} has no option --{option}")
            member, shape = shapes[shown]
            given[member] = _value([_read(value, folder) for value in values], shape)
    if name in instead:
        validate_parameters(given, model.operation_model(name).input_shape)
        answer = instead[name](given)
    else:
        answer = getattr(client, xform_name(name))(**given)
    answer.pop("ResponseMetadata", None)
    found = jmespath.search(query, answer) if query else answer
    return _text(found) if output == "text" else json.dumps(found, default=str)


def _read(value: str, folder: Path) -> str:
    return (folder / value.removeprefix("file://")).read_text() if value.startswith("file://") else value


def _value(values: list[str], shape: Any) -> Any:
    if shape.type_name == "boolean":
        return values != ["false"]
    (first, *_) = values
    if shape.type_name in ("structure", "map", "list") and first.lstrip()[:1] in ("{", "["):
        return json.loads(first)
    if shape.type_name == "list":
        return [_value([value], shape.member) for value in values]
    if shape.type_name == "map":
        return dict(pair.split("=", 1) for pair in first.split(","))
    if shape.type_name == "structure":
        pairs = dict(pair.split("=", 1) for pair in first.split(","))
        return {key: _value([value], shape.members[key]) for key, value in pairs.items()}
    return int(first) if shape.type_name in ("integer", "long") else first


def _text(found: Any) -> str:
    return "\t".join(map(str, found)) if isinstance(found, list) else str(found)
