"""Verdicts on pods, without a cluster: every combination, and the ones that the API server clears away too fast."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from activities.pod_filters import Verdict, filter_pod
from contract.names import MIRROR_POD_ANNOTATION


def pod(
    *, owner: str | None = None, phase: str = "Running", mirror: bool = False, empty: bool = False, ending: bool = False
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "namespace": "n",
        "name": "p",
        "annotations": {MIRROR_POD_ANNOTATION: "x"} if mirror else {},
    }
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "name": "o", "uid": "u", "controller": True}]
    if ending:
        metadata["deletionTimestamp"] = "2026-12-01T12:00:00Z"
    return {
        "metadata": metadata,
        "spec": {"volumes": [{"name": "v", "emptyDir": {}}] if empty else []},
        "status": {"phase": phase},
    }


pods = st.builds(
    pod,
    owner=st.sampled_from([None, "ReplicaSet", "DaemonSet", "Job", "StatefulSet"]),
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    mirror=st.booleans(),
    empty=st.booleans(),
    ending=st.booleans(),
)


@given(pod=pods, exists=st.booleans(), unmanaged=st.booleans(), local=st.booleans())
def test_what_is_evicted_is_allowed_in_every_respect(
    pod: dict[str, Any], exists: bool, unmanaged: bool, local: bool
) -> None:
    made = filter_pod(pod, daemon_set_exists=exists, evict_unmanaged=unmanaged, evict_local_storage=local)
    owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences", [])}
    if made.verdict is Verdict.EVICT:
        assert MIRROR_POD_ANNOTATION not in pod["metadata"]["annotations"]
        assert pod["status"]["phase"] not in ("Succeeded", "Failed")
        assert "deletionTimestamp" not in pod["metadata"]
        assert unmanaged or (owners and owners != {"DaemonSet"})
        assert local or not pod["spec"]["volumes"]
        assert not (owners == {"DaemonSet"} and exists)
    else:
        assert made.why


def test_d14_daemon_set_that_is_gone_makes_its_pod_unmanaged() -> None:
    orphan = pod(owner="DaemonSet")
    gone = filter_pod(orphan, daemon_set_exists=False, evict_unmanaged=False, evict_local_storage=True)
    assert gone.verdict is Verdict.FORBIDDEN
    allowed = filter_pod(orphan, daemon_set_exists=False, evict_unmanaged=True, evict_local_storage=True)
    assert allowed.verdict is Verdict.EVICT


def test_d16_finished_pod_never_blocks_whatever_it_is() -> None:
    for phase in ("Succeeded", "Failed"):
        made = filter_pod(
            pod(phase=phase, empty=True), daemon_set_exists=False, evict_unmanaged=False, evict_local_storage=False
        )
        assert made.verdict is Verdict.STAYS
