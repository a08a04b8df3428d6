-- Whether an operation of a compiled program (gpu_ops.hlo_op) hands data over with the host, which feeds or takes it while
-- the program runs: an infeed, an outfeed, or a call of the program to the host. Messages between devices are collectives.
CREATE OR REPLACE MACRO feeds_program(hlo_op) AS regexp_matches(hlo_op, '^(infeed|outfeed|send|recv)');
