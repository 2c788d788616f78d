"""One thread (tiny models are fastest on one) and no deadlines: how long an example takes depends on the machine."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("v14", deadline=None)
settings.load_profile("v14")
