"""Training in several processes: the numbers of one process, one folder, a common end, and the failed rank's name."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import xjax
from recipes import launch
from recipes.errors import ConfigError, RecipeError
from recipes.launch import gpus_of_processes, main
from recipes.process.parallel import choose_devices
from recipes.results.checkpoint import Checkpoints
from recipes.settings.config_file import load_config
from recipes.training.loop import begin
from recipes.training.run import prepare, run
from recipes.training.step import init_state
from tests.compare import assert_same
from tests.jobs import clean_environment, free_address
from tests.quick_compiling import flags
from tests.recipes.conftest import ROOT
from xjax import tree_util

LAUNCH = ("-m", "recipes.launch")
TABLE = ("--config", "mlp_table.yaml", "task.target=ring", "optim.schedule.warmup_steps=5")
CONFIG = (*TABLE, "task.batch_size=50", "devices=4")
LONG = ("--config", "gcn.yaml", "devices=2", "steps=100000", "eval_every=100000", "run_dir=run")

# Each process imports this at its start; it makes one rank fail at a step.
FAULT = """
import os, signal, sys
if os.environ.get("JAX_PROCESS_ID") == os.environ["FAULT_RANK"] and "RECIPES_PROGRESS" in os.environ:
    import recipes.process.progress as progress
    real = progress.tick
    def fail(failure):
        if failure == "raise":
            raise ValueError("it broke")
        if failure == "exit":
            sys.exit(3)
        if failure == "exit with 0":
            sys.exit(0)
        while failure == "spin":
            pass
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[failure])
    def tick(step=None, *more, **named):
        real(step, *more, **named)
        if step == int(os.environ["FAULT_STEP"]):
            fail(os.environ["FAULT"])
    progress.tick = tick
