"""What may be asked of evidence exports.

request     ask for a bundle, call it off, give its file up
reading     one export, lists
population  what a bundle would hold, before it is asked for
selection   which rows of the log a request is about
bundle      the bundle written from one snapshot of the database
work        who builds what: claims, leases, ends
upkeep      files that have lain long enough, files nobody needs
"""
