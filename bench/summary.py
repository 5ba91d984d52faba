"""The figures of several benchmarks with a target, those that missed it first.

    summary.py FOLDER NAME=CODE...

CODE is how the benchmark ended. Its figures are in FOLDER/NAME.json, or FOLDER/NAME_*.json where it has parts. Fails when a target
was missed, or a benchmark did not get that far.
"""

import json
import pathlib
import sys


def figures_of(folder, name):
    """(bench, figure) of all that have a target."""
    for path in sorted((*folder.glob(f"{name}.json"), *folder.glob(f"{name}_*.json"))):
        for figure in json.loads(path.read_text(encoding="utf-8")):
            if figure["target"] is not None:
                yield path.stem, figure


def summarize(folder, codes):
    """(lines, whether all is well)."""
    rows, broken = [], []
    for name, code in codes:
        found = list(figures_of(folder, name))
        rows += found
        # 1 is the code of a missed target.
        if code > 1 or not found or (code == 1 and all(figure["met"] for _, figure in found)):
            broken.append(f"{name}: ended with {code} and {len(found)} figures that have a target")
    rows.sort(key=lambda row: row[1]["met"])
    lines = [f"{'bench':<17} {'figure':<58} {'value':>10} {'target':>8} {'unit':<10} met"]
    for bench, figure in rows:
        value = "none" if figure["value"] is None else f"{figure['value']:.4g}"
        lines.append(f"{bench:<17} {figure['name']:<58} {value:>10} {figure['target']:>8g} {figure['unit']:<10} "
                     f"{'yes' if figure['met'] else 'NO'}")
    missed = sum(not figure["met"] for _, figure in rows)
    lines += ["", *broken, f"{missed} of {len(rows)} targets missed"]
    return lines, missed == 0 and not broken


def main():
    folder, *pairs = sys.argv[1:]
    codes = [(name, int(code)) for name, code in (pair.split("=") for pair in pairs)]
    lines, is_well = summarize(pathlib.Path(folder), codes)
    print("\n".join(lines))
    return 0 if is_well and codes else 1


if __name__ == "__main__":
    sys.exit(main())
