"""Who asks and who holds, by token. Asking twice is asking once; a gang asks anew as nodes join and leave it."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from contract.permit import HeldPermit, PermitRequest, QueuedRequest


class Book:
    """The requests that wait and the permits that are out."""

    def __init__(self, queue: Iterable[QueuedRequest] = (), held: Iterable[HeldPermit] = ()) -> None:
        self.queue = {item.request.token: item for item in queue}
        self.held = {item.request.token: item for item in held}

    def ask(self, request: PermitRequest, now: datetime) -> None:
        """Take a request in. One that its holder has overtaken with another says nothing any more."""
        token = request.token
        waiting, permit = self.queue.get(token), self.held.get(token)
        known = [item.request.revision for item in (waiting, permit) if item]
        if known and request.revision < max(known):
            return
        if permit and request.revision > permit.request.revision:
            self._let_go_of_who_left(permit, request)
        if self.has_leave(request):
            self.queue.pop(token, None)
        elif waiting is None:
            self.queue[token] = QueuedRequest(request=request, asked_at=now)
        elif _says(request) != _says(waiting.request):
            self.queue[token] = waiting.model_copy(update={"request": request})

    def has_leave(self, request: PermitRequest) -> bool:
        """Whether a permit for all of it is out: a gang asks for more nodes under the same token."""
        permit = self.held.get(request.token)
        return permit is not None and permit.request.covers(request)

    def as_before(self, request: PermitRequest) -> PermitRequest:
        """The request as workers took it that knew no gang to grow, nor its nodes to be in several places."""
        token = request.token
        if token in self.held:
            return self.held[token].request
        waiting = self.queue.get(token)
        if waiting and (waiting.request.approval, waiting.request.severity) == (request.approval, request.severity):
            return waiting.request
        return request.model_copy(update={"others": (), "out": False, "revision": 0})

    def still_asked(self, queue: Iterable[QueuedRequest]) -> list[QueuedRequest]:
        """Those of an earlier queue that wait still, as they are now.

        Left out is what was returned, and what is asked for with other nodes: those are not in the count.
        """
        now = [(item, self.queue.get(item.request.token)) for item in queue]
        return [new for item, new in now if new and new.request.nodes == item.request.nodes]

    def hold(self, request: PermitRequest, now: datetime, released_from: str = "") -> None:
        """A permit goes out."""
        self.queue.pop(request.token, None)
        # Its traits have served: the sightings have them.
        kept = request.model_copy(update={"traits": {}})
        self.held[request.token] = HeldPermit(request=kept, granted_at=now, released_from=released_from)

    def recover(self, requests: Sequence[PermitRequest], now: datetime) -> bool:
        """Take over what holders say, where it is not known; whether there was any."""
        forgotten = [request for request in requests if request.token not in self.held]
        for request in forgotten:
            waiting = self.queue.get(request.token)
            self.hold(request, now)
            if waiting and not request.covers(waiting.request):
                self.queue[request.token] = waiting
        return bool(forgotten)

    def forget(self, token: str) -> bool:
        """A permit is returned, or nobody asks for it any more; whether it was known."""
        waiting, permit = self.queue.pop(token, None), self.held.pop(token, None)
        return bool(waiting or permit)

    def _let_go_of_who_left(self, permit: HeldPermit, request: PermitRequest) -> None:
        """What its holder says anew says who is still in it."""
        token = request.token
        kept = request if permit.request.covers(request) else permit.request.only(request.nodes)
        if kept:
            self.held[token] = permit.model_copy(update={"request": kept})
        else:
            del self.held[token]


def _says(request: PermitRequest) -> tuple[object, ...]:
    """What a request that waits may say anew."""
    return request.approval, request.severity, request.revision, request.restarted_at
