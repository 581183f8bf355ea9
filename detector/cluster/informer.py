"""All Nodes, kept current: one list in pages, then a watch that goes on where it stopped.

The package's own informer lists typed objects in one answer, a gigabyte for ten thousand Nodes; its ``Watch`` does
what is needed and is used: it follows bookmarks, and says when a version is too old. Nothing here decides anything.
"""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from kubernetes.watch import Watch

from detector.api_server import Gone, translated
from detector.cluster.api import COMPONENT, Api
from detector.cluster.view import Lens, NodeView
from detector.trouble import Trouble

_WATCH_S: Final = 240
"""The server ends a watch after this long, so that load spreads over its replicas."""
_READ_S: Final = 120.0
"""Bookmarks come every minute; a connection that brings nothing for two is cut."""
_BRIEF_S: Final = 1.0
"""A watch that is ended sooner was not served: trying again at once would be a hot loop."""
ALIVE_S: Final = 300.0
"""Without a sign of life for so long, what is kept may not be true any more."""
_LONGEST_PAUSE_S: Final = 30.0


class Nodes:
    """What is known of each Node, and which of them changed since somebody last asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._views: dict[str, NodeView] = {}
        self._changed: set[str] = set()

    def replace(self, views: dict[str, NodeView]) -> None:
        """A whole list. What is as it was has not changed."""
        with self._lock:
            self._changed |= {name for name, view in views.items() if self._views.get(name) != view}
            self._changed |= self._views.keys() - views.keys()
            self._views = views

    def put(self, view: NodeView) -> None:
        """One of them is like this now."""
        with self._lock:
            if self._views.get(view.name) == view:
                return
            self._views[view.name] = view
            self._changed.add(view.name)

    def remove(self, name: str) -> None:
        """One of them is gone."""
        with self._lock:
            self._views.pop(name, None)
            self._changed.add(name)

    def take_changed(self) -> set[str]:
        """Which changed since the last call."""
        with self._lock:
            taken, self._changed = self._changed, set()
            return taken

    def get(self, name: str) -> NodeView | None:
        """One of them, or None."""
        return self._views.get(name)

    def __len__(self) -> int:
        return len(self._views)

    def all(self) -> list[NodeView]:
        """All of them, as of now."""
        with self._lock:
            return list(self._views.values())


class Informer:
    """A thread that keeps ``Nodes`` current until it is stopped."""

    def __init__(self, api: Api, lens: Lens, say: Callable[[str], None]) -> None:
        self.nodes = Nodes()
        self.synced = threading.Event()
        """The first list is complete."""
        self.lists = 0
        """How many whole lists there were: each beyond the first means that the watch could not go on."""
        self.reconnects = 0
        self._api = api
        self._lens = lens
        self._say = say
        self._stop = threading.Event()
        self._alive_at = 0.0
        self._version: str | None = None
        self._watch: Any = None
        self._thread = threading.Thread(target=self._run, name="nodes", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait a moment for it."""
        self._stop.set()
        if self._watch is not None:
            self._watch.stop()
        self._thread.join(5)

    @property
    def is_alive(self) -> bool:
        """What is kept is what the API server has, as of a moment ago."""
        return self.synced.is_set() and time.monotonic() - self._alive_at < ALIVE_S

    def _run(self) -> None:
        pause, told = 1.0, ""
        while not self._stop.is_set():
            try:
                if self._version is None:
                    self._list()
                began = time.monotonic()
                self._follow()
                if time.monotonic() - began > _BRIEF_S:
                    pause, told = 1.0, ""
                    continue
            except Gone:
                # Too much has happened since: nothing is lost, for a list says how things are.
                self._version = None
            except Trouble as trouble:
                # A connection that is cut by `stop` is no news.
                if str(trouble) != told and not self._stop.is_set():
                    told = str(trouble)
                    self._say(told)
            if self._stop.is_set():
                return
            self.reconnects += 1
            # Full jitter: many clients come back to an API server that was away.
            self._stop.wait(random.uniform(0.0, pause))  # noqa: S311
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _list(self) -> None:
        views: dict[str, NodeView] = {}
        version = ""
        for page in self._api.pages("nodes"):
            for node in page["items"]:
                view = self._lens.view(node)
                views[view.name] = view
            version = page["metadata"]["resourceVersion"]
            if self._stop.is_set():
                return
        self.nodes.replace(views)
        self._version = version
        self._alive_at = time.monotonic()
        self.lists += 1
        self.synced.set()

    def _follow(self) -> None:
        """Watch until the server ends it.

        Raises:
            Gone: the version to go on from is too old.
            Trouble: the connection broke.
        """
        # "object": plain JSON, with the version of every event kept by the Watch.
        watch: Any = Watch  # the stubs are older than the package
        self._watch = watch(return_type="object")
        try:
            with translated("watch nodes", COMPONENT):
                events = self._watch.stream(
                    self._api.core.list_node,
                    resource_version=self._version,
                    allow_watch_bookmarks=True,
                    timeout_seconds=_WATCH_S,
                    _request_timeout=(5.0, _READ_S),
                )
                for event in events:
                    self._alive_at = time.monotonic()
                    self._apply(event)
                    if self._stop.is_set():
                        return
        finally:
            with suppress(AttributeError):
                self._version = self._watch.resource_version or self._version
            self._watch = None

    def _apply(self, event: Any) -> None:
        if not event or event["type"] == "BOOKMARK":
            return
        if event["type"] == "DELETED":
            self.nodes.remove(event["object"]["metadata"]["name"])
        else:
            self.nodes.put(self._lens.view(event["object"]))
