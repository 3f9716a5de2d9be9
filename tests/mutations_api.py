"""Guards of lists, streams, outputs and names; the columns are those of :class:`mutations.Mutation`."""

from __future__ import annotations

LISTING = "tests/integration/test_api_listing.py"
STREAMS = "tests/integration/test_api_streams.py"
OUTPUTS = "tests/integration/test_api_outputs.py"
CONNECTIONS = "tests/integration/test_api_connections.py"
KEYS = "tests/integration/test_api_keys.py"
QUOTAS = "tests/integration/test_api_quotas.py"
MODELS = "tests/integration/test_api_models.py"
REFUSALS = "tests/integration/test_api_refusals.py"
COMPLETIONS = "tests/integration/test_api_completions.py"
HEADS = "tests/integration/test_api_head.py"
CLIENT = "tests/integration/test_client_calls.py"

API = "service/api"
SCRIPTS = "service/jobs/scripts"
CHANGES = f"{API}/changes.py"
EVENTS = f"{API}/routes/events.py"
LIST = f"{SCRIPTS}/list.lua"
WHOLE = "test_filters_select_what_fits_all_of_them"
MANY = "test_a_filter_looks_past_many_jobs_that_do_not_fit"
TIMES = "test_the_list_is_cut_at_times_of_creation"

