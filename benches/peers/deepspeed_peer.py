"""DeepSpeed's AdamW for processors, from gradients that PyTorch sums. It is compiled on first use."""

import os

os.environ["DS_ACCELERATOR"] = "cpu"

from torch_peer import settings, step_of
from turns import Workload, take_turns

import deepspeed
from deepspeed.ops.adam import DeepSpeedCPUAdam


def cpu_adamw(parameters):
    return DeepSpeedCPUAdam(parameters, adamw_mode=True, **settings())


workloads = {"adamw": Workload(step_of(cpu_adamw))}
take_turns(f"deepspeed {deepspeed.__version__}", workloads)
