"""What the pods of the demo's jobs contain: a program with checkpoints, asked through ``exec``.

It speaks the exec protocol of ``docs/checkpointing.md``: ``save NONCE`` writes a checkpoint and prints it as one JSON
line, ``list`` prints those there are, oldest first. ``init COUNT`` seeds some from before, a minute apart.
Standard library alone, as a training container would run it.
"""

import argparse
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

STEPS_PER_CHECKPOINT = 500


def main() -> None:
    """Run one verb."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, required=True, help="folder of this job's checkpoints")
    parser.add_argument("verb", choices=["save", "list", "init"])
    parser.add_argument("argument", nargs="?", default="")
    arguments = parser.parse_args()
    arguments.dir.mkdir(parents=True, exist_ok=True)
    match arguments.verb:
        case "save":
            print(json.dumps(save(arguments.dir, arguments.argument, datetime.now(UTC))))
        case "list":
            for checkpoint in known(arguments.dir):
                print(json.dumps(checkpoint))
        case "init":
            count = int(arguments.argument or 3)
            for number in range(count):
                save(arguments.dir, "", datetime.now(UTC) - timedelta(minutes=count - number))


def save(folder: Path, nonce: str, moment: datetime) -> dict[str, object]:
    """Write the next checkpoint; complete or not at all."""
    step = (int(str(known(folder)[-1]["step"])) if known(folder) else 0) + STEPS_PER_CHECKPOINT
    weights = folder / f"step-{step:08d}.bin"
    weights.write_bytes(f"weights of step {step}\n".encode())
    checkpoint: dict[str, object] = {
        "nonce": nonce,
        "step": step,
        "uri": weights.as_uri(),
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
