"""Tests of the worker processes of a pool: they ignore Ctrl-C, and do not run the user's script again."""

import subprocess
import sys

import pytest

# Starts the first worker of a process. Prints whether SIGINT is blocked in the worker, and in the process afterwards.
FIRST_WORKER = """
import signal
from pathlib import Path

from wse.studies.workers.pool import Task, _Worker

if __name__ == "__main__":
    worker = _Worker(0, Task(function=abs, arguments=lambda item: (item,), owner="", start_remedy="", kill_remedy=""))
    worker._start()
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    worker.end()
    blocked = int(status.split("SigBlk:")[1].split()[0], 16)
    print(bool(blocked >> (signal.SIGINT - 1) & 1), signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the blocked signals in /proc")
def test_first_worker_blocks_ctrl_c(tmp_path):
    script = tmp_path / "first.py"
    script.write_text(FIRST_WORKER)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("True False\n", "")


# A user's script without a __main__ guard. It prints once that it ran, and uses two worker processes.
SCRIPT = """
from wse.studies.workers.pool import Task, outputs
from wse.studies.workers.pool import Queue

print("ran")
task = Task(function=abs, arguments=lambda item: (-item,), owner="", start_remedy="", kill_remedy="")
print(sorted(outputs(Queue([[1], [2]]), 2, task)))
"""


def test_workers_do_not_run_the_script_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("ran\n[(1, 1), (2, 2)]\n", "")
