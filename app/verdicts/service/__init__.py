"""What may be asked of verdicts.

submit        a document comes in, and everything it bears on is judged
judging       receipts and scopes judged, rows written
surroundings  what bears on a receipt, and on whom a receipt bears
declare       a person declares; declarations reads
allowed       operational restores: deployable for the scope, or an exception
rejudge       everything again, after a change of rules
current       verdicts read
"""
