"""Twenty behaviours that users of such services ask for, and the tests that show them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "1 a new point is on an open page at once, the zoom is kept, nothing reloads": (
        "e2e/test_live_page.py::test_the_curve_grows_without_reloading",
        "e2e/test_live_page.py::test_new_points_leave_the_zoom_as_it_is",
    ),
    "2 a queued job that is cancelled never starts": (
        "integration/test_worker_faults.py::test_cancelling_a_queued_job_means_that_it_never_starts",
        "integration/test_api_jobs.py::test_a_queued_job_is_cancelled_at_once_and_never_starts",
    ),
    "3 a running job that is cancelled stops using the CPU, and is cancelled when its worker has confirmed": (
        "integration/test_worker_faults.py::test_a_cancelled_job_uses_no_cpu_any_more",
        "integration/test_api_jobs.py::test_a_running_job_is_cancelled_when_its_worker_confirms",
    ),
    "4 a cancelled job keeps its last checkpoint": (
        "integration/test_worker_faults.py::test_cancelling_a_running_job_keeps_its_last_checkpoint",
        "integration/test_worker_training.py::test_a_cancelled_training_keeps_its_last_checkpoint",
    ),
    "5 cancelling: 404 for an unknown job, 200 and no change for one that has ended, twice the same": (
        "integration/test_api_jobs.py::test_an_unknown_job_is_404",
        "integration/test_api_jobs.py::test_a_queued_job_is_cancelled_at_once_and_never_starts",
        "integration/test_script_guards.py::test_a_running_job_is_cancelled_when_its_worker_confirms",
    ),
    "6 kill -9 of a worker: the job says so and goes on elsewhere": (
        "integration/test_faults.py::test_a_fault_changes_nothing_about_the_end",
        "integration/test_worker_promises.py::test_kill_nine_costs_neither_time_nor_a_bit",
    ),
    "7 two workers never both publish a result; the loser is told": (
        "integration/test_script_guards.py::test_a_worker_that_lost_its_job_publishes_no_result",
        "integration/test_scripts_model.py::test_scripts_do_what_the_model_says",
    ),
    "8 a job that succeeded never becomes failed": (
        "integration/test_script_guards.py::test_a_job_that_succeeded_never_becomes_failed_later",
    ),
    "9 fifty requests at once with one Idempotency-Key make one job and have equal answers": (
        "integration/test_api_jobs.py::test_one_key_and_one_body_make_one_job",
    ),
    "10 closing a sampling stream stops the generation": (
        "integration/test_api_completions.py::test_closing_a_stream_stops_generation_within_two_flushes",
        "integration/test_api_completions.py::test_leaving_a_waiting_completion_cancels_the_job",
    ),
    "11 closing a training stream cancels nothing": (
        "integration/test_api_events.py::test_closing_a_training_stream_does_not_cancel_the_job",
    ),
    "12 who reconnects gets each event once, also across a restart of the API": (
        "integration/test_api_events.py::test_reconnecting_viewers_miss_and_repeat_nothing",
        "integration/test_api_events.py::test_streams_go_on_after_an_api_restart",
        "integration/test_faults.py::test_a_fault_changes_nothing_about_the_end",
    ),
    "13 seven tabs of the dashboard on plain HTTP/1.1 all load": (
        "e2e/test_tabs.py::test_seven_tabs_load_and_follow_their_jobs",
    ),
    "14 the server stops with open streams, which end cleanly": (
        "integration/test_api_events.py::test_the_server_stops_with_open_streams_and_ends_them_cleanly",
        "integration/test_operations.py::test_the_api_ends_within_three_seconds_with_streams_open",
    ),
    "15 a loss that is not finite leaves valid JSON and a gap in the chart, and fails the job": (
        "integration/test_worker_training.py::test_a_loss_that_is_not_finite_ends_the_job_and_says_so",
        "e2e/test_live_page.py::test_a_loss_that_is_not_finite_shows_as_a_gap_with_a_mark",
    ),
    "16 logs and artifacts outlive the worker; what expired is 410": (
        "integration/test_api_outputs.py::test_expired_parts_of_a_log_are_named_and_an_expired_log_is_gone",
        "integration/test_api_outputs.py::test_only_what_the_job_lists_can_be_had_and_what_expired_is_gone",
        "integration/test_worker_training.py::test_events_survive_in_segments",
    ),
    "17 a failure says why": (
        "unit/test_worker_parts.py::test_every_failure_has_a_code_and_a_message",
        "integration/test_worker_faults.py::test_what_would_fail_again_fails_at_once",
        "integration/test_worker_faults.py::test_a_bug_is_tried_again_and_then_named",
        "integration/test_worker_faults.py::test_a_job_past_its_time_fails_even_if_it_does_not_listen",
        "integration/test_worker_training.py::test_a_text_that_cannot_be_trained_on_is_named",
    ),
    "18 the list has filters, order and pages, and a long one costs no more": (
        "integration/test_api_listing.py::test_filters_select_what_fits_all_of_them",
        "integration/test_api_jobs.py::test_pages_are_disjoint_and_whole",
        "integration/test_long_list.py::test_a_page_of_a_long_list_costs_no_more_than_of_a_short_one",
    ),
    "19 a queued job has its place and its expected start": (
        "integration/test_api_listing.py::test_owners_take_turns_and_the_place_says_whose_turn_comes_when",
        "integration/test_api_listing.py::test_a_queued_job_tells_when_it_will_start_as_soon_as_a_worker_lives",
    ),
    "20 a deployment: SIGTERM, checkpoint, queued again, on at the same step": (
        "integration/test_faults.py::test_a_fault_changes_nothing_about_the_end",
        "integration/test_worker_training.py::test_released_by_sigterm_it_goes_on_at_the_same_step",
    ),
}


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_a_behaviour_has_its_tests(behaviour: str) -> None:
    for test in BEHAVIOURS[behaviour]:
        path, _, name = test.partition("::")
        functions = ast.parse((TESTS / path).read_text()).body
        assert any(isinstance(each, ast.FunctionDef) and each.name == name for each in functions), test


def test_there_are_twenty() -> None:
    assert [int(behaviour.partition(" ")[0]) for behaviour in BEHAVIOURS] == list(range(1, 21))
