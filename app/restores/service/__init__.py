"""What may be done with a restore, and what follows.

request       a client orders a restore: checked, planned, written down
admission     waiting restores take all their devices or none
attempts      what a rank worker says: claim, heartbeat, ready, failure, publish, retracted
completion    the one place that moves a restore forward once its attempts have changed
residency     published pages: time to live, discard, release
readback      digests of the published pages, read back on every rank
upkeep        what the timetable does: leases, deadlines, re-sends, admissions
"""
