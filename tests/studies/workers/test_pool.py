"""Processes of a pool: what a terminal tells all of its processes is for the first alone."""

import subprocess
import sys

import pytest

# Starts one worker in a process that has started none, and says which signals of it are held back.
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


@pytest.mark.skipif(sys.platform != "linux", reason="what a process holds back is told by /proc")
def test_the_first_worker_never_hears_ctrl_c(tmp_path):
    script = tmp_path / "first.py"
    script.write_text(FIRST_WORKER)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("True False\n", "")


# A user's script, which says once that it ran, and uses two processes.
SCRIPT = """
from wse.studies.workers.pool import Task, outputs
from wse.studies.workers.pool import Queue

print("ran")
task = Task(function=abs, arguments=lambda item: (-item,), owner="", start_remedy="", kill_remedy="")
print(sorted(outputs(Queue([[1], [2]]), 2, task)))
"""


def test_a_script_is_not_run_again_by_its_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("ran\n[(1, 1), (2, 2)]\n", "")
