"""The processes that do the work: a supervisor, a worker for each lane, a handler for each kind of job."""

import service.jobs.tickets  # noqa: F401  (RQ reads its key prefix when it is first imported; this sets it)
