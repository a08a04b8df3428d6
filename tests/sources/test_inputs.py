"""One run from several inputs: files, folders, patterns, archives, compressed files and standard input."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nsys_export import launched, write_sqlite
from tiers import examples
from trace_event_tables import events, slice_text

import traceanalyzer as ta
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.nsys import NsysIngester
from traceanalyzer.ingest.packed import ArchiveIngester, CompressedIngester, UnpackLimits
from traceanalyzer.ingest.trace_events import TraceEventIngester
from traceanalyzer.pipeline.contents import member_names

pytestmark = pytest.mark.check  # what is broken or hostile takes minutes

PLAIN = (NsysIngester(), TraceEventIngester())
KERNEL = '{"device": 0, "stream": 7, "correlation": 1}'


def trace(rank: int, count: int = 3) -> bytes:
    kernels = (slice_text(f"k{rank}_{i}", ts=10 * i, cat='"kernel"', args=KERNEL) for i in range(count))
    return (
        events(*kernels)[:-1] + f', "distributedInfo": {{"rank": {rank}, "world_size": 2}}, "schemaVersion": 1}}'
    ).encode()


RUN = {"run42/rank0.json": trace(0), "run42/deep/rank1.json.gz": gzip.compress(trace(1)), "run42/notes.txt": b"hello"}


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed


def zipped(files: Mapping[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", kind) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return target.getvalue()


def tarred(files: Mapping[str, bytes], *more: tarfile.TarInfo) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, data in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(data)
            archive.addfile(header, io.BytesIO(data))
        for header in more:
            archive.addfile(header)
    return target.getvalue()


ARCHIVES: dict[str, Callable[[Mapping[str, bytes]], bytes]] = {
    "run.zip": zipped,
    "stored.zip": lambda files: zipped(files, zipfile.ZIP_STORED),
    "lzma.zip": lambda files: zipped(files, zipfile.ZIP_LZMA),
    "run.tar": tarred,
    "run.tar.gz": lambda files: gzip.compress(tarred(files)),
    "run.tgz": lambda files: gzip.compress(tarred(files)),
    "run.tar.zst": lambda files: zstd(tarred(files)),
    "run.tar.xz": lambda files: lzma.compress(tarred(files)),
    "run.tar.bz2": lambda files: bz2.compress(tarred(files)),
    "named_like_nothing": tarred,
}
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {".zst": zstd, ".xz": lzma.compress, ".bz2": bz2.compress}


def facts_of(*inputs: Path, store: Path) -> list[tuple[Any, ...]]:
    """Return of each trace its name, rank, world size, events, whether it ends early, and its kernels."""
    with ta.open(list(inputs), store=store, attribution=False) as run:
        return [(trace.trace, trace.rank, *_stored(trace.folder)) for trace in run.traces]


def _stored(folder: Path) -> tuple[Any, ...]:
    (row,) = pq.ParquetFile(folder / "traces.parquet").read().to_pylist()
    files = folder.glob("gpu_ops*.parquet")
    kernels = [name for file in files for name in pq.ParquetFile(file).read(columns=["name"]).column(0).to_pylist()]
    return row["world_size"], row["event_count"], row["truncated"], sorted(kernels)


def report_of(inputs: Path, store: Path) -> dict[str, Any]:
    with ta.open(inputs, store=store) as run:
        from traceanalyzer.report.json import write

        stream = io.StringIO()
        write(run.diagnose(), stream)
        return {key: value for key, value in json.loads(stream.getvalue()).items() if key != "run"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in RUN.items():
        file = tmp_path / "plain" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return tmp_path / "plain" / "run42"


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_the_run_that_was_packed(name: str, folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / name
    archive.write_bytes(ARCHIVES[name](RUN))
    expected = facts_of(folder, store=tmp_path / "store")
    assert [row[0] for row in expected] == ["rank0.json", "deep/rank1.json.gz"]
    assert facts_of(archive, store=tmp_path / "store") == expected
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([name, "plain", "store"])
    with ta.open(archive, store=tmp_path / "store", attribution=False) as run:
        assert run.reused
        assert {trace.path for trace in run.traces} == {archive / "rank0.json", archive / "deep/rank1.json.gz"}


def test_an_archive_has_the_diagnosis_of_its_folder(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "run.tar.zst"
    archive.write_bytes(zstd(tarred(RUN)))
    assert report_of(archive, tmp_path / "a") == report_of(folder, tmp_path / "b")


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_a_compressed_file_is_the_trace_that_was_packed(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"rank0.json{suffix}").write_bytes(COMPRESSIONS[suffix](trace(0)))
    (tmp_path / f"rank1.json{suffix}").write_bytes(COMPRESSIONS[suffix](trace(1)))
    rows = facts_of(tmp_path, store=tmp_path / "store")
    assert [(row[:2], row[5]) for row in rows] == [
        ((f"rank{rank}.json{suffix}", rank), [f"k{rank}_{i}" for i in range(3)]) for rank in range(2)
    ]


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_compressed_streams_may_follow_each_other(suffix: str, tmp_path: Path) -> None:
    data, pack = trace(0, 50), COMPRESSIONS[suffix]
    (tmp_path / f"a.json{suffix}").write_bytes(pack(data[:1000]) + pack(data[1000:]))
    assert facts_of(tmp_path, store=tmp_path / "store")[0][5] == sorted(f"k0_{i}" for i in range(50))


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_a_compressed_file_that_ends_early_is_a_trace_that_ends_early(suffix: str, tmp_path: Path) -> None:
    data = events(*(slice_text(f"k{os.urandom(40).hex()}", ts=10 * i) for i in range(12_000))).encode()
    packed = COMPRESSIONS[suffix](data)
    (tmp_path / f"a.json{suffix}").write_bytes(packed[: len(packed) * 2 // 3])
    (row,) = facts_of(tmp_path, store=tmp_path / "store")
    assert row[4] and 100 < row[3] < 12_000


def test_exports_of_nsight_systems_are_read_in_every_package(tmp_path: Path) -> None:
    write_sqlite(tmp_path / "rank0.sqlite", launched())
    data = (tmp_path / "rank0.sqlite").read_bytes()
    (tmp_path / "a.zip").write_bytes(zipped({"rank0.sqlite": data}))
    (tmp_path / "rank0.sqlite.zst").write_bytes(zstd(data))
    expected = facts_of(tmp_path / "rank0.sqlite", store=tmp_path / "store")
    for name in ("a.zip", "rank0.sqlite.zst"):
        assert [row[1:] for row in facts_of(tmp_path / name, store=tmp_path / "store")] == [expected[0][1:]]


def test_an_archive_in_a_folder_is_not_opened(folder: Path, tmp_path: Path) -> None:
    before = facts_of(folder, store=tmp_path / "store")
    (folder / "all.zip").write_bytes(zipped(RUN))
    assert facts_of(folder, store=tmp_path / "store") == before


def test_several_files_folders_and_patterns_are_one_run(folder: Path, tmp_path: Path) -> None:
    expected = facts_of(folder, store=tmp_path / "store")
    one, two = folder / "rank0.json", folder / "deep" / "rank1.json.gz"
    assert facts_of(two, one, store=tmp_path / "store") == expected
    assert facts_of(folder / "deep", one, one, folder / "*.json", store=tmp_path / "store") == [
        expected[0],
        expected[1],
    ]
    assert [row[1] for row in facts_of(folder / "**" / "rank*", store=tmp_path / "store")] == [0, 1]
    with ta.open([one, two], store=tmp_path / "store", attribution=False) as run:
        assert isinstance(run.root, Path)
        assert run.root.resolve() == folder.resolve()


def test_inputs_far_from_each_other_keep_their_store_beside_the_first(tmp_path: Path) -> None:
    for place in ("a/b/c", "x/y/z"):
        (tmp_path / place).mkdir(parents=True)
    first, second = tmp_path / "a/b/c/rank0.json", tmp_path / "x/y/z/rank1.json"
    first.write_bytes(trace(0))
    second.write_bytes(trace(1))
    with ta.open([first, second], attribution=False) as run:
        assert [trace.rank for trace in run.traces] == [0, 1]
        assert run.store == first.parent / ".traceanalyzer"
    assert not (tmp_path / ".traceanalyzer").exists()


def test_a_pattern_without_a_match_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="no file matches"):
        ta.open(tmp_path / "*.json")


def test_a_name_that_exists_is_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "run[1].json").write_bytes(trace(0))
    assert [row[0] for row in facts_of(tmp_path / "run[1].json", store=tmp_path / "store")] == ["run[1].json"]


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_a_run_that_leaves_nothing_behind(packed: bool, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    command = [sys.executable, "-m", "traceanalyzer", "sql", "-", "SELECT trace, rank FROM canonical.traces"]
    answer = subprocess.run(
        [*command, "--format", "csv"],
        input=gzip.compress(tarred(RUN)) if packed else trace(0),
        capture_output=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        cwd=tmp_path,
        check=True,
    )
    rows = "rank0.json,0\ndeep/rank1.json.gz,1" if packed else "stdin,0"
    assert answer.stdout.decode().splitlines() == ["trace,rank", *rows.splitlines()]
    # But for what every connection begins as, which is of the version and not of the run.
    kept = sorted(entry.name.partition("-")[0] for entry in (cache / "traceanalyzer").iterdir())
    assert kept == ["empty", "metrics"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["cache"]


@pytest.mark.parametrize(("given", "words"), [(b"", "is empty"), (b"hello", "is no trace")])
def test_standard_input_that_is_no_trace_is_named(given: bytes, words: str) -> None:
    command = [sys.executable, "-m", "traceanalyzer", "info", "-"]
    answer = subprocess.run(command, input=given, capture_output=True, check=False)
    assert answer.returncode == 2
    assert answer.stderr.decode().startswith(f"error: standard input: {words}")


def unpacked(data: bytes, tmp_path: Path, **limits: int) -> list[str]:
    """Return the names of the traces that are read from an archive under some limits."""
    archive, folder = tmp_path / "archive", tmp_path / "tables"
    archive.write_bytes(data)
    folder.mkdir()
    ArchiveIngester(PLAIN, UnpackLimits(**limits)).ingest(archive, folder, IngestOptions())
    assert not [entry for entry in folder.iterdir() if entry.name.startswith(".")]
    return list(member_names(folder).values())


HOSTILE_NAMES = (
    "../../etc/evil.json",
    "/etc/evil.json",
    "..\\..\\evil.json",
    "C:\\evil.json",
    "a/./../evil.json",
    "x" * 300,
)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_names_of_members_never_become_paths(
    pack: Callable[[Mapping[str, bytes]], bytes], name: str, tmp_path: Path
) -> None:
    (tmp_path / "inner").mkdir()
    names = unpacked(pack({name: trace(0)}), tmp_path / "inner")
    assert len(names) == 1 and ".." not in names[0].split("/") and not names[0].startswith("/")
    assert [entry.name for entry in tmp_path.iterdir()] == ["inner"]


def test_links_devices_and_folders_in_archives_are_passed_over(tmp_path: Path) -> None:
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)
    more = [tarfile.TarInfo(f"link{number}.json") for number in range(len(kinds))]
    for header, kind in zip(more, kinds, strict=True):
        header.type, header.linkname = kind, "/etc/a.json"
    assert unpacked(tarred({"a.json": trace(0)}, *more), tmp_path) == ["a.json"]


def test_links_in_zip_files_are_passed_over(tmp_path: Path) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        link = zipfile.ZipInfo("link.json")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "a.json")
        archive.writestr("a.json", trace(0))
    assert unpacked(target.getvalue(), tmp_path) == ["a.json"]


@pytest.mark.parametrize("pack", ["tar", "zip"])
def test_a_link_to_a_trace_that_is_not_packed_is_no_smaller_run(pack: str, tmp_path: Path) -> None:
    def linked(name: str) -> bytes:
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, "/scratch/far/rank1.json"
        if pack == "tar":
            return tarred({"run/rank0.json": trace(0)}, link)
        target = io.BytesIO(zipped({"run/rank0.json": trace(0)}))
        with zipfile.ZipFile(target, "a") as archive:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o120777 << 16
            archive.writestr(entry, link.linkname)
        return target.getvalue()

    with pytest.raises(TraceAnalyzerError, match=r"holds run/rank1\.json, a link to .*which is not in it"):
        unpacked(linked("run/rank1.json"), tmp_path)
    (tmp_path / "other").mkdir()
    assert unpacked(linked("run/config.json"), tmp_path / "other") == ["rank0.json"]


def test_a_link_to_what_is_packed_loses_nothing(tmp_path: Path) -> None:
    links = {"rank8.json": "/home/me/run/rank0.json", "rank9.json": "rank8.json", "rank7.json": "../configs/rank7.txt"}
    headers = [tarfile.TarInfo(name) for name in links]
    for header in headers:
        header.type, header.linkname = tarfile.SYMTYPE, links[header.name]
    packed = tarred({"run/rank0.json": trace(0), "configs/rank7.txt": b"hello"}, *headers)
    assert unpacked(packed, tmp_path) == ["rank0.json"]


@pytest.mark.parametrize("pack", [zipped, lambda files: gzip.compress(tarred(files))])
def test_a_bomb_ends_at_its_ratio(pack: Callable[[Mapping[str, bytes]], bytes], tmp_path: Path) -> None:
    bomb = trace(0)[:-1] + b" " * 2_000_000 + b"}"
    with pytest.raises(TraceAnalyzerError, match="more than 100 times its size"):
        unpacked(pack({"a.json": bomb}), tmp_path, ratio=100, small_bytes=1_000_000)


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_members_that_are_no_traces_count_against_the_limits(
    pack: Callable[[Mapping[str, bytes]], bytes], tmp_path: Path
) -> None:
    many = {f"{number}.txt": b"hello" for number in range(20)}
    with pytest.raises(TraceAnalyzerError, match="holds more than 10 files"):
        unpacked(pack(many), tmp_path, members=10)


def test_the_sum_of_all_members_is_limited(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="unpacks to more than 2,000 bytes"):
        unpacked(zipped({"a.json": trace(0, 20), "b.json": trace(1, 20)}), tmp_path, total_bytes=2000)


def test_a_list_of_members_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="very long names"):
        unpacked(zipped({"x" * 5000 + str(i): b"" for i in range(10)}), tmp_path, directory_bytes=10_000)


def test_a_header_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="one header has 50,0"):
        unpacked(tarred({"x" * 50_000: b""}), tmp_path, header_bytes=10_000)


DAMAGED_RECORDS = (
    {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"},
    {"GNU.sparse.map": "0,1,x"},
    {"GNU.sparse.size": "1e9"},
)


@pytest.mark.parametrize("record", DAMAGED_RECORDS, ids=lambda record: next(iter(record)))
def test_a_damaged_record_of_a_tar_file_is_a_damaged_archive(record: dict[str, str], tmp_path: Path) -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        header = tarfile.TarInfo("a.json")
        header.pax_headers = record
        archive.addfile(header)
    with pytest.raises(TraceAnalyzerError, match="the archive is damaged"):
        unpacked(target.getvalue(), tmp_path)


def test_a_damaged_name_in_a_zip_file_is_a_damaged_archive(tmp_path: Path) -> None:
    data = zipped({"é.json": trace(0)})
    with pytest.raises(TraceAnalyzerError, match="the archive is damaged"):
        unpacked(data.replace("é".encode(), b"\xc3("), tmp_path)


def test_a_compressed_bomb_ends_at_its_ratio(tmp_path: Path) -> None:
    file = tmp_path / "a.json.xz"
    file.write_bytes(lzma.compress(trace(0)[:-1] + b" " * 2_000_000 + b"}"))
    (tmp_path / "tables").mkdir()
    with pytest.raises(TraceAnalyzerError, match="more than 100 times its size"):
        CompressedIngester(PLAIN, UnpackLimits(ratio=100, small_bytes=1_000_000)).ingest(
            file, tmp_path / "tables", IngestOptions()
        )
    assert list((tmp_path / "tables").iterdir()) == []


@pytest.mark.parametrize("name", ["run.zip", "run.tar", "run.tar.gz", "run.tar.zst"])
def test_an_archive_without_its_end_is_an_error_and_no_smaller_run(name: str, tmp_path: Path) -> None:
    whole = ARCHIVES[name](RUN).rstrip(b"\0")
    for share in (0.4, 0.7, 0.95):
        archive = tmp_path / f"{share}-{name}"
        archive.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(TraceAnalyzerError):
            ta.open(archive, store=tmp_path / "store", attribution=False)


def test_a_member_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    broken = b"SQLite format 3\x00" + b"\xff" * 5000
    with pytest.raises(TraceAnalyzerError, match=r"rank1.sqlite in it: "):
        unpacked(zipped({"rank0.json": trace(0), "rank1.sqlite": broken}), tmp_path)


def test_an_encrypted_archive_says_so(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.json": trace(0)}))
    data[6] |= 1  # the flag in the member's own header
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(TraceAnalyzerError, match="encrypted"):
        unpacked(bytes(data), tmp_path)


def test_reports_in_archives_are_not_lost_in_silence(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="a report of Nsight Systems, rank1"):
        unpacked(zipped({"rank0.json": trace(0), "rank1.nsys-rep": b"closed"}), tmp_path)


def test_an_archive_without_traces_says_so(tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="no traces in this archive"):
        unpacked(zipped({"weights.bin": bytes(1000), "inner.zip": zipped(RUN)}), tmp_path)


@pytest.mark.parametrize("inner", ["deep/rank1.zip", "rank1.tar", "rank1.TAR.GZ", "rank1.tgz"])
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_an_archive_in_an_archive_is_not_lost_in_silence(
    pack: Callable[[Mapping[str, bytes]], bytes], inner: str, tmp_path: Path
) -> None:
    with pytest.raises(TraceAnalyzerError, match=r"holds another archive, .*rank1"):
        unpacked(pack({"rank0.json": trace(0), inner: zipped(RUN)}), tmp_path)


def test_an_archive_in_an_archive_that_holds_no_trace_is_passed_over(tmp_path: Path) -> None:
    sources = zipped({"train.py": b"print(1)", "config.json": b"{}"})
    assert unpacked(zipped({"a.json": trace(0), "src.zip": sources}), tmp_path) == ["a.json"]


def test_a_model_that_is_an_archive_is_no_archive_of_traces(tmp_path: Path) -> None:
    assert unpacked(zipped({"a.json": trace(0), "model.pt": zipped(RUN)}), tmp_path) == ["a.json"]


def test_members_of_one_name_keep_apart(tmp_path: Path) -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for rank in range(2):
            header = tarfile.TarInfo("a.json")
            header.size = len(trace(rank))
            archive.addfile(header, io.BytesIO(trace(rank)))
    assert unpacked(target.getvalue(), tmp_path) == ["a.json", "a.json~2"]


@examples(200)
@given(
    kind=st.sampled_from(["run.zip", "run.tar", "run.tar.gz", "run.tar.zst", "run.tar.xz"]),
    cut=st.floats(0, 1),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=4),
)
def test_a_damaged_archive_is_read_or_is_an_error(
    kind: str, cut: float, changes: list[tuple[float, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = bytearray(ARCHIVES[kind](RUN))
    for share, value in changes:
        data[int(share * (len(data) - 1))] = value
    archive = tmp_path_factory.mktemp("damaged") / "archive"
    archive.write_bytes(data[: max(1, int(len(data) * (1 - cut / 3)))])
    folder = archive.with_name("tables")
    folder.mkdir()
    ingester = ArchiveIngester(PLAIN, UnpackLimits(small_bytes=2**24))
    try:
        ingester.ingest(archive, folder, IngestOptions())
    except TraceAnalyzerError:
        return
    assert set(member_names(folder)) == {part.name for part in folder.iterdir() if part.is_dir()}
