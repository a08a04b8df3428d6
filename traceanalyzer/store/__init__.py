"""Where a run's tables are kept: `store` finds and fills a run's store, and touches nothing but what it made.

`owner` knows the stores of this user, `folders` makes, checks and removes parts without following a link, `inputs`
says what stored tables are made from.
"""
