"""What the pods of the demo's jobs contain: a program with checkpoints, asked through ``exec``.

It speaks the exec protocol of ``docs/checkpointing.md``: ``save NONCE`` writes a checkpoint and prints it as one JSON
line, ``list`` prints those there are, oldest first. ``init COUNT`` seeds some from before, a minute apart.
Standard library alone, as a training container would run it.
"""

import argparse
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

STEPS_PER_CHECKPOINT = 500


def main() -> None:
    """Run one verb."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", required=True, help="whose checkpoints: namespace/name")
    parser.add_argument("--dir", type=Path, help="state folder; else $NODEMEND_STATE_DIR, else here")
    parser.add_argument("verb", choices=["save", "list", "init"])
    parser.add_argument("argument", nargs="?", default="")
    arguments = parser.parse_args()
    folder = folder_of(arguments.dir or Path(os.environ.get("NODEMEND_STATE_DIR", ".")), arguments.job)
    match arguments.verb:
        case "save":
            print(json.dumps(save(folder, arguments.argument, datetime.now(UTC))))
        case "list":
            for checkpoint in known(folder):
                print(json.dumps(checkpoint))
        case "init":
            seed(folder, int(arguments.argument or 3))


def folder_of(state: Path, job: str) -> Path:
    """Where a job keeps its checkpoints; it is there afterwards."""
    folder = state / "checkpoints" / job
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def seed(folder: Path, count: int) -> None:
    """Write checkpoints as if the job had run for ``count`` minutes."""
    for minutes in range(count, 0, -1):
        save(folder, "", datetime.now(UTC) - timedelta(minutes=minutes))


def save(folder: Path, nonce: str, moment: datetime) -> dict[str, object]:
    """Write the next checkpoint; complete or not at all."""
    step = (int(str(known(folder)[-1]["step"])) if known(folder) else 0) + STEPS_PER_CHECKPOINT
    weights = folder / f"step-{step:08d}.bin"
    weights.write_bytes(f"weights of step {step}\n".encode())
    checkpoint: dict[str, object] = {
        "nonce": nonce,
        "step": step,
        "uri": weights.absolute().as_uri(),
        "time": moment.isoformat(timespec="milliseconds"),
    }
    entry = folder / f"step-{step:08d}.json"
    entry.with_suffix(".tmp").write_text(json.dumps(checkpoint))
    entry.with_suffix(".tmp").rename(entry)
    return checkpoint


def known(folder: Path) -> list[dict[str, object]]:
    """The checkpoints there are, oldest first."""
    return [json.loads(entry.read_text()) for entry in sorted(folder.glob("step-*.json"))]


if __name__ == "__main__":
    main()
