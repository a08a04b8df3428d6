"""Every number that independent scripts computed for real traces is compared by a test, which the table below names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpus_metrics import EXPECTED

# Numbers, and the test that compares them; * stands for names that differ from file to file (operators, kernels, keys).
COMPARED = """
busbw.collectives  algorithm protocol                    test_algorithm_and_protocol_of_kernels_that_name_them
busbw.collectives  kernel kind dtype group_size size_bytes dur_ns start_ns algbw_gb_per_s busbw_gb_per_s \
                                                         test_bandwidths_of_recorded_collectives
busbw.by_message.* count size_bytes dur_sum_ns dur_min_ns dur_max_ns \
                                                         test_collectives_by_message_and_kind
busbw.by_kind.*    count size_bytes dur_sum_ns           test_collectives_by_message_and_kind
busbw.histogram_floor_log2_bytes  *                      test_sizes_and_overlap
busbw  comm_kernels comm_union_ns comm_hidden_by_compute_ns comm_exposed_ns \
                                                         test_sizes_and_overlap
counters  ranges launches                                test_counters_equal_independent_numbers
counters.fifth  name                                     test_counters_equal_independent_numbers
counters.sums  *                                         test_counters_equal_independent_numbers
counters.fifth.args  *                                   test_counters_equal_independent_numbers
counters.by_operator.*  *                                test_counters_equal_independent_numbers
critical_path  annotation instance window_ns nodes length_ns \
                                                         test_length_and_kinds_equal_independent_numbers
critical_path.edges  *                                   test_length_and_kinds_equal_independent_numbers
critical_path.by_kind_ns_one_of_the_longest  *           test_length_and_kinds_equal_independent_numbers
flame  device_ns_linked device_ns_unlinked stacks folded_sha256 heaviest_stack heaviest_stack_ns \
                                                         test_device_flame_of_real_traces
flame  device_ops_unlinked                               test_device_time_by_owner
flame.device_ns_by_deepest_operator  name ns             test_device_time_by_owner
flame.device_ns_by_outermost_operator  name ns           test_device_time_by_owner
flame.device_ns_by_innermost_module  name ns             test_device_time_by_owner
flame  host_ns_of_outermost_frames                       test_host_time_without_the_slices_inside
flame.host_self_ns  name ns                              test_host_time_without_the_slices_inside
flame  module_count module_call_count module_calls       test_modules_of_real_traces
flame.module_calls  *                                    test_modules_of_real_traces
flame.device_ns_inclusive_by_module  name ns             test_modules_of_real_traces
flops  total_flops recompute_flops model_flops total_flops_unmasked \
                                               test_products_convolutions_and_attention_of_real_traces
flops.per_op.*  family count flops flops_unmasked bytes_min gpu_ops gpu_op_sum_ns kernel_sum_ns gpu_op_union_ns \
                count_without_gpu_op recompute_count recompute_flops \
                                               test_products_convolutions_and_attention_of_real_traces
flops.per_family.*  count flops flops_unmasked bytes_min gpu_ops gpu_op_sum_ns kernel_sum_ns gpu_op_union_ns \
                count_without_gpu_op recompute_count recompute_flops \
                                               test_products_convolutions_and_attention_of_real_traces
flops  device_span_ns device_busy_ns gpu_op_sum_ns_all gpu_op_sum_ns_modelled gpu_op_without_launch \
                                               test_time_of_devices_and_what_the_models_cover_of_it
flops.not_counted  *                                     test_calls_without_arguments_are_counted
flops.top_shapes  op dims types count flops bytes_min gpu_op_sum_ns gpu_ops \
                                               test_shapes_of_products_convolutions_and_attention
host_nsys.scheduling  first_ns last_ns threads on_cpu_ns test_threads_on_cpus
host_nsys.scheduling.top  globalTid tid pid name on_cpu_ns slices cpu_changes unpaired longest_slice_ns \
                                                         test_threads_on_cpus
host_nsys.samples  count without_stack cycles stacks heaviest_stack \
                                                         test_samples_by_thread_function_and_stack
host_nsys.samples.by_thread  tid name samples            test_samples_by_thread_function_and_stack
host_nsys.samples.leaf  name samples                     test_samples_by_thread_function_and_stack
host_nsys.samples.leaf_module  name samples              test_samples_by_thread_function_and_stack
host_nsys.os_runtime  calls broken                       test_calls_of_the_operating_system
host_nsys.os_runtime.top  name count sum_ns max_ns       test_calls_of_the_operating_system
host_nsys.os_runtime.locks.*  count sum_ns max_ns        test_calls_of_the_operating_system
host_nsys.graph_launches  count sum_ns graphs            test_launches_of_graphs_that_are_one_record
memory.*  events allocations allocated_bytes freed_bytes net_bytes has_totals peak_allocated allocated_before \
          peak_at_ns_since_first_event allocated_after reserved_at_peak_allocated peak_reserved most_reserved_but_free \
          events_whose_total_does_not_follow             test_totals_and_peaks_of_real_traces
