"""Terraform itself on deploy/terraform, with a stand-in for its provider (``provider/main.go``)."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent
PROGRAMS: Final = ("terraform", "go")
_PROVIDER: Final = "terraform-provider-aws"

Resources = dict[str, list[dict[str, Any]]]
"""What is made, by type; the values that Terraform keeps of each."""


@dataclass(frozen=True)
class Terraform:
    """A module in a folder of its own, and the provider that it finds."""

    module: Path
    provider: Path

    def run(self, *words: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run one command, with the module's variables as given."""
        rc = self.module / "rc"
        rc.write_text(
            f'provider_installation {{\n dev_overrides {{ "hashicorp/aws" = "{self.provider.parent}" }}\n}}\n'
        )
        given = self.module / "given.auto.tfvars.json"
        given.write_text(json.dumps(variables))
        known = {"TF_CLI_CONFIG_FILE": str(rc), "NODEMEND_PROVIDER_SCHEMA": str(HERE / "aws_provider.json")}
        return subprocess.run(
            ["terraform", f"-chdir={self.module}", *words],
            env={**os.environ, **known, "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    def validate(self) -> str:
        """What ``terraform validate`` has against it; empty for nothing."""
        told = json.loads(self.run("validate", "-json").stdout)
        errors = [one for one in told["diagnostics"] if one["severity"] == "error"]
        assert told["valid"] is not bool(errors)
        return "\n".join(f"{one['summary']}: {one['detail']}" for one in errors)

    def apply(self, **variables: Any) -> Resources:
        """What it makes; a plan made after that has nothing left to do."""
        done = self.run("apply", "-auto-approve", "-no-color", **variables)
        assert done.returncode == 0, done.stderr
        again = self.run("plan", "-detailed-exitcode", "-no-color", **variables)
        assert again.returncode == 0, again.stdout
        state = json.loads(self.run("show", "-json", **variables).stdout)
        found: Resources = {}
        for one in state["values"]["root_module"]["resources"]:
            found.setdefault(one["type"], []).append(one["values"])
        return found

    def refusal(self, **variables: Any) -> str:
        """Why it plans nothing with these variables, in one line."""
        done = self.run("plan", "-no-color", **variables)
        assert done.returncode == 1, done.stdout
        return " ".join(done.stderr.replace("│", " ").split())


def build_provider(folder: Path) -> Path:
    """The stand-in, built from modules that are here already (``make test`` gets them)."""
    program = folder / _PROVIDER
    done = subprocess.run(
        ["go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", str(program), "."],
        cwd=HERE / "provider",
        env={**os.environ, "GOPROXY": "off", "GOFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"The stand-in for the provider does not build; `make test` gets its modules. {done.stderr[-800:]}")
    return program


def copied(folder: Path) -> Path:
    """The module with what it reads beside it, as in a checkout."""
    for name in ("terraform", "aws"):
        shutil.copytree(ROOT / "deploy" / name, folder / "deploy" / name)
    return folder / "deploy/terraform"
