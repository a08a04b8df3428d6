"""Replays of graphs that were recorded in part: what is missing ran, and nothing waited for the host meanwhile."""

from __future__ import annotations

import pytest
from drawn_timeline import Drawn

from traceanalyzer.attribution.replay.what_if import Change, what_if


def drawn(*shown: tuple[int, int, str], more: str = "", graph_id: int | None = 5, others: str = "") -> Drawn:
    """Return replays of one graph of kernels of 100 us, each by its launch (10 us), its start, and its kernels.

    A kernel shown as `.` was not recorded. `more` are calls, `others` GPU work of other streams.
    """
    calls = "id thread category name start end\n" + "".join(
        f"{launch} 1 runtime hipGraphLaunch {asked} {asked + 10}\n" for launch, (asked, _, _) in enumerate(shown, 1)
    )
    ops = "id stream kind start end launch name graph_id\n" + "".join(
        f"{launch * 10 + at} 7 kernel {start + 100 * at} {start + 100 * at + 100} {launch} {name} {graph_id or '-'}\n"
        for launch, (_, start, names) in enumerate(shown, 1)
        for at, name in enumerate(names)
        if name != "."
    )
    return Drawn.of(calls + more, ops + others)


def not_recorded(found: Drawn) -> list[str]:
    return [row.split()[0] for row in found.ledger() if row.endswith("edge.not_recorded")]


@pytest.mark.check
@pytest.mark.parametrize("graph_id", [None, 5])
def test_the_time_of_a_missing_end_is_not_the_hosts(graph_id: int | None) -> None:
    # |abcd|  |ab..|  |abcd|  |abcd|
    replays = ((0, 20, "abcd"), (500, 520, "ab.."), (1000, 1020, "abcd"), (1500, 1520, "abcd"))
    found = drawn(*replays, graph_id=graph_id)
    assert not_recorded(found) == ["720-920"]
    hosts = "SELECT sum(dur_ns) FROM attribution.ledger_rows WHERE starts_with(bucket, 'host.')"
    assert found.rows(hosts) == drawn(*((*replay[:2], "abcd") for replay in replays)).rows(hosts)


def test_a_missing_beginning_ends_where_the_launch_was_asked() -> None:
    assert not_recorded(drawn((0, 20, "abcd"), (500, 520, "..cd"), (1000, 1020, "abcd"))) == ["520-720"]


def test_what_is_missing_in_the_middle_is_no_gap_of_the_graph() -> None:
    assert not_recorded(drawn((0, 20, "abcd"), (500, 520, "a..d"), (1000, 1020, "abcd"))) == ["620-820"]


def test_work_that_follows_at_once_leaves_no_time_for_what_is_missing() -> None:
    assert not_recorded(drawn((0, 20, "abcd"), (10, 420, "ab"), (20, 620, "abcd"), (30, 1020, "abcd"))) == []


def test_nothing_is_missing_after_the_last_recorded_operation() -> None:
    assert not_recorded(drawn((0, 20, "abcd"), (500, 520, "abcd"), (1000, 1020, "ab.."))) == []


def test_a_synchronization_that_returns_ends_the_replay() -> None:
    sync = "20 1 runtime hipStreamSynchronize 1010 {}\n"
    replays = ((0, 20, "abcd"), (500, 520, "abcd"), (1000, 1020, "ab.."), (1500, 1520, "abcd"))
    assert not_recorded(drawn(*replays, more=sync.format(1380))) == ["1220-1380"]
    assert not_recorded(drawn(*replays, more=sync.format(1222), graph_id=None)) == []


def test_other_work_meanwhile_is_what_it_is() -> None:
    others = "90 8 kernel 750 800 3 e -\n"
    found = drawn((0, 20, "abcd"), (500, 520, "ab.."), (1000, 1020, "abcd"), others=others.replace(" 3 e", " - e"))
    assert not_recorded(found) == ["720-750", "800-920"]


@pytest.mark.check
def test_an_earlier_host_gains_nothing_from_work_that_is_missing() -> None:
    def saved_ns(names: str) -> int:
        shown = [(500 * at, 500 * at + 20, names if at % 2 else "abcd") for at in range(20)]
        (device,) = what_if(drawn(*shown).con, Change(("host.other", "host.launch_api"))).devices
        assert device.saved_ns is not None
        return device.saved_ns

    assert saved_ns("ab..") == pytest.approx(saved_ns("abcd"), rel=0.01)


LOST = "id thread category name start end\n1 1 runtime cudaLaunchKernel 0 10\n2 1 runtime cudaGraphLaunch 20 30\n"
BEFORE = "id stream kind start end launch name\n1 7 kernel 20 120 1 a\n"


def test_what_follows_a_replay_without_operations_is_not_the_hosts() -> None:
    # |a| [graph: nothing recorded] |b|
    calls = LOST + "3 1 runtime cudaLaunchKernel 40 50\n"
    assert not_recorded(Drawn.of(calls, BEFORE + "2 7 kernel 900 950 3 b\n")) == ["120-900"]


@pytest.mark.parametrize("waiting", ["cudaDeviceSynchronize", "cudaStreamSynchronize"])
def test_a_replay_without_operations_is_over_when_a_call_returns_that_waits_for_it(waiting: str) -> None:
    calls = LOST + f"3 1 runtime {waiting} 40 800\n4 1 runtime cudaLaunchKernel 900 910\n"
    assert not_recorded(Drawn.of(calls, BEFORE + "2 7 kernel 920 950 4 b\n")) == ["120-800"]


def test_a_replay_without_operations_ends_before_the_copy_of_its_result() -> None:
    calls = LOST + "3 1 runtime cudaMemcpyAsync 40 50\n4 1 runtime cudaLaunchKernel 900 910\n"
    found = Drawn.of(calls, BEFORE + "2 7 d2h 700 710 3 -\n3 7 kernel 920 950 4 b\n")
    assert not_recorded(found) == ["120-700"]


def test_a_replay_whose_inner_call_names_its_operations_has_operations() -> None:
    calls = LOST + "3 1 driver cuGraphLaunch 22 28\n4 1 runtime cudaLaunchKernel 900 910\n"
    found = Drawn.of(calls, BEFORE + "2 7 kernel 130 200 3 a\n3 7 kernel 920 950 4 b\n")
    assert not_recorded(found) == []


def test_no_synchronization_is_to_blame_for_a_replay_without_operations() -> None:
    calls, ops = "id thread category name start end\n", "id stream kind start end launch name\n"
    for at in range(0, 40, 4):
        begin = at * 500
        calls += f"{at + 1} 1 runtime cudaLaunchKernel {begin} {begin + 10}\n"
        calls += f"{at + 2} 1 runtime cudaGraphLaunch {begin + 20} {begin + 30}\n"
        calls += f"{at + 3} 1 runtime cudaDeviceSynchronize {begin + 40} {begin + 1990}\n"
        ops += f"{at + 1} 7 kernel {begin + 12} {begin + 112} {at + 1} a\n"
    (device,) = what_if(Drawn.of(calls, ops).con, Change(("host.sync",))).devices
    assert device.saved_ns is not None
    assert device.saved_ns < 0.02 * 20_000 * 1000
