"""clang-tidy over every C++ file of the project. What was found clean is not looked at again until it changes.

    tidy.py BUILD_FOLDER [PART_OF_A_PATH...]

The static analyzer looks at the product alone: through the macros of the tests it takes five sixths of the time. Tests
may be slower than they could be, name members of their fixtures as they like, have destructors by GoogleTest and
long texts among the inputs.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIDY = "clang-tidy-19"
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
FOLDERS = ("src", "apps", "tests", "bench", "examples")
# Between a file's name and the analyzer's: what is not part of the product.
TEST = re.compile(r"^(tests|bench|examples)/|(^|/)test_[^/]*$|_test\.cc$")

NOT_IN_TESTS = ("-checks=-bugprone-suspicious-missing-comma,-clang-analyzer-*,-cppcoreguidelines-virtual-class-destructor,"
                "-performance-*,-readability-*")


class Tree:
    """Files by name, each with the hash of itself and of all that it includes from the project."""

    def __init__(self, places):
        self.places = places
        self.texts = {}

    def text(self, path):
        if path not in self.texts:
            content = path.read_bytes()
            self.texts[path] = (content, [name.decode() for name in INCLUDE.findall(content)])
        return self.texts[path]

    def find(self, name, beside):
        for place in (beside, *self.places):
            path = (place / name).resolve()
            if path.is_file():
                return path
        return None

    def hash(self, path):
        seen, waiting = set(), [path]
        while waiting:
            one = waiting.pop()
            if one in seen:
                continue
            seen.add(one)
            waiting += filter(None, (self.find(name, one.parent) for name in self.text(one)[1]))
        digest = hashlib.sha256()
        for one in sorted(seen):
            digest.update(str(one).encode() + b"\0" + self.text(one)[0] + b"\0")
        return digest


def command_of(build, path):
    checks = [NOT_IN_TESTS] if TEST.search(str(path.relative_to(ROOT))) else []
    # It reads the headers that GCC has precompiled as they stand, which is no fault of a file.
    return [TIDY, "-quiet", "-p", str(build), "-extra-arg=-Wno-ignored-gch", *checks, str(path)]


def look_at(command, mark):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        mark.touch()
        return ""
    errors = [line for line in done.stderr.splitlines() if not re.match(r"\d+ warnings? |Suppressed|Use -", line)]
    return done.stdout + "\n".join(errors)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    parts = sys.argv[2:]
    marks = build / "tidy"
    marks.mkdir(exist_ok=True)
    entries = {pathlib.Path(one["file"]).resolve(): one["command"] for one in
               json.loads((build / "compile_commands.json").read_text())}
    common = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout + (ROOT / ".clang-tidy").read_bytes()
    tree = Tree([ROOT / "src", ROOT / "tests", ROOT / "include", ROOT / "apps" / "dovetail", ROOT])
    work = []
    for path, compiled in sorted(entries.items()):
        name = os.path.relpath(path, ROOT)
        if name.split("/")[0] not in FOLDERS or (parts and not any(part in name for part in parts)):
            continue
        digest = tree.hash(path)
        command = command_of(build, path)
        digest.update(common + compiled.encode() + " ".join(command).encode())
        mark = marks / digest.hexdigest()
        if not mark.exists():
            work.append((name, command, mark))
    print(f"      {len(work)} files are new or changed since they were found clean", flush=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        looks = {pool.submit(look_at, command, mark): name for name, command, mark in work}
        for count, look in enumerate(concurrent.futures.as_completed(looks), 1):
            found = look.result()
            failed += bool(found)
            print(f"      [{count}/{len(work)}] {looks[look]}", flush=True)
            if found:
                print(found, flush=True)
    if failed:
        sys.exit(f"clang-tidy found something in {failed} files")


if __name__ == "__main__":
    main()
