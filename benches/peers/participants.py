"""Those who take turns: Umbo, its peers, and how each is had. Everything is kept in build/peers."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "peers"
PYTHON = BUILD / "venv" / "bin" / "python"
SAMPLES = 16384
ELEMENTS = int(os.environ.get("PEER_ELEMENTS", 16 << 20))


class Unavailable(Exception):
    """A participant cannot be had; says why."""


def done(command, **options):
    """Runs a command; what went wrong is the last line that it printed."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, **options)
    except OSError as error:
        raise Unavailable(str(error)) from error
    if ended.returncode != 0:
        lines = (ended.stderr or ended.stdout).strip().splitlines()
        raise Unavailable(lines[-1] if lines else f"exit status {ended.returncode}")
    return ended.stdout


def python_with(package, module):
    """The Python of the private environment, which has the package from then on."""
    find = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    if PYTHON.exists() and subprocess.run([PYTHON, "-c", find]).returncode == 0:
        return PYTHON
    if os.environ.get("UMBO_SETUP") == "no":
        raise Unavailable(f"{package} is not installed")
    print(f"installing {package} into build/peers", file=sys.stderr)
    if not PYTHON.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        done([sys.executable, "-m", "venv", BUILD / "venv"])
    done([PYTHON, "-m", "pip", "install", "--quiet", package])
    return PYTHON


def build_native(prefix):
    """Builds the programs in C with the installed library; CMake says which it leaves out."""
    folder = BUILD / "native"
    configure = ["cmake", "-S", HERE, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder], check=True, stdout=subprocess.DEVNULL)


def choose_kernels(prefix):
    """Has the programs that start later compute with OpenBLAS's kernels for this processor. What they compute with, in words."""
    choose = ROOT / "scripts" / "with_kernels.sh"
    command = [choose, pathlib.Path(prefix) / "bin" / "umbo", "sh", "-c", 'printf %s "${OPENBLAS_CORETYPE:-}"']
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    if ended.stdout:
        os.environ["OPENBLAS_CORETYPE"] = ended.stdout
    said = ended.stderr.strip()
    print(said, file=sys.stderr)
    return said.partition("; ")[0]


class Participant:
    """A process that answers the name of a workload with what it measured."""

    def __init__(self, command, environment=(), log_name=None):
        variables = dict(os.environ, PEER_SAMPLES=str(SAMPLES), PEER_ELEMENTS=str(ELEMENTS))
        variables.update(environment)
        # What the process says beside its answers, for those who wonder why it failed.
        log = BUILD / f"{log_name or pathlib.Path(command[-1]).stem}.log"
        with open(log, "w") as said:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                env=variables,
            )
        first = self.read()
        if "version" not in first:
            raise Unavailable(f"{first['error']}; see {log.relative_to(ROOT)}")
        self.version = first["version"]

    def read(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the process ended"}

    def turn(self, workload):
        try:
            print(workload, file=self.process.stdin, flush=True)
        except OSError as error:
            return {"error": str(error)}
        answer = self.read()
        value = answer.get("samples_per_second", answer.get("us"))
        return answer if value is None else {"value": value}

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def python_peer(package, module, script, environment=(), log_name=None):
    # Tools that pip installed beside the packages, such as ninja, are found by their names.
    path = f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}"
    command = [python_with(package, module), HERE / script]
    return Participant(command, {"PATH": path} | dict(environment), log_name)


def tensorflow_peer(threads_of_operation, log_name):
    """0 leaves the number of threads to TensorFlow. Several of these may run at a time."""
    threads = {"PEER_THREADS_OF_OPERATION": str(threads_of_operation)}
    return python_peer("tensorflow-cpu", "tensorflow", "tensorflow_peer.py", threads, log_name)


def native_peer(program, launcher=(), environment=()):
    path = BUILD / "native" / program
    if not path.exists():
        raise Unavailable("it could not be built here")
    return Participant([*launcher, path], environment)


def deepspeed_peer():
    python_with("torch", "torch")  # which the installation of DeepSpeed looks for
    compiled = {"TORCH_EXTENSIONS_DIR": str(BUILD / "torch_extensions")}
    return python_peer("deepspeed", "deepspeed", "deepspeed_peer.py", compiled)


def mpi_peer():
    if shutil.which("mpirun") is None:
        raise Unavailable("there is no mpirun")
    launcher = ["mpirun", "-n", "2", "--oversubscribe"]
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return native_peer("mpi_peer", launcher, allowed)


STARTERS = {
    "Umbo": lambda: native_peer("umbo_peer"),
    "TensorFlow": lambda: tensorflow_peer(0, "tensorflow_peer"),
    "TensorFlow, one thread an operation": lambda: tensorflow_peer(1, "tensorflow_peer_one_thread"),
    "PyTorch": lambda: python_peer("torch", "torch", "torch_peer.py"),
    "DeepSpeed": deepspeed_peer,
    "OpenMP": lambda: native_peer("openmp_peer"),
    "Open MPI": mpi_peer,
}


def start(names):
    """Those of the names that can be had, and of the others why not."""
    started, missing = {}, {}
    for name in names:
        try:
            started[name] = STARTERS[name]()
        except Unavailable as reason:
            missing[name] = str(reason)
            print(f"{name} is left out: {reason}", file=sys.stderr)
    return started, missing


class Bench:
    """`umbo bench`, each turn of which is a process of its own that measures a probe as well."""

    def __init__(self, tool):
        self.tool = tool
        self.version = done([tool, "--version"]).strip()

    def turn(self, arguments):
        try:
            lines = done([self.tool, "bench", *arguments, "--json"]).splitlines()
        except Unavailable as error:
            return {"error": str(error)}
        rows = [json.loads(line) for line in lines]
        row = next(row for row in rows if row.get("name", "empty run") == "empty run")
        if arguments[0] == "input":
            ours, probe = row["samples_per_second"], row["probe_samples_per_second"]
        else:
            ours, probe = row["ours_us"], row["probe_us"]
        return {"value": ours, "probe": probe}
