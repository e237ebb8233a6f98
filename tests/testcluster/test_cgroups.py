from pathlib import Path

from testcluster.cgroups import hierarchies

HYBRID = """\
25 20 0:5 / /dev rw - devtmpfs devtmpfs rw
30 25 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro
31 30 0:27 / /sys/fs/cgroup/unified rw shared:5 - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
40 20 0:29 / /elsewhere/memory rw - cgroup cgroup rw,memory
"""


def test_every_hierarchy_is_found_once():
    assert hierarchies(HYBRID) == [
        Path("/sys/fs/cgroup/unified"),
        Path("/sys/fs/cgroup/cpu,cpuacct"),
        Path("/sys/fs/cgroup/memory"),
    ]
