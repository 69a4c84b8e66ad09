"""MPI: three who watch what Umbo does with it, over the programs of the ranks.

valgrind's wrapper watches every buffer that the adapter hands to MPI, and memcheck the ranks. Open MPI and MPICH check
the arguments of each call. Open MPI says when MPI is finalised which communicators something still uses, as a request
does that was left; MPICH says what has been left if it is configured to do so. A program that leaves a request on purpose
shows whether they do."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from frame import Case, NotApplicable

TITLE = "MPI: valgrind's wrapper, Open MPI's and MPICH's checks, over `adapters/mpi` and the ranks' programs"
JUDGE = ()  # no packages of Python: versions() below

ROOT = pathlib.Path(__file__).resolve().parents[2]
WRAPPER = next(pathlib.Path("/usr/lib").glob("*/valgrind/libmpiwrap-*-linux.so"), None)
# What Open MPI itself does, by its own list.
KNOWN = pathlib.Path("/usr/share/openmpi/openmpi-valgrind.supp")
MPICH = ROOT / "build/mpi/mpich/bin"
PARTS = {"arrives": (1, 2, 3), "in_pieces": (3,), "trains": (2,), "mixed": (2,), "bytes": (2,), "own": (3,)}
# Messages that these provoke end MPI without ado, so that nothing can be said of what they leave.
END_WITHOUT_ADO = {"mixed", "bytes"}
ENV = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
       "OMPI_MCA_mpi_param_check": "1", "OMPI_MCA_mpi_show_handle_leaks": "1", "MPIR_CVAR_ERROR_CHECKING": "1",
       "MPIWRAP_DEBUG": "warn,quiet"}
# How Open MPI and MPICH report what has been left.
LEFT = re.compile(r".*(still allocated|leaked context IDs|memory allocated in).*|\[\d+\] \d+ at \[0x.*")
LEAVES = """
#include <mpi.h>
int main(int count, char **arguments) {
  MPI_Comm left;
  MPI_Request never;
  static int number;
  MPI_Init(&count, &arguments);
  if (count > 1) {
    MPI_Comm_dup(MPI_COMM_WORLD, &left);
    MPI_Irecv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 5, left, &never);
  }
  return MPI_Finalize();
}
"""


def versions():
    """Those of the programs that judge."""
    said = []
    asked = {"valgrind": ["valgrind", "--version"], "Open MPI": ["mpirun", "--version"],
             "MPICH": [str(MPICH / "mpiexec"), "--version"]}
    for name, command in asked.items():
        if shutil.which(command[0]):
            said.append(f"{name} {re.search(r'[0-9]+([.][0-9]+)+', run(command)[1])[0]}")
    return ", ".join(said)


def compiled(compiler, source, folder, *more):
    target = os.path.join(folder, "program")
    subprocess.run([compiler, "-std=c99", "-D_GNU_SOURCE", "-g", "-O1", *source, *more, "-o", target], check=True)
    return target


def program(compiler, folder, *more):
    include, library = os.environ["LIBUMBO_INCLUDE"], os.environ["LIBUMBO_FOLDER"]
    source = ["-DWITH_MPI_H", f"-I{include}", f"-I{ROOT / 'adapters/mpi'}", f"-I{ROOT / 'tests/c'}",
              ROOT / "tests/mpi/ranks_of_mpi.c", ROOT / "adapters/mpi/umbo_mpi.c"]
    return compiled(compiler, source, folder, f"-L{library}", f"-Wl,-rpath,{library}", "-lumbo", "-lpthread", "-lm", *more)


def run(command):
    """The exit code, and all that the ranks have said."""
    done = subprocess.run(command, env=os.environ | ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600)
    return done.returncode, done.stdout


def as_expected(said, ranks):
    count = said.count("is as expected")
    assert count == ranks, f"{count} of {ranks} ranks are as expected: {said[-600:]}"


def need(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            raise NotApplicable(f"there is no {os.path.relpath(tool, ROOT) if os.sep in tool else tool}")


def by_valgrind(part, ranks):
    need("mpicc", "mpirun", "valgrind")
    if WRAPPER is None:
        raise NotApplicable("there is no MPI wrapper of valgrind (Debian: valgrind-mpi)")
    with tempfile.TemporaryDirectory() as folder:
        valgrind = ["valgrind", "--leak-check=full", "--show-leak-kinds=definite", f"--log-file={folder}/log.%p"]
        if KNOWN.exists():
            valgrind.append(f"--suppressions={KNOWN}")
        # Not by LD_PRELOAD: valgrind is started by a shell, which has no MPI to wrap.
        ours = program("mpicc", folder, "-Wl,--no-as-needed", WRAPPER)
        as_expected(run(["mpirun", "-n", str(ranks), *valgrind, ours, part])[1], ranks)
        logs = [path.read_text(errors="replace") for path in pathlib.Path(folder).glob("log.*")]
        assert len(logs) >= ranks, "valgrind has not seen every rank"
        blocks = [block for log in logs for block in re.split(r"(?m)^==\d+== $", log) if "  at 0x" in block]
        ours = [block for block in blocks if re.search(r"umbo_mpi\.c|libumbo\.so|ranks_of_mpi\.c", block)]
        # What MPI allocates for itself in a call is MPI's, if it is not given back.
        ours = [block for block in ours if "lost in loss record" not in block or "libmpi" not in block]
        assert not ours, ours[0]


def reports(name, compiler, launcher):
    """Demands that this MPI reports what a program leaves, and nothing where none is left."""
    need(compiler, launcher)
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "leaves.c"
        source.write_text(LEAVES)
        leaves = compiled(compiler, [source], folder)
        assert (code_and_said := run([launcher, "-n", "1", leaves])) == (0, ""), code_and_said
        if not LEFT.search(run([launcher, "-n", "1", leaves, "something"])[1]):
            assert name == "MPICH", "what is left was not reported"
            raise NotApplicable("packages of MPICH are configured without --enable-g: they report nothing that is left")


def by_mpi(compiler, launcher, part, ranks):
    need(compiler, launcher)
    with tempfile.TemporaryDirectory() as folder:
        code, said = run([launcher, "-n", str(ranks), program(compiler, folder), part])
    as_expected(said, ranks)
    if part not in END_WITHOUT_ADO:
        assert code == 0, f"code {code}: {said[-600:]}"
        assert not (left := LEFT.search(said)), left[0]


def cases(small):
    engines = {"Open MPI": ("mpicc", "mpirun"), "MPICH": (str(MPICH / "mpicc"), str(MPICH / "mpiexec"))}
    for name, tools in engines.items():
        if not small:
            yield Case(f"{name} reports what is left", lambda name=name, tools=tools: reports(name, *tools))
    for part, sizes in PARTS.items():
        for ranks in sizes:
            if not small or (part, ranks) == ("arrives", 2):
                yield Case(f"valgrind: {part} with {ranks} ranks", lambda part=part, ranks=ranks: by_valgrind(part, ranks))
            for name, tools in engines.items():
                if not small:
                    yield Case(f"{name}: {part} with {ranks} ranks",
                               lambda tools=tools, part=part, ranks=ranks: by_mpi(*tools, part, ranks))