memory.*  frees frees_of_older_memory bytes_freed_of_older_memory still_live_count still_live_bytes reserved_then \
          allocated_then               test_frees_and_what_is_reserved_when_most_of_it_is_free
memory.*.allocated_by_operator  operator bytes count     test_allocations_by_operator
memory.*.still_live_by_operator  *                       test_allocations_by_operator
memory.*.live_at_peak_by_operator  operator bytes        test_what_was_alive_at_the_peak_by_operator
memory_timeline_raw  events distinct_times peak_bytes peak_time preexisting_bytes first_time last_time \
                                                         test_an_exported_timeline_of_a_real_program
memory_timeline_raw.actions  *                           test_an_exported_timeline_of_a_real_program
memory_timeline_raw.at_end  *                            test_an_exported_timeline_of_a_real_program
memory_timeline_raw.categories_at_peak  *                test_an_exported_timeline_of_a_real_program
memory_timeline_raw.peak_of_each_category  *             test_an_exported_timeline_of_a_real_program
ncu  columns neither                                     test_a_real_table_of_ragged_rows_is_read_to_the_last_digit
ncu.row_widths  *                                        test_a_real_table_of_ragged_rows_is_read_to_the_last_digit
ncu.kernels.*  name grid block cc                        test_a_real_table_of_ragged_rows_is_read_to_the_last_digit
ncu  metrics rules                                       test_a_real_table_of_ragged_rows_is_read_to_the_last_digit
ncu.values  *                                            test_a_real_table_of_ragged_rows_is_read_to_the_last_digit
vector.per_op.*  family count bytes_min gpu_op_sum_ns kernel_sum_ns \
                                                         test_least_bytes_of_operators_that_move_data
vector.not_counted  *                      test_calls_that_move_no_memory_of_the_device_are_counted
views  graph_launch_calls_without_gpu_op                 test_graph_launches
views.graph_launches  call call_ns gpu_ops span_ns busy_ns first_after_call_start_ns \
                                                         test_graph_launches
views.iterations  name category dur_ns tokens context_requests context_tokens generation_requests generation_tokens \
                  attention_pairs_causal kind new_tokens gpu_ops gpu_busy_ns gpu_span_ns first_gpu_op_after_start_ns \
                                                         test_iterations
views  dynamo_cache_lookups                              test_compiled_code
views.triton_kernels.*  count sum_ns                     test_compiled_code
views.triton_ns_by_kind  *                               test_compiled_code
views.compiled_regions  *                                test_compiled_code
views.inductor_graphs.*  calls host_ns gpu_ops gpu_op_sum_ns triton_gpu_ops \
                                                         test_compiled_code
"""
# Their keys are names out of the file.
_NAMED = {
    *("actions", "args", "at_end", "by_kind", "by_kind_ns_one_of_the_longest", "by_message", "by_operator", "edges"),
    *("categories_at_peak", "compiled_regions", "histogram_floor_log2_bytes", "inductor_graphs", "kernels", "locks"),
    *("metric_names_in_two_sections", "module_calls", "not_counted", "peak_of_each_category", "per_family", "per_op"),
    *("row_widths", "still_live_by_operator", "sums", "triton_kernels", "triton_ns_by_kind", "values"),
}


def _numbers(value: Any, place: str, is_named: bool) -> Iterator[str]:
    """Yield the place of each number or word, with * for each name out of the file."""
    if isinstance(value, list):
        for item in value:
            yield from _numbers(item, place, False)
    elif isinstance(value, dict):
        for key, item in value.items():
            name = "*" if is_named else key
            # The counters of an operator are named, too.
            yield from _numbers(item, f"{place}.{name}", key in _NAMED or place == "counters.by_operator")
    else:
        yield place


def _compared() -> dict[str, str]:
    tests = {}
    for line in COMPARED.strip().splitlines():
        place, *names, test = line.split()
        tests.update({f"{place}.{name}": test for name in names})
    return tests


# What describes a file, and is no number of ours.
_OF_THE_FILE = {"ncu.lines_before_header"}


def test_each_number_has_a_test(corpus: Path) -> None:
    files = sorted(EXPECTED.glob("*.json"))
    found = {
        place
        for path in files
        for place in _numbers(json.loads(path.read_text()), path.name.split(".")[0], path.name.startswith("memory."))
    }
    assert files
    assert found - _OF_THE_FILE == _compared().keys()


def test_each_test_of_the_table_is_there() -> None:
    text = "\n".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [test for test in set(_compared().values()) if f"def {test}(" not in text] == []
