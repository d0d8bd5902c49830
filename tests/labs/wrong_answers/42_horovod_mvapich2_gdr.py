"""Mistakes that learners make in lab 42, each with the words that its rejection must hold."""

from tests.labs.wrong_answers import Right, Wrong

SMALL = {"steps": 6, "layers": 4, "width": 64}

FAMILIES = '("MVAPICH2", "MVAPICH", "MPICH", "Open MPI")'
GDR = 'return "MVAPICH2-GDR" if gdr else family, version[1]'
START = '"-np", ranks, "-hostfile", "hosts"]'
REST = "[*start, *pairs, threads, *program]"
SRUN = '["env", *pairs, "srun", "--mpi=pmi2", *size, *gpus, *program]'
CPUS = '[f"--cpus-per-task={job.cores}"]'
GPUS = '[f"--gpus-per-node={job.gpus}", "--gpu-bind=none"] if job.gpus else []'
NAME = 'name.split("_")[0] in ("MPI", "GLOO", "NCCL", "CCL")'
ON_CPU = '    if device == "cpu":\n        return "CPU tensors"\n'
HOST = '"MEMCPY_IN_HOST_BUFFER" in activities'
STAGED = f'    if {HOST}:\n        return "staged through the host"\n'
NCCL = 'any(name.startswith("NCCL_") for name in activities)'
LAST = 'return "CUDA-aware MPI" if build == "mpi" else "staged through the host"'

# fmt: off
RIGHT = [
    Right("42.1", "a table of patterns, a list returned",
          [GDR, "    return None, None"],
          ['return ["MVAPICH2-GDR" if gdr else family, str(version[1])]', "    return [None, None]"]),
    Right("42.1", "GDR asked first",
          ['gdr = family == "MVAPICH2" and "MVAPICH2-GDR" in mpiname', GDR],
          ['if "MVAPICH2-GDR" in mpiname and text.startswith("MVAPICH2 "):\n                family += "-GDR"',
           "return (family, version.group(1))"]),
    Right("42.2", "options of two words, in another order, and one more",
          [SRUN, START, REST],
          ['["env", *pairs, "srun", "--cpu-bind=cores", *size[::-1], *gpus, "--mpi", "pmi2", *program]',
           '"-hostfile", "hosts", "-np", ranks]', "[*start, threads, *pairs, *program]"]),
    Right("42.2", "built up by +=, variables by a dict that grows",
          ['    return {"MV2_USE_CUDA": "1", "MV2_SUPPORT_DL": "1", "MV2_ENABLE_AFFINITY": "0"}',
           f"    return {SRUN}"],
          ["""\
    needed = dict(MV2_ENABLE_AFFINITY="0")
    needed.update(MV2_USE_CUDA="1", MV2_SUPPORT_DL=f"{1}")
    return needed""", """\
    line = ["env"] + pairs + ["srun", "--mpi=pmi2"]
    line += size
    line.extend(gpus)
    return line + program"""]),
    Right("42.3", "by partition, the pair put together with zip",
          [NAME, "proof[name] = (calls + 1, tensors + count)"],
          ['name.partition("_")[0] in {"MPI", "GLOO", "NCCL", "CCL"}',
           "proof[name] = tuple(a + b for a, b in zip((calls, tensors), (1, count)))"]),
    Right("42.3", "startswith, and lists as values",
          [NAME, "proof[name] = (calls + 1, tensors + count)"],
          ['name.startswith(("MPI_", "GLOO_", "NCCL_", "CCL_"))',
           "proof[name] = [calls + 1, tensors + count]"]),
    Right("42.4", "the host's copies by the set, NCCL by a joined text",
          [HOST, NCCL],
          ['{"MEMCPY_IN_HOST_BUFFER"} & set(activities)', '" NCCL_" in " " + " ".join(activities)']),
    Right("42.4", "device.startswith, the build by a dict",
          ['if device == "cpu":', LAST],
          ['if not device.startswith("cuda"):',
           'return {"mpi": "CUDA-aware MPI"}.get(build, "staged through the host")']),
]

