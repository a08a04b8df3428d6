-- Whether the arguments of a range say that it was still open when the recording stopped, which is where its slice ends:
-- PyTorch writes "finished": false, and `open` stands for a range without an end.
CREATE OR REPLACE MACRO is_cut(args) AS
    contains(args, '"finished"') AND coalesce(args ->> '$.finished' = 'false', FALSE)
    OR contains(args, '"open"') AND coalesce(args ->> '$.open' = 'true', FALSE);