ROWS = [
    # The list
    (
        "labels are not looked at",
        LIST,
        "if not redis.call('ZSCORE', key, id) then",
        "if false then",
        LISTING,
        WHOLE,
    ),
    ("states are not looked at", LIST, "is_state[job[2]]", "true", LISTING, WHOLE),
    ("too early jobs are listed", LIST, "created_at > created_after", "true", LISTING, TIMES),
    ("too late jobs are listed", LIST, "created_at < created_before", "true", LISTING, TIMES),
    ("a list ends with its first ids", LIST, "if #ids < most then", "if true then", LISTING, MANY),
    (
        "a deleted job keeps its labels",
        f"{SCRIPTS}/remove.lua",
        "label(job, 'ZREM')",
        "",
        LISTING,
        "test_a_deleted_job_leaves_no_entry_behind",
    ),
    (
        "a misspelt filter selects everything",
        f"{API}/query.py",
        "if (member is None or member[1] not in objects) and name not in names:",
        "if False:",
        REFUSALS,
        "test_a_parameter_that_is_not_known_selects_nothing_silently",
    ),
    (
        "a place counts as if owners did not take turns",
        f"{SCRIPTS}/common.lua",
        "math.min(redis.call('ZCARD', level .. ':' .. owner), is_later and turn or turn + 1)",
        "redis.call('ZCARD', level .. ':' .. owner)",
        LISTING,
        "test_owners_take_turns_and_the_place_says_whose_turn_comes_when",
    ),
    # Streams
    (
        "changes of other owners are told",
        CHANGES,
        "if sees in (EVERYONE, change.owner):",
        "if True:",
        STREAMS,
        "test_only_changes_of_ones_own_jobs_are_told",
    ),
    (
        "a cursor that is gone is taken",
        CHANGES,
        "or not await self._is_there(cursor):",
        "or False:",
        STREAMS,
        "test_a_cursor_that_the_capped_stream_no_longer_holds_is_a_reset",
    ),
    (
        "deletions are not told",
        f"{SCRIPTS}/remove.lua",
        "if job.ephemeral == '' then",
        "if false then",
        STREAMS,
        "test_a_deleted_job_is_told_as_the_last_of_its_changes",
    ),
    (
        "other owners' jobs are followed",
        EVENTS,
        "        await backend.job(job_id, principal)\n    viewers",
        "        pass\n    viewers",
        STREAMS,
        "test_only_changes_of_ones_own_jobs_are_told",
    ),
    (
        "any number of jobs is followed",
        EVENTS,
        "if not 1 <= len(ids) <= MOST_JOBS:",
        "if False:",
        STREAMS,
        "test_what_can_not_be_followed_is_refused",
    ),
    (
        "every type is sent",
        f"{API}/stream.py",
        "for event in step.events if event.type in types",
        "for event in step.events",
        STREAMS,
        "test_only_the_types_asked_for_come",
    ),
    (
        "HEAD has a body",
        f"{API}/head.py",
        '{**scope, "method": "GET"}, receive, send_head',
        '{**scope, "method": "GET"}, receive, send',
        HEADS,
        "test_head_is_get_without_a_body",
    ),
    # What jobs leave behind
    (
        "any blob is an artifact",
        f"{API}/routes/artifacts.py",
        'if each["blob"] == artifact_id',
        "if True",
        OUTPUTS,
        "test_only_what_the_job_lists_can_be_had_and_what_expired_is_gone",
    ),
    (
        "an expired log is an empty one",
        f"{API}/routes/logs.py",
        "if not text:",
        "if False:",
        OUTPUTS,
        "test_expired_parts_of_a_log_are_named_and_an_expired_log_is_gone",
    ),
    (
        "missing events are not named",
        f"{API}/logtext.py",
        "if event.seq > self._seq + 1:",
        "if False:",
        OUTPUTS,
        "test_expired_parts_of_a_log_are_named_and_an_expired_log_is_gone",
    ),
    (
        "sparse series are thinned",
        f"{API}/metrics.py",
        "max(points, SPARSE)",
        "points",
        OUTPUTS,
        "test_long_series_are_thinned_and_sparse_ones_never",
    ),
    # Names
    (
        "an alias of another model is dropped",
        f"{SCRIPTS}/unpublish.lua",
        "if aliases[i + 1] == id then",
        "if true then",
        MODELS,
        "test_a_deleted_model_takes_its_aliases_along_and_leaves_accepted_jobs_their_weights",
    ),
    (
        "what completions can't do is ignored",
        f"{API}/routes/completions.py",
        "if value is not None and (",
        "if False and (",
        COMPLETIONS,
        "test_what_asks_for_nothing_is_taken_and_what_is_refused_says_why",
    ),
    (
        "the end of a log is an error to the client",
        "service/client/jobs.py",
        "if error.status != 416:",
        "if True:",
        CLIENT,
        "test_what_a_job_says_and_leaves_behind_is_read",
    ),
    # Connections
    (
        "a slow request is waited for",
        f"{API}/protocol.py",
        "if left > 0:",
        "if True:",
        CONNECTIONS,
        "test_a_head_that_comes_slowly_is_ended",
    ),
    (
        "each byte of a slow request gives it time",
        f"{API}/protocol.py",
        "came / SLOWEST",
        "came",
        CONNECTIONS,
        "test_a_body_that_comes_slowly_is_ended",
    ),
    (
        "a slow body that nobody reads is answered twice",
        f"{API}/protocol.py",
        "else self.cycle.response_started",
        "else False",
        CONNECTIONS,
        "test_a_body_that_nobody_reads_holds_no_connection",
    ),
    (
        "a refused request is not read to its end",
        f"{API}/protocol.py",
        "if begun or self._received == 0:",
        "if True:",
        CONNECTIONS,
        "test_who_goes_on_sending_still_reads_why_the_connection_ends",
    ),
    (
        "who waits for the server is slow",
        f"{API}/protocol.py",
        " or (self._in_head and self._is_answering)",
        "",
        CONNECTIONS,
        "test_waiting_for_the_server_is_not_slow",
    ),
    (
        "a client that leaves is a fault of the server",
        f"{API}/problems.py",
        "add_exception_handler(ClientDisconnect, _gone)",
        "add_exception_handler(418, _gone)",
        CONNECTIONS,
        "test_a_body_that_comes_slowly_is_ended",
    ),
    (
        "one address takes all connections",
        f"{API}/protocol.py",
        "if self.inside[peer] > self.most_of_one:",
        "if False:",
        CONNECTIONS,
        "test_one_address_can_not_take_all_connections",
    ),
    (
        "connections have no bound",
        f"{API}/protocol.py",
        "if self.inside.total() > self.most:",
        "if False:",
        CONNECTIONS,
        "test_one_address_can_not_take_all_connections",
    ),
    # Keys that end
    (
        "a revoked key keeps its streams",
        f"{API}/stream.py",
        "{pump, gone, refused}",
        "{pump, gone}",
        KEYS,
        "test_a_revoked_key_ends_its_streams_and_no_others",
    ),
    (
        "a stream does not say why it ends",
        f"{API}/stream.py",
        "if done == {refused}:",
        "if False:",
        KEYS,
        "test_an_expired_key_ends_its_streams",
    ),
    (
        "an outage counts against a key",
        f"{API}/keys.py",
        "except RedisError:",
        "except KeyError:",
        KEYS,
        "test_while_redis_is_away_nothing_counts_against_the_key_of_a_stream",
    ),
    (
        "the client takes a refusal for an event",
        "service/client/transport.py",
        'if frame.event == "error":',
        "if False:",
        KEYS,
        "test_our_client_is_told_why_its_stream_ends",
    ),
    # Quotas as answers tell them
    (
        "a job that is being cancelled no longer runs",
        f"{SCRIPTS}/common.lua",
        "usage[2] + usage[3]",
        "usage[2]",
        QUOTAS,
        "test_answers_tell_what_is_left_of_the_quotas",
    ),
    (
        "no bound is told as none left",
        f"{API}/quotas.py",
        "getattr(limits, name)) > 0",
        "getattr(limits, name)) >= 0",
        QUOTAS,
        "test_what_has_no_bound_is_not_told",
    ),
    # Refusals
    (
        "a member that is named twice counts once",
        f"{API}/members.py",
        "if len({name for name, _ in members}) < len(members):",
        "if False:",
        REFUSALS,
        "test_a_member_that_is_named_twice_is_refused",
    ),
    (
        "a refusal repeats all that it refuses",
        "service/errors.py",
        "return text if len(text) <= most else",
        "return text if True else",
        REFUSALS,
        "test_a_refusal_does_not_grow_with_what_it_refuses",
    ),
    (
        "the form of a field is taken for a field",
        f"{API}/locations.py",
        "return [here[part]] if part in here else []",
        "return [here.get(part)]",
        REFUSALS,
        "test_a_field_of_several_forms_is_named_as_its_sender_knows_it",
    ),
    (
        "a field called as a form hides the field at fault",
        f"{API}/locations.py",
        "fitting or [path",
        "[path",
        REFUSALS,
        "test_a_field_of_several_forms_is_named_as_its_sender_knows_it",
    ),
    (
        "a form that was not meant is told of too",
        f"{API}/problems.py",
        " if path not in outer",
        "",
        REFUSALS,
        "test_a_field_of_several_forms_is_named_as_its_sender_knows_it",
    ),
    (
        "a path that no file may have is a fault",
        f"{API}/routes/dashboard.py",
        "except (OSError, ValueError):",
        "except KeyError:",
        REFUSALS,
        "test_names_in_a_path_or_query_are_cut_too",
    ),
]
