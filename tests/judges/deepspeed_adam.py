"""DeepSpeed's CPUAdam, over the sizes and types of DeepSpeed's own tests, which are not in its package.

In float32 the weights of 10 steps agree to rounding. In 16 bits DeepSpeed keeps no weights of 32, which Umbo does:
Umbo takes the gradients as they are, and the norm agrees within DeepSpeed's bound, 1 %."""
import os
import pathlib
import sys

os.environ["DS_ACCELERATOR"] = "cpu"
# It is compiled when it is first used, by tools of this environment, and kept beside it.
os.environ["PATH"] = f"{pathlib.Path(sys.prefix, 'bin')}:{os.environ['PATH']}"
os.environ.setdefault("TORCH_EXTENSIONS_DIR", str(pathlib.Path(sys.prefix).parent / "extensions"))
import numpy as np
import torch

from frame import Case, NotApplicable, close
from trainer import Trainer, lib

TITLE = "DeepSpeed's CPUAdam, over the sizes and types of its own tests"
JUDGE = ["deepspeed", "torch"]
STEPS = 10
SIZES = [64, 22, 128, 1024, 1048576]
DTYPES = {torch.float32: lib.UMBO_DTYPE_FLOAT32, torch.bfloat16: lib.UMBO_DTYPE_BFLOAT16,
          torch.float16: lib.UMBO_DTYPE_FLOAT16}


def run(size, dtype, adamw):
    from deepspeed.ops.adam import DeepSpeedCPUAdam
    generator = torch.Generator().manual_seed(4)
    initial = torch.randn(size, generator=generator).to(dtype)
    parameter = torch.nn.Parameter(initial.clone())
    theirs = DeepSpeedCPUAdam([parameter], lr=1e-3, weight_decay=0.01, adamw_mode=adamw)
    rule, options = ("adamw", {"weight_decay": 0.01}) if adamw else ("adam", {})
    ours = Trainer(rule, [initial.float().numpy()], options, {"weight_decay": 0.01}, dtype=DTYPES[dtype])
    for _ in range(STEPS):
        parameter.grad = torch.randn(size, generator=generator).to(dtype)
        ours.step(parameter.grad.float().numpy())
        theirs.step()
    found = parameter.detach().float().numpy()
    if dtype == torch.float32:
        close("weights", ours.weights(), found, STEPS * 2.0**-21)
    else:
        close("norm", np.linalg.norm(ours.weights()), np.linalg.norm(found), 1e-2)


def of_deepspeed():
    raise NotApplicable("how DeepSpeed stores moments in 16 bits, and how its threads share them")


def cases(small):
    for adamw in (True, False):
        for dtype in list(DTYPES)[:1 if small else None]:
            for size in SIZES[:2 if small else None]:
                yield Case(f"{'AdamW' if adamw else 'Adam'} {str(dtype)[6:]} {size}",
                           lambda size=size, dtype=dtype, adamw=adamw: run(size, dtype, adamw))
    if not small:
        # The other classes of its tests.
        for name in ("TestCPUAdamBf16OptimizerStates", "TestCPUAdamFusedMultiTensor", "TestZenFlowAdamNative"):
            yield Case(name, of_deepspeed)
