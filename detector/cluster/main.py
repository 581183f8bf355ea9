"""Start of ``nodemend watch-cluster``: settings and rules are checked, then it stands for election and watches.

One replica is active; the others wait, and take over within fifteen seconds of its silence.
"""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from pydantic import ValidationError

from contract.address import Address, parse_address
from contract.names import ExitCode
from contract.payload_keys import KeyringError, load_keyring
from contract.wrong_settings import wrong_settings
from detector.catalogue import CatalogueError
from detector.cluster.api import Api
from detector.cluster.documents import load_rules
from detector.cluster.election import Election
from detector.cluster.metrics import Facts, expose
from detector.cluster.settings import WatchSettings
from detector.cluster.watching import TICK_S, Watching
from detector.exporter import Exporter
from detector.trouble import Trouble
from detector.usage import tell_usage

_STUCK_S: Final = 120.0
"""A round that takes longer than its calls may (each is bounded) does not end."""
_MORE: Final = (
    ("KUBECONFIG", "service account", "The Kubernetes API, where it runs outside a pod."),
    ("TEMPORAL_*", "localhost:7233", "As for every Temporal client: ADDRESS, NAMESPACE, API_KEY, TLS_*, PROFILE."),
    ("AWS_*", "as for every SDK", "EC2: region and credentials."),
)
"""Variables that others read."""


class Replica:
    """One replica: it waits for the Lease, watches while it has it, and waits again."""

    def __init__(self, settings: WatchSettings) -> None:
        """Check the rules and connect.

        Raises:
            CatalogueError: a rule cannot be used.
            Trouble: no cluster is configured.
            OSError: the address cannot be bound.
        """
        self._settings = settings
        self._rules = load_rules(settings.cluster_rules_dir)
        self._api = Api.connect()
        self._stop = threading.Event()
        self._election = Election(self._api, settings.namespace, settings.identity, say)
        self._watching: Watching | None = None
        host, port = parse_address(settings.watch_address)
        self._exporter = Exporter(host, port)
        say(f"/metrics and /healthz are on {Address(host, self._exporter.port)}.")

    def stop(self) -> None:
        """End soon."""
        self._stop.set()

    def run(self) -> None:
        """Until stopped."""
        threading.Thread(target=self._serve, name="exporter", daemon=True).start()
        self._election.start()
        try:
            while not self._stop.is_set():
                if self._election.is_active:
                    self._watch()
                else:
                    self._stop.wait(TICK_S)
        finally:
            self._election.stop()

    def _watch(self) -> None:
        """One term of office."""
        watching = Watching(self._api, self._settings, self._rules, _version(), say)
        try:
            watching.start()
        except Trouble as trouble:
            say(str(trouble))
            self._stop.wait(5)
            return
        self._watching = watching
        try:
            while self._election.is_active and not self._stop.is_set():
                began = time.monotonic()
                watching.round(lambda: self._election.is_active)
                # A round over thousands of nodes in trouble may take as long as the pause: no core is kept busy.
                self._stop.wait(max(TICK_S, 3 * (time.monotonic() - began)))
        finally:
            self._watching = None
            watching.stop()
            if not self._stop.is_set():
                say("The Lease could not be renewed: this replica waits, and another watches.")

    def _serve(self) -> None:
        while True:
            if select.select([self._exporter.descriptor], [], [], 1.0)[0]:
                self._exporter.serve(self.health, self.metrics)

    def health(self) -> tuple[bool, dict[str, object]]:
        """Whether it does its work: waits for the Lease, or has all Nodes and a watch on them."""
        watching = self._watching
        if watching is None:
            return self._election.is_alive, {"active": False}
        informer = watching.informer
        stuck = time.monotonic() - watching.counters.round_at > _STUCK_S
        facts: dict[str, object] = {
            "active": True,
            "synced": informer.synced.is_set(),
            "watch_alive": informer.is_alive,
            "stuck": stuck,
        }
        return informer.is_alive and not stuck, facts

    def metrics(self) -> str:
        """Prometheus text."""
        watching = self._watching
        if watching is None:
            return expose(Facts(active=False))
        counters, informer = watching.counters, watching.informer
        return expose(
            Facts(
                active=True,
                nodes=len(informer.nodes),
                away=counters.away,
                outage=counters.outage,
                silent=counters.silent,
                silence_held=counters.silence_held,
                waiting=counters.waiting,
                failures=counters.failures,
                lists=informer.lists,
                reconnects=informer.reconnects,
                sent=counters.sent,
                open=counters.open,
            )
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run until told to stop."""
    if argv:
        return tell_usage(argv, "nodemend watch-cluster", "Watch the cluster's Nodes.", WatchSettings, _MORE)
    try:
        settings = WatchSettings()
        load_keyring(os.environ)
        replica = Replica(settings)
    except ValidationError as error:
        for problem in wrong_settings(error, WatchSettings):
            say(problem)
        return ExitCode.CONFIG
    except CatalogueError as error:
        say(str(error))
        return ExitCode.DATA
    except (KeyringError, Trouble) as error:
        say(str(error))
        return ExitCode.CONFIG
    except OSError as error:
        say(f"NODEMEND_WATCH_ADDRESS cannot be listened on ({error}): choose another.")
        return ExitCode.CONFIG
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: replica.stop())
    replica.run()
    return ExitCode.OK


def _version() -> str:
    try:
        return version("nodemend")
    except PackageNotFoundError:
        return ""


def say(line: str) -> None:
    """Tell the pod's log."""
    print(f"watch-cluster: {line}", file=sys.stderr, flush=True)
