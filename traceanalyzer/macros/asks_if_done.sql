-- Whether a call asks if work of a device is done, and returns at once either way.
CREATE OR REPLACE MACRO asks_if_done(name) AS
    regexp_matches(name, '^(cuda|cu|hip|musa|mu)(Event|Stream)Query(_|$)');
