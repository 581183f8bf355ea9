"""Takes the pictures: a real Temporal with its UI, the production's worker, scripted acts, and Chromium.

``python -m tests.screenshots [FOLDER]``; needs ``chromium`` on the PATH. Each incident is stopped at one phase and its
page is taken as an operator sees it.
"""

import asyncio
import base64
import json
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import urllib3
import websocket
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from contract.names import ActivityName, ErrorType, Phase, Step
from deploy.local.temporal import Temporal, running_temporal
from tests.runbook.world import Incident, Play, Script, Stuck, World, fails, fast, scripted_acts
from worker.main import ACTS_AT_ONCE, make_worker
from worker.temporal import register_search_attributes

_QUEUE: Final = "screenshots"
_SIZE: Final = "1280,2000"
_DRAWN: Final = "document.body.innerText.includes('Current Details') && document.querySelector('iframe') !== null"
"""True once the page shows more than its skeleton; the UI puts Markdown into a frame of its own."""
_FRAME_S: Final = 2.0
"""How long that frame has to draw itself."""
_DRAWN_WITHIN_S: Final = 60.0


@dataclass(frozen=True)
class Shot:
    """One phase: what stops the incident there."""

    name: str
    act: ActivityName | None = None
    script: Script | None = None
    approve_before: frozenset[Step] = frozenset()
    phase: Phase | None = Phase.NEEDS_HUMAN
    """Waited for before the picture is taken; None: until ``act`` runs."""


SHOTS: Final = (
    Shot("quarantined", ActivityName.PRESERVE_EVIDENCE, Stuck(), phase=None),
    Shot("waiting-for-approval", approve_before=frozenset({Step.DISRUPT})),
    Shot("draining", ActivityName.DRAIN_NODE, Stuck(), phase=None),
    Shot(
        "needs-human",
        ActivityName.DRAIN_NODE,
        fails(ErrorType.DRAIN_BLOCKED, "PodDisruptionBudget train/llama allows no eviction: 0 of 64 may be away."),
    ),
    Shot("closed", phase=Phase.CLOSED),
)


async def take(temporal: Temporal, folder: Path, chromium: str) -> None:
    """All pictures, one incident after another."""
    client = await Client.connect(
        temporal.address, namespace=temporal.namespace, data_converter=pydantic_data_converter
    )
    await register_search_attributes(client)
    with ThreadPoolExecutor(max_workers=ACTS_AT_ONCE) as executor:
        async with make_worker(client, scripted_acts(), executor, _QUEUE, beat=timedelta(seconds=0.5)):
            for shot in SHOTS:
                incident = await _bring_there(client, shot)
                page = f"{temporal.ui_url}/namespaces/{temporal.namespace}/workflows/{incident.handle.id}"
                run = (await incident.handle.describe()).run_id
                await asyncio.to_thread(
                    _picture, chromium, f"{page}/{run}/user-metadata", folder / f"ui-{shot.name}.png"
                )
                await incident.handle.terminate() if shot.phase is not Phase.CLOSED else None


async def _bring_there(client: Client, shot: Shot) -> Incident:
    world = World(policy=fast(approve_before=tuple(shot.approve_before)))
    if shot.act and shot.script:
        world.on(shot.act, shot.script)
    incident = await Play(client, _QUEUE, world).start()
    if shot.phase is Phase.CLOSED:
        await incident.result()
    elif shot.phase:
        await incident.until_phase(shot.phase)
    elif isinstance(shot.script, Stuck):
        await shot.script.started.wait()
    return incident


def _picture(chromium: str, page: str, file: Path) -> None:
    """By the DevTools protocol: the page polls for ever, so Chromium's own ``--screenshot`` finds no end of loading."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        subprocess.Popen(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={_SIZE}",
             f"--user-data-dir={profile}", "--remote-debugging-port=0", "--remote-allow-origins=*", page],
            stderr=subprocess.PIPE,
            text=True,
        ) as browser,
    ):  # fmt: skip
        assert browser.stderr
        try:
            line = next(line for line in browser.stderr if "DevTools listening" in line)
            port = line.rpartition("127.0.0.1:")[2].partition("/")[0]
            answer = urllib3.request("GET", f"http://127.0.0.1:{port}/json/list").json()
            target = next(one for one in answer if one["type"] == "page")
            socket = websocket.create_connection(target["webSocketDebuggerUrl"], timeout=30)
            deadline = time.monotonic() + _DRAWN_WITHIN_S
            while not _tell(socket, "Runtime.evaluate", expression=_DRAWN)["result"].get("value"):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{page} does not draw itself.")
                time.sleep(0.5)
            time.sleep(_FRAME_S)
            told = _tell(socket, "Page.captureScreenshot", format="png")
            file.write_bytes(base64.b64decode(told["data"]))
            socket.close()
        finally:
            browser.terminate()


def _tell(socket: websocket.WebSocket, method: str, **parameters: str) -> dict[str, Any]:
    socket.send(json.dumps({"id": 1, "method": method, "params": parameters}))
    while (told := json.loads(socket.recv())).get("id") != 1:
        pass
    result: dict[str, Any] = told["result"]
    return result


def main() -> int:
    """Take them into a folder, ``docs/images`` unless another is named."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        print("Chromium is not installed; e.g. `apt-get install chromium`.", file=sys.stderr)
        return 78
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as state, running_temporal(Path(state)) as temporal:
        asyncio.run(take(temporal, folder, chromium))
    return 0


if __name__ == "__main__":
    sys.exit(main())
