"""A small real optimiser, run as a training job would be: steps, checkpoints with checksums, resumption.

It fits a line by stochastic gradient descent: the loss falls, and a step that is lost has to be done again. Standard
library alone. ``python -m deploy.local.training --dir FOLDER --every N`` trains until it is ended.
"""

import argparse
import json
import random
import time
from pathlib import Path
from typing import Final

from deploy.jobs.nodemend_checkpoint import CheckpointAgent

TRUTH: Final = (3.0, -2.0, 0.5, 1.5)
"""What it is to find."""
_RATE: Final = 0.02
_STEP_S: Final = 0.02


class Model:
    """Weights, and the state of the generator that draws its samples: both are in a checkpoint."""

    def __init__(self) -> None:
        self.weights = [0.0] * len(TRUTH)
        self.loss = 0.0
        self._draw = random.Random(7)  # noqa: S311 - samples, not secrets

    def step(self) -> None:
        """One step of gradient descent on one sample."""
        sample = [self._draw.uniform(-1, 1) for _ in TRUTH]
        wanted = sum(a * b for a, b in zip(TRUTH, sample, strict=True))
        error = sum(a * b for a, b in zip(self.weights, sample, strict=True)) - wanted
        self.weights = [weight - _RATE * error * value for weight, value in zip(self.weights, sample, strict=True)]
        self.loss = 0.95 * self.loss + 0.05 * error * error

    def save(self, _step: int, folder: Path) -> None:
        """Write everything that the next step depends on."""
        version, state, gauss = self._draw.getstate()
        held = {"weights": self.weights, "loss": self.loss, "draw": [version, list(state), gauss]}
        (folder / "model.json").write_text(json.dumps(held))

    def load(self, folder: Path) -> None:
        """Go on as if nothing had happened."""
        held = json.loads((folder / "model.json").read_text())
        self.weights, self.loss = held["weights"], held["loss"]
        version, state, gauss = held["draw"]
        self._draw.setstate((version, tuple(state), gauss))


def train(folder: Path, every: int, steps: int | None = None, pace_s: float = _STEP_S) -> Model:
    """Resume from the newest whole checkpoint, and train: for so many steps more, or until ended."""
    agent, model = CheckpointAgent(folder), Model()
    start = agent.resume_step()
    if start:
        model.load(agent.begin(start - 1))
    step = start
    while steps is None or step < start + steps:
        model.step()
        agent.step(step, model.save, every)
        step += 1
        time.sleep(pace_s)
    return model


def main() -> None:
    """Train until ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--every", type=int, required=True, help="steps between two checkpoints of its own")
    arguments = parser.parse_args()
    train(arguments.dir, arguments.every)


if __name__ == "__main__":
    main()
