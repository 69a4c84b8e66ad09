"""Writes the learning rates of torch.optim.lr_scheduler to a file: python3 schedules.py schedules.json. It needs torch, and no test needs it."""
import json
import random
import sys
import warnings

import torch
from torch.optim import lr_scheduler as s
warnings.simplefilter("ignore")
STEPS = 40

def rates(make, warmup=0, observed=None):
    o = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
    if warmup > 1:
        after = make(o)
        first = s.LinearLR(o, start_factor=1 / warmup, total_iters=warmup - 1)
        which = s.SequentialLR(o, [first, after], milestones=[warmup])
    else:
        which = make(o)
    out = []
    for step in range(STEPS):
        out.append(o.param_groups[0]["lr"])
        o.step()
        if observed is not None:
            which.step(observed[step])
        else:
            try:
                which.step()
            except ValueError:  # a one-cycle schedule that has ended
                break
    return out

cases = []
def case(name, made, **given):
    cases.append({"schedule": name, **given, "rates": made})

for warmup in (0, 5):
    rest = 30 - warmup
    for final in (0.0, 0.1):
        given = {"warmup": warmup, "updates": 30, "final_factor": final}
        case("linear", rates(lambda o: s.LinearLR(o, 1.0, final, total_iters=rest), warmup), **given)
        # Behind the end PyTorch's rate rises again.
        cosine = rates(lambda o: s.CosineAnnealingLR(o, T_max=rest, eta_min=0.5 * final), warmup)
        case("cosine", cosine[:31], **given)
    for factor, interval in ((0.1, 10), (0.5, 3)):
        case("step", rates(lambda o: s.StepLR(o, step_size=interval, gamma=factor), warmup),
             warmup=warmup, updates=0, factor=factor, interval=interval)
for warmup, initial, final in ((9, 1 / 25, 4e-6), (15, 0.1, 0.01), (2, 0.5, 0.0)):
    divisors = {"div_factor": 1 / initial, "final_div_factor": initial / final if final else 1e300}
    cycle = rates(lambda o: s.OneCycleLR(o, max_lr=0.5, total_steps=30, pct_start=warmup / 30, **divisors))
    case("one_cycle", cycle[:30], warmup=warmup, updates=30, initial_factor=initial, final_factor=final)
r = random.Random(3)
noise = [r.random() for _ in range(STEPS)]
loss = [1.0 / (1 + n // 7) + 0.02 * noise[n] for n in range(STEPS)]
for larger in (0, 1):
    seen = [-x + 3 for x in loss] if larger else loss
    for factor, patience, threshold, cooldown, final in ((0.1, 2, 1e-4, 0, 0.0), (0.5, 0, 0.05, 3, 0.0),
                                                         (0.5, 1, 0.01, 1, 0.1)):
        made = rates(lambda o: s.ReduceLROnPlateau(o, "max" if larger else "min", factor, patience, threshold, "rel",
                                                   cooldown, 0.5 * final, 0.0), observed=seen)
        case("plateau", made, warmup=0, updates=0, factor=factor, patience=patience, threshold=threshold,
             cooldown=cooldown, larger_is_better=larger, final_factor=final, observed=seen)
json.dump({"torch": torch.__version__, "cases": cases}, open(sys.argv[1], "w"), indent=0)
print(torch.__version__, len(cases))
