"""A kubectl that answers as a test says, in place of the real one."""

import json
import sys

SCRIPT = """#!{python} -IS
import json, pathlib, re, sys, time
here = pathlib.Path(__file__).parent
line = " ".join(sys.argv[1:])
with (here / "calls").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
for rule in json.loads((here / "rules").read_text()):
    if re.search(rule["pattern"], line):
        sys.stdout.write(rule["out"])
        sys.stdout.flush()
        sys.stderr.write(rule["err"])
        sys.stderr.flush()
        while rule["stays"] and (here / rule["stays"]).exists():
            time.sleep(0.02)
        sys.exit(rule["code"])
sys.exit("no rule for: " + line)
"""


class FakeKubectl:
    """`on` says how to answer commands that a pattern is found in; the latest rule wins."""

    def __init__(self, folder):
        self._folder = folder
        self._rules = []
        self.program = folder / "kubectl"
        self.program.write_text(SCRIPT.format(python=sys.executable))
        self.program.chmod(0o755)
        (folder / "calls").write_text("")
        self._write()

    def on(self, pattern, out="", *, err="", code=0, stays=""):
        """`out` that is no text goes out as JSON. `stays`: until `end` is called with it."""
        if not isinstance(out, str):
            out = json.dumps(out)
        if stays:
            (self._folder / stays).touch()
        rule = {"pattern": pattern, "out": out, "err": err, "code": code, "stays": stays}
        self._rules.insert(0, rule)
        self._write()

    def fails(self, pattern, err):
        self.on(pattern, err=err, code=1)

    def end(self, name):
        """Commands that stay under that name end."""
        (self._folder / name).unlink()

    def calls(self, verb=None):
        lines = (self._folder / "calls").read_text().splitlines()
        found = [json.loads(line) for line in lines]
        return [call for call in found if verb in (None, call[0])]

    def _write(self):
        half = self._folder / "rules.half"
        half.write_text(json.dumps(self._rules))
        half.replace(self._folder / "rules")
