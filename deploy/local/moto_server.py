"""Moto's server, with Auto Scaling's desired capacity kept as AWS keeps it: a wish, and not yet instances.

Moto launches and terminates within the call that changes the capacity, at once and in any zone, so a group would never
be short of an instance. Here the wish is only written down, and ``deploy.local.fleet`` acts on it, when and where it
likes. Everything else is moto as it is. Run as ``python -P -m deploy.local.moto_server`` with moto's own options.

What moto does not know at all (scaling activities, instance refreshes, capacity reservations, maintenance policies,
reports of bad instances) is a page that ``fleet`` and tests write, and that is read through the real API: ``POST
/fleet/notebook``. The same page says which calls are throttled, and whose replies are lost.
"""

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, Final
from urllib.parse import parse_qs

from moto.autoscaling.exceptions import ValidationError
from moto.autoscaling.models import AutoScalingBackend, FakeAutoScalingGroup
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.responses import ActionResult
from moto.ec2.responses import EC2Response
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import main

from deploy.local.aws import LOCAL_CALLER, NOTEBOOK_PATH

_attach = AutoScalingBackend.attach_instances
_terminate = AutoScalingBackend.terminate_instance
_update = AutoScalingResponse.update_auto_scaling_group
_reboot = EC2Response.reboot_instances
_start = EC2Response.start_instances
_dispatch = DomainDispatcherApplication.__call__

_lock: Final = threading.Lock()
_pages: Final[dict[str, Any]] = {"activities": {}, "answers": {}, "throttle": {}, "lose_reply": {}}
_calls: Final[Counter[str]] = Counter()
"""Calls by action, of everybody but the local cloud itself and its tests."""
_reported: Final[list[str]] = []
_reboots: Final[list[str]] = []
_starts: Final[list[str]] = []

_TIMES: Final = ("StartTime", "EndTime", "EndDate", "StartDate")
_THROTTLED: Final = (
    b'<?xml version="1.0"?><ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code>'
    b"<Message>Rate exceeded</Message></Error></ErrorResponse>"
)


def note_desired_capacity(group: FakeAutoScalingGroup, new_capacity: int | None) -> None:
    """Stands for ``FakeAutoScalingGroup.set_desired_capacity``, without the instances."""
    group.desired_capacity = group.min_size if new_capacity is None else new_capacity


def launch_nothing(group: FakeAutoScalingGroup, *arguments: Any, **options: Any) -> None:
    """Stands for ``FakeAutoScalingGroup.replace_autoscaling_group_instances``."""


def attach_as_launched(backend: AutoScalingBackend, group_name: str, instance_ids: list[str]) -> None:
    """Stands for ``AutoScalingBackend.attach_instances``: what fills a wish does not change it."""
    desired = backend.autoscaling_groups[group_name].desired_capacity or 0
    _attach(backend, group_name, instance_ids)
    group = backend.autoscaling_groups[group_name]
    standing_by = sum(state.lifecycle_state == "Standby" for state in group.instance_states)
    # An instance on standby does not count (Amazon EC2 Auto Scaling user guide, How the standby state works).
    group.desired_capacity = max(desired, len(group.instance_states) - standing_by)
    for state in group.instance_states:
        # Moto forgets this, and TerminateInstanceInAutoScalingGroup then fails for an attached instance.
        state.instance.autoscaling_group = group  # type: ignore[attr-defined]


def terminate_known_instance(backend: AutoScalingBackend, instance_id: str, should_decrement: bool) -> Any:
    """``TerminateInstanceInAutoScalingGroup``: for an instance that no group has, moto answers with a crash."""
    groups = backend.autoscaling_groups.values()
    if not any(state.instance.id == instance_id for group in groups for state in group.instance_states):
        raise ValidationError(f"Instance Id not found - No managed instance found for instance ID: {instance_id}")
    return _terminate(backend, instance_id, should_decrement)


def update_with_maintenance_policy(response: AutoScalingResponse) -> Any:
    """``UpdateAutoScalingGroup`` with the member that moto leaves out."""
    answer = _update(response)
    policy = response._get_param("InstanceMaintenancePolicy")
    if policy:
        name = response._get_param("AutoScalingGroupName")
        group = response.autoscaling_backend.autoscaling_groups[name]
        group.instance_maintenance_policy = {key: int(value) for key, value in policy.items()}  # type: ignore[attr-defined]
    return answer


