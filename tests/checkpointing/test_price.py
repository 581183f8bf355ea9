"""What an approval costs, read on the real API server; nothing is asked of any job for it."""

from datetime import timedelta
from pathlib import Path

from activities.price import PriceActivity
from contract.price import Price, PriceDisruption
from tests.acting import Acting
from tests.checkpointing.jobs import NEURON, add_declaring, calls, declared, program, write_manifest
from tests.conftest import MakeNodeGroup


def price(acting: Acting, node: str) -> Price:
    act = PriceActivity(acting.cluster, acting.auto_scaling).price_disruption
    found = acting.do(act, PriceDisruption(target=acting.target(node)))
    assert isinstance(found, Price)
    return found


def test_price_names_the_jobs_with_their_newest_checkpoint_and_where_there_is_room_and_asks_for_nothing(
    acting: Acting, node_group: MakeNodeGroup, namespace: str, tmp_path: Path
) -> None:
    group = node_group(3)
    failing, busy, _free = group.nodes
    write_manifest(tmp_path, 500, minutes_ago=12)
    command = program(tmp_path)
    add_declaring(acting, failing, namespace, declared("exec", command=command), "saves", limits={NEURON: "4"})
    add_declaring(acting, failing, namespace, {}, "plain")
    add_declaring(acting, failing, namespace, declared("exec", command="no list"), "broken")
    add_declaring(acting, busy, namespace, {}, "elsewhere", limits={NEURON: "16"})
    found = price(acting, failing)
    jobs = {job.job.rpartition("/")[2]: job for job in found.jobs}
    assert set(jobs) == {"saves", "plain", "broken"}
    assert (jobs["saves"].step, jobs["saves"].accelerators, jobs["saves"].alive) == (500, 4, True)
    assert jobs["saves"].saved_at
    assert found.at - jobs["saves"].saved_at >= timedelta(minutes=12)
    assert (jobs["plain"].declared, jobs["broken"].declared) == (False, True)
    assert jobs["broken"].unread
    assert (found.pods, found.jobs_total) == (3, 3)
    assert (found.others, found.free) == (2, 1)
    assert found.idle == 12, "of sixteen devices four are held"
    assert calls(tmp_path) == ["list"]
