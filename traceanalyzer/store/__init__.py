"""Where a run's tables are kept: `store` finds and fills a run's store, and touches nothing but what it made.

`locating` says where that is, `owner` knows the stores of this user, `writing` makes, checks and removes parts without
following a link, `inputs` says what stored tables are made from. `shared_store` is one in a bucket, of which
the store on this machine is a `working_copy`.
"""
