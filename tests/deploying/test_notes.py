"""What Helm says once the chart is installed can be pasted: the shell then reaches Temporal as the pods do."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from temporalio.envconfig import ClientConfig

from tests.deploying.rendering import CASES, CHART, Json, changed, helm
from tests.operating.test_documented_commands import mistake

pytestmark = pytest.mark.stack

SECRETS = {"tls.crt": "CERTIFICATE", "tls.key": "KEY", "ca.crt": "AUTHORITY", "api-key": "secret-api-key"}


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart, with its notes as an object: `helm template` shows no others."""
    copy = tmp_path_factory.mktemp("chart") / "nodemend"
    shutil.copytree(CHART, copy)
    text = (copy / "templates/NOTES.txt").read_text()
    (copy / "templates/shown.yaml").write_text(
        '{{- define "shown" }}' + text + "{{ end }}\napiVersion: v1\nkind: Notes\nmetadata: {name: notes}\n"
        'text: |\n{{ include "shown" . | indent 2 }}\n'
    )
    return copy


def notes(chart: Path, values: Json) -> str:
    done = helm(
        "template", "nodemend", str(chart), "-n", "nodemend", "--show-only", "templates/shown.yaml", values=values
    )
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["text"])


def pasted(text: str, folder: Path) -> dict[str, str]:
    """The environment of a shell that took every line of an export; kubectl answers from the Secrets."""
    answers = "\n".join(f"*'\"{key}\"'*) printf %s {value};;" for key, value in SECRETS.items())
    kubectl = folder / "kubectl"
    kubectl.write_text(f'#!/bin/sh\ncase "$*" in\n{answers}\n*) exit 1;;\nesac\n')
    kubectl.chmod(0o755)
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("export ")]
    done = subprocess.run(
        ["bash", "-ec", "\n".join([*lines, "env -0"])],
        env={"PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)


def settings(environment: dict[str, str]) -> Json:
    """As the SDK reads them, for the command line and for the pods."""
    return dict(ClientConfig.load_client_connect_config(disable_file=True, override_env_vars=environment))


@pytest.mark.parametrize("case", ["default", "temporal-cloud", "mtls-on-nodes"])
def test_shell_that_took_the_lines_reaches_temporal_as_the_pods_do(case: str, chart: Path, tmp_path: Path) -> None:
    values = CASES[case]
    if case == "mtls-on-nodes":
        values = changed(values, "temporal.tls.serverName", "temporal.internal")
    environment = pasted(notes(chart, values), tmp_path)
    assert environment["NODEMEND_CLUSTER"] == values["cluster"]
    assert environment["AWS_REGION"] == values["aws"]["region"]
    found = settings(environment)
    assert found["target_host"] == values["temporal"]["address"]
    assert found["namespace"] == values["temporal"].get("namespace", "default")
    assert found.get("api_key") == ("secret-api-key" if case == "temporal-cloud" else None)
    if case == "mtls-on-nodes":
        tls = found["tls"]
        assert (tls.client_cert, tls.client_private_key) == (b"CERTIFICATE", b"KEY")
        assert (tls.server_root_ca_cert, tls.domain) == (b"AUTHORITY", "temporal.internal")
        assert environment["NODEMEND_PAYLOAD_KEYS"] == "FOLDER"


@pytest.mark.parametrize("case", CASES)
def test_commands_are_ones_that_there_are(case: str, chart: Path) -> None:
    text = notes(chart, CASES[case])
    lines = re.findall(r"^  (?:kubectl exec .* -- )?nodemend (.+)$", text, re.M)
    commands = lines + re.findall(r"`nodemend ([^`]+)`", text)
    assert "uninstall --check" in commands
    assert {command: why for command in commands if (why := mistake(shlex.split(command)))} == {}
