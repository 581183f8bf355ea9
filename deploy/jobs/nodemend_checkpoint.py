#!/usr/bin/env python3
"""Checkpoints on request for a training job: one file, standard library alone, to be copied into the image.

Nodemend asks a job to save before it takes the job's node away. This turns the question into a call of your own save
function, between two steps, wherever the question comes from:

    agent = CheckpointAgent("/checkpoints")
    for step in range(agent.resume_step(), steps):
        train(step)
        agent.step(step, save)              # save(step, folder) writes your files into folder

and, on the pod template (or ``http`` in place of ``exec``, with ``nodemend_checkpoint.py serve``):

    nodemend.io/checkpoint: exec
    nodemend.io/checkpoint-command: '["python3", "/app/nodemend_checkpoint.py", "--dir", "/checkpoints"]'
    nodemend.io/checkpoint-manifests: /checkpoints

With several ranks, rank 0 asks ``agent.wanted()``, tells the others, all save, and rank 0 calls ``agent.finish``.
Asked twice for the same checkpoint it saves once; a checkpoint is whole or is not there.
"""

import argparse
import contextlib
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SUFFIX = ".manifest.json"
LISTED = 20
LOOK_EVERY_S = 0.1
STANDING_EVERY_S = 1.0


class CheckpointAgent:
    """One job's checkpoints in one folder, which its ranks and this file's command line share."""

    def __init__(self, folder: "str | os.PathLike[str]") -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._told_at = 0.0

    # --- in the training loop ---------------------------------------------------------------------------------------

    def step(self, step: int, save: Callable[[int, Path], None], every: int = 0) -> bool:
        """Call after each step: saves when Nodemend asks, and every so many steps. True when it saved."""
        self.tell(step)
        nonce = self.wanted()
        if not nonce and not (every and step % every == 0):
            return False
        folder = self.begin(step)
        save(step, folder)
        self.finish(step, nonce)
        return True

    def tell(self, step: int) -> None:
        """Say where the job is, at most once a second. Who has not moved for long is known to hang."""
        if time.monotonic() - self._told_at >= STANDING_EVERY_S:
            self._told_at = time.monotonic()
            write_whole(self.folder / "standing.json", json.dumps({"at": step, "time": now()}))

    def wanted(self) -> str:
        """The nonce of the checkpoint that is asked for; empty while none is."""
        try:
            nonce = (self.folder / "request").read_text().strip()
        except OSError:
            return ""
        return "" if not nonce or self.saved(nonce) else nonce

    def begin(self, step: int) -> Path:
        """The folder to save a step into."""
        folder = self.folder / f"step-{step:012d}"
        folder.mkdir(exist_ok=True)
        return folder

    def finish(self, step: int, nonce: str = "") -> "dict[str, Any]":
        """All files are written: say so. The manifest is written last, so it speaks for files that are there."""
        folder = self.begin(step)
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        manifest = {
            "nonce": nonce,
            "step": step,
            "uri": folder.absolute().as_uri(),
            "time": now(),
            "files": [
                {"name": str(path.relative_to(self.folder)), "size": path.stat().st_size, "sha256": digest(path)}
                for path in files
            ],
        }
        write_whole(self.folder / f"step-{step:012d}{SUFFIX}", json.dumps(manifest))
        return manifest

    def latest(self, before: "datetime | None" = None) -> "dict[str, Any] | None":
        """The newest checkpoint whose files are all there and unspoilt, from before a moment where one is given."""
        manifest: dict[str, Any]
        for manifest in reversed(self.manifests()):
            moment = datetime.fromisoformat(str(manifest["time"]))
            if (before is None or moment < before) and self.is_whole(manifest):
                return manifest
        return None

    def resume_step(self, before: "datetime | None" = None) -> int:
        """The step to go on with."""
        found = self.latest(before)
        return int(found["step"]) + 1 if found else 0

    # --- what there is ----------------------------------------------------------------------------------------------

    def manifests(self) -> "list[dict[str, Any]]":
        """The newest checkpoints, oldest first."""
        found = []
        for path in sorted(self.folder.glob(f"step-*{SUFFIX}"))[-LISTED:]:
            try:
                found.append(json.loads(path.read_text()))
            except (OSError, ValueError):
                continue
        return found

    def is_whole(self, manifest: "dict[str, Any]") -> bool:
        """Whether every file is there with the bytes that were written."""
        for entry in manifest.get("files", []):
            path = self.folder / entry["name"]
            if not path.is_file() or path.stat().st_size != entry["size"] or digest(path) != entry["sha256"]:
                return False
        return True

    def saved(self, nonce: str) -> "dict[str, Any] | None":
        """The checkpoint that was saved for a request."""
        return next((item for item in reversed(self.manifests()) if item["nonce"] == nonce), None)

    # --- the other side: what Nodemend calls ------------------------------------------------------------------------

    def ask(self, nonce: str, patience_s: float) -> "dict[str, Any] | None":
        """Have the training loop save, and wait. Asking again for the same nonce waits for the same checkpoint."""
        until = time.monotonic() + patience_s
        if not self.saved(nonce):
            write_whole(self.folder / "request", nonce)
        while not (found := self.saved(nonce)) and time.monotonic() < until:
            time.sleep(LOOK_EVERY_S)
        return found

    def listing(self) -> str:
        """What there is, one JSON object a line: checkpoints, oldest first, then where the job is."""
        lines = [json.dumps({key: item[key] for key in ("nonce", "step", "uri", "time")}) for item in self.manifests()]
        with contextlib.suppress(OSError):
            lines.append((self.folder / "standing.json").read_text())
        return "\n".join(lines)


