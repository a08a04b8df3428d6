"""What files' names say: their order and ranks; and of files that are no traces, what they are and how to get one."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from traceanalyzer.ingest import EXPECTED
from traceanalyzer.ingest.trace_events.stream import read_head
from traceanalyzer.ingest.unread_formats import EXPORT_COUNTERS, other_content, unread_database

_NUMBER = re.compile(r"[0-9]+")
# Adapters of low rank have a rank of their own.
_NO_ADAPTER = "".join(rf"(?<!{word}{mark})" for word in ("lora", "low") for mark in ("", "[-_. ]"))
# A place in one dimension of a job, which ranks share.
_PART = "(?:(?<![a-z])(?P<part>local|node|host|[cdemst]p|pp|dcp|e[dt]p)[-_.]?)?"
_RANK = re.compile(rf"{_NO_ADAPTER}{_PART}(?<!re)rank[-_.= ]?(?P<number>[0-9]{{1,6}})(?![0-9])", re.IGNORECASE)
_R = re.compile(rf"{_NO_ADAPTER}(?<![a-z0-9])r(?P<number>[0-9]{{1,6}})(?![a-z0-9]|[.][0-9])", re.IGNORECASE)
# Words that come before a rank, or before the number of a process, which the system gave it.
_WORKER = re.compile(r"(?P<word>worker|process|proc)[-_.= ]?(?P<number>[0-9]{1,6})(?![0-9])", re.IGNORECASE)
_MOST_WORKERS = 4096
_WORD_BEFORE = re.compile(r"([a-z]+)[^a-z0-9]*$", re.IGNORECASE)
# What a job can have several of on one rank: a number after one of these words tells recordings apart.
_NO_RANK = re.compile(
    r"attempt|batch(?:size)?|bench(?:mark)?|bsz?|capture|case|checkpoint|chunk|ckpt|conf(?:ig)?|copy|cycle|day|dump|epoch"
    r"|exp(?:eriment)?|graph|image|iter(?:ation)?s?|kernel|layers?|len(?:gth)?|loop|mb|micro(?:batch)?|model|o|opt|part|phase"
    r"|pid|prompt|query|repeat|report|req(?:uest)?|rerank(?:er)?|round|run|sample|schedule|seed|segment|seq(?:len)?|session|snapshot"
    r"|stage|steps?|test|trial|try|v(?:ar(?:iant)?|er(?:sion)?)?|wait|warmup|window|workers|zero"
)
_PARALLEL = {"cp", "dcp", "device", "dp", "ep", "gpu", "pp", "tp"}
_REPLICA = re.compile(r"(?<![a-z])(?:dp|replica)[-_]?([0-9]+)[^/]*$", re.IGNORECASE)
_OF_JOB = "job"
# The host of HOST_PID.TIME.pt.trace.json, as PyTorch's handler names the file of a process.
_HOST = re.compile(r"(?<![^/])[^/]*(?=_[0-9]+[.][0-9]{10,20}(?:[.]pt)?(?:[.]trace)?[.]json)")
_EPOCH = "ep"  # or a place among experts: the times tell


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts rank10 after rank2; numbers are compared as text, for they may be of any length."""
    parts = (part for part in re.split(r"([0-9]+)", name) if part)
    return [(1, len(digits), digits) if (digits := _digits(part)) else (0, 0, part) for part in parts]


def _digits(part: str) -> str:
    return (part.lstrip("0") or "0") if _NUMBER.fullmatch(part) else ""


def _never(_: Sequence[int]) -> bool:
    return False


def ranks_from_names(names: Sequence[str], are_apart: Callable[[Sequence[int]], bool] = _never) -> list[int | None]:
    """Return the ranks that file names say; None for a name whose numbers may be stamps, dates, pids or steps.

    A number after `rank` or `r` is one. Others are where the numbers of files with otherwise equal names are
    nearly 0 to N-1: after a word for a place in a parallel job, or where the files are not of times `are_apart`, by
    their places in `names`.
    """
    stated = _stated_ranks(names)
    names = [_HOST.sub("", name) for name in names]
    ranks = _of_workers(names, stated)
    families: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        if ranks[index] is None and index not in stated:
            families[tuple(_NUMBER.split(name))].append(index)
    for texts, members in families.items():
        numbers = [_NUMBER.findall(names[index]) for index in members]
        place = _place_of_rank(texts, numbers)
        if place is not None and (_word_before(texts[place]) in _PARALLEL - {_EPOCH} or not are_apart(members)):
            for index, values in zip(members, numbers, strict=True):
                ranks[index] = int(values[place])
    return ranks


