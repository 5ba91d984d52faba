"""Checks the rules that the compiler does not: who may include whom, and how a source file looks.

    check.py [--root FOLDER] [--self-test] [--sizes]

Prints one line for each break of a rule, as file:line: rule: text, and fails when there is one. With --self-test it
first proves that every rule still finds what it is for, on a small tree of its own. --sizes prints how many lines the
product has in each room, as docs/decisions/0015-rooms.md has them, and checks nothing.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

COLUMNS_MAX = 100
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 90
ROOM_FILES_MAX = 31  # with the README
REPEATED_LINES_MAX = 12
SUBJECT_MAX = 72
SUBJECTS_FROM = "32c9341"  # the commits behind this one

# Which folders of src/ a folder of src/ may include, besides itself. A new adapter gets a line here.
ADAPTERS = ("command", "kafka", "memory", "nats", "rabbitmq", "redis", "server", "sql")
DATABASES = ("postgres", "sqlite")
MAY_INCLUDE = {
    "core": (),
    "host": ("core",),
    "config": ("core", "host", "sql", "server", "gateway"),
    "webhook": ("core", "host", "server"),
    "gateway": ("core", "host", "server", "webhook"),
    **{adapter: ("core", "host") for adapter in ADAPTERS},
    **{database: ("core", "host", "sql") for database in DATABASES},
}
MAY_INCLUDE["assembly"] = tuple(MAY_INCLUDE)  # it joins them all, and nobody includes it

# Headers of other libraries: (pattern, folders that may use them). In headers of ours none of them may appear.
LIBRARIES = (
    (r"sqlite3\.h", ("src/sqlite/", "apps/", "tests/", "bench/", "examples/")),
    (r"libpq-fe\.h", ("src/postgres/", "apps/", "tests/", "bench/", "examples/")),
    (r"pqxx/.*", ("src/postgres/", "tests/", "examples/")),
    (r"librdkafka/.*", ("src/kafka/", "tests/", "bench/")),
    (r"amqp\.h|amqp_.*\.h|rabbitmq-c/.*", ("src/rabbitmq/", "tests/", "bench/")),
    (r"nats/.*", ("src/nats/", "tests/", "bench/")),
    (r"hiredis/.*", ("src/redis/", "tests/", "bench/")),
    (r"curl/.*", ("src/gateway/", "src/webhook/", "tests/", "bench/")),
    (r"openssl/.*", ("src/host/", "src/nats/", "src/redis/", "src/server/", "src/webhook/", "tests/")),
    (r"toml\+\+/.*|toml\.hpp", ("src/config/",)),
    (r"CLI/.*|CLI11\.hpp", ("apps/", "tests/", "bench/")),
    (r"nlohmann/.*", ("apps/", "tests/", "bench/")),
    (r"prometheus/.*", ("apps/",)),
    (r"spdlog/.*|fmt/.*", ("apps/", "tests/", "bench/")),
    (r"benchmark/.*", ("bench/",)),
)
# Declares names only.
LIGHT_HEADERS = ("nlohmann/json_fwd.hpp",)
TEST_LIBRARIES = re.compile(r"(gtest|gmock|rapidcheck|benchmark)([/.].*)$|rapidcheck\.h$")
SYSTEM = re.compile(
    r"(sys|linux|netinet|arpa|sanitizer)/.*|(netdb|pwd|unistd|fcntl|poll|time|signal|errno|pthread|sched|spawn|dirent|regex"
    r"|termios|limits|ucontext|stdlib|string|stdio|stdint|stddef|syslog|ftw|glob|getopt|execinfo)\.h")
STANDARD = re.compile(r"[a-z_0-9]+$")

# Written in pieces, so that this file does not break its own rules.
BANNED_WORDS = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")) + r")\b")
MACHINE_PATHS = re.compile(r"(?<![\w.$}])/(" + "|".join(("ro" + "ot", "wo" + "rk", "ho" + "me")) + r")(/|\b)")
REGISTRIES = re.compile("|".join(re.escape(name) for name in (
    "deb.deb" + "ian.org", "security.deb" + "ian.org", "arch" + "ive.ubuntu.com", "apt.ll" + "vm.org",
    "registry.npm" + "js.org", "py" + "pi.org", "pythonhos" + "ted.org", "crates" + ".io", "repo1.ma" + "ven.org",
    "repo.ma" + "ven.apache.org", "doc" + "ker.io", "ghc" + "r.io", "qu" + "ay.io", "proxy.gol" + "ang.org")))
SQL = re.compile(
    r"\b(SELECT\b.*\bFROM|INSERT\s+(OR\s+\w+\s+)?INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|WHERE\s+\w+\s*[=<>]|VALUES\s*\()",
    re.IGNORECASE)

# Statements over a table that the user maps: pieced together from quoted names of columns, never from values.
SQL_OF_NAMES = ("src/postgres/mapped/marks.cc", "src/postgres/mapped/sql.cc")

CODE = (".h", ".cc")
TEXT = CODE + (".py", ".cmake", ".sh", ".sql", ".md", ".txt", ".json", ".toml", ".in", ".yml", ".go", ".java", ".js")
FOLDERS = (".ci", "apps", "bench", "cmake", "docs", "examples", "include", "src", "tests")


class Tree:
    """The files of the project, read once, and the breaks found in them."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.breaks = []
        paths = [path for path in self.root.iterdir() if path.is_file()]
        for folder in FOLDERS:
            paths += (path for path in (self.root / folder).rglob("*") if path.is_file())
        self.files = {}
        for path in sorted(paths):
            if path.suffix in TEXT or path.name in ("dev", "run", ".clang-tidy", ".clang-format"):
                self.files[path.relative_to(self.root).as_posix()] = path.read_text(encoding="utf-8")

    def code(self, *folders):
        for name, text in self.files.items():
            if name.endswith(CODE) and name.startswith(folders or ""):
                yield name, text

    def broken(self, name, line, rule, text):
        self.breaks.append((name, line, rule, text))