def scaling_activities(response: AutoScalingResponse) -> ActionResult:
    """``DescribeScalingActivities``, in pages of a hundred at most, the newest first: moto always answers with none."""
    activities = _pages["activities"].get(response._get_param("AutoScalingGroupName"), [])
    begin = int(response._get_param("NextToken") or 0)
    end = begin + min(response._get_int_param("MaxRecords", 100), 100)
    page = [_timed(activity) for activity in reversed(activities)][begin:end]
    return ActionResult({"Activities": page, **({"NextToken": str(end)} if end < len(activities) else {})})


def told(action: str, empty: dict[str, Any]) -> Callable[[Any], ActionResult]:
    """An action that moto does not have: answered from the notebook."""

    def answer(_response: Any) -> ActionResult:
        return ActionResult(_timed(_pages["answers"].get(action, empty)))

    return answer


def report_instance_status(response: Any) -> ActionResult:
    """``ReportInstanceStatus``: written down, as AWS does; it changes nothing else."""
    _reported.extend(response._get_param("Instances", []))
    return ActionResult({})


def reboot_instances(response: Any) -> Any:
    """``RebootInstances``, of which moto keeps no trace."""
    answer = _reboot(response)
    _reboots.extend(response._get_param("InstanceIds", []))
    return answer


def start_instances(response: Any) -> Any:
    """``StartInstances``: moto leaves the launch time as it was, and EC2 makes it that of the start."""
    answer = _start(response)
    for instance_id in response._get_param("InstanceIds", []):
        response.ec2_backend.get_instance(instance_id).launch_time = datetime.now(UTC).replace(tzinfo=None)
        _starts.append(instance_id)
    return answer


def watched(app: Any, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Every request passes here: counted, throttled, or served without its reply, as the notebook says."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = BytesIO(body)
    if environ["PATH_INFO"] == NOTEBOOK_PATH:
        return _notebook(body, start_response)
    action = parse_qs(body.decode(errors="replace")).get("Action", [""])[0]
    if LOCAL_CALLER in environ.get("HTTP_USER_AGENT", ""):
        answer: Iterable[bytes] = _dispatch(app, environ, start_response)
        return answer
    with _lock:
        _calls[action] += 1
        throttled, lost = _one_of("throttle", action), _one_of("lose_reply", action)
    if throttled:
        start_response("400 Bad Request", [("Content-Type", "text/xml")])
        return [_THROTTLED]
    served: Iterable[bytes] = _dispatch(app, environ, start_response)
    if lost:
        list(served)
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return []
    return served


def _notebook(body: bytes, start_response: Any) -> Iterable[bytes]:
    with _lock:
        for page, written in json.loads(body or b"{}").items():
            _pages[page].update(written)
        answer = json.dumps({"calls": _calls, "reported": _reported, "reboots": _reboots, "starts": _starts})
    start_response("200 OK", [("Content-Type", "application/json")])
    return [answer.encode()]


def _one_of(page: str, action: str) -> bool:
    left = _pages[page].get(action, 0)
    if left:
        _pages[page][action] = left - 1
    return bool(left)


def _timed(value: Any) -> Any:
    if isinstance(value, list):
        return [_timed(item) for item in value]
    if isinstance(value, dict):
        return {key: datetime.fromisoformat(v) if key in _TIMES else _timed(v) for key, v in value.items()}
    return value


if __name__ == "__main__":
    # Any: these stand in for methods of moto's, some of which it does not have.
    group: Any = FakeAutoScalingGroup
    group.set_desired_capacity = note_desired_capacity
    group.replace_autoscaling_group_instances = launch_nothing
    group.instance_maintenance_policy = None
    backend: Any = AutoScalingBackend
    backend.attach_instances = attach_as_launched
    backend.terminate_instance = terminate_known_instance
    auto_scaling: Any = AutoScalingResponse
    auto_scaling.update_auto_scaling_group = update_with_maintenance_policy
    auto_scaling.describe_scaling_activities = scaling_activities
    auto_scaling.describe_instance_refreshes = told("DescribeInstanceRefreshes", {"InstanceRefreshes": []})
    ec2: Any = EC2Response
    ec2.describe_capacity_reservations = told("DescribeCapacityReservations", {"CapacityReservations": []})
    # Moto crashes here (NotImplementedError); AWS leaves out what has no topology.
    ec2.describe_instance_topology = told("DescribeInstanceTopology", {"Instances": []})
    ec2.report_instance_status = report_instance_status
    ec2.reboot_instances = reboot_instances
    ec2.start_instances = start_instances
    dispatcher: Any = DomainDispatcherApplication
    dispatcher.__call__ = watched
    main()
