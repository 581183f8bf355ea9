"""The bare shell script of docs/checkpointing.md speaks the protocol as it stands there."""

import re
import subprocess
from pathlib import Path

from activities.checkpoint_manifest import read_lines

DOCUMENT = Path(__file__).parents[2] / "docs" / "checkpointing.md"


def test_shell_example_saves_once_however_often_it_is_asked(tmp_path: Path) -> None:
    found = re.search(r"```sh\n(#!/bin/sh.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found
    # The trainer is process 1 of a container. Here it is what `kill` is told to do instead.
    script = (
        found[1].replace("/checkpoints", str(tmp_path)).replace("kill -USR1 1", "echo x >> asked; echo 1200 > step")
    )
    program = tmp_path / "checkpoint.sh"
    program.write_text(script)

    def run(*verb: str) -> str:
        return subprocess.run(
            ["sh", str(program), *verb], capture_output=True, text=True, check=True, timeout=20
        ).stdout

    assert run("list") == ""
    first, again = run("save", "n-1"), run("save", "n-1")
    assert first == again
    (answer,) = read_lines(first).checkpoints
    assert (answer.nonce, answer.step) == ("n-1", 1200)
    assert read_lines(run("list")).problem == ""
    assert (tmp_path / "asked").read_text().count("x") == 1
