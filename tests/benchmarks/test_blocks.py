from benchmarks.blocks import alternate, interval, median_of


def test_the_sides_alternate_and_take_turns_in_beginning():
    order = []
    alternate(lambda: order.append("ours") or 1.0, lambda: order.append("plain") or 1.0, blocks=3)
    assert order == ["ours", "plain", "plain", "ours", "ours", "plain"]


def test_a_pair_keeps_each_side_whichever_began():
    pairs = alternate(lambda: 3.0, lambda: 2.0, blocks=2)
    assert [(pair.ours, pair.baseline) for pair in pairs] == [(3.0, 2.0), (3.0, 2.0)]


def test_a_side_can_be_the_median_of_several_measurements():
    figures = iter([5.0, 1.0, 3.0])
    assert median_of(lambda: next(figures), 3)() == 3.0


def test_the_interval_holds_the_median_and_is_repeatable():
    figures = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 9.0]
    found = interval(figures)
    assert found.value == 1.3
    assert found.low <= found.value <= found.high
    assert found == interval(figures)


def test_figures_without_spread_have_no_width():
    found = interval([2.0] * 7)
    assert (found.low, found.value, found.high) == (2.0, 2.0, 2.0)
