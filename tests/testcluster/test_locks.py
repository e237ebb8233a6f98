import os

from testcluster import locks, store


def test_a_lock_has_one_holder(tmp_path):
    lock = locks.take(tmp_path / "lock")
    assert lock is not None
    assert locks.take(tmp_path / "lock") is None
    assert locks.holder(tmp_path / "lock") == os.getpid()
    os.close(lock)
    assert locks.holder(tmp_path / "lock") is None


def test_a_lock_that_was_never_taken_is_free(tmp_path):
    assert locks.holder(tmp_path / "nothing") is None


def test_each_cluster_gets_a_store_of_its_own_and_the_next_one_finds_it_again(tmp_path):
    first, lock = store.take(tmp_path, "name")
    second, other = store.take(tmp_path, "name")
    assert first != second
    os.close(lock)
    again, lock = store.take(tmp_path, "name")
    assert again == first
    os.close(lock)
    os.close(other)


def test_stores_of_other_names_are_other_stores(tmp_path):
    taken = [store.take(tmp_path, name) for name in ("small", "large")]
    assert taken[0][0] != taken[1][0]
    for _, lock in taken:
        os.close(lock)
