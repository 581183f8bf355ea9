"""A front before moto that refuses one action for one Auto Scaling group, in the words in which AWS does it.

Moto lets everybody do everything, or holds a user's policy against each call without its resource; what a policy with a
condition on a group's tags refuses, it cannot. All else is moto's: the front decides nothing but that refusal.
"""

import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from deploy.local.aws import Aws

CALLER: Final = "arn:aws:sts::123456789012:assumed-role/nodemend-worker/i-0123456789abcdef0"
_REFUSAL: Final = """\
<ErrorResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/">
  <Error>
    <Type>Sender</Type>
    <Code>AccessDenied</Code>
    <Message>{message}</Message>
  </Error>
  <RequestId>{request}</RequestId>
</ErrorResponse>
"""
_PASSED_ON: Final = ("authorization", "content-type", "user-agent", "x-amz-date", "x-amz-target")
_TIMEOUT_S: Final = 30


@dataclass
class Front:
    """Where the front is, and what it refuses."""

    aws: Aws
    action: str
    group: str
    url: str = ""
    open: bool = False
    """Whether it lets everything pass, as after the right was granted."""
    refused: list[str] = field(default_factory=list)
    """The group of each call that it refused."""

    def refuses(self, body: bytes) -> bool:
        """Whether a call is the one that is not allowed. An instance counts as its group's."""
        asked = dict(parse_qsl(body.decode(errors="replace")))
        if self.open or asked.get("Action") != self.action:
            return False
        if "AutoScalingGroupName" in asked:
            return asked["AutoScalingGroupName"] == self.group
        with closing(self.aws.client("autoscaling")) as scaling:
            (found,) = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[self.group])["AutoScalingGroups"]
        return asked.get("InstanceId") in {one["InstanceId"] for one in found["Instances"]}

    def refusal(self) -> bytes:
        """AWS's answer to a call that no policy of the caller's allows."""
        action = f"autoscaling:{self.action}"
        arn = f"arn:aws:autoscaling:{self.aws.region}:123456789012:autoScalingGroup:*:autoScalingGroupName/{self.group}"
        message = (
            f"User: {CALLER} is not authorized to perform: {action} on resource: {arn} because no identity-based "
            f"policy allows the {action} action"
        )
        return _REFUSAL.format(message=escape(message), request=uuid.uuid4()).encode()


@contextmanager
def refusing_front(aws: Aws, action: str, group: str) -> Iterator[Front]:
    """Run it for the length of the block, on loopback."""
    front = Front(aws, action, group)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if front.refuses(body):
                front.refused.append(front.group)
                status, kind, answer = 403, "text/xml", front.refusal()
            else:
                status, kind, answer = self._passed_on(body)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST  # noqa: N815 - EKS and S3 are asked by GET

        def _passed_on(self, body: bytes) -> tuple[int, str, bytes]:
            headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
            request = urllib.request.Request(
                aws.url + self.path, data=body or None, headers=headers, method=self.command
            )
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as served:
                    return served.status, served.headers.get("Content-Type", ""), served.read()
            except urllib.error.HTTPError as error:
                return error.code, error.headers.get("Content-Type", ""), error.read()

        def log_message(self, *_: object) -> None:
            """A test's own output is enough."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        front.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield front
        finally:
            server.shutdown()
            thread.join()
