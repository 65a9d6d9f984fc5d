"""How much each conformance check asks of a sandbox: a check that came to ask less would pass providers that it failed.

A check that is changed on purpose gets the numbers that its test then names.
"""

from __future__ import annotations

METHODS = ("open", "run", "branch", "bind", "close", "end")
"""Of the sandbox and its sessions, as `Tape.asked` counts them; `end` closes the sandbox."""
_TABLE = """
state.variables_persist                            1    3    0    0    1    0
state.imports_persist                              1    2    0    0    1    0
state.functions_and_classes_persist                1    3    0    0    1    0
state.comprehensions_see_names                     1    1    0    0    1    0
state.files_persist                                1    3    0    0    1    0
state.name_is_main                                 1    1    0    0    1    0
state.pickles_and_dataclasses                      1    2    0    0    1    0
state.sessions_are_separate                        2    2    0    0    2    0
state.policy_keep                                  1    3    0    0    1    0
state.policy_keep_kill_is_rolled_back              1    4    0    0    1    0
state.policy_clear                                 1    3    0    0    1    0
state.traceback_is_short                           1    2    0    0    1    0
state.syntax_error_is_an_error                     1    4    0    0    1    0
rollback.exception                                 1    3    0    0    1    0
rollback.random_state                              1    3    0    0    1    0
rollback.array_contents                            1    3    0    0    1    0
rollback.open_file_offset                          1    3    0    0    1    0
rollback.open_file_for_writing                     1    4    0    0    1    0
rollback.modules_and_environment                   1    3    0    0    1    0
rollback.workspace_files                           1    3    0    0    1    0
rollback.same_size_change                          1    3    0    0    1    0
rollback.timeout                                   1    3    0    0    1    0
rollback.os_exit                                   1    6    0    0    1    0
rollback.segmentation_fault                        1    3    0    0    1    0
rollback.abort_and_signals                         1    6    0    0    1    0
rollback.memory_error                              1    3    0    0    1    0
rollback.exit_and_base_exceptions                  1    9    0    0    1    0
rollback.unprintable_exception                     1    3    0    0    1    0
rollback.thread_left_running                       1    4    0    0    1    0
rollback.process_left_running                      1    3    0    0    1    0
rollback.many_failures_in_a_row                    1   22    0    0    1    0
branches.branches_see_the_state                    1    9    8    0    9    0
branches.branches_stand_where_their_origin_does    1    6    3    0    4    0
branches.memory_is_independent                     1    6    2    0    3    0
branches.files_are_independent                     1    4    2    0    3    0
branches.branch_of_a_branch                        1    7    3    0    4    0
branches.absolute_paths_keep_working               1    5    2    0    3    0
branches.open_files_are_separate                   1    4    2    0    3    0
branches.closing_leaves_the_others                 1    6    3    0    5    0
branches.a_failing_branch_leaves_the_others        1    6    2    0    3    0
branches.branch_waits_for_the_running_call         1    3    1    0    2    0
model.any_program                                  1  141    6    0    7    0
images.pillow_images_are_exact                     5    5    0    0    5    0
images.bound_images_behave_like_pillow             1    1    0    0    1    0
images.numpy_pictures                              3    3    0    0    3    0
images.json_values                                 1    1    0    0    1    0
images.lazy_image_decodes_once_for_branches        2    9    8    0   10    0
images.lazy_image_unused_is_not_decoded            1    2    2    0    3    0
images.lazy_image_found_at_run_time                1    1    0    0    1    0
images.lazy_image_that_fails                       2    2    0    0    2    0
images.shown_picture_bound_again                   1    2    0    1    1    0
images.bind_survives_a_failed_call                 1    4    1    2    2    0
images.bind_is_private                             2    2    0    0    2    0
images.many_images                                 1    1    0    0    1    0
videos.frames_by_number                            1    2    0    0    1    0
videos.the_library_that_programs_know              1    2    0    0    1    0
videos.survives_a_failed_call                      1    4    0    0    1    0
videos.works_in_branches                           1    4    2    0    3    0
videos.broken_video                                1    2    0    0    1    0
captures.pyplot_show_forms                         4    4    0    0    4    0
captures.figures_in_a_loop                         1    1    0    0    1    0
captures.several_figures_open                      1    2    0    0    1    0
captures.pillow_show                               1    2    0    0    1    0
captures.display_forms                             1    1    0    0    1    0
captures.ipython_display                           1    1    0    0    1    0
captures.opencv_imshow                             1    1    0    0    1    0
captures.last_expression                           1    4    0    0    1    0
captures.image_files                               1    2    0    0    1    0
captures.broken_image_file                         1    1    0    0    1    0
captures.order_and_no_doubles                      1    1    0    0    1    0
captures.shown_before_a_failure                    1    1    0    0    1    0
captures.picture_shown_then_changed                1    1    0    0    1    0
output.stdout_and_stderr                           1    1    0    0    1    0
output.every_call_has_its_own_output               1    3    0    0    1    0
output.partial_output_of_a_timeout                 1    1    0    0    1    0
output.unicode_text                                1    4    0    0    1    0
output.text_is_capped                              1    2    0    0    1    0
output.value_is_capped                             1    2    0    0    1    0
output.flood                                       1    2    0    0    1    0
output.picture_count_is_capped                     1    1    0    0    1    0
output.picture_size_is_capped                      1    1    0    0    1    0
output.total_pixels_are_capped                     1    1    0    0    1    0
output.replaced_stdout                             1    6    0    0    1    0
output.standard_input_is_empty                     1    1    0    0    1    0
output.last_expression_off                         1    1    0    0    1    0
limits.wall_time_of_a_sleep                        1    3    0    0    1    0
limits.wall_time_of_a_busy_loop                    1    3    0    0    1    0
limits.wall_time_of_a_regular_expression           1    3    0    0    1    0
limits.wall_time_of_numpy                          1    3    0    0    1    0
limits.wall_time_with_signals_ignored              1    3    0    0    1    0
limits.wall_time_with_the_gil_held                 1    3    0    0    1    0
limits.wall_time_of_a_stopped_process              1    2    0    0    1    0
limits.wall_time_of_an_endless_finalizer           1    2    0    0    1    0
limits.wall_seconds_only_shortens                  1    1    0    0    1    0
limits.cpu_time                                    1    2    0    0    1    0
limits.memory                                      1   10    0    0    1    0
limits.memory_within_the_limit                     1    1    0    0    1    0
limits.open_files                                  1    1    0    0    1    0
limits.open_files_that_are_left                    1    3    0    0    1    0
limits.file_size                                   1    2    0    0    1    0
limits.workspace_size                              1    2    0    0    1    0
limits.workspace_file_count                        1    2    0    0    1    0
limits.processes                                   1    2    0    0    1    0
limits.threads                                     1    1    0    0    1    0
limits.deep_recursion                              1    5    0    0    1    0
statuses.each_ending_has_its_status                1    8    0    0    1    0
statuses.a_memory_error_of_the_program             1    1    0    0    1    0
statuses.timings_are_measured                      1    2    0    0    1    0
statuses.layers_are_reported                       1    2    0    0    1    0
statuses.empty_and_long_code                       1    5    0    0    1    0
statuses.preload                                   2    4    0    0    2    0
statuses.repairs_are_off_unless_named              1    3    0    0    1    0
statuses.repair_of_a_path                          1    2    0    0    1    0
statuses.unknown_options_are_refused               2    0    0    0    0    0
concurrency.sessions_run_at_the_same_time          2    4    0    0    2    0
concurrency.calls_of_a_session_are_serial          1   10    0    0    1    0
concurrency.many_sessions                         12   12    0    0   12    0
concurrency.a_stuck_neighbour_does_not_matter      2    2    0    0    2    0
concurrency.cancelled_run                          1    3    0    0    1    0
concurrency.cancelled_while_waiting                1    3    0    0    1    0
concurrency.closing_a_session_during_a_call        1    2    0    0    2    0
concurrency.closing_the_sandbox                    2    3    1    0    1    2
concurrency.closing_the_sandbox_during_a_call      2    2    0    0    0    1
"""
ASKED = {name: tuple(map(int, numbers)) for name, *numbers in (line.split() for line in _TABLE.strip().splitlines())}
UNCOUNTED = {"branches.branches_run_at_the_same_time"}
"""Asks as often as it takes until calls overlap."""