def _stated_ranks(names: Sequence[str]) -> dict[int, int | None]:
    """Return the rank of each name that states one: None where it states only a place that several ranks share."""
    found = {i: places for i, name in enumerate(names) if (places := _numbers_of_ranks(name))}
    values: dict[str, set[int]] = defaultdict(set)
    for places in found.values():
        for word, number in places.items():
            values[word].add(number)
    ranks: dict[int, int | None] = {}
    for index, places in found.items():
        # Of several places in a job, the one that differs between the names.
        differing = [word for word in places if len(places) == 1 or len(values[word]) > 1]
        ranks[index] = places[differing[0]] if len(differing) == 1 else None
    is_of_job = {index: _OF_JOB in places for index, places in found.items()}
    holders = Counter((is_of_job[index], rank) for index, rank in ranks.items())
    replicas: dict[int | None, set[str]] = defaultdict(set)
    for index, rank in ranks.items():
        replica = _REPLICA.search(names[index])
        replicas[rank].add(replica[1] if replica else "")
    are_of_replicas = any(len(those) > 1 and "0" in those for those in replicas.values())
    shared = {i for i, rank in ranks.items() if (are_of_replicas if is_of_job[i] else holders[False, rank] > 1)}
    return {index: None if index in shared else rank for index, rank in ranks.items()}


def _numbers_of_ranks(name: str) -> dict[str, int]:
    """Return the numbers behind words for ranks: that of the job alone where it is there, else places in the job."""
    matches = [*_RANK.finditer(name)] or [*_R.finditer(name)]
    numbers = {(match.groupdict().get("part") or _OF_JOB).lower(): int(match["number"]) for match in matches}
    return {_OF_JOB: numbers[_OF_JOB]} if _OF_JOB in numbers else numbers


def _of_workers(names: Sequence[str], stated: Mapping[int, int | None]) -> list[int | None]:
    """Return the ranks that names state, or else the numbers of workers that may be ranks."""
    ranks = [stated.get(index) for index in range(len(names))]
    workers = {i: match for i, name in enumerate(names) if i not in stated and (match := _last(_WORKER, name))}
    numbers = {int(match["number"]) for match in workers.values()}
    are_workers = all(match["word"].lower() == "worker" for match in workers.values())
    if numbers and (_nearly_all_ranks(numbers) or (are_workers and max(numbers) < _MOST_WORKERS)):
        for index, match in workers.items():
            ranks[index] = int(match["number"])
    return ranks


def _last(pattern: re.Pattern[str], name: str) -> re.Match[str] | None:
    """Return the last match: a folder comes before the name of its file."""
    return next(reversed(list(pattern.finditer(name))), None)


def _place_of_rank(texts: tuple[str, ...], numbers: Sequence[Sequence[str]]) -> int | None:
    """Return which number of a family of names is the rank; `texts` are the texts between the numbers."""
    columns = list(zip(*numbers, strict=True))
    varying = [place for place, values in enumerate(columns) if len(set(values)) > 1]
    words = list(map(_word_before, texts))
    likely = [
        place for place in varying if not _NO_RANK.fullmatch(words[place]) and _may_be_ranks(columns, texts, place)
    ]
    if len(varying) > 1:
        # Time stamps may vary beside the rank; then only the words for a place in a parallel job mean one.
        likely = likely if all(words[place] in _PARALLEL for place in likely) else []
    return likely[0] if len(likely) == 1 else None


def _word_before(text: str) -> str:
    return found[1].lower() if (found := _WORD_BEFORE.search(text)) else ""


def _may_be_ranks(columns: Sequence[Sequence[str]], texts: tuple[str, ...], place: int) -> bool:
    values = columns[place]
    if max(map(len, values)) > 6:
        return False
    if _is_of_decimal(columns, texts, place) and _word_before(texts[place]) not in _PARALLEL:
        return False
    is_time = place > 0 and not _WORD_BEFORE.search(texts[place])
    if is_time and all(len(value) == 2 for value in (*values, *columns[place - 1])):
        return False  # 10-00-01: a time of day, or a date
    return _nearly_all_ranks({int(value) for value in values})


def _is_of_decimal(columns: Sequence[Sequence[str]], texts: tuple[str, ...], place: int) -> bool:
    """Return whether a number is a part of a decimal or a version, such as 0.3 or 2.10.1: a time stamp is longer."""
    beside = [other for point, other in ((place, place - 1), (place + 1, place + 1)) if texts[point] == "."]
    return any(len(value) <= 3 for other in beside if 0 <= other < len(columns) for value in columns[other])


