"""What a run on the virtual cluster returns."""

from __future__ import annotations


class Run:
    """results: what fn returned, by rank. time: virtual seconds until the last rank had ended."""

    def __init__(self, cluster, engine, transport):
        self.results = engine.results
        self.times = [state.lane.now for state in engine.states]
        self.time = max(self.times)
        self.sent = [state.sent for state in engine.states]
        self.sent_bytes = [state.sent_bytes for state in engine.states]
        self.received = [state.received for state in engine.states]
        self.received_bytes = [state.received_bytes for state in engine.states]
        self.steps = [state.round for state in engine.states]
        size = len(engine.states)
        self.links = {
            divmod(key, size): (count, nbytes) for key, (count, nbytes, _) in transport.links.items()
        }
        self.trace = engine.trace
