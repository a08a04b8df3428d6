-- Whether a function of Python waits for another thread, for another process or for a time, as its name in a trace says:
-- one that takes from a queue, sleeps, or reads from a socket.
CREATE OR REPLACE MACRO waits_for_others(python) AS
    coalesce(regexp_matches(
        python,
        '(^|/)(queue|queues|multiprocessing/queues|asyncio/queues)\.py\(\d+\): get$'
        || '|(^|/)threading\.py\(\d+\): (wait|wait_for|acquire|join|_wait_for_tstate_lock)$'
        || '|(^|/)selectors\.py\(\d+\): select$|(^|/)asyncio/(base_events|windows_events)\.py\(\d+\): (_run_once|select)$'
        || '|(^|/)(socket|ssl)\.py\(\d+\): (accept|recv|recv_into|readinto|read)$'
        || '|(^|/)(multiprocessing/)?connection\.py\(\d+\): (wait|poll|recv|recv_bytes|_recv|_recv_bytes|_poll|accept)$'
        || '|(^|/)concurrent/futures/_base\.py\(\d+\): (result|wait)$|(^|/)zmq/.*: (recv|poll|recv_multipart)$'
        || '|^<built-in method (sleep|select|acquire|poll|accept|recv|recv_into|wait)\b|^<method ''(poll|acquire|get)'' of '
    ), FALSE);