def _nearly_all_ranks(numbers: set[int]) -> bool:
    """Return whether numbers are nearly 0 to N-1: 0 is there, and few are absent."""
    return 0 in numbers and max(numbers) < len(numbers) + max(1, len(numbers) // 3)


_PACKED = "compressed in another way than gzip"
_UNPACK = "decompress it first"
_GIVE_ALONE = "give it by itself; where that fails, unpack it and give the folder"
_NCU_REPORT = r"\.ncu-rep"
_RECORD_PROTON = 'record times, too: proton.start(NAME, data="trace"); or record the job with torch.profiler'
_EXPORT_SQLITE = "export the report again: nsys export --type sqlite report.nsys-rep"
# Other files that profilers write, by the end of their name: what they are, and how to get a trace.
_OTHER_FORMATS = (
    (
        _NCU_REPORT,
        "an Nsight Compute report of single kernels",
        "record the job with nsys or torch.profiler, and write the counters as a table beside that trace: "
        f"{EXPORT_COUNTERS}",
    ),
    (
        r"\.xplane\.riegeli",
        "a continuous capture of xprof (Riegeli records)",
        "record one session: jax.profiler.trace(folder) writes the .xplane.pb that is read",
    ),
    (
        r"\.pftrace",
        "a binary Perfetto trace",
        "PyTorch exports the same as .json.gz; rocprofv3 writes a database of it where it is left at its default "
        "format, and that is exact; other tools: traceconv json {} trace.json",
    ),
    (r"\.perfetto-trace|\.proto", "a binary Perfetto trace", "convert it: traceconv json {} trace.json"),
    (r"\.(?:arrow|h5|hdf5?)|_arwdir", "an export of Nsight Systems in another format", _EXPORT_SQLITE),
    (r"\.jsonl|\.json-?lines", "JSON line by line, such as an export of Nsight Systems", _EXPORT_SQLITE),
    (
        r"_(?:(?:[a-z]+_api|kernel|memory_copy|memory_allocation|scratch_memory|domain)_stats|agent_info)\.csv",
        "a summary of rocprofv3, without times",
        "give the tables of kernels and calls beside it, such as 4711_kernel_trace.csv",
    ),
    (
        r"_scratch_memory_trace\.csv",
        "a table of rocprofv3 without kernels and calls",
        "give the tables of kernels and calls beside it, such as 4711_kernel_trace.csv",
    ),
    (r"\.otf2", "an OTF2 archive", "rocprofv3 writes a database by default: rocprofv3 --runtime-trace -- ./program"),
    (r"\.hatchet", "a tree of sums by Triton's Proton, without times", _RECORD_PROTON),
    (r"\.(?:nvvp|nvprof)", "a profile of nvprof", "record the job with Nsight Systems: nsys profile -t cuda,nvtx"),
    (r"\.(?:zip|tar|tgz|tar\.\w+)", "an archive", _GIVE_ALONE),
    (r"\.(?:zst|xz|bz2|lz4|7z)", _PACKED, _UNPACK),
    (r"\.(?:pickle|pkl)", "a pickle, such as a CUDA memory snapshot", "record the job with torch.profiler"),
)
_PICKLES = (b"\x02", b"\x03", b"\x04", b"\x05")
# The same by their first bytes, whatever they are called.
_OTHER_CONTENTS = (
    (b"\x1f\x8b", "compressed twice with gzip", "decompress it once: gunzip {}"),
    (b"\xfd7zXZ\0", _PACKED, _UNPACK),
    (b"(\xb5/\xfd", _PACKED, _UNPACK),
    (b"BZh", _PACKED, _UNPACK),
    (b"\x04\x22M\x18", _PACKED, _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", _PACKED, _UNPACK),
    (b"PK\x03\x04", "an archive", _GIVE_ALONE),
    *(
        (b"\x80" + version, "a pickle, such as a CUDA memory snapshot", "show it: traceanalyzer memory FILE")
        for version in _PICKLES
    ),
    *((start, "text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8") for start in (b"\xff\xfe", b"\xfe\xff")),
    *((start, "text in UTF-16", "convert it: iconv -f UTF-16LE -t UTF-8") for start in (b"{\0", b"[\0")),
    *((start, "text in UTF-16", "convert it: iconv -f UTF-16BE -t UTF-8") for start in (b"\0{", b"\0[")),
)
# What PyTorch's allocator holds, which `torch.cuda.memory._snapshot` returns and some write as JSON.
_MEMORY_SNAPSHOT = re.compile(
    rb'^\s*\{\s*"(?:segments|device_traces|allocator_settings|external_annotations)"\s*:'
    rb'(?=.{0,65536}?"(?:segment_type|device_traces|allocator_settings|total_size|segments)")',
    re.DOTALL,
)
# Tables and other text, by how they begin.
_OTHER_TEXTS = (
    (re.compile(rb"^\S[^\n]*\.py(\(\d+\):|:\d+\))[^\n]* \d+\n"), "stacks without times", "give the trace itself"),
    (
        re.compile(rb'^\s*\{\s*"schema"\s*:\s*"[\d.]+-chakra'),
        "an execution trace of PyTorch without times on the device",
        "record the job with torch.profiler",
    ),
    (
        re.compile(
            rb'^"?(?:Start ?\(\w+\)"?[,;\t]"?Duration ?\(|Time ?\(%\)"?[,;\t]"?Total Time'
            rb'|PID"?[,;\t]"?TID"?[,;\t]"?DevId\b|Total(?: \(\w+\))?"?[,;\t]"?(?:Count|Operations)\b'
            rb'|(?:Name|Range)"?[,;\t].*\bProj(?:ected)? )'
            rb"|^(?:Generating SQLite file |Processing \[)| \*\* .* \((?:cuda|nvtx|osrt|openacc)\w+\):",
            re.MULTILINE,
        ),
        "what nsys stats made of a report",
        _EXPORT_SQLITE,
    ),
    (
        re.compile(rb'^(?:==PROF== |\[\d+\] [^\s@]+@\S|"?Process ID"?[,;\t].*\bInvocations\b)', re.MULTILINE),
        "text that Nsight Compute printed, and no table of launches",
        f"write its counters as a table: {EXPORT_COUNTERS.format('REPORT.ncu-rep')}; or add --csv when you record",
    ),
    (
        re.compile(
            rb'^(?:==\d+== |"?(?:Start"?[,;\t]"?Duration"?[,;\t]|(?:Type"?[,;\t]"?)?Time\(%\)'
            rb'|Device"?[,;\t]"?Kernel"?[,;\t]"?Invocations))'
        ),
        "text of nvprof",
        "record the job with Nsight Systems: nsys profile -t cuda,nvtx",
    ),
    (
        re.compile(rb'^"?Index"?[,;\t]"?KernelName"?[,;\t](?=.*BeginNs)'),
        "a table of the kernels that the JSON of rocprof beside it holds, too",
        "give that JSON",
    ),
    (
        re.compile(rb'^"?(?:Index"?[,;\t]"?KernelName|Dispatch_ID"?[,;\t]"?(?:GPU_ID|Kernel_Name))"?[,;\t]'),
        "a table of counters without times",
        "record the times of kernels, too: rocprof --timestamp on, or rocprofv3 --runtime-trace",
    ),
    (
        re.compile(
            rb'^"?(?:ProcessID"?[,;\t]"?Hostname"?[,;\t]"?)?Name"?[,;\t]"?Calls"?[,;\t]'
            rb'"?(?:TotalDurationNs|DURATION \(nsec\))"?[,;\t]'
        ),
        "a summary of rocprof, without times",
        "give the trace that was recorded with it, or record with rocprofv3 --runtime-trace",
    ),
    (
        re.compile(
            rb'^"?(?:Guid"?[,;\t]"?)?(?:Sample_Timestamp'
            rb'|Kind"?[,;\t]"?(?:Operation"?[,;\t]"?)?Agent_Id"?[,;\t]"?Queue_Id)"?[,;\t]'
        ),
        "a table of rocprofv3 without kernels and calls",
        "give the tables of kernels and calls beside it, such as 4711_kernel_trace.csv",
    ),
    (
        re.compile(rb'^"?(?:Step Id"?[,;\t]"?)?Device_id"?[,;\t]', re.IGNORECASE),
        "a table of Ascend's profiler",
        "give the trace_view.json that the profiler writes beside it, or export one: msprof --export=on",
    ),
    (
        re.compile(rb"^=+ ?(?:L0 Backend|(?:API|Device|Kernel)\b.* (?:Timing|Properties)\b)", re.MULTILINE),
        "a summary that Intel's unitrace printed, without times",
        "record a trace: unitrace --chrome-call-logging --chrome-kernel-logging ./program",
    ),
)
_EXPORT_ROWS = "give the trace itself; for traceanalyzer memory, export the timeline to NAME.raw.json.gz"
# JSON of other tools, which lies beside traces, too: named only where it is asked for.
_OTHER_JSON = (
    (re.compile(rb"^\s*\[\[\d{13,}, \d{13,}"), "a memory timeline of PyTorch without its events", _EXPORT_ROWS),
    (
        re.compile(rb'^\s*\{[^\n]*\}\s*\n\{(?=.*"(?:Cuda|TraceProcess|Nvtx|Sched)Event":)', re.DOTALL),
        "JSON line by line, such as an export of Nsight Systems",
        _EXPORT_SQLITE,
    ),
    (
        re.compile(rb'^\s*\[\s*\{[^}]*"(?:count"\s*:\s*\d+\s*\}[^}]*"timeMs|startInMs|startEnqMs)"'),
        "a table of trtexec: sums of layers or times of inferences, without kernels",
        "record trtexec with Nsight Systems: nsys profile -t cuda,nvtx trtexec --loadEngine=FILE",
    ),
    (
        re.compile(rb'^\s*\[\s*\{(?=.*"frame"\s*:\s*\{)(?=.*"metrics"\s*:\s*\{)', re.DOTALL),
        "a tree of sums by Triton's Proton, without times",
        _RECORD_PROTON,
    ),
    (
        re.compile(rb'"https://www\.speedscope\.app/'),
        "a profile for speedscope: samples of the host, without GPU work",
        "record the job with torch.profiler",
    ),
)


def unknown(path: Path) -> tuple[str, Path, str]:
    if path.stat().st_size == 0:
        return "the file is empty", path, "the profiler wrote nothing: look for a .tmp file beside it"
    other = other_format(path) or other_json(path)
    if other is not None:
        what, hint = other
        return f"is {what}, and no trace that traceanalyzer reads", path, hint
    return (
        "is no trace that traceanalyzer reads",
        path,
        "expected PyTorch profiler or Chrome trace JSON (plain or gzip), an Nsight Systems SQLite export, a database "
        "of rocprofv3, or a profile of XLA (.xplane.pb)",
    )


def is_ncu_report(path: Path) -> bool:
    """Return whether a file is named like a report of Nsight Compute, which only NVIDIA's programs read."""
    return re.search(f"{_NCU_REPORT}$", path.name, re.IGNORECASE) is not None


def other_format(path: Path) -> tuple[str, str] | None:
    """Return what a file of another tool is, and what to do about it; None for unknown files."""
    for ending, what, hint in _OTHER_FORMATS:
        if re.search(f"{ending}$", path.name, re.IGNORECASE):
            return what, hint.format(path.name)
    head = read_head(path)
    for first_bytes, what, hint in _OTHER_CONTENTS:
        if head.startswith(first_bytes):
            return what, hint.format(path.name)
    for begins, what, hint in _OTHER_TEXTS:
        if begins.search(head):
            return what, hint
    if (other := other_content(head)) is not None:
        return other[0], other[1].format(path.name)
    if path.suffix.lower() == ".csv":
        from traceanalyzer.ingest.amd.csv_processes import lacked_columns  # what reads tables takes long to import

        lacked = lacked_columns(head)
        what = f"a table of rocprofv3 that lacks what it is read by ({lacked})"
        return (
            (what, "give the database of the same recording, or record it again: rocprofv3 --runtime-trace")
            if lacked
            else None
        )
    return unread_database(path, head)


def other_json(path: Path) -> tuple[str, str] | None:
    """Return what JSON of another tool is that has other things to say than a trace, and what to do about it."""
    head = read_head(path)
    return next(((what, hint) for begins, what, hint in _OTHER_JSON if begins.search(head)), None)


def memory_snapshot(head: bytes) -> tuple[str, str] | None:
    """Return what a snapshot of memory in JSON is, and what reads it; None for other JSON."""
    if _MEMORY_SNAPSHOT.search(head) is None:
        return None
    return "is a snapshot of GPU memory, not a trace", "traceanalyzer memory FILE shows it"


def hint_for_folder(files: Sequence[Path]) -> str:
    full = (file for file in files if file.stat().st_size > 0)
    others = [(file.name, other) for file in full if (other := other_format(file) or other_json(file))]
    if not others:
        return EXPECTED
    name, (what, hint) = others[0]
    return f"{name} is {what}: {hint}"