"""


def with_fault(folder, failure, rank, step):
    """Environment variables that make a rank fail."""
    (folder / "faults").mkdir()
    (folder / "faults" / "sitecustomize.py").write_text(FAULT)
    return {"PYTHONPATH": f"{folder / 'faults'}{os.pathsep}{ROOT}", "FAULT": failure, "FAULT_RANK": str(rank),
            "FAULT_STEP": str(step)}


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def digests(run):
    """The step of the newest checkpoint, and the SHA-256 of each of its leaves."""
    checkpoints = Checkpoints(run / "checkpoints")
    manifest = json.loads((run / "checkpoints" / str(checkpoints.steps()[-1]) / "manifest.json").read_text())
    return checkpoints.steps()[-1], {name: leaf["sha256"] for name, leaf in manifest["leaves"].items()}


def descendants(pid):
    """The processes that a process has started, and their descendants."""
    try:
        own = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return own + [each for child in own for each in descendants(child)]


def ranks_of(launcher, count=2):
    """Process ids of the ranks, in order; waits until all have started."""
    for _ in range(600):
        by_rank = {}
        for pid in descendants(launcher):
            for text in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if text.startswith(b"JAX_PROCESS_ID="):
                    by_rank[int(text.partition(b"=")[2])] = pid
        if len(by_rank) == count:
            return [by_rank[rank] for rank in range(count)]
        time.sleep(0.1)
    raise AssertionError("the ranks were not started")


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_steps(run, count, process, seconds=120):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (run / "metrics.jsonl").exists() and len((run / "metrics.jsonl").read_text().splitlines()) >= count:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("no steps")


def assert_equal_runs(run, other):
    """The metrics of all steps, and the results, are equal up to rounding."""
    ours, theirs = metrics(run), metrics(other)
    assert_same(ours, theirs, like="float32")
    assert_same(*(json.loads((each / "result.json").read_text())["last"]["test"] for each in (run, other)),
                like="float32")


def restored(run, config):
    """The parameters of the newest checkpoint, as NumPy arrays."""
    _, data, task, _ = prepare(config)
    checkpoints = Checkpoints(run / "checkpoints")
    template = begin(init_state(task, config), data.splits)._asdict()
    return tree_util.tree_leaves(checkpoints.restore(checkpoints.steps()[-1], template)["state"].params)


# (GPUs, processes, devices, other environment variables) -> the GPUs of each process
GPUS = [
    ("0 1 2 3", 4, None, {}, ["0", "1", "2", "3"]),
    ("2 5 7", 2, None, {}, ["2", "5"]),                       # the k-th of CUDA_VISIBLE_DEVICES
    ("GPU-a GPU-b", 2, 2, {}, ["GPU-a", "GPU-b"]),
    ("0 1 2 3", 2, 4, {}, ["0,1", "2,3"]),
    ("0 1 2 3", 2, 2, {}, ["0", "1"]),
]


@pytest.mark.parametrize("seen, count, devices, env, own", GPUS)
def test_each_process_has_gpus_of_its_own(seen, count, devices, env, own):
    each_env = gpus_of_processes(seen.split(), count, devices, share=False, env=env)
    assert [each.pop("CUDA_VISIBLE_DEVICES") for each in each_env] == own
    assert all(each == {"JAX_LOCAL_DEVICE_IDS": "0,1" if "," in own[0] else "0"} for each in each_env)


def test_without_gpus_nothing_is_chosen():
    assert gpus_of_processes([], 2, None, share=False) == [{}, {}]


@pytest.mark.parametrize("devices, fix", [(None, "--processes 2, --share-gpus, or JAX_PLATFORMS=cpu"),
                                          (9, "a smaller `devices`, or JAX_PLATFORMS=cpu")])
def test_fewer_gpus_than_processes_want(devices, fix):
    with pytest.raises(ConfigError, match=rf"(?s)^launch: this machine has fewer GPUs.*GPUs +4, 6\n  fix: {fix}"):
        gpus_of_processes(["4", "6"], 3, devices, share=False)


@pytest.mark.parametrize("env, memory", [({}, {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.375"}),
                                         ({"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, {})])
def test_processes_that_share_a_gpu_divide_its_memory(env, memory):
    each_env = gpus_of_processes(["4", "6"], 3, None, share=True, env=env)
    assert [each["CUDA_VISIBLE_DEVICES"] for each in each_env] == ["4", "6", "4"]
    assert all(each == {"CUDA_VISIBLE_DEVICES": each["CUDA_VISIBLE_DEVICES"], "JAX_LOCAL_DEVICE_IDS": "0", **memory}
               for each in each_env)


def test_the_launcher_hands_each_process_its_gpu(monkeypatch, capsys):
    started = {}

    class Recorder:
        def __init__(self, *args):
            pass

        def start(self, rank, command, variables):
            started[rank] = variables.get("CUDA_VISIBLE_DEVICES")

        def watch(self, interrupts):
            return 0

    monkeypatch.setattr(launch, "Job", Recorder)
    monkeypatch.setattr(xjax.distributed, "visible_gpus", lambda: ["3", "1"])
    assert main(["--processes", "2", "--config", "gcn.yaml"]) == 0 and started == {0: "3", 1: "1"}
    assert main(["--processes", "3", "--config", "gcn.yaml"]) == 2
    assert "fewer GPUs" in capsys.readouterr().err
    assert main(["--processes", "3", "--share-gpus", "--config", "gcn.yaml"]) == 0 and started[2] == "3"


CLUSTERS = {
    "Slurm": lambda rank, port: {"SLURM_JOB_ID": str(port - 61440), "SLURM_NTASKS": "2", "SLURM_PROCID": str(rank),
                                 "SLURM_STEP_NODELIST": "node[1-2]", "SLURM_STEP_NUM_NODES": "1"},
    "Open MPI": lambda rank, port: {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": str(rank),
                                    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
                                    "OMPI_MCA_orte_hnp_uri": f"{(port - 61440) << 12}.0;tcp://127.0.0.1:1"},
    "torchrun": lambda rank, port: {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2",
                                    "RANK": str(rank)},
}


@pytest.fixture
def no_cluster(monkeypatch):
    """No environment variable declares this process to be one of several."""
    for variable in os.environ.keys() - clean_environment().keys():
        monkeypatch.delenv(variable)


def train_both_ways(command, folder, rings, cluster=None):
    """The same run in two processes and in one, as (two, one).

    A launcher starts the two, or a cluster does: the same command once for each process, with the cluster's variables.
    """
    options = (*CONFIG, f"task.file={rings}", "steps=30", "eval_every=10", "checkpoint_every=15", "log_every=5")
    starts = [(("--processes", "2"), {})]
    if cluster is not None:
        port = 61440 + int(free_address().rpartition(":")[2]) % 4096
        starts = [((), CLUSTERS[cluster](rank, port)) for rank in range(2)]
    started = [command(*args, *options, "run_dir=two", module=LAUNCH, wait=False, **env) for args, env in starts]
    for rank, process in enumerate(started):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, (rank, out, err)
        printed = out.count("4 in 2 processes"), out.count("(last step, 30)"), err
        assert printed == (rank == 0, rank == 0, ""), (rank, out, err)
    run(load_config(TABLE[1], [*options[2:], f"run_dir={folder / 'one'}"]), "one")


@pytest.mark.parametrize("cluster", ["Slurm", *(pytest.param(other, marks=pytest.mark.slow)
                                                for other in (None, "Open MPI", "torchrun"))])
def test_two_processes_give_the_numbers_of_one(cluster, command, tmp_path, rings, no_cluster):
    train_both_ways(command, tmp_path, rings, cluster)
    assert_equal_runs(tmp_path / "two", tmp_path / "one")
    config = load_config(str(tmp_path / "one" / "config.yaml"), [])
    assert_same(restored(tmp_path / "two", config), restored(tmp_path / "one", config))


@pytest.mark.slow
def test_checkpoints_move_between_counts_of_processes(command, tmp_path, rings):
    train_both_ways(command, tmp_path, rings)
    code, out, err = command("--resume", "two", "--extend", "40")
    assert code == 0 and "resumed at step 30 of 40" in out, err
    assert "processes: 2 before, None now" in out
    code, out, err = command("--processes", "2", "--resume", "one", "--extend", "40", module=LAUNCH)
    assert code == 0 and "resumed at step 30 of 40" in out, err
    assert_equal_runs(tmp_path / "two", tmp_path / "one")


def test_a_signal_at_one_rank_stops_all_at_the_same_step(command, tmp_path):
    process = command("--processes", "2", *LONG, module=LAUNCH, wait=False)
    pids = ranks_of(process.pid)
    wait_for_steps(tmp_path / "run", 20, process)
    os.kill(pids[1], signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, (out, err)
    assert "stopped by SIGTERM after step" in err
    assert f"fix: python -m recipes.launch --processes 2 --resume {tmp_path / 'run'}" in err
    step = Checkpoints(tmp_path / "run" / "checkpoints").steps()[-1]
    assert metrics(tmp_path / "run")[-1]["step"] == step and f"after step {step};" in err
    assert not any(map(is_alive, pids))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_a_signal_at_the_launcher_stops_all(number, command, tmp_path, rings):
    process = command("--processes", "2", *CONFIG, f"task.file={rings}", "steps=100000", "eval_every=100000",
                      "run_dir=run", module=LAUNCH, wait=False)
    pids = ranks_of(process.pid)
    wait_for_steps(tmp_path / "run", 20, process)
    assert f"process {pids[0]} on" in (tmp_path / "run" / ".lock").read_text()          # rank 0 owns the folder
    code, _, refused = command("--resume", "run")
    assert code == 1 and "another process uses this run folder" in refused, (code, refused)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number and f"stopped by {number.name} after step" in err, err
    assert metrics(tmp_path / "run")[-1]["step"] == Checkpoints(tmp_path / "run" / "checkpoints").steps()[-1]
    assert not any(map(is_alive, pids))


@pytest.mark.slow
@pytest.mark.parametrize("repeat", range(10))
def test_a_rank_that_never_comes(repeat, command, tmp_path, rings):
    late = str(repeat % 2)
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "sitecustomize.py").write_text(
        f"import os, time\nif os.environ.get('JAX_PROCESS_ID') == '{late}': time.sleep(1000)\n")
    start = time.monotonic()
    code, _, err = command("--processes", "2", "--join", "10", *CONFIG, f"task.file={rings}", module=LAUNCH,
                           PYTHONPATH=f"{tmp_path / 'faults'}{os.pathsep}{ROOT}")
    assert code == 1 and time.monotonic() - start < 30
    if late == "1":
        assert "process 1 of 2 did not connect within 10 s" in err
    else:
        assert "process 0 at 127.0.0.1" in err and "did not answer within 10 s" in err
    assert f"launch: rank {1 - int(late)} of 2 ended with exit code 1" in err and "no run has begun" in err


def check_failure(failure, rank, command, tmp_path, config=LONG, count=2):
    env = with_fault(tmp_path, failure, rank, 25)
    process = command("--processes", str(count), *config, "log_every=5", module=LAUNCH, wait=False, **env)
    pids = ranks_of(process.pid, count)
    wait_for_steps(tmp_path / "run", 20, process)
    start = time.monotonic()
    out, err = process.communicate(timeout=90)
    seconds = time.monotonic() - start
    message = err[err.rindex("launch: "):]
    why = {"kill": "was ended by SIGKILL", "raise": "ended with exit code 1", "exit": "ended with exit code 3",
           "stop": "is stopped", "spin": "hangs", "exit with 0": "ended before the training did"}[failure]
    assert process.returncode == (3 if failure == "exit" else 1), err
    assert message.startswith(f"launch: rank {rank} of {count} {why}"), err
    assert "last step  25" in message and f"recipes.launch --processes {count} --resume {tmp_path / 'run'}" in message
    assert len(message.splitlines()) <= 6
    assert failure != "raise" or "ValueError: it broke" in err
    assert seconds < 20 and not any(map(is_alive, pids)), (seconds, err)


def test_a_rank_that_is_killed(command, tmp_path):
    check_failure("kill", 1, command, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("failure", ["spin", "stop", "exit with 0"])
def test_a_rank_that_fails(failure, rank, command, tmp_path):
    check_failure(failure, rank, command, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("repeat", range(10))
@pytest.mark.parametrize("failure", ["kill", "raise", "exit"])
def test_a_rank_that_fails_ten_times(failure, repeat, command, tmp_path):
    check_failure(failure, repeat % 2, command, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("failure", ["kill", "raise", "exit", "spin", "stop"])
def test_a_rank_of_four_that_fails(failure, command, tmp_path, rings):
    config = (*CONFIG, f"task.file={rings}", "steps=100000", "eval_every=100000", "run_dir=run")
    check_failure(failure, 2, command, tmp_path, config, count=4)


@pytest.mark.slow
def test_four_processes_give_the_numbers_of_one(command, tmp_path, rings):
    options = (*TABLE, f"task.file={rings}", "task.batch_size=48", "steps=30", "devices=8")
    code, _, err = command("--processes", "4", *options, "run_dir=four", module=LAUNCH)
    assert code == 0, err
    code, _, err = command(*options, "run_dir=one", XLA_FLAGS=flags())
    assert code == 0, err
    assert_equal_runs(tmp_path / "four", tmp_path / "one")


@pytest.mark.slow
def test_a_graph_in_two_processes(command, tmp_path):
    for name, module, more in (("two", LAUNCH, ("--processes", "2")), ("one", ("-m", "recipes.train"), ())):
        code, _, err = command(*more, "--config", "gcn.yaml", "steps=40", "devices=4", f"run_dir={name}", module=module)
        assert code == 0, err
    assert_equal_runs(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow
def test_a_launcher_that_is_killed_leaves_no_process(command, tmp_path, rings):
    process = command("--processes", "2", *CONFIG, f"task.file={rings}", "steps=100000", "eval_every=100000",
                      "run_dir=run", module=LAUNCH, wait=False)
    pids = ranks_of(process.pid)
    wait_for_steps(tmp_path / "run", 20, process)
    process.kill()
    process.communicate(timeout=20)
    time.sleep(1)
    assert not any(map(is_alive, pids))


@pytest.mark.slow
def test_kills_change_no_bit(command, tmp_path, rings):
    """A rank is killed 20 times at random moments, and the run resumes from its newest checkpoint."""
    options = (*CONFIG, f"task.file={rings}", "steps=150", "eval_every=50", "checkpoint_every=10", "log_every=5")
    code, _, err = command("--processes", "2", *options, "run_dir=whole", module=LAUNCH)
    assert code == 0, err
    arguments, rng = (*options, "run_dir=broken"), np.random.default_rng(0)
    for kill in range(20):
        process = command("--processes", "2", *arguments, module=LAUNCH, wait=False)
        pids = ranks_of(process.pid)
        if kill:                                                # the first kill comes after the first checkpoint
            time.sleep(rng.uniform(1, 12))
        else:
            wait_for_steps(tmp_path / "broken", 25, process)
        if process.poll() is None:
            os.kill(pids[kill % 2], signal.SIGKILL)
        process.communicate(timeout=60)
        assert not any(map(is_alive, pids))
        arguments = ("--resume", "broken")
    code, _, err = command("--processes", "2", "--resume", "broken", module=LAUNCH)
    assert code == 0, err
    assert metrics(tmp_path / "broken") == metrics(tmp_path / "whole")
    assert digests(tmp_path / "broken") == digests(tmp_path / "whole")


def test_wrong_calls(no_cluster, capfd):
    assert main(["--config", "gcn.yaml"]) == 2
    err = capfd.readouterr().err
    assert "the number of processes that train together is not known" in err and "fix: --processes N" in err
    assert main(["--processes", "2", "steps=abc"]) == 2
    assert capfd.readouterr().err.count("steps") == 1
    with pytest.raises(RecipeError, match="(?s)cannot be divided among the processes.*fix: a multiple of 2"):
        choose_devices(3, processes=2)
