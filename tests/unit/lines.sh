#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Line tables against every CPython found (3.8 and later): what its own modules compile
# to, decoded by us and by it.
set -u
check=$TOP_BUILDDIR/tests/unit/lines-check
tmp=$(mktemp -d "${TMPDIR:-/tmp}/pystack-test-XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT INT TERM

cat >"$tmp/tables.py" <<'PYTHON'
import dis
import os
import sys
import types

# Of every kind of code, and some 100,000 instructions.
MODULES = """
    argparse.py ast.py asyncio/base_events.py asyncio/tasks.py asyncio/streams.py base64.py
    calendar.py codecs.py collections/__init__.py configparser.py contextlib.py csv.py
    dataclasses.py datetime.py difflib.py doctest.py email/message.py enum.py
    fractions.py functools.py http/client.py http/server.py inspect.py json/decoder.py
    logging/__init__.py pathlib.py pdb.py pickle.py pickletools.py random.py shutil.py
    smtplib.py socket.py ssl.py statistics.py subprocess.py tarfile.py tempfile.py
    threading.py traceback.py turtle.py typing.py unittest/mock.py uuid.py zipfile.py
""".split()

# Lines far apart, and back; a line without an end; nothing.
MADE = ["", "x = 1\n" + "\n" * 1000 + "y = 2\n",
        "def f(a,\n      b=[\n  1]):\n" + "\n" * 300 + "    return (a +\n" + "\n" * 200 +
        "      b)\n", "x = [" + "1,\n" * 400 + "]\n" + "y = " + "(" * 50 + "1" + ")" * 50 + "\n",
        "async def f():\n  async with a as b:\n    return [i async for i in b if\n await i]\n",
        "try:\n    x()\nexcept A:\n    y()\nfinally:\n    z()\n"]


def lines_of(code):
    size = len(code.co_code)
    if hasattr(code, "co_lines"):
        return [(start, end, line or 0) for start, end, line in code.co_lines()]
    starts = list(dis.findlinestarts(code))
    if not starts or starts[0][0] != 0:
        starts.insert(0, (0, code.co_firstlineno))
    ends = [start for start, line in starts[1:]] + [size]
    return [(start, end, line) for (start, line), end in zip(starts, ends)]


def write(code, out):
    new = hasattr(code, "co_lines")
    kind = 1 if not new else 2 if sys.version_info < (3, 11) else 3
    table = code.co_linetable if new else code.co_lnotab
    numbers = " ".join("%d %d %d" % line for line in lines_of(code))
    out.write("%d %d %s %s\n" % (kind, code.co_firstlineno, table.hex() or "-", numbers))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            write(constant, out)


folder = os.path.dirname(os.__file__)
with open(sys.argv[1], "w") as out:
    for source in MADE:
        write(compile(source, "made", "exec"), out)
    for name in MODULES:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            with open(path, "rb") as file:
                write(compile(file.read(), path, "exec"), out)
PYTHON

pythons=
root=${PYENV_ROOT:-$(pyenv root 2>/dev/null || echo /nonexistent)}
for python in "$root"/versions/*/bin/python3 /usr/bin/python3; do
	[ -x "$python" ] || continue
	"$python" -I -c 'import sys
sys.exit(sys.version_info < (3, 8) or sys.implementation.name != "cpython")' || continue
	pythons="$pythons $python"
done
if [ -z "$pythons" ]; then
	echo "1..0 # SKIP no CPython 3.8 or later is here"
	exit 0
fi

count=0
failed=0
for python in $pythons; do
	count=$((count + 1))
	version=$("$python" -I -c 'import platform; print(platform.python_version())')
	if ! "$python" -I -W ignore "$tmp/tables.py" "$tmp/tables"; then
		echo "not ok $count - line tables of CPython $version: none were made"
		failed=1
	elif result=$("$check" "$tmp/tables"); then
		echo "ok $count - line tables of CPython $version: $result"
	else
		echo "not ok $count - line tables of CPython $version"
		echo "$result" | sed 's/^#* */# /'
		failed=1
	fi
done
echo "1..$count"
exit $failed
