"""Two programs that do the same job take turns, each in a process of its own, and say what each turn took."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def memory(field: str) -> float:
    """MB of "VmRSS" (now) or "VmHWM" (peak); the peak alone where there is no /proc."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        import resource  # Windows has neither /proc nor this

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(field))


def forget_peak() -> None:
    """Makes "VmHWM" begin anew (Linux; elsewhere what came before counts)."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")


def take_turns(job: Callable[[], object], after_first: Callable[[object], None] | None = None) -> None:
    """The child's side: does the job once for every line on standard input and says what it took.

    Args:
        job: what is measured.
        after_first: called with the first result, outside of the measurement.
    """
    forget_peak()
    before = memory("VmRSS")
    print(json.dumps({"ready": True}), flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        result = job()
        seconds = time.perf_counter() - started
        if after_first is not None:
            after_first(result)
            after_first = None
        del result
        print(json.dumps({"seconds": seconds, "peak": memory("VmHWM"), "before": before}), flush=True)


class Side:
    """The parent's side: a child process and what its turns took."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.runs: list[dict[str, float]] = []
        self._answer()

    def _answer(self) -> dict[str, float]:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("A benchmarked process ended early; its error stands above.")
        return json.loads(line)

    def run(self) -> None:
        """One more turn."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.runs.append(self._answer())

    def close(self) -> None:
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()

    @property
    def seconds(self) -> float:
        """Median over the turns."""
        return statistics.median(run["seconds"] for run in self.runs)

    @property
    def peak(self) -> float:
        """MB at the most."""
        return max(run["peak"] for run in self.runs)

    @property
    def extra(self) -> float:
        """MB at the most, less what the process had before its first turn."""
        return self.peak - self.runs[0]["before"]
