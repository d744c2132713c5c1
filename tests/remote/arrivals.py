"""The Steps of a remote lane, waited for."""

from collections.abc import Iterator
from time import sleep

from playground.decoding.trace import Step
from playground.remote.lane import RemoteLane


def arrivals(lane: RemoteLane) -> Iterator[Step]:
    """The lane's Steps without the pauses; closing this closes the lane."""
    steps = lane.steps()
    try:
        for step in steps:
            if step is None:
                sleep(0.002)
            else:
                yield step
    finally:
        steps.close()