def now() -> str:
    """The time, with its offset."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")  # noqa: UP017 - for images with an old Python


def digest(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    summed = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            summed.update(piece)
    return summed.hexdigest()


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is whole or not there, whatever dies meanwhile."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with scratch.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def serve(agent: CheckpointAgent, address: str, port: int, patience_s: float) -> ThreadingHTTPServer:
    """A server for ``nodemend.io/checkpoint: http``: GET lists, POST saves. The caller runs it."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self, status: int, text: str) -> None:
            payload = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def do_GET(self) -> None:
            self._answer(200, agent.listing())

        def do_POST(self) -> None:
            try:
                nonce = str(json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))["nonce"])
            except (ValueError, KeyError, TypeError):
                self._answer(400, 'send {"nonce": "..."}')
                return
            found = agent.ask(nonce, patience_s)
            self._answer(200 if found else 504, json.dumps(found) if found else "the training loop has not saved")

        def log_message(self, *_arguments: object) -> None:
            pass

    return ThreadingHTTPServer((address, port), Handler)


def main(arguments: "Iterable[str] | None" = None) -> int:
    """Run one verb. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="nodemend_checkpoint.py", description="Checkpoints of a training job.")
    parser.add_argument("--dir", required=True, help="the folder that the training loop's CheckpointAgent has")
    parser.add_argument("--wait", type=float, default=3600.0, help="seconds to wait for the training loop")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="print the checkpoints there are")
    verbs.add_parser("save", help="have a checkpoint saved, and print it").add_argument("nonce")
    server = verbs.add_parser("serve", help="answer by http")
    server.add_argument("--port", type=int, default=8700)
    server.add_argument("--address", default="")
    chosen = parser.parse_args(None if arguments is None else list(arguments))
    agent = CheckpointAgent(chosen.dir)
    if chosen.verb == "list":
        print(agent.listing())
    elif chosen.verb == "serve":
        with serve(agent, chosen.address, chosen.port, chosen.wait) as running:
            running.serve_forever()
    else:
        found = agent.ask(chosen.nonce, chosen.wait)
        if not found:
            print(f"the training loop has not saved within {chosen.wait:.0f} s: does it run?", file=sys.stderr)
            return 1
        print(json.dumps({key: found[key] for key in ("nonce", "step", "uri", "time")}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
