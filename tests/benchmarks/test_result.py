import json

from benchmarks.blocks import Pair
from benchmarks.result import ratio, write

FIELDS = ["id", "name", "value", "low", "high", "unit", "n", "baseline", "limit"]


def make():
    pairs = [Pair(ours=2.0 * scale, baseline=scale) for scale in (1.0, 2.0, 3.0)]
    return ratio("P0.test", "ours ÷ plain", pairs, baseline="plain {:.1f} s".format, limit=1.1)


def test_a_ratio_is_taken_block_by_block():
    result = make()
    assert (result.value, result.low, result.high, result.n) == (2.0, 2.0, 2.0, 3)
    assert result.baseline == "plain 2.0 s"


def test_the_file_is_a_list_with_the_fields_that_readers_expect(tmp_path):
    path = tmp_path / "new folder" / "results.json"
    write([make()], path)
    (entry,) = json.loads(path.read_text())
    assert list(entry) == FIELDS


def test_a_line_names_value_spread_limit_and_baseline():
    line = str(make())
    for part in ("P0.test", "2.000 [2.000, 2.000]", "limit 1.1", "plain 2.0 s", "n=3"):
        assert part in line
