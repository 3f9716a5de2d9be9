"""Guards of the API, the blob store and the workers; the columns are those of :class:`mutations.Mutation`."""

from __future__ import annotations

FAULTS = "tests/integration/test_faults.py"
EVENTS = "tests/integration/test_api_events.py"
STREAMS = "tests/integration/test_api_streams.py"
JOBS = "tests/integration/test_api_jobs.py"
KEYS = "tests/integration/test_api_keys.py"
SECURITY = "tests/integration/test_api_security.py"
REFUSALS = "tests/integration/test_api_refusals.py"
FILES = "tests/integration/test_api_files.py"
OUTAGES = "tests/integration/test_api_outages.py"
BLOBS = "tests/unit/test_blobs.py"
PARTS = "tests/unit/test_worker_parts.py"
WORKERS = "tests/integration/test_worker_faults.py"

API = "service/api"
SECURE = f"{API}/security.py"
HUB = f"{API}/hub.py"
FOLDER = "service/blobs/folder.py"

ROWS = [
    # Streams
    (
        "a viewer gets what it has",
        HUB,
        "if self.first > cursor:",
        "if True:",
        "tests/unit/test_hub_parts.py",
        "test_a_viewer_gets_of_a_batch_what_it_lacks",
    ),
    (
        "a stale cursor is taken for a new one",
        HUB,
        "self._is_stale = self._is_stale or self.cursor > seq",
        "self._is_stale = False",
        EVENTS,
        "test_a_cursor_of_another_history_is_reset_with_a_snapshot",
    ),
    (
        "lost histories are not compared",
        HUB,
        "if seq < topic.seq:",
        "if False:",
        OUTAGES,
        "test_viewers_are_reset_when_the_server_has_lost_its_last_events",
    ),
    (
        "a hole in the log is passed over",
        f"{API}/log.py",
        "if place == len(stored) or stored[place].first > after + 1:",
        "if place == len(stored):",
        EVENTS,
        "test_a_hole_between_segments_is_a_reset_after_what_could_be_read",
    ),
    # Requests
    (
        "any Host is served",
        SECURE,
        "if len(hosts) != 1 or host_name(hosts[0]) not in self._hosts:",
        "if len(hosts) != 1:",
        SECURITY,
        "test_a_foreign_host_is_refused",
    ),
    (
        "any Origin is served",
        SECURE,
        "if form is None or form[1].lower() != hosts[0].lower():",
        "if form is None:",
        SECURITY,
        "test_a_foreign_origin_is_refused",
    ),
    (
        "an unsecured address is listened on",
        SECURE,
        "if not is_loopback(settings.host) and",
        "if False and",
        SECURITY,
        "test_other_addresses_need_a_key",
    ),
    (
        "headers have no limit",
        SECURE,
        "if size > HEAD_LIMIT:",
        "if False:",
        SECURITY,
        "test_headers_have_a_limit_together",
    ),
    (
        "a body is only measured by what it says",
        SECURE,
        "            if seen > limit:",
        "            if False:",
        REFUSALS,
        "test_a_body_beyond_the_limit_is_refused_however_it_is_sent",
    ),
    (
        "the secret of a key does not matter",
        f"{API}/keys.py",
        "if not hmac.compare_digest(digest(form[0]), found.sha256 if found else NO_HASH) or found is None:",
        "if found is None:",
        SECURITY,
        "test_without_a_valid_key_nothing_is_served",
    ),
    (
        "keys do not expire",
        f"{API}/keys.py",
        "if found.expires_at and found.expires_at <= time.time() * 1000:",
        "if False:",
        KEYS,
        "test_an_expired_key_is_refused",
    ),
    (
        "scopes are not asked for",
        f"{API}/keys.py",
        "if scope not in principal.scopes:",
        "if False:",
        KEYS,
        "test_a_key_does_what_its_scopes_say_and_nothing_else",
    ),
    (
        "everyone sees everything",
        f"{API}/keys.py",
        "return self.sees in (EVERYONE, owner)",
        "return True",
        KEYS,
        "test_other_peoples_things_are_not_found",
    ),
    (
        "a text is a job's id whatever its form",
        "service/ids.py",
        "and _PATTERN.fullmatch(text) is not None",
        "",
        "tests/unit/test_ids.py",
        "test_",
    ),
    (
        "an Idempotency-Key may be anything",
        f"{API}/submit.py",
        "if IDEMPOTENCY_KEY.fullmatch(new.idempotency_key) is None:",
        "if False:",
        REFUSALS,
        "test_a_bad_idempotency_key_is_refused",
    ),
    (
        "a conflict is no error",
        f"{API}/submit.py",
        'if accepted.outcome == "conflict":',
        "if False:",
        JOBS,
        "test_one_key_and_another_body_is_a_conflict_that_clients_do_not_repeat",
    ),
    (
        "clients repeat what is refused for good",
        f"{API}/problems.py",
        'headers["x-should-retry"] = "false"',
        'headers["x-refused"] = "true"',
        JOBS,
        "test_one_key_and_another_body_is_a_conflict_that_clients_do_not_repeat",
    ),
    (
        "a job that runs can be retried",
        f"{API}/routes/jobs.py",
        'if old.state not in ("failed", "cancelled"):',
        "if False:",
        JOBS,
        "test_a_retry_is_a_new_job_that_goes_on_from_the_checkpoint",
    ),
    (
        "a range of another content is taken",
        f"{API}/download.py",
        'or request.headers.get("if-range", etag) != etag',
        "or False",
        FILES,
        "test_a_range_of_another_content_is_not_taken",
    ),
    (
        "a path is shown as a file's name",
        f"{API}/download.py",
        r're.split(r"[/\\]", name)[-1]',
        "name",
        FILES,
        "test_names_are_only_ever_shown",
    ),
    (
        "an outage of Redis is a fault of the server",
        f"{API}/problems.py",
        "app.add_exception_handler(RedisConnectionError, _redis_away)\n"
        "    app.add_exception_handler(RedisTimeoutError, _redis_away)",
        "pass",
        OUTAGES,
        "test_requests_are_refused_with_503_and_served_again_later",
    ),
    # Blobs
    (
        "names become paths unchecked",
        FOLDER,
        "        check_name(name)\n",
        "",
        BLOBS,
        "test_only_hashes_become_paths",
    ),
    (
        "damaged content is handed out",
        FOLDER,
        "if hashlib.sha256(content).hexdigest() != name:",
        "if False:",
        BLOBS,
        "test_a_damaged_blob_is_refused_set_aside_and_healed_by_a_put",
    ),
    (
        "content is not synced before it is named",
        FOLDER,
        "            os.fsync(self._file.fileno())\n",
        "",
        BLOBS,
        "test_content_is_synced_before_it_is_named",
    ),
    (
        "what was written aside stays",
        FOLDER,
        "self._path.unlink(missing_ok=True)",
        "pass",
        BLOBS,
        "test_nothing_is_seen_before_commit_nor_after_abort",
    ),
    # Workers
    (
        "an entry may name any function",
        "workers/ticket.py",
        "self.func_name != ENTRY",
        "False",
        PARTS,
        "test_a_ticket_keeps_nothing_that_rq_would_run_by_itself",
    ),
    (
        "RQ's callbacks and retries are read",
        "workers/ticket.py",
        "if name in READ_FIELDS and",
        "if",
        PARTS,
        "test_a_ticket_keeps_nothing_that_rq_would_run_by_itself",
    ),
    (
        "handlers can swallow an order to stop",
        "workers/stop.py",
        "class Stop(BaseException):",
        "class Stop(Exception):",
        PARTS,
        "test_an_order_to_stop_passes_through_careless_handlers",
    ),
    (
        "a horse outlives its killed parent",
        "workers/batch.py",
        "        die_with_parent(signal.SIGKILL, self._parent)\n",
        "",
        FAULTS,
        "test_a_fault_changes_nothing_about_the_end[kill -9 worker, mid-step]",
    ),
    (
        "a dead horse's job waits for its lease",
        "workers/batch.py",
        "if held is None:",
        "if True:",
        FAULTS,
        "test_a_fault_changes_nothing_about_the_end[kill -9 horse, mid-step]",
    ),
    (
        "a horse is not told of the shutdown",
        "workers/batch.py",
        "os.kill(self.horse_pid, signal.SIGUSR1)",
        "pass",
        FAULTS,
        "test_a_fault_changes_nothing_about_the_end[SIGTERM, mid-step]",
    ),
    (
        "an outage of Redis ends the lease thread",
        "workers/attempt.py",
        "            except RedisError:\n                log.warning(\n",
        "            except ZeroDivisionError:\n                log.warning(\n",
        WORKERS,
        "test_a_server_that_takes_no_writes_for_a_while_costs_nothing",
    ),
    (
        "a full disk uses up the attempts",
        "workers/perform.py",
        'if failure.code == "no-space":',
        "if False:",
        WORKERS,
        "test_a_full_disk_does_not_use_up_the_attempts",
    ),
    (
        "a hung job keeps its lease",
        "workers/attempt.py",
        "if self._pace.silent_for() > self._pace.allowed(stall_s):",
        "if False:",
        WORKERS,
        "test_a_hung_job_loses_its_lease",
    ),
    (
        "a hung job can not be cancelled",
        "workers/attempt.py",
        'elif self._verb == "cancel" and',
        "elif False and",
        WORKERS,
        "test_a_cancelled_job_uses_no_cpu_any_more",
    ),
]
