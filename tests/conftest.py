"""What all tests share: repeatable randomness and one thread, so that a failure is the same on every machine."""

from __future__ import annotations

import torch
from hypothesis import settings

# Never a time limit: these tests run beside other work. Fixed examples: a red run must be red again.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
torch.set_num_threads(1)
