#!/usr/bin/env bash
# format.sh CLANG_FORMAT ROOT: the C++ files are formatted as .clang-format says.
set -euo pipefail

clang_format=$1
cd "$2"
if [[ -z "$clang_format" || "$clang_format" == *NOTFOUND ]]; then
  echo "SKIPPED: clang-format-19 is not there, so the format was not checked; ./dev test installs it where it can"
  exit 77
fi

# It must be able to fail.
if printf 'int  x ;\n' | "$clang_format" --dry-run -Werror --assume-filename=x.cc >/dev/null 2>&1; then
  echo "clang-format accepts a file that is not formatted: check .clang-format"
  exit 1
fi

find include src apps tests bench examples \( -name '*.h' -o -name '*.cc' \) -print0 |
  xargs -0 "$clang_format" --dry-run -Werror || {
  echo "./dev format puts this right"
  exit 1
}
