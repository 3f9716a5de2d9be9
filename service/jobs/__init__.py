"""The job model: records and events in Redis, changed by scripts only.

``calls`` builds the calls, ``records`` reads their answers, ``events`` is the log, ``tickets`` wakes workers.
"""
