"""PyTorch's DistributedDataParallel over gloo, one process for each processor; networks as in torch.cpp."""

import os
import pathlib
import sys
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("PEER_ELEMENTS", "0")
os.environ["PEER_SAMPLES"] = "4096"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))

import torch
import torch.distributed
from torch import nn

from turns import SAMPLES, Workload, take_turns

BATCH, SIDE, CLASSES, RATE = 256, 28, 10, 1e-3
WORKLOADS = ("mlp", "cnn")


def network(name):
    torch.manual_seed(7)
    if name == "mlp":
        return nn.Sequential(nn.Linear(SIDE * SIDE, 500), nn.ReLU(), nn.Linear(500, CLASSES))
    pooled = lambda convolution: (convolution, nn.MaxPool2d(2), nn.ReLU())
    return nn.Sequential(
        nn.Unflatten(1, (1, SIDE, SIDE)),
        *pooled(nn.Conv2d(1, 16, 5)),
        *pooled(nn.Conv2d(16, 32, 5)),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, CLASSES),
    )


class Training:
    def __init__(self, name, rank, size):
        torch.manual_seed(1)
        self.x = torch.randn(SAMPLES, SIDE * SIDE)
        self.y = (self.x @ torch.randn(SIDE * SIDE, CLASSES)).argmax(1)
        self.rank, self.each = rank, BATCH // size
        self.net = nn.parallel.DistributedDataParallel(network(name))
        self.adam = torch.optim.Adam(self.net.parameters(), lr=RATE)

    def run(self):
        """A pass over all examples, of which each process has a part of each batch."""
        total = 0.0
        for start in range(self.rank * self.each, SAMPLES, BATCH):
            rows = slice(start, start + self.each)
            self.adam.zero_grad()
            loss = nn.functional.cross_entropy(self.net(self.x[rows]), self.y[rows])
            loss.backward()
            self.adam.step()
            total += loss.item()
        return total


def serve(rank, size, meeting):
    """Goes along with rank 0, which says what comes next: one more than the number of a workload, or 0."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=size)
    made = {}
    said = torch.zeros(1, dtype=torch.int64)

    def take_part(name):
        if name not in made:
            made[name] = Training(name, rank, size)
        return made[name].run()

    if rank != 0:
        while True:
            torch.distributed.broadcast(said, 0)
            if said.item() == 0:
                return
            take_part(WORKLOADS[said.item() - 1])

    def prepare_of(name):
        def call():
            said.fill_(WORKLOADS.index(name) + 1)
            torch.distributed.broadcast(said, 0)
            return take_part(name)

        def prepare():
            before = call()

            def check(after):
                if not after < before:
                    raise ValueError(f"the loss went from {before} to {after}")

            return call, check

        return prepare

    workloads = {name: Workload(prepare_of(name), samples=SAMPLES) for name in WORKLOADS}
    take_turns(f"torch {torch.__version__}", workloads)
    said.fill_(0)
    torch.distributed.broadcast(said, 0)


def main():
    size = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        meeting = os.path.join(folder, "meeting")
        context = torch.multiprocessing.get_context("spawn")
        others = [context.Process(target=serve, args=(rank, size, meeting)) for rank in range(1, size)]
        for each in others:
            each.start()
        serve(0, size, meeting)
        for each in others:
            each.join()


if __name__ == "__main__":
    main()