WRONG = [
    Wrong("42.1", "a name anywhere in the text", "re.match(", "re.search(", "Text 'Open MPI v5.0.11"),
    Wrong("42.1", "anything that is not known is taken for MPICH",
          "return None, None", 'return "MPICH", "4.1"', "Text 'Some MPI v2.0"),
    Wrong("42.1", "the general name first, without Version", [FAMILIES, r"(?: Version\s*:\s*| v)([^\s,]+)"],
          ['("MVAPICH", "MPICH", "Open MPI")', r"[^\d]*([^\s,]+)"],
          "expected 'MVAPICH2' at [0], got 'MVAPICH'"),
    Wrong("42.1", "GDR taken for MVAPICH2", GDR, "return family, version[1]", "mpiname 'MVAPICH2-GDR 2.3.7'"),
    Wrong("42.1", "every MVAPICH2 taken for GDR", 'family == "MVAPICH2" and "MVAPICH2-GDR" in mpiname',
          'family == "MVAPICH2" and "MVAPICH2" in mpiname', "expected 'MVAPICH2' at [0], got 'MVAPICH2-GDR'"),
    Wrong("42.1", "GDR anywhere in what the tool prints", '"MVAPICH2-GDR" in mpiname', '"GDR" in mpiname',
          "expected 'MVAPICH2' at [0], got 'MVAPICH2-GDR'"),
    Wrong("42.1", "GDR in the first word alone", '"MVAPICH2-GDR" in mpiname',
          'mpiname.startswith("MVAPICH2-GDR")', "expected 'MVAPICH2-GDR' at [0], got 'MVAPICH2'"),
    Wrong("42.1", "GDR by its tool alone",
          'family == "MVAPICH2" and "MVAPICH2-GDR" in mpiname', '"MVAPICH2-GDR" in mpiname',
          "expected 'MPICH' at [0], got 'MVAPICH2-GDR'"),
    Wrong("42.1", "the match, not the version", GDR, GDR.replace("version[1]", "version"),
          "expected '2.3.7' at [1]"),
    Wrong("42.2", "Plus with the old names",
          '{"MVP_ENABLE_GPU": "1"}', '{"MVP_ENABLE_GPU": "1", "MV2_USE_CUDA": "1"}',
          "Variables of mvapich-plus"),
    Wrong("42.2", "GPU buffers not switched on",
          '"MV2_USE_CUDA": "1", "MV2_SUPPORT_DL"', '"MV2_SUPPORT_DL"', "Variables of mvapich2-gdr"),
    Wrong("42.2", "one text for all words", f"return {SRUN}", f'return " ".join({SRUN})',
          "must be a list of strings"),
    Wrong("42.2", "no cores for the ranks of srun", CPUS, "[]", "Slurm gives a rank ONE core"),
    Wrong("42.2", "all cores of the node for each rank",
          CPUS, CPUS.replace("job.cores", "job.cores * job.ranks"), "--cpus-per-task=14 is missing"),
    Wrong("42.2", "cores for mpirun_rsh forgotten", REST, REST.replace("threads, ", ""),
          "OMP_NUM_THREADS=14 is missing. Without it, each rank starts a thread for every core"),
    Wrong("42.2", "variables behind the program",
          REST, REST.replace("*pairs, threads, *program", "threads, *program, *pairs"),
          "stand behind the program"),
    Wrong("42.2", "variables before an option",
          [START, REST],
          ['*pairs, threads, "-np", ranks, "-hostfile", "hosts"]', "[*start, *program]"],
          "variables come directly before the program"),
    Wrong("42.2", "no hostfile: the next words are taken for hosts",
          START, '"-np", ranks]', "the next 8 arguments are taken for host names"),
    Wrong("42.2", "an option and its value in one string", START, '"-np", ranks, "-hostfile hosts"]',
          "'-hostfile hosts' has to be two strings"),
    Wrong("42.2", "the variables of GDR for every job", SRUN,
          SRUN.replace("*pairs", '"MV2_USE_CUDA=1", "MV2_SUPPORT_DL=1", "MV2_ENABLE_AFFINITY=0"'),
          "MV2_USE_CUDA=1 is not among the given `variables`"),
    Wrong("42.2", "set only where it is not set yet", '"-export-all"', '"-export"',
          "-export-all is missing. Without it, ranks on other nodes do not get your environment"),
    Wrong("42.2", "one GPU for each task", '[f"--gpus-per-node={job.gpus}"', '["--gpus-per-task=1"',
          "--gpus-per-task hides the other GPUs"),
    Wrong("42.2", "GPUs hidden by the site", ', "--gpu-bind=none"]', "]",
          "--gpu-bind=none is missing. Without it, a site might show"),
    Wrong("42.2", "a GPU for each rank", "--gpus-per-node={job.gpus}", "--gpus-per-node={job.ranks}",
          "--gpus-per-node=2 is missing"),
    Wrong("42.2", "a rank for each GPU", "--ntasks-per-node={job.ranks}",
          "--ntasks-per-node={job.gpus or job.ranks}", "--ntasks-per-node=8 is missing"),
    Wrong("42.2", "the program's list is written into", f"return {SRUN}",
          f"program[:] = {SRUN}\n    return program", "the argument `program` was changed"),
    Wrong("42.2", "the threads are put among the caller's variables",
          "    if launcher == \"mpirun_rsh\":\n",
          "    variables[\"OMP_NUM_THREADS\"] = str(job.cores)\n    if launcher == \"mpirun_rsh\":\n",
          "the argument `variables` was changed"),
    Wrong("42.2", "GPUs where there are none", " if job.gpus else []", "",
          "This job has no GPUs, and asks for some"),
    Wrong("42.2", "srun starts every rank alone", '"--mpi=pmi2", ', "", "every one is rank 0"),
    Wrong("42.2", "variables behind srun's options",
          SRUN, '["srun", "--mpi=pmi2", *size, *gpus, *pairs, *program]',
          "env and variables come before it"),
    Wrong("42.2", "no env before the variables", SRUN, SRUN.replace('"env", ', ""),
          "must begin with env, not with 'MV2_"),
    Wrong("42.2", "the other launcher", '    if launcher == "mpirun_rsh":\n', '    if launcher == "srun":\n',
          "The command does not start srun"),
    Wrong("42.3", "everything that ends in ALLREDUCE", NAME, '"ALLREDUCE" in name', "NEGOTIATE_ALLREDUCE"),
    Wrong("42.3", "every activity counts", NAME, "True", "MEMCPY_IN_FUSION_BUFFER"),
    Wrong("42.3", "MPI alone", NAME, 'name.startswith("MPI_")', "The timeline of [('GLOO_ALLREDUCE', 1)"),
    Wrong("42.3", "three of the four libraries", ', "NCCL", "CCL")', ', "NCCL")',
          "The timeline of [('CCL_ALLREDUCE', 2)"),
    Wrong("42.3", "a library's name anywhere", NAME,
          'any(library in name for library in ("MPI", "GLOO", "NCCL", "CCL"))', "INIT_NCCL"),
    Wrong("42.3", "tensors for calls",
          "tensors + count)", "tensors + 1)", "expected 3 at ['MPI_ALLREDUCE'][1], got 1"),
    Wrong("42.3", "each tensor a call", "(calls + 1,", "(calls + count,",
          "expected 1 at ['MPI_ALLREDUCE'][0], got 3"),
    Wrong("42.3", "all of one name are one call",
          "(calls + 1,", "(1,",
          "expected 4 at ['GLOO_ALLREDUCE'][0], got 1"),
    Wrong("42.3", "the last call only",
          "proof.get(name, (0, 0))", "(0, 0)", "expected 4 at ['GLOO_ALLREDUCE'][0], got 1"),
    Wrong("42.4", "the device is not looked at", ON_CPU, "", "The gradients are CPU tensors"),
    Wrong("42.4", "NCCL asked before the host buffer", [STAGED, "    return \"CUDA-aware MPI\" if"],
          ["", STAGED + "    return \"CUDA-aware MPI\" if"], "MEMCPY_IN_HOST_BUFFER copies to host memory"),
    Wrong("42.4", "the host buffer is not looked at", STAGED, "",
          "MEMCPY_IN_HOST_BUFFER copies to host memory"),
    Wrong("42.4", "the fusion buffer taken for host memory", HOST, '"MEMCPY_IN_FUSION_BUFFER" in activities',
          "the fusion buffer is GPU memory, too"),
    Wrong("42.4", "NCCL at the end of the row only", NCCL, 'activities[-1].startswith("NCCL_")',
          "NCCL moves GPU memory"),
    Wrong("42.4", "the build is asked, not the row", NCCL, 'build == "nccl"',
          "expected 'staged through the host', got 'stayed on the GPU'"),
    Wrong("42.4", "MPI's name means staged", LAST, 'return "staged through the host"',
          "The build `mpi` hands GPU memory to MPI"),
    Wrong("42.4", "MPI's name means CUDA-aware", LAST, 'return "CUDA-aware MPI"',
          "The build `host` copies a GPU tensor to host memory"),
    Wrong("42.4", "without WAIT_FOR_DATA there was no GPU", 'if device == "cpu":',
          'if "WAIT_FOR_DATA" not in activities:',
          "a build with CUDA writes WAIT_FOR_DATA for these, too"),
    Wrong("42.4", "a text of one's own", 'return "stayed on the GPU"', 'return "on the GPU"',
          "expected 'stayed on the GPU', got 'on the GPU'"),
]
