"""The file that people copy into their images, and a real optimiser that uses it."""

import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from activities.checkpoint_manifest import read_lines
from deploy.jobs import nodemend_checkpoint as helper
from deploy.jobs.nodemend_checkpoint import CheckpointAgent
from deploy.local.training import TRUTH, train


def save(step: int, folder: Path) -> None:
    (folder / "weights.bin").write_bytes(f"weights of {step}".encode())


@contextmanager
def training(agent: CheckpointAgent) -> Iterator[list[int]]:
    """A loop that takes steps until the block ends. Yields the steps at which it saved."""
    over, saved = threading.Event(), list[int]()

    def loop() -> None:
        step = agent.resume_step()
        while not over.wait(0.002):
            if agent.step(step, save):
                saved.append(step)
            step += 1

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield saved
    finally:
        over.set()
        thread.join()


def test_question_becomes_one_call_of_the_save_function_however_often_it_is_asked(tmp_path: Path) -> None:
    agent = CheckpointAgent(tmp_path)
    with training(agent) as saved:
        first = agent.ask("n-1", 20)
        again = agent.ask("n-1", 20)
    assert first == again
    assert first is not None
    assert saved == [first["step"]]
    assert agent.is_whole(first)


def test_two_who_ask_at_once_get_the_same_checkpoint(tmp_path: Path) -> None:
    agent = CheckpointAgent(tmp_path)
    answers: list[object] = []
    askers = [threading.Thread(target=lambda: answers.append(agent.ask("n-1", 20))) for _ in range(4)]
    with training(agent) as saved:
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
    assert len(saved) == 1
    assert all(answer == answers[0] for answer in answers)


def test_command_line_speaks_the_protocol_with_the_oldest_python_flags(tmp_path: Path) -> None:
    command = [sys.executable, "-I", helper.__file__, "--dir", str(tmp_path)]
    agent = CheckpointAgent(tmp_path)
    with training(agent):
        saved = subprocess.run([*command, "save", "n-1"], capture_output=True, text=True, check=True).stdout
        listed = subprocess.run([*command, "list"], capture_output=True, text=True, check=True).stdout
    (answer,) = read_lines(saved).checkpoints
    known = read_lines(listed)
    assert (answer.nonce, known.problem) == ("n-1", "")
    assert known.newest is not None
    assert known.newest.step == answer.step
    assert known.standing is not None


def test_loop_that_does_not_run_is_told(tmp_path: Path) -> None:
    command = [sys.executable, "-I", helper.__file__, "--dir", str(tmp_path), "--wait", "0", "save", "n-1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "does it run?" in done.stderr


def test_http_answers_get_and_post(tmp_path: Path) -> None:
    agent = CheckpointAgent(tmp_path)
    with helper.serve(agent, "127.0.0.1", 0, 20.0) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}/checkpoint"
            with training(agent):
                body = json.dumps({"nonce": "n-1"}).encode()
                with urllib.request.urlopen(urllib.request.Request(url, data=body)) as answer:
                    assert json.load(answer)["nonce"] == "n-1"
            with urllib.request.urlopen(url) as answer:
                assert read_lines(answer.read().decode()).checkpoints[0].nonce == "n-1"
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.parametrize("spoil", ["short", "other", "gone", "manifest"])
def test_half_or_spoilt_checkpoint_is_never_resumed_from(tmp_path: Path, spoil: str) -> None:
    agent = CheckpointAgent(tmp_path)
    for step in (10, 20):
        save(step, agent.begin(step))
        agent.finish(step)
    weights = agent.begin(20) / "weights.bin"
    match spoil:
        case "short":
            weights.write_bytes(b"w")
        case "other":
            weights.write_bytes(b"weights of 99")
        case "gone":
            weights.unlink()
        case _:
            (tmp_path / f"step-{20:012d}{helper.SUFFIX}").write_text('{"nonce": "", "st')
    assert agent.resume_step() == 11


def test_newest_from_before_the_evidence_is_found(tmp_path: Path) -> None:
    agent = CheckpointAgent(tmp_path)
    save(10, agent.begin(10))
    agent.finish(10)
    moment = datetime.now(UTC)
    later = agent.finish(20)
    later["time"] = "2100-01-01T00:00:00+00:00"
    helper.write_whole(tmp_path / f"step-{20:012d}{helper.SUFFIX}", json.dumps(later))
    found = agent.latest(before=max(moment, datetime.now(UTC)))
    assert found is not None
    assert found["step"] == 10


def test_optimiser_that_was_ended_and_resumed_is_where_one_that_was_not_is(tmp_path: Path) -> None:
    """A checkpoint is worth what it promises: not one bit differs."""
    whole = train(tmp_path / "whole", every=50, steps=400, pace_s=0)
    train(tmp_path / "torn", every=50, steps=251, pace_s=0)
    resumed = train(tmp_path / "torn", every=50, steps=149, pace_s=0)
    assert resumed.weights == whole.weights
    assert all(abs(a - b) < 2.0 for a, b in zip(whole.weights, TRUTH, strict=True))
