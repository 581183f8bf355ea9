"""The likely culprit of a hang as a finding about its node, and what bears it out: the node's own conditions. Pure.

Nobody who may speak for the culprit's node made this report, so no digest vouches for it (``contract.proof``). What it
says is looked at anew instead: a condition of that Node, which only its kubelet and its monitors may write, has to say
that something is wrong with it. And it leaves doubt: it closes the node, and destroys nothing without another witness.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from activities.cluster import Json
from activities.culprit import against_node
from activities.node_facts import boot_id
from contract.corroboration import Corroboration, RuleCorroboration
from contract.culprit import Suspect
from contract.fault import EvidenceEnd, FaultReport, Verdict
from contract.model import MESSAGE_MAX
from contract.names import CULPRIT_SEARCH
from contract.proof import is_proven

RULE: Final = "gang-culprit"
REASON: Final = "SuspectedCulprit"
_WITNESSES: Final = RuleCorroboration(by=(Corroboration.EC2, Corroboration.OTHER_SOURCE, Corroboration.RECURRENCE))
_USER: Final = 1
"""The facility of a record that user space wrote."""
_WARNING: Final = 4


def accusation(hangs: Sequence[FaultReport], job: str, found: Suspect, node: Json, says: str) -> FaultReport:
    """The finding. All complaints of one job about one machine, in one boot of it, are the same finding."""
    boot, moment, drill = boot_id(node), min(hang.first_seen for hang in hangs), all(hang.drill for hang in hangs)
    key = hashlib.sha256(f"{job}/{found.node}/{found.instance_id}/{boot}".encode()).hexdigest()
    return FaultReport(
        cluster=hangs[0].cluster,
        node=found.node,
        instance_id=found.instance_id or None,
        boot_id=boot,
        seq=int(key[:12], 16),
        source=CULPRIT_SEARCH,
        rule=RULE,
        component="gang",
        verdict=Verdict.AMBIGUOUS,
        evidence_end=EvidenceEnd.BOOT,
        corroboration=_WITNESSES,
        condition_type="GangHealth",
        reason=REASON,
        signature=f"{RULE}/job={job}",
        fields={"job": job, "told-by": hangs[0].node},
        message=says[:MESSAGE_MAX],
        facility=_USER if drill else 0,
        level=_WARNING,
        kernel_time_us=0,
        first_seen=moment,
        last_seen=moment,
        drill=drill,
    )


def is_vouched_for(report: FaultReport, node: Json, carried: dict[str, str]) -> bool:
    """Whether whoever may speak for the Node says so: by the report's digest, or, of a culprit, by its conditions."""
    if report.source == CULPRIT_SEARCH:
        # Whoever has Temporal's credentials can send one: it may never claim more than such a search can know.
        modest = report.verdict is Verdict.AMBIGUOUS and report.corroboration == _WITNESSES
        return modest and bool(against_node(node))
    return is_proven(report, carried)
