"""The PyTorch and the JAX loop of docs/checkpointing.md run as they stand there, on two ranks.

The frameworks are played by what the loops use of them (save, load, broadcast, barrier), between threads: what is
tested is the loops' part of the protocol, not the frameworks.
"""

import pickle
import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from activities.checkpoint_manifest import incomplete, read_documents
from deploy.jobs.nodemend_checkpoint import SUFFIX, CheckpointAgent, write_whole

DOCUMENT = Path(__file__).parents[2] / "docs" / "checkpointing.md"
RANKS = 2
STEPS = 8
ASKED_AT = 5


def loop(title: str, folder: Path) -> str:
    found = re.search(rf"### {title}.*?```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found
    return found[1].replace("/checkpoints", str(folder))


class Together:
    """What ranks say to each other."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(RANKS, timeout=20)
        self.said: Any = None

    def from_first(self, rank: int, value: Any) -> Any:
        if rank == 0:
            self.said = value
        self.barrier.wait()
        said = self.said
        self.barrier.wait()
        return said


Frame = Callable[[int, Together, "Trained"], dict[str, Any]]


class Trained:
    """One rank's state: the steps that it has taken, which are what it saves."""

    def __init__(self, folder: Path, rank: int, nonce: str) -> None:
        self.folder, self.rank, self.nonce = folder, rank, nonce
        self.steps: list[int] = []
        self.began_with: list[int] = []

    def take(self, step: int) -> None:
        self.steps.append(step)
        if self.rank == 0 and step == ASKED_AT and self.nonce:
            # As `nodemend_checkpoint.py save NONCE` does.
            write_whole(self.folder / "request", self.nonce)


def pytorch(rank: int, ranks: Together, trained: Trained) -> dict[str, Any]:
    def broadcast_object_list(values: list[Any], src: int) -> None:
        assert src == 0
        values[:] = ranks.from_first(rank, list(values))

    def load_state_dict(state: dict[str, Any]) -> None:
        trained.steps = list(state["steps"])
        trained.began_with = list(state["steps"])

    torch = SimpleNamespace(
        save=lambda state, path: path.write_bytes(pickle.dumps(state)),
        load=lambda path: pickle.loads(path.read_bytes()),
        distributed=SimpleNamespace(broadcast_object_list=broadcast_object_list, barrier=ranks.barrier.wait),
    )
    model = SimpleNamespace(state_dict=lambda: {"steps": trained.steps}, load_state_dict=load_state_dict)
    return {"torch": torch, "model": model, "train": trained.take}


def jax(rank: int, ranks: Together, trained: Trained) -> dict[str, Any]:
    class StandardCheckpointer:
        def save(self, path: Path, state: list[int], force: bool = False) -> None:
            """All processes save one tree together; one that is there is an error unless forced (orbax)."""
            if rank == 0:
                assert force or not path.exists()
                path.mkdir(exist_ok=True)
                (path / "tree").write_bytes(pickle.dumps(state))

        def wait_until_finished(self) -> None: ...

        def restore(self, path: Path, _target: Any) -> Any:
            trained.began_with = pickle.loads((path / "tree").read_bytes())
            return list(trained.began_with)

    def train_step(state: list[int]) -> list[int]:
        step = state[-1] + 1 if state else 0
        trained.take(step)
        return [*state, step]

    multihost_utils = SimpleNamespace(
        broadcast_one_to_all=lambda value: ranks.from_first(rank, value),
        sync_global_devices=lambda _name: ranks.barrier.wait(),
    )
    return {
        "jax": SimpleNamespace(process_index=lambda: rank),
        "np": SimpleNamespace(int32=int),
        "orbax": SimpleNamespace(checkpoint=SimpleNamespace(StandardCheckpointer=StandardCheckpointer)),
        "multihost_utils": multihost_utils,
        "train_step": train_step,
        "state": [],
    }


def run(title: str, frame: Frame, folder: Path, nonce: str) -> list[Trained]:
    """One life of the job."""
    code, ranks, failed = compile(loop(title, folder), str(DOCUMENT), "exec"), Together(), list[BaseException]()
    trained = [Trained(folder, rank, nonce) for rank in range(RANKS)]

    def work(rank: int) -> None:
        names = {"CheckpointAgent": CheckpointAgent, "rank": rank, "steps": STEPS}
        try:
            exec(code, names | frame(rank, ranks, trained[rank]))
        except BaseException as error:
            failed.append(error)
            ranks.barrier.abort()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    return trained


@pytest.mark.parametrize(("title", "frame"), [("PyTorch", pytorch), ("JAX", jax)])
def test_loop_saves_when_it_is_asked_and_goes_on_from_there(title: str, frame: Frame, tmp_path: Path) -> None:
    first = run(title, frame, tmp_path, "n-1")
    assert [trained.steps for trained in first] == [list(range(STEPS))] * RANKS
    agent = CheckpointAgent(tmp_path)
    asked = agent.saved("n-1")
    assert asked is not None
    assert (asked["step"], agent.is_whole(asked)) == (ASKED_AT, True)
    (read,) = read_documents([(tmp_path / f"step-{ASKED_AT:012d}{SUFFIX}").read_text()]).checkpoints
    assert incomplete(read, [(tmp_path / entry.name).stat().st_size for entry in read.files]) == ""
    again = run(title, frame, tmp_path, "")
    assert [trained.began_with for trained in again] == [list(range(ASKED_AT + 1))] * RANKS, "what it had, it has"
    assert [trained.steps[-2:] for trained in again] == [[6, 7]] * RANKS


@pytest.mark.parametrize(("title", "frame"), [("PyTorch", pytorch), ("JAX", jax)])
def test_loop_that_goes_back_to_an_older_checkpoint_may_save_the_same_steps_again(
    title: str, frame: Frame, tmp_path: Path
) -> None:
    """After a fault that spoils data the later ones are set aside, and their folders may still be there."""
    run(title, frame, tmp_path, "n-1")
    (tmp_path / f"step-{ASKED_AT:012d}{SUFFIX}").unlink()
    run(title, frame, tmp_path, "n-2")
    again = CheckpointAgent(tmp_path).saved("n-2")
    assert again is not None
    assert again["step"] == ASKED_AT
