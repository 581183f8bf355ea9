"""Terraform itself on deploy/terraform, with a stand-in for its provider (``provider/main.go``).

``python -m tests.deploying.terraform`` builds the stand-in into the cache, as the control plane is built.
"""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from deploy.local.build import Kit, cache_dir, complete, missing

ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent
_PROVIDER: Final = Kit("terraform-provider", {"terraform-provider-aws": "."}, HERE / "provider")

Resources = dict[str, list[dict[str, Any]]]
"""What is made, by type; the values that Terraform keeps of each."""


@dataclass(frozen=True)
class Terraform:
    """A module in a folder of its own, with the stand-in for its provider."""

    module: Path

    def run(self, *words: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run one command, with the module's variables as given."""
        rc = self.module / "rc"
        rc.write_text(
            f'provider_installation {{\n dev_overrides {{ "hashicorp/aws" = "{cache_dir(_PROVIDER)}" }}\n}}\n'
        )
        given = self.module / "given.auto.tfvars.json"
        given.write_text(json.dumps(variables))
        known = {"TF_CLI_CONFIG_FILE": str(rc), "NODEMEND_PROVIDER_SCHEMA": str(HERE / "aws_provider.json")}
        return subprocess.run(
            ["terraform", f"-chdir={self.module}", *words],
            env={**os.environ, **known, "TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"},
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


def is_there() -> bool:
    """Whether there is a Terraform; the stand-in is built by ``make test``."""
    return shutil.which("terraform") is not None


def copied(folder: Path) -> Path:
    """The module with what it reads beside it, as in a checkout."""
    assert not missing(_PROVIDER), "Run `python -m tests.deploying.terraform`, as `make test` does."
    for name in ("terraform", "aws"):
        shutil.copytree(ROOT / "deploy" / name, folder / "deploy" / name)
    return folder / "deploy/terraform"


if __name__ == "__main__":
    if is_there():
        complete(_PROVIDER, print, "program, the stand-in for Terraform's provider (under two minutes, once)")
    else:
        print("No Terraform is here: its tests are left out.")
