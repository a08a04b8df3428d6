"""Mangled names as C++ writes them: names of real traces, names that compilers make, and names that end anywhere."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.text.words import name_words, readable


@pytest.mark.parametrize(
    ("mangled", "written"),
    [
        (
            "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib",
            "add_rmsnorm_quant_kernel<__bf16, __bf16, 64, 8, false, false, true, 1>",
        ),
        (
            "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassINS_8sequenceIJLi1ELi3072EEEEEEEEE",
            "kentry<1, Rmsnorm2dFwd<Rmsnorm2dFwdPipelineOnePass<sequence<1, 3072>>>>",
        ),
        # The profiler cut it.
        (
            "_ZN2ck16tensor_operation6device12_GLOBAL__N_149kernel_grouped_conv_fwd_multiple_abd_xdl_cshuffleINS_34Gri",
            "kernel_grouped_conv_fwd_multiple_abd_xdl_cshuffle<Gri…>",
        ),
        # A function as an argument is not read.
        (
            "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_EXadL_Z4siluIS2_ES3_S5_EEEEvPS3_PS4_i",
            "act_and_mul_kernel<__hip_bfloat16, …>",
        ),
        ("_Z5saxpyifPKfPf", "saxpy"),
        ("_Z6kernelIffEvPT_", "kernel<float, float>"),
        ("_ZN3fooIN3barIiE3bazEE3runEv", "run"),
        ("volta_sgemm_64x64_nt", "volta_sgemm_64x64_nt"),
        ("_Z", "_Z"),
        ("_ZTV3foo", "_ZTV3foo"),
    ],
)
def test_a_mangled_name_is_read_as_far_as_it_goes(mangled: str, written: str) -> None:
    assert readable(mangled) == written
    assert name_words(mangled) == written


_TYPES = {
    "int": "int",
    "float": "float",
    "Tile<4, 8>": "Tile<4, 8>",
    "double*": "double*",
    "unsigned int": "unsigned int",
}


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler, whose names are read")
def test_names_that_a_compiler_makes_are_read() -> None:
    source = (
        "namespace ns { template <int A, int B> struct Tile {}; template <typename T, int N, bool F> void run(T) {} }"
    )
    calls = [
        f"template void ns::run<ns::{t}, -3, true>({'ns::' + t});"
        if t.startswith("Tile")
        else f"template void ns::run<{t}, -3, true>({t});"
        for t in _TYPES
    ]
    made = subprocess.run(
        ["g++", "-x", "c++", "-S", "-o", "-", "-"],
        input="\n".join([source, *calls]),
        capture_output=True,
        text=True,
        check=True,
    )
    names = {readable(name) for name in re.findall(r"^(_ZN\w+):", made.stdout, re.MULTILINE)}
    assert names == {f"run<{words}, -3, true>" for words in _TYPES.values()}


@given(
    st.lists(
        st.sampled_from(["N", "I", "E", "L", "J", "S_", "S0_", "3foo", "99x", "P", "K", "i", "b1E", "DF16b", "T_", "X"])
    )
)
def test_any_name_is_read_in_one_pass(parts: list[str]) -> None:
    assert readable("_Z" + "".join(parts))


def test_a_name_that_nests_without_end_ends() -> None:
    assert readable("_Z1k" + "I1k" * 20_000).startswith("k<k<k")
    assert readable("_ZN" + "N" * 60_000)
