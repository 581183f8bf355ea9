"""`nodemend history`: what the cluster remembers of machines that failed, by node, instance, host or serial number."""

from rich.table import Table

from activities.memory import Memory
from contract.memory import FailedMachine
from contract.names import FAILED_MACHINES
from worker.clients import cluster_client


def remembered(key: str, namespace: str) -> list[FailedMachine]:
    """Failures of a machine, the newest first; all that are remembered without a key.

    Raises:
        StartError: no cluster is configured.
        ApplicationError: the API refuses, or cannot be reached.
    """
    machines = Memory(cluster_client(), namespace).all()
    return [machine for machine in reversed(machines) if not key or machine.known_as(key)]


def history_view(machines: list[FailedMachine], key: str, namespace: str) -> Table | str:
    """For people."""
    if not machines:
        about = f"of {key}" if key else "of any machine"
        return f"No failure {about} is remembered (ConfigMap {namespace}/{FAILED_MACHINES})."
    table = Table(box=None, pad_edge=False)
    for title in ("when", "node", "instance", "group", "failure", "reason", "serials", "incident"):
        table.add_column(title, overflow="fold")
    for machine in machines:
        table.add_row(
            f"{machine.at:%Y-%m-%d %H:%M}",
            machine.node,
            machine.instance_id,
            machine.group,
            str(machine.failure),
            machine.reason,
            ", ".join(machine.serials),
            machine.incident,
        )
    return table
