"""A factorisation of ratings beside LIBMF: the same model and penalty, on the same split of MovieLens-100k. The error on
ratings that neither has seen may not be worse, and one replica and two learn the same bits; the times of all, from the
same run, are shown in the row: on the clock, and those of the processors, which other programs disturb less."""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from frame import Case, NotApplicable

TITLE = "Factorisation of MovieLens-100k beside LIBMF"
JUDGE = ("libmf",)

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parents[1] / "build/movielens/ml-100k.inter"
RANK, PENALTY, TURNS = 32, 0.1, 5
# Seconds that LIBMF may take for a second's work.
LIMIT = 120


def movielens():
    """Users, items and ratings, from 0 on."""
    if not DATA.exists():
        subprocess.run([HERE.parents[1] / "scripts/setup.sh", "movielens"], check=True)
    table = np.loadtxt(DATA, skiprows=1)
    return table[:, :2].astype(np.int64) - 1, table[:, 2].astype(np.float32)


def drawn():
    """Ratings of which most is known from factors, for where there are no others."""
    random = np.random.default_rng(1)
    named = np.stack([random.integers(0, 300, 20000), random.integers(0, 200, 20000)], 1)
    users, items = random.normal(0, 0.6, (300, 3)), random.normal(0, 0.6, (200, 3))
    exact = 3.5 + (users[named[:, 0]] * items[named[:, 1]]).sum(1) + random.normal(0, 0.5, 20000)
    return named, np.clip(np.round(exact), 1, 5).astype(np.float32)


def error(users, items, named, ratings):
    # What has never been rated has factors that are not numbers in LIBMF.
    guesses = np.nan_to_num((users[named[:, 0]] * items[named[:, 1]]).sum(1), nan=float(ratings.mean()))
    return float(np.sqrt(np.mean((np.clip(guesses, 1, 5) - ratings) ** 2)))


class Contest:
    def __init__(self, named, ratings, epochs, folder):
        self.folder, self.epochs, self.hung = folder, epochs, 0
        order = np.random.default_rng(7).permutation(len(ratings))
        test, training = order[:len(order) // 5], order[len(order) // 5:]
        self.rows = named.max(0) + 1
        self.training, self.test = (named[training], ratings[training]), (named[test], ratings[test])
        np.savez(os.path.join(folder, "training.npz"), user=self.training[0][:, 0].copy(),
                 item=self.training[0][:, 1].copy(), rating=self.training[1])
        include, library = os.environ["LIBUMBO_INCLUDE"], os.environ["LIBUMBO_FOLDER"]
        self.program = os.path.join(folder, "factorisation")
        subprocess.run(["cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O3", "-march=native", "-ffast-math",
                        f"-I{include}", HERE / "factorisation.c", f"-L{library}", f"-Wl,-rpath,{library}", "-lumbo",
                        "-o", self.program], check=True)

    def ours(self, replicas):
        """Seconds on the clock and of the processors, and the factors."""
        start = (float(self.training[1].mean()) / RANK) ** 0.5
        words = [self.folder, *self.rows, RANK, self.epochs, 1000, replicas, 0.2, PENALTY, start]
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, check=True)
        factors = [np.load(os.path.join(self.folder, f"{name}.npy")) for name in ("users", "items")]
        return *map(float, done.stdout.split()), factors

    def theirs(self):
        # In a process of its own, since LIBMF's threads now and then wait for each other for ever.
        for _ in range(3):
            try:
                done = subprocess.run([sys.executable, __file__, self.folder, str(self.epochs)], timeout=LIMIT,
                                      capture_output=True, text=True, check=True)
                break
            except subprocess.TimeoutExpired:
                self.hung += 1
        else:
            raise NotApplicable(f"LIBMF did not end within {LIMIT} seconds, three times")
        padded = [np.full((rows, RANK), np.nan, np.float32) for rows in self.rows]
        for whole, name in zip(padded, ("p", "q")):
            part = np.load(os.path.join(self.folder, f"{name}.npy"))
            whole[:len(part)] = part
        return *map(float, done.stdout.split()[-2:]), padded


def libmf(folder, epochs):
    """Learns from the folder's ratings, leaves the factors there, and prints the seconds of both kinds."""
    from libmf import mf
    # In LIBMF, too, the penalty is per rating.
    model = mf.MF(k=RANK, nr_threads=2, nr_iters=epochs, lambda_p2=PENALTY, lambda_q2=PENALTY, eta=0.1,
                  lambda_p1=0.0, lambda_q1=0.0, quiet=True)
    ratings = np.load(os.path.join(folder, "training.npz"))
    table = np.column_stack([ratings["user"], ratings["item"], ratings["rating"]])
    start, processors = time.monotonic(), time.process_time()
    model.fit(table)
    print(time.monotonic() - start, time.process_time() - processors)
    np.save(os.path.join(folder, "p.npy"), model.p_factors())
    np.save(os.path.join(folder, "q.npy"), model.q_factors())


def contest(small):
    with tempfile.TemporaryDirectory() as folder:
        both = Contest(*(drawn() if small else movielens()), 60 if small else 30, folder)
        turns = [(both.ours(1), both.ours(2), both.theirs()) for _ in range(1 if small else TURNS)]
        for one, two, _ in turns:
            assert all((a == b).all() for a, b in zip(one[2], two[2])), "two replicas learned other bits than one"
        sides = list(zip(*turns))
        our_error, _, their_error = (statistics.median(error(*turn[2], *both.test) for turn in side) for side in sides)
        said = f"RMSE {our_error:.4f} beside LIBMF's {their_error:.4f}"
        for kind, name in enumerate(("on the clock", "of the processors")):
            one, two, their_time = (statistics.median(turn[kind] for turn in side) for side in sides)
            said += (f"; seconds {name}: {one:.2f} with one replica and {two:.2f} with two, beside {their_time:.2f} of "
                     f"LIBMF's two threads ({their_time / one:.2f} x and {their_time / two:.2f} x)")
        said += f"; medians of {len(turns)} turns"
        if both.hung:
            said += f"; LIBMF did not end within {LIMIT} s {both.hung} times, and was started again"
        print(said)
        assert our_error <= their_error * 1.002, f"RMSE {our_error:.4f}, LIBMF's is {their_error:.4f}"
        return said


def cases(small):
    yield Case("RMSE on ratings that were not seen", lambda: contest(small))


if __name__ == "__main__":
    libmf(sys.argv[1], int(sys.argv[2]))
