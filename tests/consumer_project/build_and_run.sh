#!/usr/bin/env bash
# build_and_run.sh BUILD FOLDER COMPILER LIBDIR: installs BUILD below FOLDER, moves the installed tree, builds a foreign
# program against it in the two ways that applications use (find_package; pkg-config alone), and runs both.
set -euo pipefail

build=$1
folder=$2
compiler=$3
libdir=$4
here="$(cd "$(dirname "$0")" && pwd)"
rm -rf "$folder"
mkdir -p "$folder"

check_file() {  # check_file FILE ID: exactly one event, with this id, applied once
  local rows
  rows=$(sqlite3 "$1" "SELECT lower(hex(id)), (SELECT count(*) FROM seen) FROM dovetail_outbox")
  if [[ "$rows" != "${2//-/}|1" ]]; then
    echo "expected one event $2, applied once; the file has: $rows"
    exit 1
  fi
}

echo "== install, and move the tree: nothing in it may know where it was made"
cmake --install "$build" --prefix "$folder/first" >"$folder/install.log"
mv "$folder/first" "$folder/prefix"
prefix="$folder/prefix"
if grep -rIl -e "$build" -e "$folder/first" "$prefix"; then
  echo "these installed files name the build machine's folders"
  exit 1
fi
if find "$prefix/include" -name '*.h' | grep -v '/include/dovetail/'; then
  echo "these headers are none of an application's business"
  exit 1
fi

echo "== find_package"
cmake -S "$here/project" -B "$folder/project" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" >"$folder/configure.log"
cmake --build "$folder/project"
check_file "$folder/cmake.db" "$("$folder/project/consumer_project" "$folder/cmake.db")"

echo "== pkg-config"
export PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig"
read -r -a flags <<<"$(pkg-config --cflags --libs dovetail sqlite3)"
"$compiler" -std=c++20 "$here/main.cc" -o "$folder/consumer_project" "${flags[@]}" -Wl,-rpath,"$prefix/$libdir"
check_file "$folder/pkg-config.db" "$("$folder/consumer_project" "$folder/pkg-config.db")"

if [[ -x "$prefix/bin/dovetail" ]]; then
  echo "== the installed binary"
  "$prefix/bin/dovetail" version
fi
