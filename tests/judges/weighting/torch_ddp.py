"""Trains cases with PyTorch's DistributedDataParallel over gloo, a process for each replica: torch_ddp.py < cases > answers

Each process takes its part of each batch and writes the loop that the documents of PyTorch teach: a loss over its own
rows, over the number of accumulated batches, no_sync for all of these but the last, clip_grad_norm_, GradScaler."""
import contextlib
import json
import os
import subprocess
import sys
import tempfile

import reference


def train(case, rank):
    import torch
    x, y = (torch.from_numpy(array) for array in reference.data(case["examples"]))
    world = case["workers"] * case["replicas"]
    size = reference.size_of_sum(case, case["reduction"] == "sum")
    layer = torch.nn.Linear(reference.WIDTH, 1, dtype=torch.float64)
    torch.nn.init.zeros_(layer.weight), torch.nn.init.zeros_(layer.bias)
    model = torch.nn.parallel.DistributedDataParallel(layer)
    optimizer = torch.optim.SGD(model.parameters(), reference.LEARNING_RATE / size, reference.MOMENTUM)
    scaler = torch.amp.GradScaler("cpu", init_scale=case["loss_scale"] or 1.0, enabled=bool(case["loss_scale"]))
    norms = []
    for _ in range(case["epochs"]):
        for group in reference.groups(case):
            for batch in group:
                own = reference.parts(batch, world)[rank]
                own = slice(own.start, own.stop)
                last = batch is group[-1]
                with contextlib.nullcontext() if last else model.no_sync():
                    differences = model(x[own])[:, 0] - y[own]
                    if case["reduction"] == "sum":
                        loss = differences.square().sum()
                    elif case["reduction"] == "mean":
                        loss = differences.square().mean() / case["accumulation"]
                    else:
                        loss = differences.square().sum() / sum(map(len, group))
                    scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            bound = case["clip_norm"] * size or float("inf")
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), bound).item())
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return {"weights": [*layer.weight.tolist()[0], *layer.bias.tolist()], "norm": norms}


def one_rank(rank, world, store):
    import torch
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    answers = {case["id"]: train(case, rank) for case in json.load(sys.stdin)}
    if rank == 0:
        json.dump(answers, sys.stdout)
    torch.distributed.destroy_process_group()


def all_ranks(cases, world):
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        command = [sys.executable, __file__, str(world), os.path.join(folder, "store")]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        ranks = [subprocess.Popen([*command, str(rank)], env=environment, **pipes) for rank in range(world)]
        for rank in ranks:
            rank.stdin.write(json.dumps(cases))
            rank.stdin.close()
        answers = [rank.stdout.read() for rank in ranks]
        if any([rank.wait() for rank in ranks]):
            raise SystemExit("a process of DistributedDataParallel has failed")
    return json.loads(answers[0])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one_rank(int(sys.argv[3]), int(sys.argv[1]), sys.argv[2])
    else:
        cases, answers = json.load(sys.stdin), {}
        for world in sorted({case["workers"] * case["replicas"] for case in cases}):
            answers |= all_ranks([case for case in cases if case["workers"] * case["replicas"] == world], world)
        json.dump(answers, sys.stdout)
