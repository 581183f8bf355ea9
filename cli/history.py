"""`nodemend history`: what the cluster remembers of machines that failed, by node, instance, host or serial number."""

from typing import Final

from rich.table import Table

from activities.memory import Memory
from contract.memory import FailedMachine
from contract.names import FAILED_MACHINES
from worker.clients import cluster_client

_COLUMNS: Final = ("when", "node", "instance", "group", "place", "failure", "reason", "serials", "job", "incident")


def remembered(key: str, namespace: str) -> list[FailedMachine]:
    """Failures of a machine, the newest first; all that are remembered without a key.

    Raises:
        StartError: no cluster is configured.
        ApplicationError: the API refuses, or cannot be reached.
    """
    machines = Memory(cluster_client(), namespace).all()
    return [machine for machine in reversed(machines) if not key or machine.meant_by(key)]


def history_view(machines: list[FailedMachine], key: str, namespace: str) -> Table | str:
    """For people."""
    if not machines:
        about = f"of {key}" if key else "of any machine"
        return f"No failure {about} is remembered (ConfigMap {namespace}/{FAILED_MACHINES})."
    table = Table(box=None, pad_edge=False)
    for title in _COLUMNS:
        table.add_column(title, overflow="fold")
    for machine in machines:
        table.add_row(
            f"{machine.at:%Y-%m-%d %H:%M}",
            machine.node,
            machine.instance_id,
            machine.group,
            ", ".join(filter(None, (machine.zone, machine.host, machine.network_node))),
            str(machine.failure),
            machine.reason,
            ", ".join(machine.serials),
            machine.job,
            machine.incident,
        )
    return table
