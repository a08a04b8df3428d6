-- The calls that GPU work may name: each has a correlation id of its own in its process.
CREATE OR REPLACE VIEW launches AS FROM calls;
