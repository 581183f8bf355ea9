"""Commands that start something: a process of an installation, or the demo. Each loads what it runs."""

from typing import Annotated

import typer

from cli.output import Output, OutputOption
from cli.process import end


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack up for looking around, until Ctrl-C.")] = False,
    fault: Annotated[str, typer.Option("--fault", help="Rule whose line is played; `list` shows them.")] = "demo",
    real_kmsg: Annotated[
        bool, typer.Option("--real-kmsg", help="Write the line into /dev/kmsg (root); it is a drill then.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Play one incident on the embedded stack, from a kernel line to a verified replacement."""
    from cli.demo import play

    end(play(keep=keep, fault=fault, real_kmsg=real_kmsg, output=output))


def work() -> None:
    """Run a worker until told to stop. Settings: NODEMEND_* and TEMPORAL_* (docs/operating.md)."""
    from worker.main import main as worker_main

    end(worker_main())


def detect(context: typer.Context) -> None:
    """Run the detector of this node; `-h` tells its settings, which are environment variables (docs/detector.md)."""
    from detector.main import main as detector_main

    end(detector_main(context.args))


def watch_cluster(context: typer.Context) -> None:
    """Watch the cluster's Nodes for what no node says of itself; `-h` tells its settings (docs/watch-cluster.md)."""
    from detector.cluster.main import main as watch_main

    end(watch_main(context.args))


def page() -> None:
    """Page people about what needs one: Slack, PagerDuty, a webhook. Settings: NODEMEND_* (docs/operating.md)."""
    from worker.paging.main import main as pager_main

    end(pager_main())


def codec_server(
    ui: Annotated[str, typer.Option("--ui", help="Where the Temporal UI is: its pages alone may ask.")],
    address: Annotated[str, typer.Option("--address", help="host:port to listen on.")] = "127.0.0.1:8081",
) -> None:
    """Open closed payloads for the Temporal UI, until Ctrl-C (NODEMEND_PAYLOAD_KEYS)."""
    from cli.codec_server import serve

    serve(address, ui)


def checkpoint_agent(context: typer.Context) -> None:
    """Checkpoints of a training job: the file deploy/jobs/nodemend_checkpoint.py, as jobs run it."""
    from deploy.jobs.nodemend_checkpoint import main as run

    end(run(context.args))
