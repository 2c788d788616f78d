"""One thread, which tiny models are fastest on, and no deadlines: how long an example takes says something about the machine only."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("v14", deadline=None)
settings.load_profile("v14")
