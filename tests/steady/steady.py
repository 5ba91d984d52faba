"""Runs a suite of ctest again and again, every third time under load, and prints what came of each run.

    steady.py [--runs N] [--log FOLDER] [--after COMMAND] -- ctest ARGUMENT...

Under load both: as many processes as the machine has cores only spin, and everything that the run has started is frozen at random
moments, for up to some seconds, as a virtual machine is that its host forgets. Fails when one run fails.
"""

import argparse
import contextlib
import os
import pathlib
import random
import secrets
import shlex
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

LOADED_EVERY = 3
BETWEEN_FREEZES_S = (2.0, 12.0)
FREEZE_S = (0.1, 2.5)
FREEZERS = ("/sys/fs/cgroup/freezer", "/sys/fs/cgroup")
MARK = "DOVETAIL_STEADY_RUN"


class Cgroup:
    """Freezes what was started in it, and what that has started. The frozen do not notice: no signal is sent."""

    def __init__(self, parent):
        self.folder = pathlib.Path(parent, f"dovetail_steady_{os.getpid()}")
        self.folder.mkdir()
        self.is_first_version = (self.folder / "freezer.state").exists()
        if not self.is_first_version and not (self.folder / "cgroup.freeze").exists():
            self.folder.rmdir()
            raise OSError(f"{parent} cannot freeze")

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def freeze(self):
        """Returns when all stand still: on a busy machine some run on for a while after the order."""
        self._write("FROZEN", "1")
        until = time.monotonic() + 10
        while not self.is_frozen() and time.monotonic() < until:
            time.sleep(0.01)

    def is_frozen(self):
        if self.is_first_version:
            return (self.folder / "freezer.state").read_text().strip() == "FROZEN"
        return "frozen 1" in (self.folder / "cgroup.events").read_text()

    def thaw(self):
        self._write("THAWED", "0")

    def _write(self, first, second):
        if self.is_first_version:
            (self.folder / "freezer.state").write_text(first)
        else:
            (self.folder / "cgroup.freeze").write_text(second)

    def close(self):
        self.thaw()
        for _ in range(50):  # it is busy as long as one of its processes ends
            try:
                self.folder.rmdir()
                return
            except OSError:
                time.sleep(0.1)


class Signals:
    """The same without cgroups: SIGSTOP for all that carry the mark of this run in their environment. What a test has stopped by
    itself stays stopped."""

    def __init__(self):
        self.mark = f"{MARK}={secrets.token_hex(8)}".encode()
        self.stopped = []

    def enter(self):
        name, value = self.mark.decode().split("=")
        os.environ[name] = value

    def freeze(self):
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                is_of_run = self.mark in (process / "environ").read_bytes().split(b"\0")
                state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if is_of_run and state not in "TZ":
                    os.kill(int(process.name), signal.SIGSTOP)
                    self.stopped.append(int(process.name))
            except OSError:
                pass  # it is gone, or of somebody else

    def thaw(self):
        for pid in self.stopped:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        self.stopped = []

    def close(self):
        self.thaw()


def make_freezer():
    for parent in FREEZERS:
        try:
            return Cgroup(parent)
        except OSError:
            continue
    return Signals()


class Load:
    """Spins on every core and freezes at random, until the end of the scope."""

    def __init__(self, freezer, seed):
        self.freezer = freezer
        self.random = random.Random(seed)
        self.frozen = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._freeze)
        self.spinners = []

    def __enter__(self):
        for _ in range(os.cpu_count() or 1):
            self.spinners.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.over.set()
        self.thread.join()
        for spinner in self.spinners:
            spinner.kill()
            spinner.wait()

    def _freeze(self):
        while not self.over.wait(self.random.uniform(*BETWEEN_FREEZES_S)):
            self.freezer.freeze()
            self.frozen += 1
            self.over.wait(self.random.uniform(*FREEZE_S))
            self.freezer.thaw()


def failed_tests(report):
    """The names of the tests that failed, from a report of ctest; None: there is none."""
    try:
        cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    except (OSError, xml.etree.ElementTree.ParseError):
        return None
    return [case.get("name") for case in cases if case.find("failure") is not None or case.get("status") == "fail"]


def run_once(number, command, log, is_loaded):
    """(whether all passed, the line of the table)."""
    report = (log / f"run_{number}.xml").absolute()
    report.unlink(missing_ok=True)
    freezer = make_freezer() if is_loaded else None
    began = time.monotonic()
    try:
        with open(log / f"run_{number}.log", "wb") as out, Load(freezer, number) if is_loaded else contextlib.nullcontext() as load:
            code = subprocess.run([*command, "--output-junit", str(report)], stdout=out, stderr=subprocess.STDOUT, check=False,
                                  preexec_fn=freezer.enter if freezer else None).returncode
    finally:
        if freezer:
            freezer.close()
    failed = failed_tests(report)
    said = f"ctest ended with {code}" if code != 0 and not failed else " ".join(failed or ())
    how = f"load, {load.frozen} freezes" if is_loaded else "-"
    is_green = code == 0 and failed == []
    return is_green, f"{number:>4}  {how:<18} {'green' if is_green else 'RED':<6} {time.monotonic() - began:>7.0f}  {said}".rstrip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--log", type=pathlib.Path, default=pathlib.Path("build/steady"))
    parser.add_argument("--after", default="", help="a command to run behind each run")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arguments.log.mkdir(parents=True, exist_ok=True)
    print(f"{'run':>4}  {'load':<18} {'result':<6} {'seconds':>7}  failed", flush=True)
    red = 0
    for number in range(1, arguments.runs + 1):
        is_green, line = run_once(number, arguments.command, arguments.log, number % LOADED_EVERY == 2)
        red += 0 if is_green else 1
        print(line, flush=True)
        if arguments.after:
            subprocess.run(shlex.split(arguments.after), check=False)
    print(f"{arguments.runs - red} of {arguments.runs} runs are green" + (f"; the logs are in {arguments.log}" if red else ""))
    return 1 if red or arguments.runs < 1 else 0


if __name__ == "__main__":
    sys.exit(main())
