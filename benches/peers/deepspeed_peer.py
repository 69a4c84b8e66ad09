"""DeepSpeed's AdamW for processors, from gradients that PyTorch sums."""

import os

os.environ["DS_ACCELERATOR"] = "cpu"

from torch_peer import settings, step_of
from turns import Workload, take_turns

import deepspeed
from deepspeed.ops.adam import DeepSpeedCPUAdam
from deepspeed.ops.op_builder import CPUAdamBuilder


def cpu_adamw(parameters):
    return DeepSpeedCPUAdam(parameters, adamw_mode=True, **settings())


# Compiles it on first use, which takes minutes.
CPUAdamBuilder().load(verbose=False)
workloads = {"adamw": Workload(step_of(cpu_adamw))}
take_turns(f"deepspeed {deepspeed.__version__}", workloads)