def strip(code):
    """The code with comments and the insides of literals blanked out; every newline stays where it is."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'',
        re.DOTALL)

    def blank(match):
        inside = re.sub(r"[^\n]", " ", match.group())
        return inside if match.group().startswith("/") else '"' + inside[1:-1] + '"'

    return pattern.sub(blank, code)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def check_includes(tree):
    for name, text in tree.code():
        for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', text, re.MULTILINE):
            quoted, header = match.group(1) == '"', match.group(2)
            problem = include_problem(tree, name, header, quoted)
            if problem:
                tree.broken(name, line_of(text, match.start()), "include", f"{header}: {problem}")


def is_test(name):
    """A test beside its source, or what such tests share."""
    return re.search(r"(_test\.cc|/test_\w+\.(h|cc))$", name) is not None


def include_problem(tree, name, header, quoted):
    """Why `name` must not include `header`, or None."""
    if not quoted or TEST_LIBRARIES.match(header):
        return library_problem(name, header)
    folder = name.split("/")[1] if name.startswith("src/") else None
    if name.startswith("include/"):
        return None if header.startswith("dovetail/") else "a public header includes public headers only"
    owner = header.split("/")[0] if "/" in header else None
    if owner == "dovetail":
        owner = public_owner(header)
    if folder is None:
        return None  # apps, tests, bench and examples include all
    if owner is None:
        return None if is_generated(tree, folder, header) else "name it from src/, as in \"core/relay.h\""
    if owner == folder or owner in MAY_INCLUDE.get(folder, ()) or owner == "public":
        return None
    if is_test(name) and owner in ("memory", "host", "servers", "conformance", "kit"):
        return None  # a test beside its source may use what ships or stands ready for tests, and a real clock
    if folder not in MAY_INCLUDE:
        return f"say in tests/layout/check.py what src/{folder} may include"
    return f"src/{folder} may not include {owner}"


def public_owner(header):
    """The folder that a public header speaks for: dovetail/sqlite.h is the adapter's, dovetail/event.h is all's."""
    stem = header.removeprefix("dovetail/").split(".")[0].split("_")[0]
    return stem if stem in MAY_INCLUDE and stem != "core" else "public"


def is_generated(tree, folder, header):
    return header in tree.files.get(f"src/{folder}/CMakeLists.txt", "")


def library_problem(name, header):
    if STANDARD.match(header):
        return None
    if header == "tl/expected.hpp":
        is_inner = name.startswith(("src/", "include/")) and name != "include/dovetail/result.h"
        return "comes through dovetail/result.h" if is_inner else None
    if TEST_LIBRARIES.match(header):
        return None if name.startswith(("tests/", "bench/")) or is_test(name) else "is for tests"
    if name.startswith("apps/") and header in LIGHT_HEADERS:
        return None
    if name.startswith(("src/", "include/", "apps/")) and name.endswith(".h") and not is_test(name):
        return "headers of other libraries and of the system belong into .cc files"
    if name.startswith("src/core/") and not is_test(name):
        return "core includes the standard library only"
    if SYSTEM.match(header):
        return None
    for pattern, folders in LIBRARIES:
        if re.fullmatch(pattern, header):
            if name.startswith(folders) or (is_test(name) and header.startswith("nlohmann/")):
                return None
            return "may be included from " + ", ".join(folders) + " only"
    return "unknown library: say in tests/layout/check.py who may include it"


def check_lines(tree):
    for name, text in tree.files.items():
        for number, line in enumerate(text.split("\n"), start=1):
            if "\t" in line and not name.endswith(".go"):  # gofmt wants them
                tree.broken(name, number, "tab", "use spaces")
            if len(line) > COLUMNS_MAX and name.endswith(CODE):
                tree.broken(name, number, "columns", f"{len(line)} columns, allowed {COLUMNS_MAX}")
            for rule, pattern in (("word", BANNED_WORDS), ("path", MACHINE_PATHS), ("registry", REGISTRIES)):
                match = pattern.search(line)
                if match:
                    tree.broken(name, number, rule, f"'{match.group()}' has no place here")


def check_headers(tree):
    for name, text in tree.code():
        if name.endswith(".h") and not strip(text).lstrip().startswith("#pragma once"):
            tree.broken(name, 1, "once", "a header begins with its comment and #pragma once")


def check_file_lengths(tree):
    for name, text in tree.code("src/", "apps/", "include/"):
        lines = text.count("\n")
        if lines > FILE_LINES_MAX and not is_test(name):
            tree.broken(name, lines, "file", f"{lines} lines, allowed {FILE_LINES_MAX}: look for the missing idea")


def functions(code):
    """(first line, last line) of every function body, lambdas counted with the function they stand in."""
    code = strip(code)
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group()), code, flags=re.M)
    stack, head = [], 0
    for offset, char in enumerate(code):
        if char == ";" and not is_inside_parentheses(code[head:offset]):
            head = offset + 1
        elif char == "{":
            before = code[head:offset]
            in_function = "function" in (kind for kind, _ in stack)
            if not in_function and ")" in before and not re.search(r"=\s*$", before):
                stack.append(("function", head + len(before) - len(before.lstrip())))
            else:
                stack.append(("other", offset))
            head = offset + 1
        elif char == "}" and stack:
            kind, start = stack.pop()
            if kind == "function":
                yield line_of(code, start), line_of(code, offset)
            head = offset + 1


def is_inside_parentheses(text):
    return text.count("(") > text.count(")")


def check_functions(tree):
    for name, text in tree.code("src/", "apps/", "include/", "tests/", "bench/", "examples/"):
        for first, last in functions(text):
            length = last - first + 1
            if length > FUNCTION_LINES_MAX:
                tree.broken(name, first, "function", f"{length} lines, allowed {FUNCTION_LINES_MAX}")


def check_sql(tree):
    """A statement that stops where a value belongs, to have one pasted in. Names of tables may be."""
    literal = re.compile(r'R"(?P<tag>[^()\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    value_is_next = r"([=<>(,']|\b(LIMIT|OFFSET|LIKE|VALUES))\s*"
    for name, text in tree.code("src/", "apps/", "include/", "examples/"):
        if is_test(name) or name in SQL_OF_NAMES:
            continue
        for match in literal.finditer(text):
            if not SQL.search(match.group().replace("\n", " ")):
                continue
            before, after = text[:match.start()].rstrip(), text[match.end():].lstrip()
            pasted = before.endswith(("+", "+=", "<<", "append(")) or after.startswith(("+", "<<"))
            ends_open = re.search(value_is_next + '"$', match.group())
            has_hole = re.search(value_is_next + r"(\{[^}]*\}|%[a-z])", match.group())
            if (pasted and ends_open) or has_hole:
                tree.broken(name, line_of(text, match.start()), "sql", "bind values, do not paste them in")


def check_documents(tree):
    check_version(tree)
    check_map(tree)
    check_links(tree)
    check_form(tree)
    check_named_tests(tree)
    check_failures(tree)
    check_walk(tree)
    check_additions(tree)


def check_version(tree):
    """The version of the build heads the changelog."""
    build = re.search(r"VERSION (\d+\.\d+\.\d+)\s+DESCRIPTION", tree.files.get("CMakeLists.txt", ""))
    log = re.search(r"^## (\d+\.\d+\.\d+)", tree.files.get("CHANGELOG.md", ""), re.MULTILINE)
    if not build or not log or build.group(1) != log.group(1):
        tree.broken("CHANGELOG.md", 1, "version", "the newest entry is not the version in CMakeLists.txt")


def check_map(tree):
    """Every folder of src/ has its line in src/README.md, every record its line in the index."""
    src_map = tree.files.get("src/README.md", "")
    for folder in sorted({name.split("/")[1] for name, _ in tree.code("src/")}):
        if f"`{folder}/`" not in src_map:
            tree.broken("src/README.md", 1, "map", f"`{folder}/` has no line")
    index = tree.files.get("docs/decisions/README.md", "")
    for name in tree.files:
        record = name.removeprefix("docs/decisions/")
        if name.startswith("docs/decisions/") and record != "README.md" and f"({record})" not in index:
            tree.broken("docs/decisions/README.md", 1, "map", f"{record} has no line")


def check_links(tree):
    """A link in a document to a file of the project leads somewhere."""
    for name, text in tree.files.items():
        if not name.endswith(".md"):
            continue
        text = re.sub(r"```.*?```", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.DOTALL)
        for match in re.finditer(r"\]\(([^)#\s]+)(#[^)]*)?\)", text):
            target = match.group(1)
            if not re.match(r"[a-z]+:", target) and not ((tree.root / name).parent / target).exists():
                tree.broken(name, line_of(text, match.start()), "link", f"{target} does not exist")


def check_form(tree):
    """No formatter for code has been over a document: outside of its blocks of code nothing looks like code."""
    for name, text in tree.files.items():
        if not name.endswith(".md"):
            continue
        text = re.sub(r"^```.*?^```", lambda m: re.sub(r"[^\n]", "", m.group()), text, flags=re.DOTALL | re.MULTILINE)
        for number, line in enumerate(text.split("\n"), start=1):
            if re.match(r"#+[^# ]| {9}|[{}]\s*$", line):
                tree.broken(name, number, "document", "this is code, or a formatter for code was here")


# Documents that promise something, and name the test that holds it.
PROMISES = ("docs/GUARANTEES.md", "docs/FAILURES.md", "docs/HARDENING.md")
# Of these, the ones with a test in every row.
TABLES_OF_TESTS = ("docs/FAILURES.md", "docs/HARDENING.md")
# Tests as documents name them: `Suite.Name`, `test_name` of a script, mutant `name` of the simulator.
NAMED_TEST = re.compile(r"`([A-Z]\w+\.[A-Z]\w+|test_\w+)`|\bmutants? `(\w+)`")


def tests_of(tree):
    names = set()
    for name, text in tree.files.items():
        if name.endswith(CODE):
            names.update(f"{suite}.{test}" for suite, test in re.findall(
                r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\((\w+),\s*(\w+)",
                text, re.MULTILINE))
        elif name.endswith(".py"):
            names.update(re.findall(r"^\s+def (test_\w+)\(", text, re.MULTILINE))
    mutants = tree.files.get("src/core/mutant.h", "")
    names.update(f"mutant {mutant}" for mutant in re.findall(r"^\s+(\w+),", mutants, re.MULTILINE))
    return names


def check_named_tests(tree):
    """Every test that a document of promises names exists."""
    tests = tests_of(tree)
    for document in PROMISES:
        text = tree.files.get(document, "")
        for match in NAMED_TEST.finditer(text):
            test = match.group(1) or f"mutant {match.group(2)}"
            if test not in tests:
                tree.broken(document, line_of(text, match.start()), "test", f"no test is called {test}")


def check_failures(tree):
    """Every row has a number of its own and names a test, or says why the failure cannot occur."""
    for document in TABLES_OF_TESTS:
        numbers = set()
        for number, line in enumerate(tree.files.get(document, "").split("\n"), start=1):
            row = re.match(r"\| ([A-Z]+\d+) \|", line)
            if not row:
                continue
            if not NAMED_TEST.search(line) and "Cannot occur: " not in line:
                tree.broken(document, number, "failure", "name the test, or write 'Cannot occur: ' and why")
            if row.group(1) in numbers:
                tree.broken(document, number, "failure", f"{row.group(1)} is the number of two rows")
            numbers.add(row.group(1))


# (page that lists what a new adapter touches, the adapter that is its example)
ADDITIONS = (("docs/ADD_A_BROKER.md", "redis"), ("docs/ADD_A_DATABASE.md", "sqlite"))
PRODUCT = ("src/", "apps/", "include/", "cmake/", "CMakeLists.txt")


def check_additions(tree):
    """What mentions an adapter outside of its folder stands in the page that says what a new one touches."""
    for page, adapter in ADDITIONS:
        text = tree.files.get(page, "")
        for name, content in tree.files.items():
            if not name.startswith(PRODUCT) or name.startswith(f"src/{adapter}/") or name.endswith(".md") or is_test(name):
                continue
            code = without_comments(content) if name.endswith(CODE) else content
            if re.search(rf"(?<![a-z]){adapter}", code, re.IGNORECASE) and f"`{name}`" not in text:
                tree.broken(page, 1, "addition", f"{name} mentions {adapter}, and the page does not name it")
        for listed in re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE):
            if not (tree.root / listed).exists():
                tree.broken(page, 1, "addition", f"{listed} does not exist")


def without_comments(code):
    return re.sub(r"//[^\n]*", "", code)


def check_toy(tree):
    """The toy broker includes the seam alone."""
    for name, text in tree.code("examples/toy-broker/"):
        for match in re.finditer(r'^#include "([^"]+)"', text, re.MULTILINE):
            if not match.group(1).startswith(("core/", "dovetail/", "toy_broker.h")):
                tree.broken(name, line_of(text, match.start()), "toy", f"{match.group(1)} is not of the seam")


def subject_problem(subject):
    """What is wrong with the subject of a commit, or None."""
    if len(subject) > SUBJECT_MAX:
        return f"{len(subject)} characters, allowed {SUBJECT_MAX}"
    if subject.endswith("."):
        return "a subject has no full stop"
    if subject.startswith(("fixup!", "squash!", "wip")):
        return "it is not finished"
    return None


def check_subjects(tree):
    """Where the history is there, the subjects of its commits are short."""
    git = ["git", "-C", str(tree.root), "log", "--no-merges", "--format=%h %s", f"{SUBJECTS_FROM}..HEAD"]
    try:
        log = subprocess.run(git, capture_output=True, text=True, check=False)
    except OSError:
        return
    if log.returncode != 0:
        return  # an archive, or a clone without its history
    for line in log.stdout.splitlines():
        commit, subject = line.split(" ", 1)
        problem = subject_problem(subject)
        if problem:
            tree.broken(f"commit {commit}", 1, "subject", f"{problem}: {subject}")


WALK_HOPS_MAX = 12


def check_walk(tree):
    """The walk of one event names functions that exist, and is short."""
    document = "docs/ARCHITECTURE.md"
    for number, line in enumerate(tree.files.get(document, "").split("\n"), start=1):
        hop = re.match(r"\| (\d+) \| `([^`]+)` \| `([^`]+)` \|", line)
        if not hop:
            continue
        if int(hop.group(1)) > WALK_HOPS_MAX:
            tree.broken(document, number, "walk", f"more than {WALK_HOPS_MAX} hops")
        if not re.search(rf"^\S.*\b{re.escape(hop.group(3))}\(", tree.files.get(hop.group(2), ""), re.MULTILINE):
            tree.broken(document, number, "walk", f"{hop.group(2)} has no {hop.group(3)}")


# What a README names, by folder.
NAMED_IN_ROOMS = {"src": CODE, "apps": CODE, "bench": CODE + (".py",), "tests": CODE + (".py", ".sh", ".pml"),
                  "include": CODE, "cmake": (".cmake", ".in"), "docs": (".md",),
                  "examples": CODE + (".py", ".sh", ".sql", ".go", ".java", ".js")}
DEATH = "**If the process dies here:**"


def check_rooms(tree):
    """Every folder is small enough to be read as a whole, and its README names every file and folder in it. Unit tests are
    named by what they test; in tests/ they are what the folder is about."""
    check_folders(tree)
    rooms = {}
    for name in tree.files:
        if name.split("/")[0] in NAMED_IN_ROOMS and "/" in name:
            rooms.setdefault(name.rsplit("/", 1)[0], []).append(name.rsplit("/", 1)[1])
    for room, files in rooms.items():
        top = room.split("/")[0]
        named = [file for file in files if file.endswith(NAMED_IN_ROOMS[top]) and file != "README.md"]
        if not named:
            continue
        if len(files) > ROOM_FILES_MAX:
            tree.broken(room, 1, "room", f"{len(files)} files, allowed {ROOM_FILES_MAX}: make two rooms of it")
        readme = tree.files.get(f"{room}/README.md", "")
        for stem in sorted({file.split(".")[0] for file in named if top != "src" and top != "apps" or not file.endswith("_test.cc")}):
            if not re.search(rf"`{stem}(\.[\w.]+)?`|\({stem}\.\w+\)", readme):
                tree.broken(f"{room}/README.md", 1, "room", f"it does not say what {stem} is")


# Functions in headers that read bytes from outside, by their names; `parse` alone is named with its class.
DECODER = re.compile(r"\b(parse_\w+|decode\w*|\w+_decoded)\(|^\s+static [^;(]*\b(parse)\(", re.MULTILINE)


def decoders_in(text):
    """(name, offset)"""
    text = without_comments(text)
    for match in DECODER.finditer(text):
        name = match.group(1)
        if not name:
            name = re.findall(r"^(?:class|struct) (\w+)", text[:match.start()], re.MULTILINE)[-1] + "::parse"
        yield name, match.start()


def check_fuzz(tree):
    """Every decoder has a fuzzer that calls it, and every fuzzer has kept inputs. The table of the README says which."""
    readme, table = "tests/fuzz/README.md", {}
    targets = re.findall(r"^\s*dovetail_fuzz\((\w+)", tree.files.get("tests/fuzz/CMakeLists.txt", ""), re.MULTILINE)
    for row in re.finditer(r"^\| (`.+`) \| .* \| `(\w+)` \|$", tree.files.get(readme, ""), re.MULTILINE):
        names, target = re.findall(r"`([\w:]+)`", row.group(1)), row.group(2)
        table.setdefault(target, []).extend(names)
        if target not in targets:
            tree.broken(readme, line_of(tree.files[readme], row.start()), "fuzz", f"no fuzzer is called {target}")
        for name in names:
            called = name if name.endswith("::parse") else name.rsplit("::", 1)[-1]
            if not re.search(rf"\b{called}\(", tree.files.get(f"tests/fuzz/{target}.cc", "")):
                tree.broken(readme, line_of(tree.files[readme], row.start()), "fuzz", f"{target} does not call {name}")
    folder = tree.root / "tests/fuzz/corpus"
    kept = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    for target in targets:
        if target not in table:
            tree.broken("tests/fuzz/CMakeLists.txt", 1, "fuzz", f"{readme} does not say what {target} decodes")
        if target not in kept:
            tree.broken("tests/fuzz/CMakeLists.txt", 1, "fuzz", f"{target} has no corpus; ./dev fuzz {target} makes one")
    for name in sorted(kept - set(targets)):
        tree.broken(f"tests/fuzz/corpus/{name}", 1, "fuzz", "no fuzzer has this name")
    listed = {name if name.endswith("::parse") else name.rsplit("::", 1)[-1] for names in table.values() for name in names}
    for name, text in tree.code("src/", "apps/", "include/"):
        for decoder, offset in decoders_in(text) if name.endswith(".h") and not is_test(name) else ():
            if decoder not in listed:
                tree.broken(name, line_of(text, offset), "fuzz", f"{readme} names no fuzzer for {decoder}")


def check_folders(tree):
    """A README leads to each folder below it, and in src/ it says what happens when the process dies there."""
    folders = set()
    for name in tree.files:
        parts = name.split("/")[:-1]
        if parts and parts[0] in NAMED_IN_ROOMS:
            folders.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    for folder in sorted(folders):
        above, _, last = folder.rpartition("/")
        is_data = not any(name.startswith(f"{folder}/") and name.endswith(TEXT) for name in tree.files)
        readme = tree.files.get(f"{above}/README.md") if above else ""
        if readme and not is_data and not re.search(rf"[`\[(]{re.escape(last)}[/`\])]", readme):
            tree.broken(f"{above}/README.md", 1, "folder", f"it does not say what {last}/ is")
        is_room = folder.count("/") and folder.startswith("src/") and last != "testing"
        if is_room and DEATH not in tree.files.get(f"{folder}/README.md", DEATH):
            tree.broken(f"{folder}/README.md", 1, "folder", f"it has no '{DEATH}'")


# (a word that has been replaced, the one that is used now). docs/GLOSSARY.md says what words mean.
RETIRED = tuple((re.compile(rf"\b{old}\b"), new) for old, new in (
    (r"dovetail\.reader", "dovetail.relay_lane"), ("dovetail_reader", "dovetail_relay"),
    (r"dovetail\.consumer_lane", "dovetail.consumer_session"), (r"dovetail\.slot\(", "dovetail.bucket("),
    ("settled_" + "total", "delivered_total"), ("streams_" + "(?:since|why)", "reads_since, reads_why"),
    ("payload_" + "length", "payload_bytes"), ("(?:first|last)_" + "slot", "first_bucket, last_bucket"),
    ("from_" + "log", "from_wal"), ("Log" + "Slots?", "WalSlot"), ("log_" + "settled", "wal_settled"), ("Log" + "Reader", "WalReader"),
    ("Handling", "Invocation"), ("Stream::" + "outside", "SourceKind::broker"), ("is_" + "outside", "is_external"),
    ("find_" + "way", "find_slot_access"), ("(?:Outside" + "Home|LetGo|RunningNote|Surroundings)", "a word one can say")))
WORDS_OF_OLD_VERSIONS = re.compile(r"^CHANGELOG\.md$|/schema/v\d+\.sql$|upgrade_test\.(cc|py)$|connection/database_test\.cc$"
                                   r"|^docs/decisions/|^tests/layout/check\.py$")
USER_WORDS = ("store", "outbox", "relay", "lane", "broker", "consumer", "handler", "inbox", "parked", "delivered", "applied")


def check_words(tree):
    """A word that was replaced does not come back, and the glossary has every word that users meet."""
    for name, text in tree.files.items():
        if WORDS_OF_OLD_VERSIONS.search(name):
            continue
        for old, new in RETIRED:
            match = old.search(text)
            if match:
                tree.broken(name, line_of(text, match.start()), "retired", f"'{match.group()}' is {new} now")
    glossary = tree.files.get("docs/GLOSSARY.md", "")
    for word in USER_WORDS:
        if not re.search(rf"^\| {word} \|", glossary, re.MULTILINE):
            tree.broken("docs/GLOSSARY.md", 1, "glossary", f"it does not say what {word} is")


# A comment that says why the same lines are in two places.
REPEATED = "Repeated because"
# A migration that was released never changes, so what it has in common with another one stays.
MIGRATION = re.compile(r".*/v\d+\.sql")


def significant_lines(text):
    """(number, line) of what a reader would call code: no blank lines, comments, includes or lone braces."""
    for number, line in enumerate(text.split("\n"), start=1):
        line = " ".join(line.split())
        if re.search(r"\w", line) and not line.startswith(("//", "--", "#")):
            yield number, line


def check_repeats(tree):
    """No long run of lines is in two places of the product, unless a comment says why."""
    length = REPEATED_LINES_MAX + 1
    places, reported = {}, set()
    for name, text in tree.files.items():
        if not name.startswith(("src/", "apps/", "include/")) or not name.endswith(CODE + (".sql",)):
            continue
        if is_test(name) or "/testing/" in name or MIGRATION.fullmatch(name):
            continue
        lines, raw = list(significant_lines(text)), text.split("\n")
        for at in range(len(lines) - length + 1):
            run = tuple(line for _, line in lines[at:at + length])
            first, last = lines[at][0], lines[at + length - 1][0]
            if any(REPEATED in line for line in raw[max(first - 4, 0):last]):
                continue
            other = places.setdefault(run, (name, first))
            pair = (name, other[0])
            if other != (name, first) and pair not in reported:
                reported.add(pair)
                tree.broken(name, first, "repeat", f"{length} lines as in {other[0]}:{other[1]}; share them, or say why in a "
                                                   f"comment that begins with '{REPEATED}'")


CHECKS = (check_rooms, check_fuzz, check_repeats, check_toy, check_words, check_subjects, check_includes, check_lines, check_headers,
          check_file_lengths, check_functions, check_sql, check_documents)


def check(root):
    tree = Tree(root)
    for one in CHECKS:
        one(tree)
    return tree.breaks


# Rooms that are counted together: (its name in the table, how its files begin).
SIZES = (
    ("`apps`, `src/assembly`, `src/config`", ("apps/", "src/assembly/", "src/config/", "src/ops/")),
    ("`src/server`, `src/webhook`, `src/gateway`", ("src/server/", "src/webhook/", "src/gateway/", "src/http/")),
    ("`src/core`", ("src/core/",)),
    ("`src/host`", ("src/host/",)),
    ("`src/sql`", ("src/sql/",)),
    ("`src/postgres`", ("src/postgres/",)),
    ("`src/sqlite`", ("src/sqlite/",)),
    ("`src/kafka`, `src/nats`, `src/rabbitmq`, `src/redis`", ("src/kafka/", "src/nats/", "src/rabbitmq/", "src/redis/")),
    ("`src/memory`, `src/command`, `include`", ("src/memory/", "src/command/", "include/")),
)


def sizes(tree):
    """(room, lines) of the product: headers, sources and SQL, without tests and what they share."""
    counts, migrations = dict.fromkeys((room for room, _ in SIZES), 0), 0
    for name, text in tree.files.items():
        is_product = name.startswith(("src/", "apps/", "include/")) and name.endswith(CODE + (".sql",))
        if not is_product or is_test(name) or "/testing/" in name or "/test_" in name:
            continue
        if MIGRATION.fullmatch(name):
            migrations += text.count("\n")
            continue
        counts[next(room for room, begins in SIZES if name.startswith(begins))] += text.count("\n")
    rooms = list(counts.items()) + [("migrations, which never change", migrations)]
    return rooms + [("**all**", sum(lines for _, lines in rooms))]


GOOD_TREE = {
    "CMakeLists.txt": "project(\n  dovetail\n  VERSION 1.2.3\n  DESCRIPTION \"x\")\n",
    "CHANGELOG.md": "# Changes\n\n## 1.2.3\n",
    "README.md": "[map](src/README.md), [there](https://example.org/x), [part](CHANGELOG.md#y)\n",
    "docs/GUARANTEES.md": "`Relay.SettlesWhatIsConfirmed` holds it, and so does `sqlite3.h`.\n"
                          "Scripts: `test_it_runs`. Mutants: mutant `fence_ignored`.\n",
    "docs/FAILURES.md": "| A1 | lost | kept | `Relay.SettlesWhatIsConfirmed` |\n| A2 | lost | Cannot occur: no cursor. | |\n",
    "docs/HARDENING.md": "| H1 | lost | kept | | mutant `fence_ignored` |\n| H2 | lost | kept | | `test_it_runs` |\n",
    "tests/cli/README.md": "| `run_test` |\n",
    "tests/cli/run_test.py": "class Run:\n    def test_it_runs(self):\n        pass\n",
    "src/core/mutant.h": "// Why.\n#pragma once\nenum class Mutant {\n  fence_ignored,\n};\n",
    "docs/decisions/README.md": "- [one](0001-one.md)\n",
    "docs/decisions/0001-one.md": "text\n",
    "src/README.md": "| `core/` | `host/` | `config/` | `sqlite/` | `memory/` |\n",
    "include/dovetail/result.h": "// Why.\n#pragma once\n#include <tl/expected.hpp>\n",
    "include/dovetail/sqlite.h": "#pragma once\n#include \"dovetail/result.h\"\nnamespace sqlite {}\n",
    "tests/fuzz/CMakeLists.txt": "# dovetail_fuzz(name)\ndovetail_fuzz(id)\n",
    "tests/fuzz/README.md": "| `core::parse_id`, `Id::parse` | clients | `id` |\n",
    "tests/fuzz/id.cc": "void check() { parse_id(Id::parse(1)); }\n",
    "tests/fuzz/corpus/id": "x\n",
    "src/core/id.h": "#pragma once\nclass Id {\n  static Id parse(int);  // parse_nothing(\n};\nint parse_id(Id);\n",
    "examples/go/publish.go": "func main() {\n\tpublish()\n}\n",
    "examples/go/README.md": "| `publish.go` |\n",
    "include/dovetail/README.md": "| `result.h` | `sqlite.h` |\n",
    "src/core/event/README.md": "| `id` | " + DEATH + "\n",
    "src/core/event/id.h": "#pragma once\n",
    "docs/README.md": "".join(f"[{name}]({name}.md)\n" for name in (
        "GUARANTEES", "FAILURES", "HARDENING", "ADD_A_DATABASE", "GLOSSARY", "ARCHITECTURE")) + "[all](decisions)\n",
    "src/core/relay.h": "#pragma once\n#include <vector>\n#include \"dovetail/result.h\"\n#include \"core/relay.h\"\n",
    "src/core/relay_test.cc": "#include <gtest/gtest.h>\n#include \"memory/memory.h\"\n"
                              "TEST(Relay, SettlesWhatIsConfirmed) {}\n",
    "src/core/test_clock.h": "#pragma once\n#include <gtest/gtest.h>\n",
    "src/host/clock.cc": "#include <time.h>\n#include \"core/relay.h\"\nlong now() { return 0; }\n",
    "docs/ADD_A_DATABASE.md": "`include/dovetail/sqlite.h`\n",
    "docs/GLOSSARY.md": "".join(f"| {word} | what it is |\n" for word in USER_WORDS),
    "docs/ARCHITECTURE.md": "| 1 | `src/host/clock.cc` | `now` | |\n",
    "src/memory/memory.h": "#pragma once\n",
    "src/core/README.md": "| `id` | `relay` | `mutant` | `test_clock` | `event/` | " + DEATH + "\n",
    "src/host/README.md": "| `clock` | " + DEATH + "\n",
    "src/memory/README.md": "| `memory.h` | " + DEATH + "\n",
    "src/config/README.md": "| `config` | " + DEATH + "\n",
    "src/sqlite/README.md": "| `source` | " + DEATH + "\n",
    "src/config/config.cc": "#include <toml++/toml.h>\nconst char* kText = \"a // b {\";\n",
    "src/sqlite/CMakeLists.txt": "dovetail_embed(dovetail schema.sql kSchema schema_sql.h)\n",
    "src/sqlite/source.h": "#pragma once\n#include \"host/clock.h\"\n",
    "src/sqlite/source.cc": "#include <sqlite3.h>\n#include \"schema_sql.h\"\n"
                            "const char* kRead = \"SELECT id FROM t WHERE seq > ?1\";\n"
                            "auto s = \"SELECT max(seq) FROM \" + table + \" WHERE seq > ?1\";\n",
}

LONG_FUNCTION = "namespace a {\nint f(int x) {\n" + "  x = x + 1;\n" * FUNCTION_LINES_MAX + "  return x;\n}\n}\n"
LONG_METHOD = "class A {\n  int f() const {\n" + "    g({1, 2});\n" * FUNCTION_LINES_MAX + "  }\n};\n"

SAME_LINES = "".join(f"int x{number};\n\n" for number in range(REPEATED_LINES_MAX + 1))

# (rule that must speak, file, its bad text)
BAD_FILES = (
    ("include", "src/core/bad.cc", "#include \"sqlite/source.h\"\n"),
    ("include", "src/core/bad.cc", "#include \"host/clock.h\"\n"),
    ("include", "src/core/bad.cc", "#include \"dovetail/sqlite.h\"\n"),
    ("include", "src/core/bad.cc", "#include <unistd.h>\n"),
    ("include", "src/core/bad.cc", "#include <sqlite3.h>\n"),
    ("include", "src/core/bad.cc", "#include <gtest/gtest.h>\n"),
    ("include", "src/core/bad.cc", "#include <tl/expected.hpp>\n"),
    ("include", "src/core/bad_test.cc", "#include \"sqlite/source.h\"\n"),
    ("include", "src/host/bad.cc", "#include \"memory/memory.h\"\n"),
    ("include", "src/host/bad.cc", "#include <sqlite3.h>\n"),
    ("include", "src/memory/bad.cc", "#include \"sqlite/source.h\"\n"),
    ("include", "src/sqlite/bad.cc", "#include \"config/config.h\"\n"),
    ("include", "src/gateway/bad.cc", "#include \"assembly/wiring.h\"\n"),
    ("include", "src/sql/bad.cc", "#include \"sqlite/source.h\"\n"),
    ("include", "src/memory/bad.cc", "#include \"sql/session.h\"\n"),
    ("include", "src/sqlite/bad.cc", "#include \"source.h\"\n"),
    ("include", "src/sqlite/bad.h", "#pragma once\n#include <sqlite3.h>\n"),
    ("include", "src/sqlite/bad.cc", "#include <boost/asio.hpp>\n"),
    ("include", "src/config/bad.cc", "#include \"sqlite/source.h\"\n"),
    ("include", "src/config/bad.h", "#pragma once\n#include <toml++/toml.h>\n"),
    ("include", "src/new/bad.cc", "#include \"core/relay.h\"\n#include \"sqlite/source.h\"\n"),
    ("include", "include/dovetail/bad.h", "#pragma once\n#include \"core/relay.h\"\n"),
    ("columns", "src/core/bad.cc", "// " + "x" * COLUMNS_MAX + "\n"),
    ("file", "src/core/bad.cc", "int x;\n" * (FILE_LINES_MAX + 1)),
    ("function", "src/core/bad.cc", LONG_FUNCTION),
    ("function", "src/core/bad.h", "#pragma once\n" + LONG_METHOD),
    ("function", "src/core/bad_test.cc", LONG_FUNCTION.replace("int f(int x)", "TEST(A, B)")),
    ("word", "src/core/bad.cc", "// TO" + "DO: later\n"),
    ("word", "docs/bad.md", "FIX" + "ME\n"),
    ("word", "examples/go/bad.go", "// FIX" + "ME\n"),
    ("tab", "src/core/bad.cc", "\tint x;\n"),
    ("tab", "examples/node/bad.js", "\tlet x;\n"),
    ("path", "docs/bad.md", "see /ro" + "ot/x\n"),
    ("path", "tests/bad.sh", "cd /wo" + "rk\n"),
    ("path", "src/core/bad.cc", "const char* kPath = \"/ho" + "me/me\";\n"),
    ("registry", "cmake/bad.cmake", "file(DOWNLOAD https://py" + "pi.org/simple x)\n"),
    ("once", "src/core/bad.h", "// Why.\n#ifndef BAD_H\n#define BAD_H\n#endif\n"),
    ("once", "src/core/bad.h", "// Why.\n#include <vector>\n#pragma once\n"),
    ("sql", "src/sqlite/bad.cc", "auto s = \"DELETE FROM t WHERE id = \" + id;\n"),
    ("sql", "src/sqlite/bad.cc", "auto s = fmt::format(\"UPDATE t SET a = {}\", id);\n"),
    ("sql", "src/sqlite/bad.cc", "s += \"INSERT INTO t VALUES (\";\n"),
    ("version", "CHANGELOG.md", "## 1.2.2\n"),
    ("map", "src/new/bad.cc", "int x;\n"),
    ("room", "src/core/README.md", "| `relay` | `mutant` |\n"),
    ("room", "include/dovetail/README.md", "| `result.h` |\n"),
    ("room", "examples/go/README.md", "nothing\n"),
    ("room", "docs/README.md", "nothing\n"),
    ("folder", "src/core/README.md", "| `relay` | `mutant` | `test_clock` | " + DEATH + "\n"),
    ("folder", "src/core/event/README.md", "| `id` |\n"),
    ("folder", "docs/README.md", "nothing\n"),
    ("room", "tests/cli/README.md", "nothing\n"),
    ("fuzz", "tests/fuzz/CMakeLists.txt", "dovetail_fuzz(id)\ndovetail_fuzz(other)\n"),
    ("fuzz", "tests/fuzz/corpus/other", "x\n"),
    ("fuzz", "tests/fuzz/README.md", "| `parse_id`, `Id::parse` | clients | `id` |\n| `parse_id` | x | `other` |\n"),
    ("fuzz", "tests/fuzz/README.md", "| `parse_id`, `Id::parse`, `parse_gone` | clients | `id` |\n"),
    ("fuzz", "src/core/bad.h", "#pragma once\nint parse_bad(int);\n"),
    ("fuzz", "src/core/bad.h", "#pragma once\nstruct Bad {\n  static int parse(int);\n};\n"),
    ("walk", "docs/ARCHITECTURE.md", "| 1 | `src/host/clock.cc` | `Clock::never_written` | |\n"),
    ("addition", "docs/ADD_A_DATABASE.md", "nothing\n"),
    ("addition", "docs/ADD_A_DATABASE.md", "`include/dovetail/sqlite.h`\n| `src/gone.cc` | |\n"),
    ("retired", "src/sqlite/bad.cc", "const char* kRead = \"SELECT * FROM dovetail_reader\";\n"),
    ("retired", "docs/bad.md", "`settled_" + "total` counts\n"),
    ("glossary", "docs/GLOSSARY.md", "| store | a database |\n"),
    ("toy", "examples/toy-broker/bad.cc", "#include \"redis/sink.h\"\n"),
    ("walk", "docs/ARCHITECTURE.md", "| 13 | `src/host/clock.cc` | `now` | |\n"),
    ("map", "docs/decisions/0002-two.md", "text\n"),
    ("link", "docs/bad.md", "[gone](nowhere.md)\n"),
    ("document", "docs/bad.md", "#Title\n"),
    ("document", "docs/bad.md", "# Title\n\n#Part\n"),
    ("document", "docs/bad.md", "# Title\n\n- `{\n  id\n}` is a place\n}\n"),
    ("document", "docs/bad.md", "# Title\n" + " " * 40 + "word\n"),
    ("test", "docs/GUARANTEES.md", "`Relay.NeverWritten`\n"),
    ("test", "docs/GUARANTEES.md", "`test_never_written`\n"),
    ("test", "docs/GUARANTEES.md", "mutant `never_written`\n"),
    ("test", "docs/FAILURES.md", "| A1 | lost | kept | `Relay.NeverWritten` |\n"),
    ("failure", "docs/FAILURES.md", "| A1 | lost | kept | soon |\n"),
    ("failure", "docs/FAILURES.md", "| A1 | x | y | `test_it_runs` |\n| A1 | x | y | `test_it_runs` |\n"),
    ("test", "docs/HARDENING.md", "| H1 | lost | kept | | `test_never_written` |\n"),
    ("failure", "docs/HARDENING.md", "| H1 | lost | kept | | soon |\n"),
)


BAD_SUBJECTS = ("x" * (SUBJECT_MAX + 1), "Mend the relay.", "fixup! Mend the relay")


def self_test():
    """Every rule finds its bad file and nothing in the good tree. Returns what went wrong."""
    problems = [f"the subject {subject!r} is let through" for subject in BAD_SUBJECTS if not subject_problem(subject)]
    if subject_problem("Relay: resume after a crash"):
        problems.append("a good subject is refused")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in GOOD_TREE.items():
            write(root / name, text)
        problems += (f"the good tree breaks a rule: {found}" for found in check(root))
        for rule, name, text in BAD_FILES:
            write(root / name, text)
            found = [broken for broken in check(root) if broken[0] == name or rule == "map"]
            if rule not in (broken[2] for broken in found):
                problems.append(f"rule '{rule}' does not see what is wrong in {name}: {text[:60]!r}")
            if name in GOOD_TREE:
                write(root / name, GOOD_TREE[name])
            else:
                (root / name).unlink()
        for name in ("one", "two"):
            write(root / f"src/core/{name}.cc", SAME_LINES)
        if "repeat" not in (broken[2] for broken in check(root)):
            problems.append("rule 'repeat' does not see the same lines in two files")
        write(root / "src/core/two.cc", f"// {REPEATED} it is so.\n" + SAME_LINES)
        if "repeat" in (broken[2] for broken in check(root)):
            problems.append("rule 'repeat' does not see the reason")
        for name in ("one", "two"):
            (root / f"src/core/{name}.cc").unlink()
        for number in range(ROOM_FILES_MAX):
            write(root / f"src/memory/one_{number}_test.cc", "int x;\n")
        if "room" not in (broken[2] for broken in check(root)):
            problems.append("rule 'room' does not see a folder with too many files")
    return problems


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--sizes", action="store_true")
    arguments = parser.parse_args()
    if arguments.sizes:
        for room, lines in sizes(Tree(arguments.root)):
            print(f"| {room} | {lines:,} |")
        return 0
    problems = self_test() if arguments.self_test else []
    for problem in problems:
        print("self-test:", problem)
    breaks = check(arguments.root)
    for name, line, rule, text in breaks:
        print(f"{name}:{line}: {rule}: {text}")
    if problems or breaks:
        print(f"layout: {len(breaks)} breaks, {len(problems)} rules that do not work")
        return 1
    print(f"layout: nothing found" + (f"; {len(BAD_FILES)} bad inputs caught" if arguments.self_test else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
