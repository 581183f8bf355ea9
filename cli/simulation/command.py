"""``nodemend simulate``: reads what people gave, plays the runs, shows what came of them."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError
from rich.console import Console, Group
from rich.text import Text

from cli.errors import CommandError
from cli.simulation.events import draw
from cli.simulation.model import FleetModel
from cli.simulation.presets import PRESETS
from cli.simulation.run import Result, simulate
from cli.simulation.show import chart, table
from cli.simulation.ways import AtOnce, Budgeted, Way
from contract.model import Document
from contract.names import ExitCode
from contract.policy import Policy
from contract.words import counted

D = TypeVar("D", bound=Document)

AT_ONCE = "mark unhealthy at once"


def run(
    fleet: str, policy: Path | None, against: Path | None, seed: int, chart_file: Path | None
) -> tuple[FleetModel, dict[str, Result]]:
    """Play both ways on one fleet, with one seed.

    Raises:
        CommandError: a file cannot be read or is not valid, or there is no such preset.
    """
    model = PRESETS.get(fleet) or _fleet_file(fleet)
    ways: dict[str, Way] = {str(against) if against else AT_ONCE: _way(model, against) if against else AtOnce()}
    ways[str(policy) if policy else "the default policy"] = _way(model, policy)
    befalls = draw(model, seed)
    results = {name: simulate(model, befalls, way) for name, way in ways.items()}
    if chart_file:
        try:
            chart_file.write_text(chart(model, results), encoding="utf-8")
        except OSError as error:
            raise CommandError(
                f"--chart: {chart_file} cannot be written: {error.strerror}.",
                "Name a file in a folder of yours.",
                ExitCode.NO_INPUT,
            ) from error
    return model, results


def plain(model: FleetModel, seed: int, results: dict[str, Result]) -> dict[str, Any]:
    """For programs."""
    shown = {name: {k: v for k, v in asdict(result).items() if k != "at_work"} for name, result in results.items()}
    return {"fleet": model.model_dump(mode="json"), "seed": seed, "results": shown}


def show(model: FleetModel, results: dict[str, Result]) -> None:
    """For people."""
    size = f"{counted(model.nodes, 'node')}, {counted(model.gangs, 'gang')} of {model.gang}, "
    size += f"{counted(model.spares, 'spare')}, {model.days:g} days."
    source = [Text(model.source, style="dim")] if model.source else []
    Console().print(Group(Text(size, style="bold"), *source, Text(""), table(model, results)))


def _way(model: FleetModel, file: Path | None) -> Budgeted:
    return Budgeted(model, _read(file, Policy, "policy") if file else Policy())


def _fleet_file(name: str) -> FleetModel:
    file = Path(name)
    if not file.exists():
        raise CommandError(
            f"There is no fleet {name!r}: neither a preset nor a file.",
            f"Presets: {', '.join(PRESETS)}. A file of your own has the fields that `--output json` shows.",
            ExitCode.NO_INPUT,
        )
    return _read(file, FleetModel, "fleet")


def _read(file: Path, kind: type[D], what: str) -> D:
    try:
        return kind.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")) or {})
    except OSError as error:
        raise CommandError(
            f"The {what} {file} cannot be read: {error.strerror}.", "Name a file that is there.", ExitCode.NO_INPUT
        ) from error
    except yaml.YAMLError as error:
        raise CommandError(f"The {what} {file} is not YAML: {error}.", "Mend it.", ExitCode.DATA) from error
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise CommandError(f"The {what} {file} is not valid: {wrong}.", "Mend these fields.", ExitCode.DATA) from error
