#!/usr/bin/env python3
"""Has Spin look at every order of steps of relay.pml, and at variants that are broken on purpose, which it must find.

    check.py     by ./dev model; needs the package spin
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import time

MODEL = pathlib.Path(__file__).with_name("relay.pml")
BROKEN = ("NO_FENCE", "SAME_EPOCH", "SETTLE_FIRST", "NO_EXPIRY")


def search(variant, liveness):
    """(errors, states, the first error) of one search, which is exhaustive or ends at an error."""
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *command: subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
        run("spin", *([f"-D{variant}"] if variant else []), "-a", MODEL)
        run("cc", "-O2", "-w", *(("-DNFAIR=3",) if liveness else ("-DSAFETY", "-DNOCLAIM")), "-o", "search", "pan.c")
        said = run("./search", "-m1000000", *(("-a", "-f") if liveness else ()))
    if "search depth too small" in said or "out of memory" in said:
        sys.exit(f"the search is not exhaustive:\n{said}")
    first = re.search(r"^pan:1: (.*)", said, re.MULTILINE)
    return (int(re.search(r"errors: (\d+)", said).group(1)), int(re.search(r"(\d+) states, stored", said).group(1)),
            first.group(1) if first else "")


def main():
    good, began = True, time.monotonic()
    for what, liveness in (("nothing is lost, first deliveries are in order, the row never moves back", False),
                           ("when faults end, everything is delivered and settled", True)):
        errors, states, first = search("", liveness)
        good &= errors == 0
        print(f"claim {'ok    ' if errors == 0 else 'FAILED'} {what}: {states} states{first and ': ' + first}")
    for variant in BROKEN:
        errors, _, first = search(variant, False)
        good &= errors > 0
        print(f"claim {'ok    ' if errors > 0 else 'FAILED'} {variant} is found: {first or 'no error'}")
    print(f"model: {'every claim holds' if good else 'NOT every claim holds'}, in {time.monotonic() - began:.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
