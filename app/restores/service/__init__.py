"""What may be done with a restore, and what follows.

request       a client orders a restore: checked, planned, written down
cancellation  a client calls a restore off: told to every rank, or too late
retry         a client tries a restore again that is over and not restored
lists         restores by state, outcome, answer, drill and more
admission     waiting restores take all their devices or none
claims        a rank worker claims an attempt, once
attempts      what it says then: heartbeat, ready, failure, publish, retracted
completion    the one place that moves a restore forward once its attempts have changed
sending       when a rank's worker is woken, and when again
pace          when each rank of a large restore has its turn to speak
residency     published pages: time to live, discard, release
readback      digests of the published pages, read back on every rank
upkeep        what the timetable does: leases, deadlines, re-sends, admissions
"""
