"""What README.md lets people paste must work as it stands.

Runs every ```sh block between the lines <!-- tested --> and <!-- /tested -->, one after the other, in one temporary
folder, with the built programs on the PATH. A block that fails, fails the test.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import harness


def tested_blocks(text):
    for part in re.findall(r"<!-- tested -->(.*?)<!-- /tested -->", text, re.DOTALL):
        yield from re.findall(r"^```sh\n(.*?)^```", part, re.DOTALL | re.MULTILINE)


def main():
    sample = "<!-- tested -->\n```sh\none\n```\ntext\n```sql\nno\n```\n```sh\ntwo\n```\n<!-- /tested -->\n```sh\nno\n```\n"
    assert list(tested_blocks(sample)) == ["one\n", "two\n"]
    readme = harness.ROOT / "README.md"
    blocks = list(tested_blocks(readme.read_text())) if readme.exists() else []
    if not blocks:
        print("README.md has no tested blocks: skipped")
        return 77
    folder = tempfile.mkdtemp(prefix="dovetail-readme-")
    path = os.pathsep.join([str(pathlib.Path(harness.DOVETAIL).resolve().parent), str(harness.EXAMPLES), os.environ["PATH"]])
    environment = {k: v for k, v in os.environ.items() if k != "DOVETAIL_CONFIG"} | {"PATH": path}
    # One shell for all blocks, as one person types them; it stops at the first command that fails.
    script = "set -eu -o pipefail\n" + "\n".join(blocks)
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=100,
                          stdin=subprocess.DEVNULL)
    shutil.rmtree(folder, ignore_errors=True)
    if done.returncode != 0:
        print(f"README.md: the session failed with {done.returncode}\n{script}\n{done.stdout}\n{done.stderr}")
        return 1
    print(f"README.md: {len(blocks)} blocks ran")
    return 0


if __name__ == "__main__":
    sys.exit(main())
